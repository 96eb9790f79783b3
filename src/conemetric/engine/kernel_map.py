"""Coordinates in which the inner product of two rows is a kernel.

    K = k(z, z) = U Lambda U'        over landmarks z, eigenvalues descending
    phi(x) = k(x, z) U Lambda^(-1/2)
    phi(x)' phi(y) = k(x, z) K^(-1) k(z, y)

which is k(x, y) where x or y is a landmark, or a sum of landmarks in the kernel's space. With p leading
eigenvalues it is the projection onto the p directions in which the landmarks are largest. Kernel values
are computed in float64, a block of rows at a time, in the library and on the device of the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from ..core import spectral
from ..core.arrays import Array, float64, is_torch, like, namespace, to_numpy, unique_rows
from ..core.fields import ArrayField, FieldError, Number, Stored, Text
from ..core.slices import slices
from ..core.sparse_rows import SparseRows
from .distance_kernels import city_block_distances, squared_distances

# Eigenvalues of the kernel matrix, relative to the largest, below which a direction is dropped: the
# coordinates divide by their roots. Rounding leaves errors of 1e-16 times the number of landmarks.
SMALLEST_EIGENVALUE = 1e-9
# The same for negative ones that are more than rounding of a positive semidefinite kernel.
NEGATIVE_EIGENVALUE = 1e-6
# Asymmetry of a kernel matrix, relative to its largest entry: what rounding leaves.
ASYMMETRY = 1e-6
# Landmarks among which the median distance is taken: half a million pairs.
MAX_ROWS_FOR_MEDIAN = 1000
# Numbers of rows and kernel values held at a time, 16 MB: large enough for fast products.
MAX_HELD = 1 << 21
# The largest kernel value of a row that is far from all landmarks, where a kernel falls with distance.
FAR = 1e-3

Function = Callable[[Any, Any], Any]


def _gaussian(A: Array, B: Array, width: float) -> Array:
    """exp(-||a - b||^2 / (2 width^2)), about the mean of the rows of B, which keeps digits."""
    centre = B.mean(0)
    squares = squared_distances(A - centre, B - centre)
    squares *= -0.5 / width**2
    return namespace(A).exp(squares, out=squares)


def _laplacian(A: Array, B: Array, width: float) -> Array:
    """exp(-sum_j |a_j - b_j| / width)."""
    distances = city_block_distances(A, B)
    distances *= -1 / width
    return namespace(A).exp(distances, out=distances)


def _cosine(A: Array, B: Array, width: float) -> Array:
    """a'b / (||a|| ||b||), and 0 for a row of zeros."""
    return _unit_rows(A) @ _unit_rows(B).T


def _unit_rows(A: Array) -> Array:
    sizes = (A * A).sum(1) ** 0.5
    return A / (sizes + (sizes == 0))[:, None]


KERNELS: dict[str, Callable[[Array, Array, float], Array]] = {
    "gaussian": _gaussian,
    "laplacian": _laplacian,
    "cosine": _cosine,
}
DECAYING = ("gaussian", "laplacian")  # with the distance, on the scale of the width


class Mapped(NamedTuple):
    """Coordinates of rows, and which of the rows are far from all landmarks (on the host)."""

    coordinates: Array
    far: np.ndarray


@dataclass(frozen=True, eq=False)
class KernelMap(Stored):
    """The map of rows to the coordinates of a kernel over ``landmarks``.

    Rows go through ``matrix`` and ``shift`` first, if there are any: preprocessing that a metric file
    keeps. ``kernel`` is a name of `KERNELS`, or a function of two arrays that no file can hold.
    """

    kernel: Annotated[Any, Text(tuple(KERNELS))]
    width: Annotated[float, Number(0, strict=True)]
    landmarks: Annotated[Array, ArrayField("f", ("landmarks", "inputs"))]
    projection: Annotated[Array, ArrayField("f", ("landmarks", "columns"))]
    matrix: Annotated[Array | None, ArrayField("f", ("inputs", "features"), optional=True)] = None
    shift: Annotated[Array | None, ArrayField("f", ("inputs",), optional=True)] = None

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        if self.matrix is not None:
            return self.matrix.shape[1]
        return self.landmarks.shape[1]

    def behind(self, matrix: np.ndarray, shift: np.ndarray) -> "KernelMap":
        """The map of x -> self(matrix x + shift)."""
        if self.matrix is not None:
            shift = self.matrix @ shift + self.shift
            matrix = self.matrix @ matrix
        return KernelMap(
            self.kernel, self.width, self.landmarks, self.projection, matrix=matrix, shift=shift
        )

    def state(self) -> dict[str, Any]:
        if not isinstance(self.kernel, str):
            raise TypeError(
                "a kernel that is a function cannot be kept in a file; use "
                f"{', '.join(map(repr, KERNELS))}, or pickle the estimator."
            )
        kept = super().state()
        arrays = ("landmarks", "projection", "matrix", "shift")
        return kept | {name: _on_host(kept[name]) for name in arrays}

    @classmethod
    def from_state(cls, state: Any, within: str = "state") -> Self:
        found = super().from_state(state, within)
        if (found.matrix is None) != (found.shift is None):
            raise FieldError(f"{within}.shift", found.shift, "as matrix: both or neither")
        return found

    def __call__(self, rows: Any) -> Mapped:
        """Map rows (array, tensor or `SparseRows`), to coordinates of their precision."""
        sparse = isinstance(rows, SparseRows)
        reference = rows
        if sparse:
            reference = np.empty(0, rows.dtype)
        precise = namespace(reference).float64
        landmarks = like(self.landmarks, reference, precise)
        projection = like(self.projection, reference, precise)
        # of no rows an empty block, from which the result has its shape
        blocks = slices(len(rows), rows.shape[1] + len(landmarks), MAX_HELD) or [slice(0, 0)]
        parts = []
        far = []
        for block in blocks:
            part = rows[block]
            if sparse:
                part = part.toarray()
            part = float64(part)
            if self.matrix is not None:
                part = part @ like(self.matrix, part).T + like(self.shift, part)
            values = kernel_values(self.kernel, part, landmarks, self.width)
            parts.append(like(values @ projection, reference))
            far.append(self._are_far(values))
        return Mapped(namespace(reference).concat(parts), np.concatenate(far))

    def _are_far(self, values: Array) -> np.ndarray:
        if self.kernel not in DECAYING or len(values) == 0:
            return np.zeros(len(values), bool)
        return to_numpy(namespace(values).amax(values, 1) < FAR)


def kernel_values(kernel: str | Function, A: Array, B: Array, width: float) -> Array:
    """k(a, b) for the rows of A and B, in float64."""
    if isinstance(kernel, str):
        return KERNELS[kernel](A, B, width)
    values = np.asarray(kernel(to_numpy(A), to_numpy(B)), dtype=np.float64)
    if values.shape != (len(A), len(B)) or not np.isfinite(values).all():
        raise ValueError(
            f"kernel returned an array of shape {values.shape} for {len(A)} and {len(B)} rows; "
            "pass a function that returns one finite value for each pair of them."
        )
    return like(values, A)


def median_width(kernel: str | Function, landmarks: Array, rng: np.random.RandomState) -> float:
    """Median distance of two landmarks, by which the kernel measures; 1 where all coincide."""
    if kernel not in DECAYING:
        return 1.0
    if len(landmarks) > MAX_ROWS_FOR_MEDIAN:
        chosen = np.sort(rng.choice(len(landmarks), MAX_ROWS_FOR_MEDIAN, replace=False))
        landmarks = landmarks[like(chosen, landmarks, namespace(landmarks).int64)]
    if kernel == "laplacian":
        distances = city_block_distances(landmarks, landmarks)
    else:
        centred = landmarks - landmarks.mean(0)
        distances = squared_distances(centred, centred) ** 0.5
    pairs = to_numpy(distances)[np.triu_indices(len(landmarks), 1)]
    pairs = pairs[pairs > 0]
    return float(np.median(pairs)) if len(pairs) else 1.0


def landmarks_of(X: Any, most: int | None, rng: np.random.RandomState) -> tuple[Array, bool]:
    """Distinct rows of X, in an order that does not depend on that of X, and whether they are all.

    Of more than ``most``, that many are drawn; None takes all.
    """
    if isinstance(X, SparseRows):
        X = X.toarray()
    landmarks = float64(unique_rows(X)[0])
    if most is None or len(landmarks) <= most:
        return landmarks, True
    chosen = np.sort(rng.choice(len(landmarks), most, replace=False))
    return landmarks[like(chosen, landmarks, namespace(landmarks).int64)], False


class Decomposed(NamedTuple):
    """The projection U Lambda^(-1/2) of a kernel matrix, and the eigenvalues kept."""

    projection: Array
    eigenvalues: Array


def decomposed(K: Array, n_components: int | None, *, is_definite: bool) -> Decomposed:
    """The leading eigenvectors of a kernel matrix, each divided by the root of its eigenvalue. Unless
    the kernel ``is_definite`` by its formula, a negative eigenvalue is refused.
    """
    largest = float(abs(K).max())
    if float(abs(K - K.T).max()) > ASYMMETRY * largest:
        raise ValueError("kernel is not symmetric on the rows of X; pass a kernel that is.")
    n = len(K)
    p = n if n_components is None else min(n, n_components)
    K = (K + K.T) / 2
    if is_torch(K) or not is_definite or p > n // 2:
        values, vectors = spectral.eigh(K)
        if float(values[-1]) < -NEGATIVE_EIGENVALUE * n * largest:
            raise ValueError(
                f"the kernel matrix of X has the eigenvalue {float(values[-1]):.3g}; pass a positive "
                "semidefinite kernel."
            )
    else:
        # only the leading pairs; a negative eigenvalue at the other end would not be seen
        from scipy.linalg import eigh

        values, vectors = eigh(K, subset_by_index=[n - p, n - 1], check_finite=False)
        values, vectors = values[::-1], vectors[:, ::-1]
    values, vectors = values[:p], vectors[:, :p]
    kept = values > SMALLEST_EIGENVALUE * values[0]
    if not bool(kept.any()):
        raise ValueError("the kernel is zero between all rows of X; pass another kernel.")
    values, vectors = values[kept], spectral.with_fixed_signs(vectors[:, kept])
    projection = vectors * values**-0.5
    if not is_torch(projection):  # in the order in which files keep it, which decides last bits
        projection = np.ascontiguousarray(projection)
    return Decomposed(projection, values)


def _on_host(array: Any) -> Any:
    return None if array is None else np.ascontiguousarray(to_numpy(array), np.float64)
