"""Maximum-margin matrix factorisation as an eigenvalue program (Srebro et al. 2005;
Ying & Li 2012, appendix A).
"""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, check_is_fitted

from ...core.atomic import atomic_fit
from ...core.sklearn_private import Interval
from ...engine.proximal_point import ProximalPoint
from ...engine.solver import Solver
from ...estimators.base import SOLVER_PARAMETERS, CertifiedEstimator
from ...estimators.checks import because
from ...estimators.validation import refuse_dask
from .factored_descent import FactoredDescent
from .program import MMMFProgram

# well above common rating scales (2 to 21 levels), below what looks like a quantity: every threshold
# adds a constraint per observation, so that 50 levels take 2.5 times as long as 5 (900 observations)
MAX_LEVELS = 50


# checks that pass numbers, each of which would be a level
OF_NUMBERS = (
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
)


@dataclass(eq=False, repr=False)
class MaxMarginMatrixFactorization(CertifiedEstimator):
    """Low-rank completion of a matrix of +-1 or ordinal entries with large margins,
    certified to its global optimum.

    Solves, over all n x m matrices X, ::

        min sum over observations of max(0, 1 - Y X) + gamma ||X||_*            (nuclear norm: the sum of the singular values)

    for observations Y in {-1, +1}; for more levels, the hinge loss is summed over the
    thresholds between them. X is kept as a product of two factors, never formed, and
    ``certificate_`` proves how far from the optimum it is.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of the nuclear norm. From the spectral norm of Y upwards, X = 0 is
        optimal (+-1 observations).
    thresholds : increasing array-like (n_levels - 1,), default=None
        Where X passes from one level to the next. None puts them two apart around zero, so that
        every margin can be met: 0 for two levels, -1 and 1 for three, and so on.
    tol : float, default=1e-3
        Certified relative gap at which to stop.
    max_iter : int, default=500
        Maximum number of iterations of the solver.
    verbose : int, default=0
        As in `FrobMetric`.

    Attributes
    ----------
    row_factors_, column_factors_ : arrays (n, rank), (m, rank)
        X = ``row_factors_ @ column_factors_.T``.
    levels_ : array
        The distinct values observed, ascending.
    thresholds_ : array
    certificate_ : Certificate
        Objective, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, number of iterations, values per iteration.
    multipliers_ : array (n_observed * (n_levels - 1),)
        Dual solution, between 0 and 1, up to scale.

    References
    ----------
    Srebro, Rennie & Jaakkola, "Maximum-Margin Matrix Factorization", NIPS 17, 2005.
    Ying & Li, "Distance Metric Learning with Eigenvalue Optimization", JMLR 13, 2012,
    appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from conemetric import MaxMarginMatrixFactorization
    >>> Y, (rows, columns) = np.outer([1, -1, 1, -1], [1, 1, -1]), ([0, 0, 1, 2, 3, 3], [0, 2, 1, 1, 0, 2])
    >>> seen = sparse.coo_array((Y[rows, columns], (rows, columns)), shape=Y.shape)
    >>> model = MaxMarginMatrixFactorization(gamma=0.1).fit(seen)
    >>> model.predict([[0, 0], [3, 2]])
    array([1, 1])
    >>> bool(model.certificate_.relative_gap <= 1e-3)
    True
    """

    gamma: float = 1.0
    _: KW_ONLY
    thresholds: Any = None
    tol: float = 1e-3
    max_iter: int = 500
    verbose: int = 0

    _expected_failed_checks = because(
        "Y has a few levels, such as ratings, and the check passes numbers of any size",
        OF_NUMBERS,
    )
    _parameter_constraints = {
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "thresholds": ["array-like", None],
        **{name: SOLVER_PARAMETERS[name] for name in ("tol", "max_iter", "verbose")},
    }

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, Y: Any, y: Any = None) -> Self:
        """Learn the factors.

        Parameters
        ----------
        Y : sparse matrix or array-like (n, m)
            The observations: the stored entries of a sparse matrix (zeros included), or the
            entries of a dense one that are neither NaN nor masked.
        y : ignored

        Returns
        -------
        self
        """
        refuse_dask(self, Y, "Y")
        rows, columns, values, shape = _observations(Y)
        self.levels_, level = np.unique(values, return_inverse=True)
        self.thresholds_ = self._check_levels(self.levels_)
        problem = MMMFProgram((rows, columns, level), shape, self.thresholds_, self.gamma)
        # faster if the whole matrix is small enough to be decomposed
        method = ProximalPoint if problem.operator.is_dense else FactoredDescent
        solver: Solver = method(tol=self.tol, max_iter=self.max_iter)
        result = self._run(solver, problem, keep=lambda L: (None, balanced(L, shape[0])))
        self.row_factors_, self.column_factors_ = np.vsplit(result.primal_point, [shape[0]])
        self.multipliers_ = result.dual_point
        self.n_features_in_ = shape[1]
        return self._store_result(result)

    def _check_levels(self, levels: np.ndarray) -> np.ndarray:
        """Return the thresholds between the levels; raise if there are too few or many of either."""
        if not 2 <= len(levels) <= MAX_LEVELS:
            raise ValueError(
                f"Y has {len(levels)} distinct value(s); pass 2 to {MAX_LEVELS}, round or bin others."
            )
        if self.thresholds is None:
            # two apart: half-way between two of them a value has a margin of 1 to both
            return 2.0 * np.arange(len(levels) - 1) - (len(levels) - 2)
        thresholds = np.asarray(self.thresholds, dtype=float)
        increasing = np.isfinite(thresholds).all() and np.all(np.diff(thresholds) > 0)
        if thresholds.shape != (len(levels) - 1,) or not increasing:
            raise ValueError(
                f"thresholds={self.thresholds} must be {len(levels) - 1} increasing number(s), "
                f"one between each two of the {len(levels)} levels of Y."
            )
        return thresholds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True  # where nothing is observed
        return tags

    def decision_function(self, entries: Any) -> np.ndarray:
        """Return the values of X at these entries (row, column).

        Parameters
        ----------
        entries : integer array-like (k, 2)

        Returns
        -------
        array (k,)
        """
        check_is_fitted(self)
        entries = np.asarray(entries)
        shape = (len(self.row_factors_), len(self.column_factors_))
        if entries.ndim != 2 or entries.shape[1] != 2 or entries.dtype.kind not in "iu":
            what = f"{entries.dtype} {entries.shape}"
            raise ValueError(f"entries is {what}; pass integers (k, 2), row and column.")
        if entries.size and (entries.min() < 0 or np.any(entries.max(axis=0) >= shape)):
            ends = f"from {entries.min(axis=0)} to {entries.max(axis=0)}"
            raise ValueError(f"entries go {ends}; the matrix is {shape[0]} x {shape[1]}.")
        rows = self.row_factors_[entries[:, 0]]
        columns = self.column_factors_[entries[:, 1]]
        return np.einsum("kr,kr->k", rows, columns)

    def predict(self, entries: Any) -> np.ndarray:
        """Predict the levels at these entries (row, column).

        Parameters
        ----------
        entries : integer array-like (k, 2)

        Returns
        -------
        array (k,)
        """
        values = self.decision_function(entries)
        return self.levels_[np.searchsorted(self.thresholds_, values)]


def balanced(L: np.ndarray, n: int) -> np.ndarray:
    """The factors U = L[:n] and V = L[n:] of the same X = U V' whose squares are least:
    ||U||^2 + ||V||^2 = 2 ||X||_*.
    """
    # X = Q (R T') S', so its singular value decomposition is one of the small R T'
    upper, lower = np.vsplit(L, [n])
    Q, R = np.linalg.qr(upper)
    S, T = np.linalg.qr(lower)
    left, values, right = np.linalg.svd(R @ T.T, full_matrices=False)
    # half of each singular value, by its root, goes to either factor
    return np.vstack([Q @ left, S @ right.T]) * values**0.5


class Observations(NamedTuple):
    """The observed entries of a matrix of this shape."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]


def _observations(Y: Any) -> Observations:
    """Return the observed entries of Y, checked."""
    if sparse.issparse(Y):
        found = _stored_entries(Y)
    else:
        found = _known_entries(Y)
    if len(found.values) == 0:
        raise ValueError(f"Y, {found.shape[0]} x {found.shape[1]}, has no observed entry.")
    if not np.all(np.isfinite(found.values)):
        raise ValueError("Y stores NaN or infinity; leave unobserved entries out.")
    return found


def _stored_entries(Y: Any) -> Observations:
    """Return the entries that a sparse matrix stores; repeated ones are added up."""
    if np.iscomplexobj(Y):
        raise ValueError("Complex data not supported: pass levels of Y that can be ordered.")
    Y = sparse.coo_array(Y)
    Y.sum_duplicates()
    rows, columns = Y.coords
    return Observations(rows, columns, Y.data, Y.shape)


def _known_entries(Y: Any) -> Observations:
    """Return the entries of a dense matrix that are neither NaN nor masked."""
    if isinstance(Y, np.ma.MaskedArray):
        Y = np.ma.filled(Y.astype(float), np.nan)
    Y = check_array(Y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="Y")
    rows, columns = np.nonzero(~np.isnan(Y))
    return Observations(rows, columns, Y[rows, columns], Y.shape)
