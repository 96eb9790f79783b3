"""Which of several neighbours at the same distance comes first.

Every row has a key, a hash of its values, and the lower key comes first; of equal rows the class that
most of them are of. The order of rows and the names of classes do not affect it (docs/mathematics/neighbours.md).
The hash is of the position of each value between the minimum and the maximum of its column, on a grid.
On it rows are whole numbers, whose products with whole numbers are exact in float64, in any library and
any order of summation.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from ..core.arrays import Array, as_array, like, namespace, on_device, take, to_numpy
from ..core.slices import slices
from ..core.sparse_rows import SparseRows

EXACT_DIGITS = 53  # binary digits of the whole numbers that float64 holds
# Binary digits of the grid, by the precision of X: few enough that rounding rarely shows.
CELL_DIGITS = {"float32": 11, "float64": 20}
N_SUMS = 3  # sums of a row on the grid, which together distinguish it from others
SHIFTS = 0.1, 0.9  # range of the random shift of the grid: whole numbers lie inside its cells
MIN_EXTENT = 1e-280  # extent of a column below which it counts as constant
MAX_CACHED = 1 << 16  # numbers held at a time, so that they stay in the cache
CANONICAL_DIGITS = 8  # of relative squared distances: coarse enough that rounding orders no rows

Extent = tuple[np.ndarray, np.ndarray]  # minimum and maximum of each column


# ---- keys


def row_keys(X: Any, extent: Extent | None = None, means: np.ndarray | None = None) -> np.ndarray:
    """Return a 64-bit hash of each row of an array, tensor or sparse matrix, on the host.

    Equal rows have equal keys in every library. ``extent`` is the `column_extent` of all rows if X is a
    part of them. Constant columns change no key, nor does the order of the columns if their ``means``
    are passed and differ, relative to their ranges.
    """
    X = _matrix(X)
    if extent is None:
        extent = column_extent(X)
    if not _is_bounded(X, extent):
        finite = namespace(X).nan_to_num(X, posinf=0.0, neginf=0.0)
        return row_keys(finite / 4)  # a quarter of each value has the same key
    grid = _Grid.of(X, extent, means)
    if issparse(X):
        sums = _sums_of_sparse(X, grid)
    else:
        sums = _sums_of_dense(X, grid)
    keys = np.zeros(X.shape[0], np.uint64)
    for sum_of_each_row in sums.T.astype(np.int64).view(np.uint64):
        keys = _mixed(keys + sum_of_each_row)
    return keys


class _Grid(NamedTuple):
    """A value x of a column lies in the cell floor((x - least) * scale + shift); a row on the grid is
    hashed by its products with ``factors``.
    """

    least: np.ndarray  # (D,)
    scale: np.ndarray  # (D,); zero for constant columns, whose values are all in cell 0
    shift: np.ndarray  # (D,)
    factors: np.ndarray  # (D, N_SUMS), whole numbers

    @classmethod
    def of(cls, X: Any, extent: Extent, means: np.ndarray | None) -> "_Grid":
        """Draw shifts and factors for the columns that vary, in their order or in that of their means."""
        least, most = extent
        width = most - least
        varies = width > MIN_EXTENT
        columns = np.flatnonzero(varies)
        if means is not None:  # in single precision, where units and origin do not show
            relative = ((means - least)[columns] / width[columns]).astype(np.float32)
            columns = columns[np.argsort(relative, kind="stable")]
        digits = CELL_DIGITS["float64"]
        if str(X.dtype).endswith("float32"):  # "torch.float32" of a tensor
            digits = CELL_DIGITS["float32"]
        # a sum has a product of cell and factor for each column, and must not exceed EXACT_DIGITS
        factor_digits = EXACT_DIGITS - 1 - digits - len(columns).bit_length()
        rng = np.random.default_rng(0)
        shift = np.full(len(least), SHIFTS[0])
        shift[columns] = rng.uniform(*SHIFTS, len(columns))
        factors = np.ones((len(least), N_SUMS))
        factors[columns] = rng.integers(1, 2**factor_digits, (len(columns), N_SUMS))
        scale = np.where(varies, 2.0**digits, 0.0) / np.maximum(width, MIN_EXTENT)
        return cls(least, scale, shift, factors)


def _sums_of_dense(X: Array, grid: _Grid) -> np.ndarray:
    """Return the products of rows on the grid with its factors, (n, N_SUMS), on the host."""
    xp = namespace(X)
    n, D = X.shape
    least, scale, shift, factors = (like(part, X, xp.float64) for part in grid)
    sums = np.empty((n, N_SUMS))
    most_at_a_time = None  # on a device as much as its memory takes
    if not on_device(X):
        most_at_a_time = MAX_CACHED
    for rows in slices(n, D, most_at_a_time):
        cells = X[rows] - least
        cells *= scale
        cells += shift
        sums[rows] = to_numpy(xp.floor(cells, out=cells) @ factors)
    return sums


def _sums_of_sparse(X: csr_array, grid: _Grid) -> np.ndarray:
    """`_sums_of_dense` of a sparse matrix: of cells relative to those that zeros are in."""
    least, scale, shift, factors = grid
    column = X.indices
    cell_of_zero = np.floor(shift - least * scale)
    cells = np.floor((X.data - least[column]) * scale[column] + shift[column])
    relative = csr_array((cells - cell_of_zero[column], column, X.indptr), X.shape)
    return relative @ factors + cell_of_zero @ factors


def column_extent(X: Any) -> Extent:
    """Return the minimum and the maximum of each column, in float64 on the host."""
    X = _matrix(X)
    if issparse(X):
        least = X.min(axis=0).toarray().ravel()
        greatest = X.max(axis=0).toarray().ravel()
    else:
        xp = namespace(X)
        least = to_numpy(xp.amin(X, 0))
        greatest = to_numpy(xp.amax(X, 0))
    return least.astype(np.float64), greatest.astype(np.float64)


def _is_bounded(X: Any, extent: Extent) -> bool:
    """Tell whether the range of every column is a number; sparse points were checked before."""
    if issparse(X):
        return True
    least, most = extent
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(most - least).all())


def _matrix(X: Any) -> Any:
    """Return X as a NumPy array, PyTorch tensor or SciPy csr_array."""
    if isinstance(X, SparseRows):
        X = X.matrix
    if issparse(X):
        return csr_array(X)
    return as_array(X)


def _mixed(hashes: np.ndarray) -> np.ndarray:
    """Make every digit depend on all digits (the finaliser of SplitMix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))


# ---- orders of rows


def symmetric_keys(X: Any) -> np.ndarray:
    """Return `row_keys` that do not change with the order of columns, if their means differ."""
    X = _matrix(X)
    extent = column_extent(X)
    if issparse(X) or not _is_bounded(X, extent):
        return row_keys(X, extent)
    means = to_numpy(X.mean(0, dtype=namespace(X).float64))
    return row_keys(X, extent, means)


def labelled_keys(X: Any, y: Any) -> np.ndarray:
    """Return keys that distinguish equal rows of different classes, the commonest among them first."""
    _, class_of_row = np.unique(to_numpy(y), return_inverse=True)
    return commonest_first(symmetric_keys(X), class_of_row)


def commonest_first(keys: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Return keys in the order of these, and for equal ones in that of how many rows have this key and
    class, the most first: a small sample votes as all would.

    ``code`` numbers the classes, and their numbers do not matter.
    """
    # a class is known by the keys of its rows
    hash_of_class = np.zeros(code.max(initial=0) + 1, np.uint64)
    np.add.at(hash_of_class, code, keys)
    hashes = _mixed(keys + _mixed(hash_of_class)[code])
    _, kind, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    order = np.lexsort((kind, -counts[kind], keys))
    differs_from_before = np.diff(kind[order], prepend=-1) != 0
    numbers = np.empty(len(keys), np.uint64)
    numbers[order] = np.cumsum(differs_from_before)
    return numbers


def canonical_order(X: Any, y: Any) -> np.ndarray:
    """Return the rows in an order to draw from, by distance from the mean (of a sparse X by key).

    It depends on neither their own order nor a shift, rotation or scaling of X.
    """
    keys = labelled_keys(X, y)
    if isinstance(X, SparseRows):
        return np.argsort(keys, kind="stable")
    Z = to_numpy(X).astype(np.float64)
    squares = ((Z - Z.mean(0)) ** 2).sum(1)
    relative = squares / (squares.max(initial=0) or 1.0)
    return np.lexsort((keys, np.round(relative, CANONICAL_DIGITS)))


# ---- numbers of rows in a search


def tie_numbers(keys: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return numbers for rows in the order of their keys; `rows_of` recovers the rows."""
    return (keys % np.uint64(2**EXACT_DIGITS // n_rows)).astype(np.int64) * n_rows + rows


def rows_of(numbers: Any, n_rows: int) -> Any:
    """Return the rows of these numbers, in their library; -1 stays."""
    return namespace(numbers).where(numbers >= 0, numbers % n_rows, -1)


def numbers_on_demand(X: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return `tie_numbers` of the rows of X as a function, which hashes only the rows it is called with."""
    X = _matrix(X)
    n = X.shape[0]
    extent = column_extent(X)
    if not _is_bounded(X, extent):
        return tie_numbers(row_keys(X), np.arange(n), n).__getitem__

    def numbers(rows: np.ndarray) -> np.ndarray:
        return tie_numbers(row_keys(take(X, rows), extent), rows, n)

    return numbers
