"""Numba kernels of the neighbour search on the host."""

import numpy as np

from ..compiled import jit


@jit
def nearest_by_label(
    start, stop, approximate, first_row, X, y, same, scale, rounding, tie, spare, out
):
    """out[r] = the nearest points of point i = first_row + r among those with y[j] ==
    y[i] (or !=, by ``same``).

    Candidates come from ``approximate[r]``, squared distances in units of ``scale``
    that may be wrong by ``rounding``; they are re-ranked by exact distances, where
    those within ``tie`` of each other go by the lower index.
    """
    n, k = X.shape[0], out.shape[1]
    near, near_index = np.empty(k + spare), np.empty(k + spare, np.int64)
    exact, exact_index = np.empty(k), np.empty(k, np.int64)
    for r in range(start, stop):
        i = first_row + r
        near[:], near_index[:] = np.inf, n
        exact[:], exact_index[:] = np.inf, n
        for j in range(n):
            if approximate[r, j] <= near[-1] and (y[j] == y[i]) == same and j != i:
                _offer(approximate[r, j], j, near, near_index, 0.0)
        for j in near_index:
            if j < n:
                _offer(_distance(X, i, j), j, exact, exact_index, tie)
        if near[-1] < np.inf and not ((exact[-1] + tie) / scale) ** 2 < near[-1] - rounding:
            exact[:], exact_index[:] = np.inf, n
            for j in range(n):
                if (y[j] == y[i]) == same and j != i:
                    _offer(_distance(X, i, j), j, exact, exact_index, tie)
        for slot in range(k):
            out[r, slot] = exact_index[slot] if exact_index[slot] < n else -1


@jit
def _distance(X, i, j):
    total = 0.0
    for c in range(X.shape[1]):
        t = np.float64(X[i, c]) - np.float64(X[j, c])
        total += t * t
    return np.sqrt(total)


@jit
def _offer(d, j, sorted_d, sorted_j, tie):
    """Insert (d, j) into lists sorted by (distance, index), dropping the last entry."""
    slot = len(sorted_d) - 1
    if not _before(d, j, sorted_d[slot], sorted_j[slot], tie):
        return
    while slot > 0 and _before(d, j, sorted_d[slot - 1], sorted_j[slot - 1], tie):
        sorted_d[slot] = sorted_d[slot - 1]
        sorted_j[slot] = sorted_j[slot - 1]
        slot -= 1
    sorted_d[slot] = d
    sorted_j[slot] = j


@jit
def _before(d, j, other_d, other_j, tie):
    return d < other_d - tie or (d <= other_d + tie and j < other_j)
