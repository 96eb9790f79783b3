"""Numba kernels of the neighbour search on the host: scan tiles of distances for
candidates, and rank candidates by exact distances.

Lists of candidates are three arrays: squared distances ``near`` (n, c), ascending,
infinite where there is none yet; the references ``index`` (n, c); and ``limit`` (n,),
the last column of ``near``, so that a pass over a tile reads it in one stretch. Each
point has two lists: of references with its label, and of others.
"""

import numpy as np

from ..compiled import jit, jit_sums

STRIDE = 64  # entries of a tile tested at a time: few pass, and the test vectorises


@jit
def scan_rows(tile, rows, squares, first, column_squares, low, high, own, same, other):
    """Turn a tile of inner products into squared distances, and offer to each query
    rows[r] the references ``first + c`` of its row.

    Columns ``low[r]:high[r]`` have the query's label; reference own[i] is query i.
    """
    for r in range(tile.shape[0]):
        i, a, b, end = rows[r], low[r], high[r], tile.shape[1]
        _scan_row(tile[r], 0, a, squares[r], first, column_squares, own[i], i, other)
        _scan_row(tile[r], a, b, squares[r], first, column_squares, own[i], i, same)
        _scan_row(tile[r], b, end, squares[r], first, column_squares, own[i], i, other)


@jit
def _scan_row(row, begin, end, square, first, squares, own, i, lists):
    near, index, limit = lists
    two, bound = row.dtype.type(2), limit[i]
    for start in range(begin, end, STRIDE):
        # slices, because indices that are sums are tested for being negative each time
        part, part_squares, hits = row[start : min(start + STRIDE, end)], squares[start:], 0
        for c in range(len(part)):
            part[c] = (square + part_squares[c]) - two * part[c]
            hits += part[c] < bound
        if hits:
            for c in range(len(part)):
                j = first + start + c
                if part[c] < bound and j != own:
                    _insert(part[c], j, near[i], index[i])
                    bound = near[i, -1]
    limit[i] = bound


@jit
def scan_columns(tile, rows, low, high, seen, cell, same, other):
    """Offer the points rows[r] of a scanned tile to those of its columns, whose lists
    ``same`` and ``other`` are, but to none that has seen them: ``seen[c]`` holds a bit
    for each cell of points, ``cell[r]`` is that of row r.
    """
    for r in range(tile.shape[0]):
        a, b, end = low[r], high[r], tile.shape[1]
        _scan_across(tile[r], 0, a, rows[r], seen, cell[r], other)
        _scan_across(tile[r], a, b, rows[r], seen, cell[r], same)
        _scan_across(tile[r], b, end, rows[r], seen, cell[r], other)


@jit
def _scan_across(row, begin, end, i, seen, cell, lists):
    near, index, limit = lists
    byte, bit = cell >> 3, np.uint8(128 >> (cell & 7))
    for start in range(begin, end, STRIDE):
        part, bounds, hits = row[start : min(start + STRIDE, end)], limit[start:], 0
        for c in range(len(part)):
            hits += part[c] < bounds[c]
        if hits:
            for c in range(len(part)):
                j = start + c
                if part[c] < bounds[c] and not seen[j, byte] & bit:
                    _insert(part[c], i, near[j], index[j])
                    bounds[c] = near[j, -1]


@jit
def _insert(d, j, near, index):
    """Put (d, j) into its place; the last entry falls off."""
    slot = len(near) - 1
    while slot > 0 and near[slot - 1] > d:
        near[slot], index[slot] = near[slot - 1], index[slot - 1]
        slot -= 1
    near[slot], index[slot] = d, j


# ---- exact distances


@jit
def rank_candidates(start, stop, lists, data, rule, out, distance, bound):
    """The nearest references of points start:stop among their candidates: numbers to
    ``out``, distances to ``distance``.

    ``data`` = (X, row, R, number, scale): point i is X[row[i]], reference j is
    R[number[j]]; distances are multiplied by ``scale``. ``rule`` = (reach, gamma, tie, slope): the
    scan is wrong by at most gamma (reach[i] + d)^2 about the squared distance d^2, and
    two distances d from i differ by their rounding only if by at most tie[i] + slope d.
    ``bound[i]``: the scan gives no more than this to any reference that could belong
    to ``out[i]``; infinite where there are too few candidates.
    """
    near, index, _ = lists
    width = near.shape[1]
    exact, found = np.empty(width), np.empty(width, np.int64)
    for i in range(start, stop):
        count = 0
        while count < width and near[i, count] < np.inf:
            exact[count], found[count] = _measure(i, index[i, count], data)
            count += 1
        bound[i] = _rank(i, exact[:count], found[:count], rule, out[i], distance[i])


@jit
def rank_within_bound(
    start, stop, tile, rows, own, labels, column_labels, same, data, rule, out, distance, bound
):
    """`rank_candidates` for points rows[start:stop] among all references whose entry in
    a tile of squared distances, with a column for each, is within ``bound``; with the
    label of the point, or another (by ``same``).
    """
    exact, found = np.empty(tile.shape[1]), np.empty(tile.shape[1], np.int64)
    for r in range(start, stop):
        i, count = rows[r], 0
        for c in range(tile.shape[1]):
            if tile[r, c] <= bound[i] and (labels[i] == column_labels[c]) == same and c != own[i]:
                exact[count], found[count] = _measure(i, c, data)
                count += 1
        _rank(i, exact[:count], found[:count], rule, out[i], distance[i])


@jit_sums
def _measure(i, j, data):
    """Distance from point i to reference j in float64, and the number of j. The scale is
    a power of two: nothing overflows, and nothing but the sum is rounded.
    """
    X, row, R, number, scale = data
    x, y = X[row[i]], R[number[j]]
    total = 0.0
    for c in range(len(x)):
        t = (np.float64(x[c]) - np.float64(y[c])) * scale
        total += t * t
    return np.sqrt(total), number[j]


@jit
def _rank(i, exact, found, rule, out, distance):
    """Write the nearest of ``found``, and return what the scan gives at most to any of
    them or their ties.

    The nearest of all has for its ties those farther by no more than rounding; ties go
    in the order of their numbers. The nearest of the rest has its own ties, and so on.
    """
    reach, gamma, tie, slope = rule
    k, count = len(out), len(exact)
    out[:], distance[:] = -1, np.inf
    order = np.argsort(exact)
    bound, first = np.inf, 0
    if count >= k:
        kth = exact[order[k - 1]]
        farthest = kth + tie[i] + slope * kth
        bound = farthest**2 + gamma * (reach[i] + farthest) ** 2
    while first < min(k, count):
        d = exact[order[first]]
        last = first + 1
        while last < count and exact[order[last]] <= d + tie[i] + slope * d:
            last += 1
        tied = order[first:last][np.argsort(found[order[first:last]])]
        for slot in range(first, min(last, k)):
            out[slot], distance[slot] = found[tied[slot - first]], exact[tied[slot - first]]
        first = last
    return bound
