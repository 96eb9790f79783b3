"""FrobMetric: the Frobenius-regularised large-margin metric of Shen et al. (2014)."""

from numbers import Integral, Real

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..operators import from_triplets
from ..problems.frobenius_metric import FrobeniusMetric
from ..solvers.dual_quasi_newton import DualQuasiNewton
from .base import TRIPLET_PARAMETERS, MahalanobisMetric

SCALE_FREE_C = 1000.0


class FrobMetric(MahalanobisMetric):
    """Mahalanobis metric that ranks each point's targets before its impostors, regularised by its Frobenius norm.

    Solves, over positive semidefinite M and triplets (i, j, k), ::

        min 1/2 ||M||_F^2 + (C/m) sum max(0, 1 - (d_ik' M d_ik - d_ij' M d_ij))

    in the dual, and returns a proof of how far from the optimum it stopped (``certificate_``).

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the loss. "scale" makes the fit independent of the units of X: C = 1000 / s^4, with s^2 the mean squared
        Euclidean distance of the impostor pairs.
    n_targets, n_impostors : int, default=3
        Neighbours per point that make its triplets, when fitted from labels.
    n_components : int, default=None
        Keep only this many leading directions of the learned metric (its best approximation of that rank). None keeps all.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    warm_start : bool, default=False
        Start from the multipliers of the previous fit, when it had as many triplets.
    random_state : int, RandomState or None
        For symmetry with the other estimators; the fit is deterministic.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Objective of the metric, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    C_ : float
        The C that was used, in the units of X.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, between 0 and C/m.
    triplets_ : integer array (m, 3)

    References
    ----------
    Shen, Kim, Liu, Wang & van den Hengel, "Efficient Dual Approach to Distance Metric Learning", IEEE TNNLS 25(2), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from conemetric import FrobMetric
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = FrobMetric().fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> make_pipeline(FrobMetric(), KNeighborsClassifier(3)).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        **TRIPLET_PARAMETERS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C="scale",
        *,
        n_targets=3,
        n_impostors=3,
        n_components=None,
        tol=1e-3,
        max_iter=1000,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, triplets=None):
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
        y : array-like (n,), default=None
            Class labels.
        triplets : integer array-like (m, 3), default=None
            Instead of y: row (i, j, k) says that row i of X is closer to row j than to row k.

        Returns
        -------
        self
        """
        X, triplets = self._validate_triplets(X, y, triplets)
        operator = from_triplets(X, triplets)
        problem = FrobeniusMetric(operator, scaled_C(operator) if self.C == "scale" else self.C)
        solver = DualQuasiNewton(tol=self.tol, max_iter=self.max_iter)
        result = solver.solve(problem, start=self._previous(problem), callback=self._progress())
        self.C_, self.multipliers_, self.triplets_ = problem.C, result.dual_point, triplets
        return self._store(result, result.primal_point)

    def _previous(self, problem):
        """Multipliers of the last fit, carried over to the new C; None without ``warm_start``."""
        last = getattr(self, "multipliers_", None)
        if not self.warm_start or last is None or len(last) != problem.operator.n_constraints:
            return None
        return last * (problem.C / self.C_)


def scaled_C(operator):
    """The C that makes the program independent of the units of X: `SCALE_FREE_C` / s^4."""
    far = operator.pair[operator.row_start[:-1]]  # a triplet's row begins with its impostor pair
    mean_square = float(operator.pair_lengths[far].mean())
    if not mean_square > 0:
        raise ValueError(
            "C='scale' needs impostors at a positive distance, but every impostor coincides with its point; "
            "remove duplicated rows with contradicting labels from X, or give C as a number."
        )
    return SCALE_FREE_C / mean_square**2
