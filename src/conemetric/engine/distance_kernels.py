"""Kernels of distances: squared Euclidean ones, or sums of absolute differences, relative to their mean."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Annotated, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from ..core.arrays import Array, float64, is_torch, like, namespace
from ..core.compiled import jit
from ..core.fields import Number, Stored, Text

# Rounding of a squared distance, in units of eps times the sizes of both rows: equal rows reach 9 (1 to
# 4,096 columns, both precisions). The laplacian kernel would see its square root.
ROUNDING = 16.0


@dataclass(frozen=True)
class KernelSetting(Stored):
    """A kernel, its width relative to the mean squared distance, and the ridge."""

    kernel: Annotated[str, Text(("gaussian", "laplacian", "city block"))]
    width: Annotated[float, Number(0, strict=True)]
    ridge: Annotated[float, Number(0, strict=True)]

    def __str__(self) -> str:
        return f"{self.kernel} kernel, width {self.width:g}, ridge {self.ridge:g}"

    def values(self, distances: Array, scale: float = 1.0) -> Array:
        """Kernel of distances (or their squares), in their place; ``scale``: their mean."""
        form = KERNELS[self.kernel]
        return form.values(namespace(distances), distances, 1 / (scale * self.width), distances)

    def slopes(self, distances: Array, values: Array) -> Array:
        """Derivative of the kernel with respect to these distances; 0 where rows coincide."""
        slopes = KERNELS[self.kernel].slopes(namespace(distances), distances / self.width, values)
        return slopes * (distances > 0) / self.width


def squared_distances(A: Array, B: Array) -> Array:
    """Return squared Euclidean distances between the rows of A and of B; zero where they are rounding."""
    squares = (-2 * A) @ B.T
    of_A = (A * A).sum(1)
    of_B = (B * B).sum(1)
    rounding = ROUNDING * namespace(A).finfo(A.dtype).eps
    if is_torch(A):
        sizes = of_A[:, None] + of_B
        squares += sizes
        squares *= squares > rounding * sizes
    else:
        _complete_squares(squares, of_A, of_B, A.dtype.type(rounding))
    return squares


@jit
def _complete_squares(squares: Array, of_rows: Array, of_columns: Array, rounding: float) -> None:
    """Add both sizes to each entry, in place; what is rounding becomes zero."""
    zero = rounding - rounding  # a literal would be of double precision
    for i in range(len(of_rows)):
        for j in range(len(of_columns)):
            size = of_rows[i] + of_columns[j]
            square = squares[i, j] + size
            squares[i, j] = zero if square <= rounding * size else square


def squared_distances_within(groups: np.ndarray) -> np.ndarray:
    """Return squared Euclidean distances among the rows of each group (g, k, d)."""
    squares = (-2 * groups) @ groups.transpose(0, 2, 1)
    sizes = np.einsum("gkd,gkd->gk", groups, groups)
    squares += sizes[:, :, None]
    squares += sizes[:, None]
    return np.maximum(squares, 0, out=squares)


def mean_square(Z: Array) -> float:
    """Mean squared distance of two rows of Z; 1 where all coincide."""
    centred = Z - Z.mean(0)
    # the mean of ||z_i - z_j||^2 over all i and j is twice that of ||z_i - mean||^2
    return 2 * float((centred * centred).sum()) / len(Z) or 1.0


def city_block_distances(A: Array, B: Array) -> Array:
    """Sums of absolute differences between the rows of A and of B."""
    if is_torch(A):
        return namespace(A).cdist(A, B, p=1)
    if A.dtype == np.float32 and B.dtype == np.float32:
        # SciPy would compute in double precision, which takes five times as long
        distances = np.zeros((len(A), len(B)), np.float32)
        _add_differences(A, np.ascontiguousarray(B.T), distances)
        return distances
    return cdist(A, B, "cityblock")


def city_block_distances_within(groups: np.ndarray) -> np.ndarray:
    """Return sums of absolute differences among the rows of each group (g, k, d)."""
    distances = np.zeros((*groups.shape[:2], groups.shape[1]), groups.dtype)
    for column in np.moveaxis(groups, -1, 0):
        distances += abs(column[:, :, None] - column[:, None])
    return distances


@jit
def _add_differences(A: Array, columns_of_B: Array, distances: Array) -> None:
    """Add the absolute differences of every column, a row of distances at a time: in the cache."""
    n_columns, n_rows = columns_of_B.shape
    for i in range(len(A)):
        for c in range(n_columns):
            for j in range(n_rows):
                distances[i, j] += abs(A[i, c] - columns_of_B[c, j])


def mean_differences(Z: Array) -> Array:
    """Mean absolute difference of two rows of Z, column by column."""
    n = len(Z)
    Z = float64(Z)
    ordered = namespace(Z).sort((Z - Z[:1]).T)
    if is_torch(Z):
        ordered = ordered.values
    # in order, the i-th of n entries is above i others and below n - 1 - i
    surplus = like(2.0 * np.arange(n) - (n - 1), ordered)
    return 2 * (ordered @ surplus) / n**2


class Kernel(NamedTuple):
    """Distances between rows, those within groups of rows (g, k, d), their mean over the rows, the
    function of distances times a factor, into an array if one is given, and its derivative.
    """

    distances: Callable[[Array, Array], Array]
    within: Callable[[np.ndarray], np.ndarray]
    mean: Callable[[Array], float]
    values: Callable[[ModuleType, Array, float, Array | None], Array]
    slopes: Callable[[ModuleType, Array, Array], Array]


def _exponential(xp: ModuleType, t: Array, factor: float, out: Array | None) -> Array:
    exponents = xp.multiply(t, -factor, out=out)
    return xp.exp(exponents, out=exponents)


def _exponential_of_root(xp: ModuleType, t: Array, factor: float, out: Array | None) -> Array:
    roots = xp.sqrt(t, out=out)
    return _exponential(xp, roots, factor**0.5, roots)


def _slope(xp: ModuleType, t: Array, k: Array) -> Array:
    return -k


def _slope_of_root(xp: ModuleType, t: Array, k: Array) -> Array:
    return -0.5 * k / xp.sqrt(xp.where(t > 0, t, xp.ones_like(t)))


def _mean_city_block(Z: Array) -> float:
    return float(mean_differences(Z).sum()) or 1.0


EUCLIDEAN = ("gaussian", "laplacian")  # kernels of squared Euclidean distances
CITY_BLOCK = "city block"
KERNELS: dict[str, Kernel] = {
    "gaussian": Kernel(
        squared_distances, squared_distances_within, mean_square, _exponential, _slope
    ),
    "laplacian": Kernel(
        squared_distances,
        squared_distances_within,
        mean_square,
        _exponential_of_root,
        _slope_of_root,
    ),
    CITY_BLOCK: Kernel(
        city_block_distances, city_block_distances_within, _mean_city_block, _exponential, _slope
    ),
}
