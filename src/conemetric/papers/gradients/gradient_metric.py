"""GradientMetric: the mean outer product of the gradients of a kernel ridge fit, iterated.

    f = the kernel ridge fit of the targets in the metric M        (`engine.kernel_ridge`)
    M <- mean over rows, sum over targets, of grad f(x_i) grad f(x_i)',    scaled to trace one

from the Euclidean distance on (docs/mathematics): two matrix products per target, and one Cholesky
decomposition per round, each a convex program with a certificate. The iteration over M minimises
nothing, so nothing is proven about it; held-out rows must judge it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from ...constraints.labels import check_labels, is_continuous
from ...core import spectral
from ...core.arrays import float64, identity, like, namespace, on_device, take, transposed, zeros
from ...core.atomic import atomic_fit
from ...core.blas import blas_threads
from ...core.sklearn_private import Interval, StrOptions
from ...core.slices import slices
from ...core.weights import check_range, check_weights
from ...engine.certificate import Certificate
from ...engine.distance_kernels import CITY_BLOCK, KERNELS, KernelSetting
from ...engine.kernel_ridge import KernelSum, solve_exactly
from ...estimators.base import SOLVER_PARAMETERS, MahalanobisMetric, Seed
from ...estimators.checks import WEIGHTS, because
from ...estimators.fit_warnings import warn_if_guessed, warn_if_unscaled
from ...estimators.tuples import TUPLES
from ...estimators.validation import rows_coincide, validate_labelled_points
from ...evaluation.knn import evenly_by_class
from ...neighbours.ties import canonical_order

# rows that the metric is learned from: four matrices of this order, 0.5 GB on the host
MAX_ROWS = 4000
MAX_ROWS_ON_GPU = 20_000
BLOCK = 1 << 17  # kernel values multiplied by the signs of a column at a time: in the cache


class GradientRound(NamedTuple):
    """A metric after one round, and the certificate of the kernel ridge fit that gave it."""

    L: Any  # (D, r); or the weights of the columns (D,)
    certificate: Certificate


def gradient_rounds(  # noqa: PLR0913
    Z: Any,
    Y: Any,
    weights: Any,
    kernel: str = "laplacian",
    *,
    n_rounds: int = 3,
    ridge: float = 0.05,
    width: float = 1.0,
    diagonal: bool | np.ndarray = False,
    n_gradients: int | None = None,
    start: Any = None,
) -> Iterator[GradientRound]:
    """The metrics after 1, ..., ``n_rounds`` rounds, each learned when it is asked for, from rows
    Z (n, D), their targets Y (n, k) and positive weights (n,), in the library and precision of Z.

    ``diagonal`` gives a weight per column, an array of block numbers (D,) a weight per block; the
    city block always has weights. The mean is over the gradients at the first ``n_gradients`` rows
    (None: all). Rounds begin in the metric L of ``start`` (None: the Euclidean). Takes four arrays
    (n, n): with many rows, pass a sample.
    """
    Z = Z - Z.mean(0)
    Y = like(Y, Z)
    weights = like(weights, Z)
    Y = Y - (weights[:, None] * Y).sum(0) / weights.sum()
    fit = _Fit(KernelSetting(kernel, width, ridge), Y, weights, n_gradients)
    if diagonal is not False or kernel == CITY_BLOCK:
        rounds = _column_rounds(fit, Z, _block_means(diagonal, Z), start)
    else:
        rounds = _matrix_rounds(fit, Z, start)
    yield from islice(rounds, n_rounds)


class _Fit(NamedTuple):
    """What every kernel ridge fit shares: its setting, the targets, and rows to take gradients at."""

    setting: KernelSetting
    Y: Any
    weights: Any
    n_gradients: int | None


def _column_rounds(fit: _Fit, Z: Any, blocks: Any, start: Any) -> Iterator[GradientRound]:
    """Yield the weights of the columns, the largest of them one, after 1, 2, ... rounds."""
    L = zeros(Z.shape[1], Z) + 1 if start is None else start
    while True:
        moment, certificate = _gradient_moment(fit, Z * L, by_column=True)
        if blocks is not None:
            moment = blocks @ moment
        # the gradient along a column is its weight times that along the weighted column
        grown = L * moment**0.5
        size = grown.max()
        if float(size) > 0:  # else f is constant
            L = grown / size
        yield GradientRound(L, certificate)


def _matrix_rounds(fit: _Fit, Z: Any, start: Any) -> Iterator[GradientRound]:
    """Yield factors L of the metric M = L L', of trace one, after 1, 2, ... rounds."""
    n, D = Z.shape
    if start is not None:
        L = start
    elif n < D:  # a basis of the span of the rows is enough
        L = namespace(Z).linalg.svd(Z, full_matrices=False)[2].T
    else:
        L = identity(D, Z)
    while True:
        moment, certificate = _gradient_moment(fit, Z @ L, by_column=False)
        # a gradient over Z is L times that over Z L, so their outer products are L moment L'
        grown = L @ spectral.factor(moment)
        size = (grown * grown).sum() ** 0.5
        if float(size) > 0:  # else f is constant
            L = grown / size
        yield GradientRound(L, certificate)


def _block_means(diagonal: bool | np.ndarray, Z: Any) -> Any:
    """Return the matrix that replaces each column's entry by the mean over its block; None without
    blocks.
    """
    if isinstance(diagonal, bool):
        return None
    same = np.asarray(diagonal)[:, None] == np.asarray(diagonal)
    return like(same / same.sum(1, keepdims=True), Z)


def _gradient_moment(fit: _Fit, A: Any, *, by_column: bool) -> tuple[Any, Certificate]:
    """Return the weighted mean over the first rows of A of the outer products of the gradients of a kernel ridge
    fit to all, or of their squares ``by_column``; and the certificate of the fit.
    """
    setting = fit.setting
    kernel = KERNELS[setting.kernel]
    scale = kernel.mean(A)
    K = KernelSum(setting, A, scale, None, None).kernel(A)
    a, certificate = solve_exactly(K, setting.ridge, fit.Y, fit.weights)
    at = A[: fit.n_gradients]
    K = K[: fit.n_gradients]
    weights = fit.weights[: fit.n_gradients]
    # dk/d(d^2), or with the city block dk/dd, at rows i (first) and j (all)
    slopes = setting.slopes(like(kernel.distances(at, A) / scale, K), K) / scale
    shares = (weights / weights.sum())[:, None]
    totals = slopes @ a
    if setting.kernel == CITY_BLOCK:
        moments = []
        for column in A.T:
            derivative = _signed_products(slopes, a, totals, column)
            moments.append((shares * derivative**2).sum())
        return namespace(A).stack(moments), certificate
    moment: Any = 0.0
    for a_t, total in zip(a.T, totals.T, strict=True):
        # grad f(x_i) = sum_j a_j slope_ij 2 (x_i - x_j)
        gradient = 2 * (at * total[:, None] - slopes @ (a_t[:, None] * A))
        weighted = shares * gradient
        if by_column:
            moment = moment + (weighted * gradient).sum(0)
        else:
            moment = moment + weighted.T @ gradient
    return moment, certificate


def _signed_products(slopes: Any, a: Any, totals: Any, column: Any) -> Any:
    """Return sum_j slopes_ij sign(x_i - x_j) a_j for the first rows i, block by block."""
    high = column > column.min()
    if not (column[high] < column.max()).any():  # two values: one product without signs
        # sign(x_i - x_j) = high_i - high_j
        high = like(high, column)[:, None]
        return high[: len(slopes)] * totals - slopes @ (high * a)
    xp = namespace(column)
    parts = []
    for rows in slices(len(slopes), len(column), BLOCK):
        signs = xp.sign(column[rows, None] - column)
        parts.append((signs * slopes[rows]) @ a)
    return xp.concatenate(parts)


@dataclass(eq=False, repr=False)
class GradientMetric(MahalanobisMetric):
    """Mahalanobis metric of the directions in which a kernel ridge fit of y varies.

    A kernel ridge fit predicts y in the Euclidean distance. The mean outer product of its gradients
    over the rows is large along directions that matter for y and zero along the others: it is the
    next metric, in which y is fitted again, and so on ("recursive feature machines"). Learns from
    labels or from numbers. It helps most where many columns are irrelevant.

    Each kernel ridge fit is a convex program, solved to a proven gap. The iteration over metrics
    is the optimum of no program, so nothing is proven about the metric itself; whether it helps is
    to be measured on held-out rows, as `AutoMetric`, `MetricClassifier` and `MetricRegressor` do.

    Columns are taken as they come: standardise them first.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian", "city block"}, default="laplacian"
        exp(-d) or exp(-d^2) of the learned distance, or ``exp(-sum_j w_j |x_j - z_j|)`` with one
        weight per column: ``components_`` is then diagonal, and the weights apply to city block
        distances of transformed rows.
    diagonal : bool or integer array-like (n_features,), default=False
        Learn one weight per column only; or one per block of columns, such as the indicators of a
        category: the array numbers the block of each column.
    n_rounds : int, default=3
        Kernel ridge fits, each in the metric of the one before. One to four are common; more may
        discard directions that matter.
    ridge : float, default=0.05
        Of each fit, relative to the kernel of a row with itself.
    width : float, default=1.0
        Of the kernel: relative to the mean squared distance (city block: mean distance).
    random_state : int, RandomState or None
        Draws the rows learned from where there are more than 4,000 (20,000 on a GPU): a fit takes
        four matrices of that order.
    verbose : int, default=0
        Print one line per round.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``, of trace one (the
        largest entry is one if it is diagonal).
    certificate_ : Certificate
        Of the last kernel ridge fit, which gave the metric; not of the iteration.
    objective_ : float
        Value of that fit, to class indicators or numbers scaled to a largest deviation of one.
    n_iter_ : int
        Rounds.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit & Belkin, "Mechanism for feature learning in neural networks
    and backpropagation-free machine learning models", Science 383, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import GradientMetric
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> metric = GradientMetric().fit(X, X[:, 0] * X[:, 1])
    >>> np.round(np.diag(metric.get_mahalanobis_matrix()), 1).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    """

    kernel: str = "laplacian"
    _: KW_ONLY
    diagonal: bool | Sequence[int] | np.ndarray = False
    n_rounds: int = 3
    ridge: float = 0.05
    width: float = 1.0
    random_state: Seed = None
    verbose: int = 0

    _expected_failed_checks = because(
        "weights are relative to their mean, and the width of the kernel is relative to the mean "
        f"distance without weights; {TUPLES}",
        WEIGHTS[:1],
    )
    _parameter_constraints = {
        "kernel": [StrOptions(set(KERNELS))],
        "diagonal": ["boolean", "array-like"],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="neither")],
        "width": [Interval(Real, 0, None, closed="neither")],
        **{name: SOLVER_PARAMETERS[name] for name in ("random_state", "verbose")},
    }

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, sample_weight: Any = None, target: str = "auto") -> Self:
        """Learn the metric from labels or numbers.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
        y : array-like (n,)
            Class labels (-1: none), or numbers.
        sample_weight : array-like (n,), default=None
            Weights of the rows, relative to their mean, in each fit and the mean of its gradients.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y holds, as in `FrobMetric.fit`.

        Returns
        -------
        self
        """
        X, y = validate_labelled_points(self, X, y)
        blocks = self._blocks()
        weights = check_weights(sample_weight, len(X), "rows of X")
        check_range(weights, X.dtype)
        if not weights.all():
            X = take(X, np.flatnonzero(weights))
            y = y[weights > 0]
            weights = weights[weights > 0]
        continuous = is_continuous(y, target)
        if continuous and target == "auto":
            warn_if_guessed("GradientMetric", y)
        labels, Y = _targets(y, continuous)
        rows = np.flatnonzero(labels >= 0)
        for name, values in (("X", take(X, rows)), ("y", Y[rows])):
            if rows_coincide(values):
                which = f"all {len(rows)} rows that have a label and a weight"
                raise ValueError(f"{name} is the same in {which}; pass rows that differ.")
        warn_if_unscaled(self, X)
        rows = self._sampled(X, labels, rows)
        # a second thread saves a fifth of the time at most, and beside other work costs eight times as much
        with blas_threads(1):
            found = gradient_rounds(
                float64(take(X, rows)),
                Y[rows],
                weights[rows] / weights[rows].mean(),
                self.kernel,
                n_rounds=self.n_rounds,
                ridge=self.ridge,
                width=self.width,
                diagonal=blocks,
            )
            rounds = list(found)
        if self.verbose:
            for number, each in enumerate(rounds, 1):
                print(f"[GradientMetric] round {number}: objective {each.certificate.primal:.6e}")
        L, certificate = rounds[-1]
        if L.ndim == 1:
            L = namespace(L).diag(L)
        else:
            L = spectral.canonical_factor(L)
        self.components_ = transposed(like(L, X))
        self.certificate_ = certificate
        self.objective_ = certificate.primal
        self.n_iter_ = self.n_rounds
        return self

    def _sampled(self, X: Any, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the rows to learn from: all, or as many of every class as possible of too many."""
        most = MAX_ROWS_ON_GPU if on_device(X) else MAX_ROWS
        if len(rows) <= most:
            return rows
        rng = check_random_state(self.random_state)
        # the sample must not depend on the order of the rows
        ordered = rows[canonical_order(take(X, rows), labels[rows])]
        return evenly_by_class(rng.permutation(ordered), labels)[:most]

    def _blocks(self) -> bool | np.ndarray:
        """Return ``diagonal``, as a bool or a checked array."""
        if isinstance(self.diagonal, bool | np.bool_):
            return bool(self.diagonal)
        blocks = np.asarray(self.diagonal)
        if blocks.shape != (self.n_features_in_,) or blocks.dtype.kind not in "iu":
            raise ValueError(
                f"diagonal has shape {blocks.shape} and {blocks.dtype}; pass True, False or the "
                f"number of the block of each of the {self.n_features_in_} columns."
            )
        return blocks


def _targets(y: Any, continuous: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers (-1: no label; one class for numbers), and targets to fit (n, k)."""
    if continuous:
        values = y.astype(np.float64)
        spread = abs(values - values.mean()).max() or 1.0
        return np.zeros(len(y), int), ((values - values.mean()) / spread)[:, None]
    labels = check_labels(y, 0)
    indicators = (labels[:, None] == np.arange(labels.max() + 1)).astype(np.float64)
    if indicators.shape[1] == 2:  # the indicator of one of two classes says all
        indicators = indicators[:, 1:]
    return labels, indicators
