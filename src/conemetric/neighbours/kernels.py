"""Numba kernels of the neighbour search on the host: scan tiles of distances for candidates, and
rank candidates by exact distances.

Points are three arrays: Z (n, D), their squared lengths (n,) and labels (n,), which ascend. Lists
of candidates are three arrays: squared distances ``near`` (n, c), ascending, infinite while empty;
the references ``index`` (n, c); and ``limit`` (n,), a contiguous copy of the last column of
``near``. ``search`` = (queries, references, own, same, other): points, points, the reference that is
the query itself, and two lists for each query, of references with its label and of others.
"""

import numpy as np

from ..core.compiled import ZERO, jit_allocating, jit_inner, jit_inner_sums

STRIDE = 64  # entries of a tile tested at a time: few pass, and the test vectorises


@jit_allocating
def offer(start, stop, first, last, size, both, search):
    """Offer references first:last to queries start:stop, in tiles of ``size``. With ``both``, among
    points themselves, also offer the queries to the references.
    """
    (Z, squares, labels), (Z_reference, reference_squares, reference_labels) = search[:2]
    own, same, other = search[2:]
    for begin in range(first, last, size):
        end = min(begin + size, last)
        tile = np.empty((stop - start, end - begin), Z.dtype)
        np.dot(Z[start:stop], Z_reference[begin:end].T, tile)
        tile_squares, tile_labels = reference_squares[begin:end], reference_labels[begin:end]
        for i in range(start, stop):
            row, width = tile[i - start], end - begin
            a, b = _count_below(tile_labels, labels[i]), _count_below(tile_labels, labels[i] + 1)
            _scan_row(row, ZERO, a, squares[i], begin, tile_squares, own[i], i, other)
            _scan_row(row, a, b, squares[i], begin, tile_squares, own[i], i, same)
            _scan_row(row, b, width, squares[i], begin, tile_squares, own[i], i, other)
            if both:
                _scan_across(row, ZERO, a, begin, i, other)
                _scan_across(row, a, b, begin, i, same)
                _scan_across(row, b, width, begin, i, other)


@jit_inner
def _count_below(ascending, value):
    """How many are less than ``value``: np.searchsorted takes a second to compile."""
    low, high = 0, len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit_inner
def _scan_row(row, begin, end, square, first, squares, own, i, lists):
    """Turn inner products begin:end into squared distances, and offer their references to query i."""
    near, index, limit = lists
    two, bound = row.dtype.type(2), limit[i]
    for start in range(begin, end, STRIDE):
        # slices, because an index that is a sum is tested for being negative each time
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


@jit_inner
def _scan_across(row, begin, end, first, i, lists):
    """Offer point i to the columns begin:end."""
    near, index, limit = lists
    for start in range(begin, end, STRIDE):
        part, bounds, hits = row[start : min(start + STRIDE, end)], limit[first + start :], 0
        for c in range(len(part)):
            hits += part[c] < bounds[c]
        if hits:
            for c in range(len(part)):
                j = first + start + c
                if part[c] < bounds[c]:
                    _insert(part[c], i, near[j], index[j])
                    bounds[c] = near[j, -1]


@jit_inner
def _insert(d, j, near, index):
    """Insert (d, j) in order; the last entry is dropped."""
    slot = len(near) - 1
    while slot > 0 and near[slot - 1] > d:
        near[slot], index[slot] = near[slot - 1], index[slot - 1]
        slot -= 1
    near[slot], index[slot] = d, j


# ---- exact distances


@jit_allocating
def rank_candidates(start, stop, lists, data, rule, out, distance, bound):
    """Write the nearest references of points start:stop among their candidates: numbers to ``out``,
    distances to ``distance``.

    ``data`` = (X, row, R, reference_row, number, scale): point i is X[row[i]], reference j is
    R[reference_row[j]] with number[j]; distances are multiplied by ``scale``. ``rule`` = (reach,
    gamma, tie, slope): the scan errs by at most gamma (reach[i] + d)^2 in the squared distance d^2,
    and rounding moves a distance d from i by at most tie[i] + slope d. ``bound[i]`` is the largest
    value of the scan for references that could belong to ``out[i]``; infinite with too few candidates.
    """
    near, index, _ = lists
    width = near.shape[1]
    exact, found = np.empty(width), np.empty(width)
    for i in range(start, stop):
        count = 0
        while count < width and near[i, count] < np.inf:
            exact[count], found[count] = _measure(i, index[i, count], data)
            count += 1
        bound[i] = _rank(i, exact, found, count, rule, out, distance)


@jit_allocating
def rank_within_bound(
    start, stop, tile, rows, own, labels, column_labels, same, data, rule, out, distance, bound
):
    """`rank_candidates` for points rows[start:stop] among all references within ``bound`` in a tile
    of squared distances, with a column for each; with the label of the point, or another (by
    ``same``).
    """
    exact, found = np.empty(tile.shape[1]), np.empty(tile.shape[1])
    for r in range(start, stop):
        i, count = rows[r], 0
        for c in range(tile.shape[1]):
            if tile[r, c] <= bound[i] and (labels[i] == column_labels[c]) == same and c != own[i]:
                exact[count], found[count] = _measure(i, c, data)
                count += 1
        _rank(i, exact, found, count, rule, out, distance)


@jit_inner_sums
def _measure(i, j, data):
    """Distance from i to j in float64, and the number of j; ``scale`` is a power of two."""
    X, row, R, reference_row, number, scale = data
    x, y = X[row[i]], R[reference_row[j]]
    total = 0.0
    for c in range(len(x)):
        t = (np.float64(x[c]) - np.float64(y[c])) * scale
        total += t * t
    return np.sqrt(total), number[j]


@jit_inner
def _rank(i, exact, found, count, rule, out, distance):
    """Write the nearest of the first ``count`` of ``found``, numbers held in float64, and return
    the largest value of the scan for any of them or their ties.

    Ties of the nearest are those farther by no more than rounding; they are sorted by number. The
    nearest of the rest has its own ties, and so on.
    """
    reach, gamma, tie, slope = rule
    k, bound = out.shape[1], np.inf
    first = ZERO
    for slot in range(k):
        out[i, slot] = -1
        distance[i, slot] = np.inf
    _sort(exact, found, first, count)
    if count >= k:
        farthest = exact[k - 1] + tie[i] + slope * exact[k - 1]
        bound = farthest**2 + gamma * (reach[i] + farthest) ** 2
    while first < min(k, count):
        farthest = exact[first] + tie[i] + slope * exact[first]
        last = first + 1
        while last < count and exact[last] <= farthest:
            last += 1
        _sort(found, exact, first, last)
        for slot in range(first, min(last, k)):
            out[i, slot] = np.int64(found[slot])
            distance[i, slot] = exact[slot]
        first = last
    return bound


@jit_inner
def _sort(keys, others, first, last):
    """Heap sort of keys[first:last], with ``others``: Numba's own sort takes seconds to compile."""
    n = last - first
    for end in range(n + n // 2 - 1, 0, -1):
        if end >= n:  # make the heap, from its last parent on
            root, size = end - n, n
        else:  # the largest goes to the end
            keys[first], keys[first + end] = keys[first + end], keys[first]
            others[first], others[first + end] = others[first + end], others[first]
            root, size = 0, end
        key, other = keys[first + root], others[first + root]
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and keys[first + child] < keys[first + child + 1]:
                child += 1
            if key >= keys[first + child]:
                break
            keys[first + root], others[first + root] = keys[first + child], others[first + child]
            root = child
        keys[first + root], others[first + root] = key, other
