"""The scikit-learn interface shared by all learned metrics: validation of X, and the
Mahalanobis methods. Labels, pairs and triplets are handled in `supervised`.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from ..constraints.in_blocks import is_dask
from ..constraints.in_memory import is_continuous, refuse_continuous
from ..core import spectral
from ..core.arrays import (
    as_array,
    float64,
    is_torch,
    like,
    namespace,
    refuse_masked,
    to_numpy,
    transposed,
)
from ..core.sklearn_private import Interval
from ..core.sparse_rows import SparseRows
from ..core.warn import warn_user
from ..operators.span import Coordinates
from ..problems.base import Problem
from ..solvers.base import Solver, SolveResult
from .tuples import TupleMethods, look_up

__all__ = ["CertifiedEstimator", "MahalanobisMetric", "UselessMetricWarning"]

# A sparse X is solved over its rows or its features, whichever are fewer, with dense
# eigendecompositions of that order in every iteration.
MAX_SPARSE_ORDER = 5000
MAX_DENSE_ENTRIES = 1 << 27  # of a sparse X made dense: 1 GiB in float64
# Parameters between these have squares and quotients that float64 can hold.
SMALLEST_PARAMETER, LARGEST_PARAMETER = 1e-150, 1e150
# Largest extent of X by the bytes of its numbers: float32 holds sums of its square, float64
# sums of its fourth power. The smallest is the inverse.
LARGEST_EXTENT = {4: 1e15, 8: 1e60}
# A metric is useless if it maps a sample of the rows to few places; judgement, not theory.
USELESS_SAMPLE = 1000  # rows
SAME_PLACE = 1e-9  # distance of mapped rows, relative to the extent of all of them
FEW_PLACES = 0.1  # relative to the number of places in X

Seed = int | np.random.RandomState | None

SOLVER_PARAMETERS = {
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class UselessMetricWarning(UserWarning):
    """The optimum was found but is useless as a metric: it maps all points, or nearly
    all, to the same place.
    """


class CertifiedEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base of all estimators: reports the progress of a solve and stores its certificate."""

    # scikit-learn links an estimator's diagram to its page
    _doc_link_module = "conemetric"
    _doc_link_template = (
        "https://conemetric.readthedocs.io/en/stable/generated/conemetric.{estimator_name}.html"
    )

    def _progress(self) -> Callable[[dict], None] | None:
        """A callback that prints progress; None unless ``verbose``."""
        if not self.verbose:
            return None
        name = type(self).__name__

        def report(record):
            if record["iteration"] % max(1, 11 - self.verbose) == 0:
                print(
                    f"[{name}] {record['iteration']:5d}  primal {record['primal']:.6e}  dual "
                    f"{record['dual']:.6e}  "
                    f"gap {record['relative_gap']:.2e}  {record['seconds']:.1f} s"
                )

        return report

    def _validate_params(self):
        """Also refuse numbers whose squares and quotients float64 cannot hold."""
        for name, value in self.get_params(deep=False).items():
            if not isinstance(value, Real) or value in (0, np.inf) or value != value:
                continue
            try:
                size = abs(float(value))
            except OverflowError:
                size = np.inf
            if size > LARGEST_PARAMETER or (size < SMALLEST_PARAMETER and name != "tol"):
                raise ValueError(
                    f"{name} is too {'large' if size > LARGEST_PARAMETER else 'small'} to compute "
                    f"with; give a number between {SMALLEST_PARAMETER:g} and {LARGEST_PARAMETER:g}."
                )
        super()._validate_params()

    def _check_n_components(self):
        """Refuse more components than features."""
        if self.n_components is not None and self.n_components > self.n_features_in_:
            raise ValueError(
                f"n_components={self.n_components} is more than the {self.n_features_in_} features "
                "of X; lower it, or use None to keep the rank of the learned metric."
            )

    def _run(self, solver: Solver, problem: Problem, **options) -> SolveResult:
        """Solve, with this estimator's name in warnings and its ``verbose``."""
        return solver.solve(
            problem, **{"callback": self._progress(), "name": type(self).__name__, **options}
        )

    def _store_result(self, result: SolveResult) -> Self:
        self.certificate_ = result.certificate
        self.objective_ = result.certificate.primal
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        return self


class MahalanobisMetric(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, TupleMethods, CertifiedEstimator
):
    """Base of the estimators that learn d(x, x')^2 = (x - x')' M (x - x'), with M =
    components_' components_.

    A subclass writes ``fit``: validate, make constraints and operator, solve, `_store`.
    X is anything scikit-learn takes, or a PyTorch tensor; then the fitted attributes are
    tensors on the same device.
    """

    components_: np.ndarray
    _takes_sparse = False

    @abstractmethod
    def fit(self, *args: Any, **kwargs: Any) -> Self:
        """Learn the metric."""

    # ---- validation

    def _validate_X(self, X, reset=False, min_samples=1):
        refuse_dask(self, X)
        refuse_masked(X, "X")
        if is_torch(X):
            X = check_tensor(X, min_samples)
            if reset:
                check_extent(X)
                self.n_features_in_ = X.shape[1]
            elif X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            return X
        rows = X.matrix if isinstance(X, SparseRows) else X
        rows = validate_data(
            self, rows, reset=reset, **self._input_rules(), ensure_min_samples=min_samples
        )
        return self._points(rows, reset)

    def _input_rules(self):
        sparse = "csr" if self._takes_sparse else False
        return {"dtype": [np.float64, np.float32], "accept_sparse": sparse}

    def _points(self, X, fitting):
        """X as points, a sparse one as `SparseRows`; refuse one too large to learn from."""
        if fitting:
            check_extent(X)
        if not issparse(X):
            return X
        if fitting and min(X.shape) > MAX_SPARSE_ORDER:
            raise ValueError(
                f"X is sparse with {X.shape[0]} rows and {X.shape[1]} features; rows or features "
                f"must be at most {MAX_SPARSE_ORDER}. Reduce the features first: "
                f"make_pipeline(TruncatedSVD(300), {type(self).__name__}())."
            )
        return SparseRows(X)

    def _validate_X_and_y(self, X, y):
        """X, and y as a NumPy vector with one label per row."""
        refuse_dask(self, X)
        refuse_masked(X, "X")
        refuse_masked(y, "y")
        if not is_torch(X):
            rows = X.matrix if isinstance(X, SparseRows) else X
            rows, y = validate_data(
                self, rows, to_numpy(y), **self._input_rules(), ensure_min_samples=2
            )
            return self._points(rows, fitting=True), y
        X, y = self._validate_X(X, reset=True, min_samples=2), column_or_1d(to_numpy(y), warn=True)
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} labels for {len(X)} rows of X; give one for each.")
        return X, y

    def _refuse_continuous(self, y, target):
        """Refuse a continuous y in estimators that need classes."""
        if is_continuous(y, target):
            refuse_continuous(*np.unique(y, return_counts=True), target, type(self).__name__)

    def _dense(self, X):
        """X as a dense array, for estimators that need one."""
        if not isinstance(X, SparseRows):
            return X
        n, D = X.shape
        if n * D > MAX_DENSE_ENTRIES:
            raise ValueError(
                f"X is sparse with {n} rows and {D} features; {type(self).__name__} must make "
                f"it dense, which takes {n * D * X.dtype.itemsize / 1e9:.0f} GB. Reduce the "
                f"features first: make_pipeline(TruncatedSVD(300), {type(self).__name__}())."
            )
        return X.toarray()

    # ---- the learned metric

    @property
    def _fixed_trace(self) -> bool:
        """Whether the program fixes the trace, so that a truncated metric is scaled up to it."""
        return False

    def _keep(self, X, coordinates: Coordinates) -> Callable:
        """The function that makes `Solver.solve` certify the metric as it is stored, in
        the precision and on the device of X: factor over the coordinates of the program
        -> (stored factor, the same over the coordinates).
        """

        def keep(L):
            # determine the rank in the program's coordinates, where its rounding errors arise
            L = spectral.canonical_factor(L)
            if self._fixed_trace:
                L = L / (L * L).sum() ** 0.5
            if not coordinates.maps:
                return like(L, X), like(L, X)
            factor = coordinates.lift(float64(L))
            if coordinates.isometric:  # columns stay orthogonal
                factor *= spectral.signs(factor)
            else:
                factor = spectral.canonical_factor(factor, rtol=0.0)
            factor = like(factor, X)
            return factor, coordinates.lower(float64(factor))

        return keep

    def _store(self, problem: Problem, result: SolveResult, points) -> Self:
        """Store the certified metric, rows of ``components_`` by descending eigenvalue, and
        its certificate; a metric truncated to ``n_components`` is certified again. Warn if
        it separates few of the ``points``, which are in the program's coordinates.
        """
        L, point, certificate = result.kept, result.primal_point, result.certificate
        n = self.n_components
        if n is not None and L.shape[1] > n:
            L, point = L[:, :n], point[:, :n]
            if self._fixed_trace:
                trace = float((float64(point) ** 2).sum())
                L, point = L * trace**-0.5, point * trace**-0.5
            primal = problem.certify(point, result.dual_point).primal
            certificate = certificate.truncated(primal, self.tol)
        if L.shape[1] == 0:  # the zero metric still needs a column to transform into
            L = like(np.zeros((L.shape[0], 1)), L)
        self._forget_threshold()
        self.components_ = transposed(L)
        self._warn_if_useless(points, point)
        return self._store_result(replace(result, certificate=certificate))

    # for a metric that does not separate the points
    _remedy = "fewer targets or more impostors (n_targets, n_impostors), or other features"

    def _warn_if_useless(self, points, L):
        """Warn if the optimum is useless as a metric."""
        rows = np.linspace(0, len(points) - 1, min(len(points), USELESS_SAMPLE)).astype(int)
        sample = points[like(rows, points, namespace(points).int64)]
        rng = np.random.default_rng(0)
        view = like(rng.standard_normal((points.shape[1], 4)), L)  # shows which rows differ
        n_before, n_after = (_n_places(to_numpy(sample @ like(F, points))) for F in (view, L))
        if n_after > max(1, FEW_PLACES * n_before):
            return
        fault = (
            "is zero: it calls all points the same"
            if n_after == 1
            else f"tells {n_after} places apart where {n_before} rows of X differ"
        )
        warn_user(
            f"The metric that {type(self).__name__} learned {fault}, so nearest neighbours are "
            "arbitrary. It is optimal, but the classes overlap too much for the program to "
            f"separate them; try {self._remedy}, or keep the Euclidean distance.",
            UselessMetricWarning,
        )

    def __sklearn_is_fitted__(self):
        # validation sets other attributes before a fit that fails or is interrupted
        return hasattr(self, "components_")

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def transform(self, X: Any) -> Any:
        """Map X to the space where the learned metric is the Euclidean distance.

        Parameters
        ----------
        X : array-like (n, n_features)

        Returns
        -------
        array (n, rank)
            ``X @ components_.T``.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._transform_lazily(X)
        X = self._features(self._validate_X(look_up(X, self.preprocessor)))
        return X @ like(self.components_, X).T

    def _transform_lazily(self, X):
        """The transformed dask array, not yet computed."""
        X = X.to_dask_array() if hasattr(X, "to_dask_array") else X
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {X.shape}, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        plain = type(self)._features is MahalanobisMetric._features
        dtype = np.result_type(X.dtype, np.float32)
        return X.rechunk({1: -1}).map_blocks(
            _transformed,
            to_numpy(self.components_),
            None if plain else self._features,
            dtype=dtype,
            chunks=(X.chunks[0], (len(self.components_),)),
            meta=np.empty((0, 0), dtype),
        )

    def _features(self, X):
        """The features that ``components_`` applies to: X, unless a subclass maps it first."""
        return X

    def get_mahalanobis_matrix(self) -> Any:
        """Return the learned positive semidefinite matrix M (n_features, n_features)."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: Any) -> Any:
        """Return the learned distance between the points of each pair.

        Parameters
        ----------
        pairs : array-like (n_pairs, 2, n_features), or (n_pairs, 2) with a preprocessor

        Returns
        -------
        array (n_pairs,)
        """
        check_is_fitted(self)
        refuse_masked(pairs, "pairs")
        pairs = as_array(look_up(pairs, self.preprocessor))
        if pairs.ndim != 3 or pairs.shape[1:] != (2, self.n_features_in_):
            raise ValueError(
                f"pairs has shape {tuple(pairs.shape)}; give two points per pair, (n_pairs, 2, "
                f"{self.n_features_in_})."
            )
        points = pairs.reshape(-1, self.n_features_in_)
        if is_torch(points):
            points = check_tensor(points, 0)
        else:
            points = check_array(
                points, dtype=[np.float64, np.float32], ensure_min_samples=0, input_name="pairs"
            )
        features = self._features(points)
        difference = features[0::2] - features[1::2]
        mapped = difference @ like(self.components_, difference).T
        return (mapped * mapped).sum(1) ** 0.5

    def pair_score(self, pairs: Any) -> Any:
        """Return the negative of `pair_distance`: larger means more similar."""
        return -self.pair_distance(pairs)

    def get_metric(self) -> Callable[..., float]:
        """Return the distance as a function ``metric(u, v, squared=False)`` of two points,
        for SciPy, scikit-learn and other code that takes a callable.
        """
        check_is_fitted(self)
        components, features = to_numpy(self.components_).copy(), self._features
        n_features = self.n_features_in_

        def metric(u, v, squared=False):
            first, second = (
                features(_row(point, name, n_features)) for name, point in (("u", u), ("v", v))
            )
            mapped = components @ (first - second)[0]
            value = float(mapped @ mapped)
            return value if squared else value**0.5

        return metric

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _row(point, name, n_features):
    """One point as an array (1, n_features); a number will do for one feature."""
    row = np.asarray(point) if n_features > 1 else np.atleast_1d(point)
    if row.ndim != 1 and not (row.ndim == 2 and len(row) == 1):
        raise ValueError(f"{name} has shape {row.shape}; give one point as a vector.")
    return row.reshape(1, -1)


def _n_places(rows):
    """Number of distinct rows, with those nearer than `SAME_PLACE` counted as one."""
    rows = rows.astype(np.float64)
    rows = rows - rows.mean(0)
    extent = abs(rows).max(initial=0.0)
    return len(np.unique(np.round(rows / (SAME_PLACE * extent)), axis=0)) if extent > 0 else 1


def check_extent(X: Any) -> None:
    """Refuse an X whose extent, or distance from the origin, is out of range."""
    if issparse(X):
        spread = float(abs(X.data).max(initial=0.0))
    else:
        xp = namespace(X)
        with np.errstate(over="ignore"):
            spread = float((xp.amax(X, 0) - xp.amin(X, 0)).max())
    check_size(spread, X.dtype, "X")
    largest = spread if issparse(X) else float(abs(X).max())
    if largest > LARGEST_EXTENT[X.dtype.itemsize] ** 2:
        raise ValueError(f"X has entries as large as {largest:.1e}; centre and rescale it.")


def check_size(size: float, dtype: Any, name: str) -> None:
    """Refuse an extent whose powers are out of the range of ``dtype``."""
    largest = LARGEST_EXTENT[dtype.itemsize]
    if size > largest or 0 < size < 1 / largest:
        raise ValueError(
            f"{name} spreads over {size:.1e}, and its squared distances leave the range of "
            f"{dtype}; rescale it (StandardScaler), or give it in float64."
        )


def check_tensor(X: Any, min_samples: int) -> Any:
    """A tensor of points, validated as scikit-learn would validate an array."""
    import torch

    if X.layout != torch.strided or X.is_complex():
        raise TypeError(
            f"X is a tensor of layout {X.layout} and {X.dtype}; give a dense, real one "
            "(X.to_dense(), X.real)."
        )
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D tensor X of shape {tuple(X.shape)} instead; "
            "reshape it."
        )
    if X.shape[0] < min_samples or X.shape[1] == 0:
        raise ValueError(
            f"X has {X.shape[0]} sample(s) and {X.shape[1]} feature(s); at least {min_samples} "
            "and 1 are needed."
        )
    if not X.is_floating_point():
        X = X.double()
    elif X.element_size() < 4:
        X = X.float()
    if not bool(X.isfinite().all()):
        raise ValueError("X contains NaN or infinity; drop those rows or impute them first.")
    return X.detach()


def refuse_dask(estimator: Any, X: Any, name: str = "X") -> None:
    """Refuse a dask collection in an estimator that works in memory."""
    if is_dask(X):
        raise TypeError(
            f"{type(estimator).__name__} works in memory, and {name} is a {type(X).__module__} "
            f"collection; give {name}.compute() or a sample of its rows, or use FrobMetric, "
            "LMNNEig, DMLEig or BoostMetric, which learn from dask collections."
        )


def _transformed(X, components, features):
    X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=0)
    X = X if features is None else features(X)
    return X @ like(components, X).T
