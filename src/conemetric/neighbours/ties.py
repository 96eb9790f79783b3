"""Which of several neighbours at the same distance comes first.

Every row has a key, a hash of its values, and the lower key comes first; of equal rows the class that
most of them are of. The order of rows and the names of classes do not affect it (docs/neighbours.md).
The hash is of the position of each value between the minimum and the maximum of its column, on a grid.
On it rows are whole numbers, whose products with whole numbers are exact in float64, in any library and
any order of summation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from ..core.arrays import as_array, like, namespace, on_device, take, to_numpy
from ..core.slices import slices
from ..core.sparse_rows import SparseRows

EXACT = 53  # binary digits of the whole numbers that float64 holds
CELLS = {"float32": 11, "float64": 20}  # binary digits of the grid: rounding rarely shows
HASHES = 3  # sums that distinguish rows
SHIFT = 0.1, 0.9  # range of the random shift of the grid: whole numbers lie inside its cells
SMALLEST = 1e-280  # extent below which a column counts as constant
CACHED = 1 << 16  # numbers held at a time, so that they stay in the cache
CANONICAL_DIGITS = 8  # of relative squared distances: coarse enough that rounding orders no rows


def row_keys(
    X: Any, extent: tuple[np.ndarray, np.ndarray] | None = None, means: np.ndarray | None = None
) -> np.ndarray:
    """A 64-bit hash of each row of an array, tensor or sparse matrix, on the host: equal rows have
    equal keys in every library. ``extent``: `column_extent` of all rows if X is a part of them.

    Constant columns change no key, nor does the order of the columns if their ``means`` are given
    and differ, relative to their ranges.
    """
    X = _matrix(X)
    least, most = column_extent(X) if extent is None else extent
    if not _is_bounded(X, (least, most)):  # a quarter of each value has the same key
        return row_keys(namespace(X).nan_to_num(X, posinf=0.0, neginf=0.0) / 4)
    n, D = X.shape
    digits = CELLS["float32" if str(X.dtype).endswith("float32") else "float64"]
    order = np.flatnonzero(most - least > SMALLEST)
    if means is not None:  # in single precision, where units and origin do not show
        relative = ((means - least)[order] / (most - least)[order]).astype(np.float32)
        order = order[np.argsort(relative, kind="stable")]
    shift, factors = np.full(D, SHIFT[0]), np.ones((D, HASHES))
    rng, most_factor = np.random.default_rng(0), 2 ** (EXACT - 1 - digits - len(order).bit_length())
    shift[order] = rng.uniform(*SHIFT, len(order))
    factors[order] = rng.integers(1, most_factor, (len(order), HASHES))
    scale = np.where(most - least > SMALLEST, 2.0**digits, 0.0) / np.maximum(most - least, SMALLEST)
    if issparse(X):
        column, zero = X.indices, np.floor(shift - least * scale)
        cells = np.floor((X.data - least[column]) * scale[column] + shift[column]) - zero[column]
        sums = csr_array((cells, column, X.indptr), X.shape) @ factors + zero @ factors
    else:
        xp, parts = namespace(X), (least, scale, shift, factors)
        least, scale, shift, factors = (like(part, X, xp.float64) for part in parts)
        sums = np.empty((n, HASHES))
        for rows in slices(n, D, None if on_device(X) else CACHED):
            cells = X[rows] - least
            cells *= scale
            cells += shift
            sums[rows] = to_numpy(xp.floor(cells, out=cells) @ factors)
    keys = np.zeros(n, np.uint64)
    for column in sums.T.astype(np.int64).view(np.uint64):
        keys = _mixed(keys + column)
    return keys


def column_extent(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and maximum of each column, in float64 on the host."""
    X = _matrix(X)
    if issparse(X):
        least, most = (part.toarray().ravel() for part in (X.min(axis=0), X.max(axis=0)))
    else:
        xp = namespace(X)
        least, most = (to_numpy(part) for part in (xp.amin(X, 0), xp.amax(X, 0)))
    return least.astype(np.float64), most.astype(np.float64)


def _is_bounded(X, extent):
    """Whether the range of every column is a number; sparse points were checked before."""
    with np.errstate(over="ignore", invalid="ignore"):
        return issparse(X) or bool(np.isfinite(extent[1] - extent[0]).all())


def _matrix(X):
    """X as a NumPy array, PyTorch tensor or SciPy csr_array."""
    X = X.matrix if isinstance(X, SparseRows) else X
    return csr_array(X) if issparse(X) else as_array(X)


def symmetric_keys(X: Any) -> np.ndarray:
    """`row_keys` that do not change with the order of columns, if their means differ."""
    X = _matrix(X)
    extent, means = column_extent(X), None
    if not issparse(X) and _is_bounded(X, extent):
        means = to_numpy(X.mean(0, dtype=namespace(X).float64))
    return row_keys(X, extent, means)


def labelled_keys(X: Any, y: Any) -> np.ndarray:
    """Keys that distinguish equal rows of different classes, the commonest among them first."""
    return commonest_first(symmetric_keys(X), np.unique(to_numpy(y), return_inverse=True)[1])


def commonest_first(keys: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Keys in the order of the given ones, and for equal ones in that of how many rows with this key
    are of the class: a vote of a few of them is that of all. The names of classes do not matter.
    """
    classes = np.zeros(code.max(initial=0) + 1, np.uint64)
    np.add.at(classes, code, keys)
    hashes = _mixed(keys + _mixed(classes)[code])
    kind, counts = np.unique(hashes, return_inverse=True, return_counts=True)[1:]
    order = np.lexsort((kind, -counts[kind], keys))
    found = np.empty(len(keys), np.uint64)
    found[order] = np.cumsum(np.diff(kind[order], prepend=-1) != 0)
    return found


def canonical_order(X: Any, y: Any) -> np.ndarray:
    """The rows in an order to draw from that depends on neither their own order nor a shift,
    rotation or scaling of X: by distance from the mean (rows of a sparse X by key).
    """
    keys = labelled_keys(X, y)
    if isinstance(X, SparseRows):
        return np.argsort(keys, kind="stable")
    Z = to_numpy(X).astype(np.float64)
    distance = ((Z - Z.mean(0)) ** 2).sum(1)
    distance = np.round(distance / (distance.max(initial=0) or 1.0), CANONICAL_DIGITS)
    return np.lexsort((keys, distance))


def tie_numbers(keys: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Numbers for rows in the order of their keys; `rows_of` recovers the rows."""
    return (keys % np.uint64(2**EXACT // n_rows)).astype(np.int64) * n_rows + rows


def numbers_on_demand(X: Any) -> Callable[[np.ndarray], np.ndarray]:
    """`tie_numbers` of the rows of X as a function, which hashes only the rows it is called with."""
    X = _matrix(X)
    n, extent = X.shape[0], column_extent(X)
    if not _is_bounded(X, extent):
        return tie_numbers(row_keys(X), np.arange(n), n).__getitem__
    return lambda rows: tie_numbers(row_keys(take(X, rows), extent), rows, n)


def rows_of(numbers: Any, n_rows: int) -> Any:
    """The rows of these numbers, in their library; -1 stays."""
    return namespace(numbers).where(numbers >= 0, numbers % n_rows, -1)


def _mixed(hashes):
    """Make every digit depend on all digits (the finaliser of SplitMix64)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
