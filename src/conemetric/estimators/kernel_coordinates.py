"""KernelCoordinates: rows in coordinates whose inner product is a kernel."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import is_dask, take
from ..core.atomic import atomic_fit
from ..core.blas import blas_threads_for
from ..core.sklearn_private import Interval, StrOptions
from ..core.sparse_rows import SparseRows
from ..core.warn import warn_user
from ..engine.kernel_map import (
    KERNELS,
    KernelMap,
    decomposed,
    kernel_values,
    landmarks_of,
    median_width,
)
from .base import CertifiedEstimator, Seed
from .fit_warnings import warn_if_unscaled
from .validation import validate_points

# Distinct rows up to which all are landmarks, and number of landmarks otherwise: their kernel matrix
# takes 32 MB, and its 150 leading eigenvectors two seconds on one core.
MAX_LANDMARKS = 2000
# Rows for each landmark that are looked at for distinct ones; of more, so many are drawn first.
ROWS_PER_LANDMARK = 20


class FarFromLandmarksWarning(UserWarning):
    """Rows so far from all landmarks that a kernel maps them to nearly the same place."""


@dataclass(eq=False, repr=False)
class KernelCoordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CertifiedEstimator):
    """Coordinates in which the inner product of two rows is a kernel, for metrics that are not
    linear in the columns.

    With landmarks z and their kernel matrix K = k(z, z) = U diag(l) U', a row x has the coordinates
    ``k(x, z) U diag(l)^(-1/2)``. Their inner products are the kernel wherever one of two rows is a
    landmark, but for directions dropped by ``n_components``.

    Every estimator that learns from labels, pairs or triplets takes this transformer, or the name of
    a kernel, as its parameter ``kernel``.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "cosine"} or callable, default="gaussian"
        ``exp(-||x - z||^2 / (2 width^2))``, ``exp(-sum_j |x_j - z_j| / width)`` or the cosine of the
        angle between x and z. A callable is called as ``kernel(X, Z)``, with NumPy arrays, and
        returns the matrix of k(x, z), which must be positive semidefinite.
    n_components : int or None, default=150
        Most coordinates, those of the largest eigenvalues. None keeps all whose eigenvalue is at
        least 1e-9 of the largest.
    width : "median" or float, default="median"
        Of "gaussian" and "laplacian", in the units of their distance. "median" is the median
        distance between landmarks, so that the coordinates do not depend on the units of X.
    landmarks : "auto" or int, default="auto"
        Most landmarks. "auto" takes all distinct rows of X up to 2,000, else a random sample of
        2,000 of them.
    random_state : int, RandomState or None, default=None
        Draws the landmarks; unused where all rows are landmarks, unless there are more than 1,000, of
        which it draws those for the median.

    Attributes
    ----------
    landmarks_ : array (n_landmarks, n_features)
    width_ : float
        1 for kernels without a width.
    eigenvalues_ : array (n_coordinates,)
        Of the kernel matrix of the landmarks, descending.
    exact_ : bool
        Whether every distinct row of X is a landmark and no direction was dropped by
        ``n_components``: coordinates of X then have the inner products k(x, x').

    Notes
    -----
    Columns are taken as they come: standardise them first, as for the metrics. To weigh the columns
    of a Laplacian kernel, put ``GradientMetric("city block")`` before it in a pipeline.

    Kernel values are computed in float64 and block by block, so memory does not grow with the rows:
    10,000 rows of 100 columns take 0.3 s with 1,000 landmarks and a Gaussian kernel on one core.
    PyTorch tensors stay on their device; of a dask collection, ``fit`` takes a sample of rows, and
    ``transform`` is lazy.

    Far from all landmarks a Gaussian or Laplacian kernel vanishes, and all rows meet at the origin.
    ``transform`` warns where all kernel values of a row are below 0.001.

    scikit-learn's `Nystroem` keeps all landmarks as coordinates and has no width from the data;
    `KernelPCA` takes all rows as landmarks. Neither takes tensors or dask collections, works in
    blocks, or can be stored without pickle.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import KernelCoordinates
    >>> X = load_iris().data
    >>> coordinates = KernelCoordinates(n_components=None).fit(X)
    >>> Z = coordinates.transform(X)
    >>> squares = ((X[0] - X) ** 2).sum(axis=1)
    >>> bool(np.allclose(Z[0] @ Z.T, np.exp(-squares / (2 * coordinates.width_**2)), atol=1e-6))
    True
    """

    kernel: str | Callable = "gaussian"
    _: KW_ONLY
    n_components: int | None = 150
    width: str | float = "median"
    landmarks: str | int = "auto"
    random_state: Seed = None

    _parameter_constraints = {
        "kernel": [StrOptions(set(KERNELS)), callable],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "width": [Interval(Real, 0, None, closed="neither"), StrOptions({"median"})],
        "landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
    }
    _depends_on_scales = True

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks and width, and decompose the kernel matrix.

        Parameters
        ----------
        X : array-like, sparse matrix, tensor or dask collection (n, n_features)
        y : ignored

        Returns
        -------
        self
        """
        rng = check_random_state(self.random_state)
        names = getattr(X, "columns", None)
        dask = is_dask(X)
        if dask:
            X = self._sampled_of_dask(X, rng)
        X = validate_points(self, X, reset=True)
        if dask and names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        if self.kernel != "cosine":
            warn_if_unscaled(self, X)
        return self._fit_points(X, rng)

    def _fit_points(self, X: Any, rng: np.random.RandomState) -> Self:
        """Fit to validated points."""
        max_landmarks = self._max_landmarks()
        sparse = isinstance(X, SparseRows)
        max_rows = max_landmarks  # of sparse rows no more, since they are made dense
        if not sparse:
            max_rows = max_landmarks * ROWS_PER_LANDMARK
        is_sampled = len(X) > max_rows
        if is_sampled:
            chosen = np.sort(rng.choice(len(X), max_rows, replace=False))
            if sparse:
                X = X[chosen]
            else:
                X = take(X, chosen)
        self.n_features_in_ = X.shape[1]
        with blas_threads_for(float(min(len(X), max_landmarks)) ** 3):
            landmarks, has_all_rows = landmarks_of(X, max_landmarks, rng)
            if self.width == "median":
                self.width_ = median_width(self.kernel, landmarks, rng)
            else:
                self.width_ = float(self.width)
            K = kernel_values(self.kernel, landmarks, landmarks, self.width_)
            found = decomposed(K, self.n_components, is_definite=isinstance(self.kernel, str))
        self.landmarks_ = landmarks
        self.eigenvalues_ = found.eigenvalues
        n_kept = len(found.eigenvalues)
        # fewer than asked for: nothing but rounding was left out
        is_cut = self.n_components is not None and n_kept == self.n_components
        has_all_directions = not is_cut or n_kept == len(landmarks)
        self.exact_ = has_all_rows and not is_sampled and has_all_directions
        self._map = KernelMap(self.kernel, self.width_, landmarks, found.projection)
        return self

    def _max_landmarks(self) -> int:
        if self.landmarks == "auto":
            return MAX_LANDMARKS
        return int(self.landmarks)

    def _sampled_of_dask(self, X, rng):
        """Some rows of a dask collection, in memory."""
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array(lengths=True)
        if np.isnan(X.shape[0]):
            X = X.compute_chunk_sizes()
        max_rows = self._max_landmarks() * ROWS_PER_LANDMARK
        if len(X) > max_rows:
            X = X[np.sort(rng.choice(len(X), max_rows, replace=False))]
        return X.compute()

    def transform(self, X: Any) -> Any:
        """Map rows to their coordinates.

        Parameters
        ----------
        X : array-like, sparse matrix, tensor or dask collection (n, n_features)

        Returns
        -------
        array (n, n_coordinates)
            In the precision of X, on its device; lazy for a dask collection.
        """
        check_is_fitted(self)
        if is_dask(X):
            return self._transform_lazily(X)
        return self._mapped(validate_points(self, X))

    @classmethod
    def _of_map(cls, kernel_map: KernelMap) -> "KernelCoordinates":
        """Fitted coordinates with this map."""
        coordinates = cls(kernel_map.kernel)
        coordinates._map = kernel_map
        coordinates.n_features_in_ = kernel_map.n_features
        coordinates.landmarks_ = kernel_map.landmarks
        coordinates.width_ = kernel_map.width
        return coordinates

    def _mapped(self, X: Any, warn: bool = True) -> Any:
        """The coordinates of validated points."""
        mapped = self._map(X)
        if warn:
            warn_if_far(mapped.far)
        return mapped.coordinates

    def _transform_lazily(self, X):
        """`transform` of a dask collection, block by block."""
        if hasattr(X, "to_dask_array"):
            X = X.to_dask_array()
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has shape {X.shape}; pass (n, {self.n_features_in_}) as in fit.")
        dtype = np.result_type(X.dtype, np.float32)
        return X.rechunk({1: -1}).map_blocks(
            _coordinates_of_block,
            self._map,
            dtype,
            dtype=dtype,
            chunks=(X.chunks[0], (self._n_features_out,)),
            meta=np.empty((0, 0), dtype),
        )

    @property
    def _n_features_out(self) -> int:
        return self._map.projection.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _coordinates_of_block(rows, kernel_map, dtype):
    """The coordinates of the rows of a block."""
    if issparse(rows):
        rows = rows.toarray()
    return kernel_map(np.asarray(rows, dtype)).coordinates


def warn_if_far(far: np.ndarray) -> None:
    """Warn of rows that are far from all landmarks."""
    if not far.any():
        return
    warn_user(
        f"{int(far.sum())} of {len(far)} rows are so far from all landmarks of the kernel (values below "
        "0.001) that they are mapped to nearly the same place, and their distances mean little; check "
        "their units, or learn with kernel=None, which extrapolates.",
        FarFromLandmarksWarning,
    )


KERNEL_PARAMETER = {"kernel": [StrOptions(set(KERNELS)), KernelCoordinates, callable, None]}


def coordinates_for(kernel: Any, random_state: Seed) -> KernelCoordinates:
    """Unfitted coordinates for the parameters ``kernel`` and ``random_state`` of an estimator."""
    if isinstance(kernel, KernelCoordinates):
        coordinates = clone(kernel)
    else:
        coordinates = KernelCoordinates(kernel)
    if coordinates.random_state is None:
        coordinates.set_params(random_state=random_state)
    return coordinates


def fitted_coordinates(kernel: Any, X: Any, random_state: Seed) -> KernelCoordinates:
    """The coordinates for the parameter ``kernel`` of an estimator, fitted to its validated points."""
    coordinates = coordinates_for(kernel, random_state)
    coordinates._validate_params()
    return coordinates._fit_points(X, check_random_state(coordinates.random_state))
