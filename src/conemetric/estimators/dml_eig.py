"""DML-eig and LMNN-eig: metrics by eigenvalue optimisation (Ying & Li 2012)."""

import warnings
from dataclasses import replace
from numbers import Real

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..arrays import like, namespace, to_index
from ..operators import from_pairs, from_triplets
from ..problems.base import Bounds
from ..problems.dml_eig import DMLEigProgram
from ..problems.eigenvalue import similar_scatter, whiten
from ..problems.lmnn_eig import LMNNEigProgram
from ..solvers.base import Certificate, Solver, warn_user
from ..solvers.frank_wolfe import FrankWolfe
from ..solvers.proximal_point import ProximalPoint
from .base import SOLVER_PARAMETERS
from .supervised import TRIPLET_PARAMETERS, SupervisedMetric
from .tuples import check_calibration


class _EigenvalueMetric(SupervisedMetric):
    """What DMLEig and LMNNEig share: whitening by the similar pairs, the choice of
    solver, the way back.
    """

    _parameter_constraints: dict = {
        "solver": [StrOptions({"proximal", "frank-wolfe"})],
        "mu": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **TRIPLET_PARAMETERS,
        **SOLVER_PARAMETERS,
    }
    _meant_for: str

    def _validate_labels(self, X, y):
        """What labels say is learned, but not without a word: no setting was found that does
        no harm where classes overlap.
        """
        X, y = super()._validate_labels(X, y)
        warn_user(
            f"{type(self).__name__} is meant for {self._meant_for} that are given; from labels it "
            "is often worse than the plain distance where classes overlap. Prefer AutoMetric or "
            "FrobMetric there, or compare it with the plain distance on rows held out.",
            UserWarning,
        )
        return X, y

    def _solve(self, problem, X, whitened):
        solver: Solver = ProximalPoint(tol=self.tol, max_iter=self.max_iter)
        if self.solver == "frank-wolfe":
            solver = FrankWolfe(
                tol=self.tol, max_iter=self.max_iter, mu=None if self.mu == "auto" else self.mu
            )
        return self._run(solver, problem, keep=self._keep(X, whitened))

    def _whiten(self, X, similar_pairs):
        """The points where the scatter of the similar pairs is the identity; keeps it
        where it is no larger than X.
        """
        wide = X.shape[1] > X.shape[0]
        self.similar_scatter_ = None if wide else similar_scatter(X, similar_pairs, self.ridge)
        return whiten(X, similar_pairs, self.ridge)


class DMLEig(_EigenvalueMetric):
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
    solver : {"proximal", "frank-wolfe"}, default="proximal"
        "proximal" reaches ``tol``. "frank-wolfe" is the paper's algorithm, step 2/(t+1)
        at a fixed smoothing; it seldom does.
    mu : float or "auto", default="auto"
        Smoothing of "frank-wolfe" (the paper: 1e-4). "auto" suits ``tol`` and the units
        of X.
    ridge : float, default=1e-8
        Added to X_S, as this part of the diagonal that as many pairs of random rows
        would give it. Raise it when X has more features than similar pairs: X_S is then
        singular, and the metric lives where similar pairs do not differ.
    n_targets, n_impostors : int, default=3
        From labels, each point with its targets makes similar pairs, each point with
        its impostors dissimilar ones. Where there are many features and few rows, the
        optimum rests on a few pairs and overfits; more impostors help (280 faces in 64
        dimensions: a 3-NN error of 7.1 and 3.1 % with 3 and 30).
    neighbors : {"auto", "exact", "approximate"}, default="auto"
        How they are found. "auto" searches exactly while n^2 n_features is at most 2e12
        (half a minute on two cores), and approximately beyond; ``neighbor_recall_`` says
        how many were found. On a device every search is exact.
    n_components : int, default=None
        Keep only this many leading directions of the learned metric. None keeps all.
    preprocessor : array-like (n, n_features) or callable, default=None
        Where points come from when tuples number them; see `fit`.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    random_state : int, RandomState or None
        For an approximate search; the rest is deterministic.
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

    def __init__(
        self,
        *,
        solver="proximal",
        mu="auto",
        ridge=1e-8,
        n_targets=3,
        n_impostors=3,
        neighbors="auto",
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.solver = solver
        self.mu = mu
        self.ridge = ridge
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _fixed_trace(self) -> bool:
        return True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, pairs=None, similar=None, neighbors=None, calibration_params=None):
        """Learn the metric from labels or from pairs.

        Parameters
        ----------
        X : array-like or tensor (n, n_features) or (m, 2, n_features)
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
        calibration_params : dict, default=None
            How to choose ``threshold_`` when X holds pairs of points: arguments of
            `calibrate_threshold`.

        Returns
        -------
        self
        """
        given, y_given = X, y
        check_calibration(**(calibration_params or {}))
        X, pairs, similar = self._validate_pairs(X, y, pairs, similar, neighbors)
        original = from_pairs(X, pairs[~similar])
        apart = original.combine(original.pair_lengths) > 0
        del original  # a copy of X
        if not bool(apart.any()):
            raise ValueError(
                f"all {len(apart)} dissimilar pairs join coinciding points, so no metric can "
                "separate them; "
                "give dissimilar pairs of different rows of X."
            )
        whitened = self._whiten(X, pairs[similar])
        operator = from_pairs(whitened.points, pairs[~similar])
        problem = DMLEigProgram(operator, X.dtype)
        if bool(apart.all()):
            result = self._solve(problem, X, whitened)
        else:
            warnings.warn(
                f"{int((~apart).sum())} of the {len(apart)} dissimilar pairs join coinciding "
                "points, so the optimum is 0 for any "
                "metric; the one returned is that of the other pairs. Drop contradicting "
                "duplicates from X to certify it.",
                stacklevel=2,
            )
            rest = DMLEigProgram(operator.subset(to_index(apart)), X.dtype)
            result = self._solve(rest, X, whitened)
            zero = Certificate.from_bounds(Bounds(0.0, 0.0), result.status)
            result = replace(result, dual_point=like(~apart, X), certificate=zero)
        self.pairs_, self.similar_, self.multipliers_ = pairs, similar, result.dual_point
        self._store(problem, result, whitened.points)
        self.objective_ = -self.certificate_.primal
        if self._n_in_tuple is not None:
            self.calibrate_threshold(given, y_given, **(calibration_params or {}))
        return self


class LMNNEig(_EigenvalueMetric):
    """Large-margin nearest-neighbour metric by eigenvalue optimisation, to the optimum
    of its semidefinite program.

    Solves, over positive semidefinite M and triplets (i, j, k), with X_S the scatter
    matrix of the distinct pairs (i, j) (plus a ridge), ::

        min (1 - gamma) sum max(0, 1 - (d_ik' M d_ik - d_ij' M d_ij)) + gamma <X_S, M>

    and returns a proof of how far from the optimum it stopped (``certificate_``).

    Meant for triplets that are given. It learns from labels too and warns: no setting was
    found that is as good as the plain distance where classes overlap; `AutoMetric` and
    `FrobMetric` are.

    Parameters
    ----------
    gamma : float, default=0.5
        Weight of the pull between 0 and 1; one minus it weighs the push.
    solver, mu, ridge, n_targets, n_impostors, neighbors, n_components, preprocessor, tol,
    max_iter, random_state, verbose
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
        **_EigenvalueMetric._parameter_constraints,
    }

    def __init__(
        self,
        gamma=0.5,
        *,
        solver="proximal",
        mu="auto",
        ridge=1e-8,
        n_targets=3,
        n_impostors=3,
        neighbors="auto",
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.gamma = gamma
        self.solver = solver
        self.mu = mu
        self.ridge = ridge
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, triplets=None, neighbors=None):
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : array-like or tensor (n, n_features), (m, 3, n_features) or (m, 4, n_features)
            Rows; or triplets of points (a, b, c), a closer to b than to c; or
            quadruplets (a, b, c, d), a closer to b than c to d. With a
            ``preprocessor``, integers (m, 3) or (m, 4) that number the points.
        y : array-like (n,), default=None
            Class labels; or real numbers, near in which is to be near in the metric.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Instead of y, which is then not used: row (i, j, k) says that row i of X is
            closer to row j than to row k; row (i, j, k, l), than row k to row l.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            As in `DMLEig.fit`.

        Returns
        -------
        self
        """
        X, triplets = self._validate_triplets(X, y, triplets, neighbors)
        keys = namespace(X).unique(triplets[:, 0] * len(X) + triplets[:, 1])
        similar = namespace(X).stack([keys // len(X), keys % len(X)], 1)
        whitened = self._whiten(X, similar)
        problem = LMNNEigProgram(from_triplets(whitened.points, triplets), self.gamma, X.dtype)
        result = self._solve(problem, X, whitened)
        self.triplets_, self.multipliers_ = triplets, result.dual_point
        return self._store(problem, result, whitened.points)
