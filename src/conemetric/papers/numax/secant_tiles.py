"""The pairs of rows of X tile by tile, and the secants of each tile that are preserved worst."""

from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import arange, is_torch, like, namespace, on_device
from ...core.compiled import jit
from ...core.threads import threaded

CPU_TILE, GPU_TILE = (2048, 4096), (8192, 8192)  # rows x columns of pairs held at a time


class Tile(NamedTuple):
    """Of each row of a tile, two secants: the most shortened one and the most stretched one."""

    row: Any
    column: Any
    value: Any  # the distance of the ratio of squared lengths from 1
    n_near_duplicates: Any  # pairs of the tile that have no secant


class Tiles:
    """All pairs of rows of X in tiles, and in each row of a tile the secants preserved worst."""

    def __init__(self, X: Any, L: Any, y: Any, limit: float):
        self.y, self.limit = y, limit
        self.rows, self.columns = GPU_TILE if on_device(X) else CPU_TILE
        starts, n = range(0, len(X), self.rows), len(X)
        self.corners = [(i, j) for i in starts for j in range(i, n, self.columns)]
        self.factors = _distance_factors(X), _distance_factors(X @ like(L, X))
        self._find = _worst_on_device if is_torch(X) else _worst_on_threads

    def __len__(self) -> int:
        return len(self.corners)

    def worst(self, number: int) -> Tile:
        """The secants of a tile that are preserved worst."""
        i, j = self.corners[number]
        I, J = slice(i, i + self.rows), slice(j, j + self.columns)
        classes = None if self.y is None else (self.y[I], self.y[J])
        squared, embedded = (left[I] @ right[J].T for left, right in self.factors)
        column, value, short = self._find(squared, embedded, j - i, classes, self.limit)
        row = namespace(value).broadcast_to(arange(len(value), value)[:, None] + i, value.shape)
        return Tile(row.reshape(-1), (column + j).reshape(-1), value.reshape(-1), short)


def _distance_factors(X):
    """(left, right) with ``left @ right.T`` the squared distances between the rows of X."""
    xp = namespace(X)
    squares, one = (X * X).sum(1)[:, None], xp.ones((len(X), 1), dtype=X.dtype, device=X.device)
    return xp.concat([-2 * X, squares, one], 1), xp.concat([X, one, squares], 1)


def _worst_on_threads(squared, embedded, shift, classes, limit):
    """`worst_secants` of a tile, and the number of near-duplicates."""
    n = len(squared)
    column, value = np.zeros((n, 2), np.int64), np.empty((n, 2), squared.dtype)
    short = np.empty(n, np.int64)
    y_rows, y_columns = (np.zeros(0, np.int32),) * 2 if classes is None else classes
    args = squared, embedded, shift, y_rows, y_columns, limit
    threaded(worst_secants, n, squared.size, *args, column, value, short)
    return column, value, short.sum()


def _worst_on_device(squared, embedded, shift, classes, limit):
    """The same on PyTorch tensors; ``squared`` and ``embedded`` are overwritten."""
    import torch

    skip = squared <= limit
    short = skip.sum() if shift >= len(skip) else skip.triu(1 - shift).sum()
    if shift < len(skip):
        skip |= torch.ones_like(skip).tril_(-shift)
    ratio = embedded.div_(squared)
    if classes is not None:  # the bound that a pair does not have
        skip |= (ratio < 1) == (classes[0][:, None] == classes[1])
    ratio.masked_fill_(skip, 1)
    smallest, largest = ratio.min(1), ratio.max(1)
    column = torch.stack([smallest.indices, largest.indices], 1)
    return column, torch.stack([1 - smallest.values, largest.values - 1], 1), short


@jit
def worst_secants(
    start, stop, squared, embedded, shift, y_rows, y_columns, limit, column, value, short
):
    """Per row r of a tile of pairs: the columns of the smallest and the largest embedded/squared,
    and their distance from 1, over the entries with c + shift > r, so that every pair is visited
    once. Pairs with ``squared`` not above ``limit`` are counted in ``short[r]`` and skipped. With
    labels, the smallest is over pairs of different labels, the largest over those of the same one.
    """
    n_columns, plain = squared.shape[1], len(y_rows) == 0
    one = squared.dtype.type(1)
    for r in range(start, stop):
        smallest = largest = one
        at_smallest = at_largest = skipped = 0
        for c in range(max(0, r + 1 - shift), n_columns):
            if squared[r, c] > limit:
                ratio = embedded[r, c] / squared[r, c]
                if ratio < smallest and (plain or y_rows[r] != y_columns[c]):
                    smallest, at_smallest = ratio, c
                if ratio > largest and (plain or y_rows[r] == y_columns[c]):
                    largest, at_largest = ratio, c
            else:
                skipped += 1
        column[r, 0], column[r, 1] = at_smallest, at_largest
        value[r, 0], value[r, 1] = one - smallest, largest - one
        short[r] = skipped
