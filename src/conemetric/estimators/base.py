"""The scikit-learn interface shared by all learned metrics: validation of X, and the
Mahalanobis methods. Labels, pairs and triplets are handled in `supervised`.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..core import spectral
from ..core.arrays import (
    as_array,
    float64,
    is_dask,
    is_torch,
    like,
    refuse_masked,
    to_numpy,
    transposed,
)
from ..core.sklearn_private import Interval
from ..engine.certificate import SHORT_OF_TOL
from ..engine.operators.span import Coordinates
from ..engine.program import Problem
from ..engine.solver import Solver, SolveResult
from .fit_warnings import warn_if_collapsed
from .tuples import TupleMethods, look_up
from .validation import FLOATS, check_tensor, validate_points

# Parameters between these have squares and quotients that float64 can hold.
SMALLEST_PARAMETER = 1e-150
LARGEST_PARAMETER = 1e150

Seed = int | np.random.RandomState | None

SOLVER_PARAMETERS = {
    "n_components": [Interval(Integral, 1, None, closed="left"), None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class CertifiedEstimator(BaseEstimator, metaclass=ABCMeta):
    """Base of all estimators: reports the progress of a solve and stores its certificate.

    Parameters of an estimator are the fields of a dataclass: its generated ``__init__`` stores them
    and does nothing else, as scikit-learn asks. Equality and representation are scikit-learn's.
    """

    _of_some_fits: ClassVar[tuple[str, ...]] = ("feature_names_in_",)  # see `core.atomic`
    _expected_failed_checks: ClassVar[dict[str, str]] = {}  # see `checks`
    # scikit-learn links an estimator's diagram to its page
    _doc_link_module = "conemetric"
    _doc_link_template = (
        "https://conemetric.readthedocs.io/en/stable/generated/conemetric.{estimator_name}.html"
    )

    def _validate_params(self):
        """Also refuse numbers whose squares and quotients float64 cannot hold."""
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, np.generic):
                value = value.item()
            if not isinstance(value, Real):
                continue
            size: Any = abs(value)
            fault = ""
            if LARGEST_PARAMETER < size < np.inf:
                fault = "large"
            elif 0 < size < SMALLEST_PARAMETER and name != "tol":
                fault = "small"
            if fault:
                raise ValueError(
                    f"{name} is too {fault} to compute with; pass a number "
                    f"between {SMALLEST_PARAMETER:g} and {LARGEST_PARAMETER:g}."
                )
        super()._validate_params()

    def _check_n_components(self, n_columns=None):
        """Refuse more components than columns: features, or coordinates of a kernel."""
        n_columns = n_columns or self.n_features_in_
        if self.n_components is not None and self.n_components > n_columns:
            columns = "features of X"
            if n_columns != self.n_features_in_:
                columns = "coordinates of the kernel"
            fault = f"n_components={self.n_components} is more than the {n_columns} {columns}"
            raise ValueError(f"{fault}; lower it, or use None.")

    def _run(self, solver: Solver, problem: Problem, **options) -> SolveResult:
        """Solve, with this estimator's name in warnings and its ``verbose``."""
        name = type(self).__name__
        line = "{iteration:5d}  primal {primal:.6e}  dual {dual:.6e}  gap {relative_gap:.2e}  "

        def report(record):
            if record["iteration"] % max(1, 11 - self.verbose) == 0:
                print(f"[{name}] {line.format(**record)}{record['seconds']:.1f} s")

        callback = None
        if self.verbose:
            callback = report
        return solver.solve(problem, callback=callback, name=name, **options)

    def _store_result(self, result: SolveResult) -> Self:
        """Set the attributes that say how the solve went."""
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
    kernel_coordinates_: Any = None  # of a metric with a kernel: what maps rows before components_
    _of_some_fits: ClassVar[tuple[str, ...]] = (
        "threshold_",
        "threshold_promise_",
        "kernel_coordinates_",
    )
    _takes_sparse = False
    _fixed_trace = False  # whether the program fixes it: a truncated metric is scaled up to it

    @abstractmethod
    def fit(self, *args: Any, **kwargs: Any) -> Self:
        """Learn the metric."""

    def _keep(self, X, coordinates: Coordinates) -> Callable:
        """The function that makes `Solver.solve` certify the metric as it is stored, in
        the precision and on the device of X: factor over the coordinates of the program
        -> (stored factor, the same over the coordinates).
        """

        def keep(L):
            # determine the rank in the program's coordinates, where its rounding errors arise
            L = spectral.canonical_factor(L)
            if self._fixed_trace and L.shape[1]:  # the zero metric has no column
                L = L / (L * L).sum() ** 0.5
            if not coordinates.maps:
                return like(L, X), like(L, X)
            factor = coordinates.lift(float64(L))
            if coordinates.isometric:  # columns stay orthogonal
                factor *= spectral.signs(factor)
            else:
                # principal axes anew, but no column fewer: the rank is known from above
                factor = spectral.canonical_factor(factor, rtol=0.0)
            factor = like(factor, X)
            return factor, coordinates.lower(float64(factor))

        return keep

    def _store(
        self, problem: Problem, result: SolveResult, coordinates: Coordinates, level: float = 0.0
    ) -> Self:
        """Store the certified metric, rows of ``components_`` by descending eigenvalue, and its
        certificate; a metric truncated to ``n_components`` is certified again. Warn if it separates
        few of the points, in the program's ``coordinates``; beyond these the prior is ``level`` I.
        """
        if self.n_components is not None and result.kept.shape[1] > self.n_components:
            result = self._truncated(problem, result, coordinates, level)
        L = result.kept
        if L.shape[1] == 0:  # the zero metric still needs a column to transform into
            L = like(np.zeros((L.shape[0], 1)), L)
        self.components_ = transposed(L)
        solved = result.certificate.status not in SHORT_OF_TOL
        point = result.primal_point
        warn_if_collapsed(coordinates.points, point, type(self).__name__, self._remedy, solved)
        return self._store_result(result)

    def _truncated(
        self, problem: Problem, result: SolveResult, coordinates: Coordinates, level: float
    ) -> SolveResult:
        """The leading ``n_components`` directions of a result, certified again."""
        n = self.n_components
        L = result.kept[:, :n]
        point = result.primal_point[:, :n]
        if self._fixed_trace:
            L, point = self._keep(L, coordinates)(point)
        bounds = problem.certify(point, result.dual_point)
        missed = None
        if self._fixed_trace:
            missed = bounds.violation
        kept = 0.0
        if level:
            # the trace beyond the coordinates: level for each direction there that was kept
            kept = float((float64(L) ** 2).sum() - (float64(point) ** 2).sum())
        # the program does not see the directions beyond its coordinates, where the prior counts
        cut = 0.5 * level * (level * (len(L) - len(point)) - kept)
        certificate = result.certificate.truncated(bounds.primal + cut, self.tol, missed)
        return replace(result, kept=L, primal_point=point, certificate=certificate)

    # for a metric that does not separate the points
    _remedy = "fewer targets or more impostors (n_targets, n_impostors), or other features"

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    @property
    def _n_columns(self) -> int:
        """Columns that ``components_`` applies to: features, or coordinates of a kernel."""
        if self.kernel_coordinates_ is None:
            return self.n_features_in_
        return self.kernel_coordinates_._n_features_out

    def transform(self, X: Any) -> Any:
        """Map X to the space where the learned metric is the Euclidean distance.

        Parameters
        ----------
        X : array-like (n, n_features)

        Returns
        -------
        array (n, rank)
            ``X @ components_.T``; with a ``kernel``, its coordinates of X take the place of X.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._transform_lazily(X)
        X = self._features(validate_points(self, look_up(X, self.preprocessor)))
        return X @ like(self.components_, X).T

    def _transform_lazily(self, X):
        """`transform` of a dask collection, block by block."""
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array()
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has shape {X.shape}; pass (n, {self.n_features_in_}) as in fit.")
        features = None  # for linear metrics, so that the blocks need not carry the estimator
        unmapped = type(self)._features is MahalanobisMetric._features
        if not unmapped or self.kernel_coordinates_ is not None:
            features = self._features
        dtype = np.result_type(X.dtype, np.float32)
        return X.rechunk({1: -1}).map_blocks(
            _transformed,
            to_numpy(self.components_),
            features,
            dtype=dtype,
            chunks=(X.chunks[0], (len(self.components_),)),
            meta=np.empty((0, 0), dtype),
        )

    def _features(self, X):
        """The features that ``components_`` applies to: X, unless a kernel or a subclass maps it."""
        if self.kernel_coordinates_ is None:
            return X
        return self.kernel_coordinates_._mapped(X)

    def get_mahalanobis_matrix(self) -> Any:
        """Return the learned positive semidefinite matrix M (n_features, n_features).

        A metric with a ``kernel`` has none, and raises a ValueError.
        """
        check_is_fitted(self)
        self._refuse_kernel("matrix in the space of X")
        return self.components_.T @ self.components_

    def _of_columns(self) -> Self:
        """This metric as one of the columns that ``components_`` applies to, without the kernel."""
        metric = copy(self)
        metric.n_features_in_ = self._n_columns
        metric.kernel_coordinates_ = None
        return metric

    def _refuse_kernel(self, what: str) -> None:
        """Refuse what only a metric that is linear in the columns has."""
        if self.kernel_coordinates_ is not None:
            raise ValueError(
                f"The metric of a kernel has no {what}; use transform, whose rows have the learned "
                "distance as their Euclidean distance, or fit with kernel=None."
            )

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
                f"pairs has shape {tuple(pairs.shape)}; pass two points per pair, (n_pairs, 2, "
                f"{self.n_features_in_})."
            )
        points = pairs.reshape(-1, self.n_features_in_)
        if is_torch(points):
            points = check_tensor(points, 0)
        else:
            points = check_array(points, dtype=FLOATS, ensure_min_samples=0, input_name="pairs")
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
        components = to_numpy(self.components_).copy()
        features = self._features
        shape = 1, self.n_features_in_

        def metric(u, v, squared=False):
            rows = np.atleast_2d(u), np.atleast_2d(v)
            for name, row in zip("uv", rows, strict=True):
                if row.shape != shape:
                    raise ValueError(f"{name} has shape {row.shape}; pass one point as a vector.")
            mapped = components @ (features(rows[0]) - features(rows[1]))[0]
            value = float(mapped @ mapped)
            if squared:
                return value
            return value**0.5

        return metric

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._takes_sparse
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _transformed(X, components, features):
    """The rows of a block, mapped; ``features`` is None for the rows themselves."""
    X = check_array(X, dtype=FLOATS, ensure_min_samples=0)
    if features is not None:
        X = features(X)
    return X @ like(components, X).T
