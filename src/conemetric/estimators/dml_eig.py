"""DML-eig: distance metric learning by eigenvalue optimisation from pairs (Ying & Li 2012)."""

from dataclasses import replace

from ..core.arrays import float64, like, to_index
from ..core.sklearn_private import fit_context
from ..core.warn import warn_user
from ..operators import from_pairs
from ..problems.base import Bounds
from ..problems.eigenvalue import DMLEigProgram
from ..solvers.base import Certificate
from .eigenvalue import EigenvalueMetric
from .tuples import check_calibration

_ALL_COINCIDE = (
    "all {} dissimilar pairs join coinciding points, so no metric can separate them; give "
    "dissimilar pairs of different rows of X."
)
_SOME_COINCIDE = (
    "{} of the {} dissimilar pairs join coinciding points, so the optimum is 0 for any metric; the "
    "one returned is that of the other pairs. Drop contradicting duplicates from X to certify it."
)


class DMLEig(EigenvalueMetric):
    """Mahalanobis metric that keeps the closest dissimilar pair as far apart as it can,
    the similar pairs being close in sum.

    Solves, over positive semidefinite M, with X_S the scatter matrix of the similar
    pairs (plus a ridge), ::

        max min over dissimilar pairs of d' M d   subject to   <X_S, M> = 1

    and returns a proof of how far from the optimum it stopped (``certificate_``).

    Meant for pairs that are given. It learns from labels too and warns: no setting was
    found that is as good as the plain distance where classes overlap; `AutoMetric` and
    `FrobMetric` are.

    Parameters
    ----------
    ridge : float, default=1e-8
        Added to X_S, as this part of the diagonal that as many pairs of random rows
        would give it. Raise it when X has more features than similar pairs: X_S is then
        singular, and the metric lives where similar pairs do not differ.
    n_targets, n_impostors : int, default=3
        From labels, each point with its targets makes similar pairs, each point with
        its impostors dissimilar ones. Where there are many features and few rows, the
        optimum rests on a few pairs and overfits; more impostors help (280 faces in 64
        dimensions: a 3-NN error of 7.1 and 3.1 % with 3 and 30).
    n_references : int, "auto" or None, default="auto"
        Rows among which neighbours are searched: a random sample of so many, the same
        part of every class but enough for its targets; None takes all. "auto" takes
        all rows of X in memory and of a dask collection up to 200,000 rows, else 20,000.
    neighbors : {"auto", "exact", "approximate"}, default="auto"
        How they are found. "auto" searches exactly while n^2 n_features is at most 2e12
        (half a minute on two cores), and approximately beyond; ``neighbor_recall_`` says
        how many were found. On a device every search is exact.
    class_weight : "balanced", dict or None, default=None
        Factors of the weights of the classes, from labels (see `fit` for what they do); "balanced" gives every class
        the same weight in sum.
    n_components : int, default=None
        Keep only this many leading directions of the learned metric. None keeps all.
    preprocessor : array-like (n, n_features) or callable, default=None
        Where points come from when tuples number them; see `fit`.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    random_state : int, RandomState or None
        For references and an approximate search; the rest is deterministic.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    objective_ : float
        The smallest squared distance of a dissimilar pair. 0 when one such pair
        coincides: every metric is then optimal, and the one learned is that of the
        other pairs.
    certificate_ : Certificate
        Of a maximisation, so with both signs changed: ``primal = -objective_``,
        ``-dual`` = proven upper bound on the optimum.
    n_iter_, history_
        Iterations, and scalars per iteration.
    multipliers_ : array (m,)
        Dual solution, one multiplier per dissimilar pair, up to scale.
    pairs_, similar_ : integer array (m, 2), boolean array (m,)
    neighbor_recall_ : float or None
        Share of the true neighbours that the search found, 1.0 when exact, measured on a
        sample when approximate; None where nothing was searched.
    similar_scatter_ : array (n_features, n_features) or None
        X_S with its ridge; None where X has more features than rows, so that nothing of
        that size is ever formed.
    threshold_ : float
        When fitted to pairs of points: the distance up to which `predict` calls a pair
        alike, the best on these pairs.

    References
    ----------
    Ying & Li, "Distance Metric Learning with Eigenvalue Optimization", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import DMLEig
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = DMLEig(n_impostors=1).fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> DMLEig().fit(X, pairs=[[0, 1], [50, 51], [0, 50], [1, 51]], similar=[1, 1, 0, 0]).transform(X).shape
    (150, 1)
    """

    _instead_of_labels = ", or constraints by keyword (pairs and similar)"
    _meant_for = "pairs"
    _learns_from_quantities = False

    def __init__(
        self,
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

    @property
    def _fixed_trace(self) -> bool:
        return True

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        *,
        pairs=None,
        similar=None,
        neighbors=None,
        sample_weight=None,
        calibration_params=None,
        checkpoint=None,
        target="auto",
    ):
        """Learn the metric from labels or from pairs.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features) or (m, 2, n_features)
            Rows; or pairs of points, with y +1 for those alike and -1 for the others.
            With a ``preprocessor``, integers (m, 2) that number the points.
        y : array-like (n,) or (m,), default=None
            Class labels.
        pairs : integer array-like (m, 2), default=None
            Instead of y, which is then not used: pairs of rows of X.
        similar : boolean array-like (m,), default=None
            Which of the pairs are similar; the others are dissimilar.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            With labels y: neighbours found elsewhere. Integer arrays (n, k) of row
            numbers with the same label and with another, -1 where there is none; or a
            graph of distances to the nearest rows of any label, as
            `sklearn.neighbors.KNeighborsTransformer` makes it.
        sample_weight : array-like (n,) or (m,), default=None
            What each row counts for with labels y: a pair as much as its first row, and
            rows of weight zero are left out. With pairs, what each of them counts for.
            Similar pairs count so often in the sum X_S. Of the dissimilar ones the
            closest decides, however often it is given: their weights only tell those of
            weight zero, which are left out, from the others.
        calibration_params : dict, default=None
            How to choose ``threshold_`` when X holds pairs of points: arguments of
            `calibrate_threshold`.
        checkpoint : str, default=None
            With dask collections: folder or address (``s3://...``) that the state of the
            solve is kept in now and then; a later fit with the same parameters and data
            goes on from there.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; a quantity is refused.

        Returns
        -------
        self
        """
        check_calibration(**(calibration_params or {}))
        given = self._validate_pairs(
            X, y, pairs, similar, neighbors, sample_weight, target, checkpoint
        )
        dissimilar = given.narrowed(_dissimilar)
        if dissimilar is None:
            raise ValueError("there are no dissimilar pairs; give pairs of both kinds.")
        coincide, n_pairs = dissimilar.over(_coincide), dissimilar.n_constraints
        n_coinciding = int(dissimilar.space.sum(_sum, coincide))
        if n_coinciding == n_pairs:
            raise ValueError(_ALL_COINCIDE.format(n_pairs))
        whitened, self.similar_scatter_ = given.whitened(_similar_pairs, self.ridge)
        problem = DMLEigProgram(dissimilar.operator(from_pairs, whitened), given.dtype)
        if not n_coinciding:
            result = self._solve(problem, whitened)
        else:
            warn_user(_SOME_COINCIDE.format(n_coinciding, n_pairs))
            apart = dissimilar.narrowed(_apart)
            assert apart is not None
            rest = DMLEigProgram(apart.operator(from_pairs, whitened), given.dtype)
            result = self._solve(rest, whitened)
            zero = Certificate.from_bounds(Bounds(0.0, 0.0), result.status)
            result = replace(result, dual_point=coincide, certificate=zero)
        if given.row_numbers is not None:
            self.pairs_, self.similar_ = given.row_numbers, given.similar
            self.multipliers_ = result.dual_point
        self._store(problem, result, whitened.points)
        self.objective_ = -self.certificate_.primal
        if self._n_in_tuple is not None and given.row_numbers is not None:
            self.calibrate_threshold(X, y, **(calibration_params or {}))
        return self


# ---- functions of all pairs, or of those of a block


def _similar_pairs(index, similar, weights):
    return index[similar], None if weights is None else weights[similar]


def _dissimilar(points, index, similar):
    return index[~similar]


def _coincide(points, index, similar):
    """1 for each pair of coinciding points, else 0."""
    operator = from_pairs(points, index)
    return like(operator.combine(operator.pair_lengths) == 0, operator.reference)


def _apart(points, index, similar):
    return index[like(to_index(_coincide(points, index, similar) == 0), index)]


def _sum(values):
    return float64(values).sum()
