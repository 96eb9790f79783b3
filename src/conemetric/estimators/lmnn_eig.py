"""LMNN-eig: distance metric learning by eigenvalue optimisation from triplets (Ying & Li 2012)."""

from functools import partial
from numbers import Real

from ..core.arrays import like, namespace, zeros
from ..core.sklearn_private import Interval, fit_context
from ..operators import from_triplets
from ..problems.eigenvalue import LMNNEigProgram
from .eigenvalue import EigenvalueMetric
from .supervised import SupervisedMetric


class LMNNEig(EigenvalueMetric):
    """Large-margin nearest-neighbour metric by eigenvalue optimisation, to the optimum
    of its semidefinite program.

    Solves, over positive semidefinite M and triplets (i, j, k), with X_S the scatter
    matrix of the distinct pairs (i, j) (plus a ridge), ::

        min (1 - gamma) sum max(0, 1 - (d_ik' M d_ik - d_ij' M d_ij)) + gamma <X_S, M>

    (with weights, both sums weighted, see `fit`)
    and returns a proof of how far from the optimum it stopped (``certificate_``).

    Meant for triplets that are given. It learns from labels too and warns: no setting was
    found that is as good as the plain distance where classes overlap; `AutoMetric` and
    `FrobMetric` are.

    Parameters
    ----------
    gamma : float, default=0.5
        Weight of the pull between 0 and 1; one minus it weighs the push.
    ridge, n_targets, n_impostors, n_references, neighbors, class_weight, n_components, \
preprocessor, tol, max_iter, random_state, verbose
        As in `DMLEig`.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Objective of the metric, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, up to scale.
    triplets_ : integer array (m, 3)
    neighbor_recall_ : float or None
        As in `DMLEig`.
    similar_scatter_ : array (n_features, n_features) or None
        As in `DMLEig`.

    References
    ----------
    Ying & Li, "Distance Metric Learning with Eigenvalue Optimization", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import LMNNEig
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = LMNNEig(gamma=0.3).fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    """

    _remedy = "a lower gamma, " + SupervisedMetric._remedy
    _meant_for = "triplets"
    _parameter_constraints = {
        "gamma": [Interval(Real, 0, 1, closed="neither")],
        **EigenvalueMetric._parameter_constraints,
    }

    def __init__(
        self,
        gamma=0.5,
        *,
        ridge=1e-8,
        n_targets=3,
        n_impostors=3,
        neighbors="auto",
        n_references="auto",
        class_weight=None,
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.gamma = gamma
        self.ridge = ridge
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_references = n_references
        self.class_weight = class_weight
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        *,
        triplets=None,
        neighbors=None,
        sample_weight=None,
        checkpoint=None,
        target="auto",
    ):
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features), (m, 3, n_features) or (m, 4, n_features)
            Rows; or triplets of points (a, b, c), a closer to b than to c; or
            quadruplets (a, b, c, d), a closer to b than c to d. With a
            ``preprocessor``, integers (m, 3) or (m, 4) that number the points.
        y : array-like (n,), default=None
            Class labels; or numbers, near in which is to be near in the metric.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Instead of y, which is then not used: row (i, j, k) says that row i of X is
            closer to row j than to row k; row (i, j, k, l), than row k to row l.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            As in `DMLEig.fit`.
        sample_weight : array-like (n,) or (m,), default=None
            What each row counts for with labels y: a triplet as much as its first row, and
            rows of weight zero are left out. With triplets, what each of them counts
            for: a weight of two is a triplet given twice, of zero one not given. From
            labels the pairs of X_S weigh as their first row too; with triplets each
            counts once, in however many triplets it is.
        checkpoint : str, default=None
            With dask collections: folder or address (``s3://...``) that the state of the
            solve is kept in now and then; a later fit with the same parameters and data
            goes on from there.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is. "auto" takes whole numbers for classes unless they have more than 20
            values, many of them in one row only and with gaps between them (the guide's
            section on regression has the rule).

        Returns
        -------
        self
        """
        given = self._validate_triplets(
            X, y, triplets, neighbors, sample_weight, target, checkpoint
        )
        from_labels = triplets is None and self._n_in_tuple is None
        near = partial(_near_pairs, weighted=from_labels)
        whitened, self.similar_scatter_ = given.whitened(near, self.ridge)
        operator = given.operator(from_triplets, whitened)
        problem = LMNNEigProgram(operator, self.gamma, given.dtype, given.weights)
        result = self._solve(problem, whitened)
        if given.row_numbers is not None:
            self.triplets_, self.multipliers_ = given.row_numbers, result.dual_point
        return self._store(problem, result, whitened.points)


def _near_pairs(index, similar, weights, weighted):
    """The distinct (i, j) of triplets (i, j, k); from labels they weigh as much as their
    triplets, which weigh as much as i.
    """
    xp, i, j = namespace(index), index[:, 0], index[:, 1]
    n = int(index.max()) + 1 if len(index) else 1
    keys, place = xp.unique(like(i, index, xp.int64) * n + j, return_inverse=True)
    pairs = xp.stack([keys // n, keys % n], 1)
    if not weighted or weights is None:
        return pairs, None
    own = zeros(len(keys), weights)
    own[place] = weights
    return pairs, own
