"""The pairs of rows of X tile by tile, and the secants of each tile that are preserved worst."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import arange, is_torch, like, namespace, on_device
from ...core.compiled import jit
from ...core.threads import threaded

# rows x columns of pairs held at a time
CPU_TILE = 2048, 4096
GPU_TILE = 8192, 8192

Classes = tuple[Any, Any] | None  # of the rows and of the columns of a tile
Worst = tuple[Any, Any, Any]  # columns, values and near-duplicates, as `worst_secants` finds them


class Tile(NamedTuple):
    """Of each row of a tile, two secants: the most shortened one and the most stretched one."""

    row: Any
    column: Any
    value: Any  # the distance of the ratio of squared lengths from 1
    n_near_duplicates: Any  # pairs of the tile that have no secant


class Tiles:
    """All pairs of rows of X in tiles, and in each row of a tile the secants preserved worst."""

    def __init__(self, X: Any, L: Any, y: Any, limit: float):
        self.y = y
        self.limit = limit
        self.rows, self.columns = GPU_TILE if on_device(X) else CPU_TILE
        self.corners: list[tuple[int, int]] = []
        for i in range(0, len(X), self.rows):
            # pairs below the diagonal are those above it
            self.corners += [(i, j) for j in range(i, len(X), self.columns)]
        self.factors = _distance_factors(X), _distance_factors(X @ like(L, X))
        self._find = _worst_on_device if is_torch(X) else _worst_on_threads

    def __len__(self) -> int:
        return len(self.corners)

    def worst(self, number: int) -> Tile:
        """The secants of a tile that are preserved worst."""
        i, j = self.corners[number]
        I = slice(i, i + self.rows)
        J = slice(j, j + self.columns)
        classes: Classes = None
        if self.y is not None:
            classes = self.y[I], self.y[J]
        squared, embedded = (left[I] @ right[J].T for left, right in self.factors)
        column, value, short = self._find(squared, embedded, j - i, classes, self.limit)
        row = namespace(value).broadcast_to(arange(len(value), value)[:, None] + i, value.shape)
        return Tile(row.reshape(-1), (column + j).reshape(-1), value.reshape(-1), short)


def _distance_factors(X: Any) -> tuple[Any, Any]:
    """Return (left, right) with ``left @ right.T`` the squared distances between the rows of X."""
    xp = namespace(X)
    # ||x - z||^2 = -2 x'z + ||x||^2 + ||z||^2, in one product
    squares = (X * X).sum(1)[:, None]
    one = xp.ones((len(X), 1), dtype=X.dtype, device=X.device)
    return xp.concat([-2 * X, squares, one], 1), xp.concat([X, one, squares], 1)


def _worst_on_threads(
    squared: Any, embedded: Any, shift: int, classes: Classes, limit: float
) -> Worst:
    """Return `worst_secants` of a tile, and the number of near-duplicates."""
    n = len(squared)
    column = np.zeros((n, 2), np.int64)
    value = np.empty((n, 2), squared.dtype)
    short = np.empty(n, np.int64)
    if classes is None:  # compiled code takes no None
        classes = np.zeros(0, np.int32), np.zeros(0, np.int32)
    y_rows, y_columns = classes
    args = squared, embedded, shift, y_rows, y_columns, limit
    threaded(worst_secants, n, squared.size, *args, column, value, short)
    return column, value, short.sum()


def _worst_on_device(
    squared: Any, embedded: Any, shift: int, classes: Classes, limit: float
) -> Worst:
    """Return the same on PyTorch tensors; ``squared`` and ``embedded`` are overwritten."""
    import torch

    skip = squared <= limit
    if shift >= len(skip):
        short = skip.sum()
    else:  # the tile crosses the diagonal, below which pairs would be visited twice
        short = skip.triu(1 - shift).sum()
        skip |= torch.ones_like(skip).tril_(-shift)
    ratio = embedded.div_(squared)
    if classes is not None:  # the bound that a pair does not have
        skip |= (ratio < 1) == (classes[0][:, None] == classes[1])
    ratio.masked_fill_(skip, 1)  # preserved exactly, so never among the worst
    smallest = ratio.min(1)
    largest = ratio.max(1)
    column = torch.stack([smallest.indices, largest.indices], 1)
    return column, torch.stack([1 - smallest.values, largest.values - 1], 1), short


@jit
def worst_secants(  # noqa: PLR0913
    start: int,
    stop: int,
    squared: np.ndarray,
    embedded: np.ndarray,
    shift: int,
    y_rows: np.ndarray,
    y_columns: np.ndarray,
    limit: float,
    column: np.ndarray,
    value: np.ndarray,
    short: np.ndarray,
) -> None:
    """Per row r of a tile of pairs: the columns of the smallest and the largest embedded/squared,
    and their distance from 1, over the entries with c + shift > r, so that every pair is visited
    once. Pairs with ``squared`` not above ``limit`` are counted in ``short[r]`` and skipped. With
    labels, the smallest is over pairs of different labels, the largest over those of the same one.
    """
    n_columns = squared.shape[1]
    plain = len(y_rows) == 0
    one = squared.dtype.type(1)  # in the precision of the tile: 1.0 would raise float32 to float64
    for r in range(start, stop):
        smallest = largest = one
        at_smallest = at_largest = skipped = 0
        for c in range(max(0, r + 1 - shift), n_columns):
            if not squared[r, c] > limit:
                skipped += 1
                continue
            ratio = embedded[r, c] / squared[r, c]
            if ratio < smallest and (plain or y_rows[r] != y_columns[c]):
                smallest = ratio
                at_smallest = c
            if ratio > largest and (plain or y_rows[r] == y_columns[c]):
                largest = ratio
                at_largest = c
        column[r, 0] = at_smallest
        column[r, 1] = at_largest
        value[r, 0] = one - smallest
        value[r, 1] = largest - one
        short[r] = skipped
