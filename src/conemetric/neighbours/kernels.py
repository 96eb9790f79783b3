"""Numba kernels of the neighbour search on the host: scan tiles of distances for candidates, and
rank candidates by exact distances.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import ZERO, jit_allocating, jit_inner, jit_inner_sums

STRIDE = 64  # entries of a tile tested at a time: few pass, and the test vectorises


# ---- candidates: what the kernels read and write


class Points(NamedTuple):
    """Points about a centre, in the order of their labels."""

    Z: np.ndarray  # (n, D), float32
    squares: np.ndarray  # (n,), their squared lengths
    labels: np.ndarray  # (n,), ascending


class Candidates(NamedTuple):
    """A list of candidates for each query, nearest first."""

    squares: np.ndarray  # (n, c), squared distances; infinite while empty
    references: np.ndarray  # (n, c); -1 while empty
    limits: np.ndarray  # (n,), a contiguous copy of the last column of ``squares``


class Scan(NamedTuple):
    """Queries, references, and the candidates that have been found for the queries."""

    queries: Points
    references: Points
    own: np.ndarray  # (n,), the reference that is the query itself, or -1
    same: Candidates  # with the label of the query
    other: Candidates  # with other labels


@jit_allocating
def offer(start: int, stop: int, first: int, last: int, size: int, both: bool, scan: Scan) -> None:
    """Offer references first:last to queries start:stop, in tiles of ``size``. With ``both``, among
    points themselves, also offer the queries to the references.
    """
    queries, references, _, same, other = scan
    for begin in range(first, last, size):
        end = min(begin + size, last)
        width = end - begin
        tile = np.empty((stop - start, width), queries.Z.dtype)
        np.dot(queries.Z[start:stop], references.Z[begin:end].T, tile)
        labels = references.labels[begin:end]
        for i in range(start, stop):
            row = tile[i - start]
            # columns a:b have the label of the query, as labels ascend
            a = _count_below(labels, queries.labels[i])
            b = _count_below(labels, queries.labels[i] + 1)
            _scan_row(row, ZERO, a, begin, i, scan, other)
            _scan_row(row, a, b, begin, i, scan, same)
            _scan_row(row, b, width, begin, i, scan, other)
            # `_scan_row` has left squared distances in the row, which are
            # those of the other side too
            if both:
                _scan_across(row, ZERO, a, begin, i, other)
                _scan_across(row, a, b, begin, i, same)
                _scan_across(row, b, width, begin, i, other)


@jit_inner
def _count_below(ascending: np.ndarray, value: int) -> int:
    """Count the entries less than ``value``: np.searchsorted takes a second to compile."""
    low = 0
    high = len(ascending)
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit_inner
def _scan_row(
    row: np.ndarray,
    begin: int,
    end: int,
    first: int,
    i: int,
    scan: Scan,
    candidates: Candidates,
) -> None:
    """Turn the inner products begin:end of a row into squared distances, and offer them to query i.

    Column 0 of the row is reference ``first``.
    """
    square = scan.queries.squares[i]
    own = scan.own[i]
    near = candidates.squares
    limit = candidates.limits[i]
    two = row.dtype.type(2)
    for start in range(begin, end, STRIDE):
        # slices, because an index that is a sum is tested for being negative each time
        part = row[start : min(start + STRIDE, end)]
        squares = scan.references.squares[first + start :]
        hits = 0
        for c in range(len(part)):
            part[c] = (square + squares[c]) - two * part[c]
            hits += part[c] < limit
        if hits:
            for c in range(len(part)):
                j = first + start + c
                if part[c] < limit and j != own:
                    _insert(part[c], j, near[i], candidates.references[i])
                    limit = near[i, -1]
    candidates.limits[i] = limit


@jit_inner
def _scan_across(
    row: np.ndarray, begin: int, end: int, first: int, i: int, candidates: Candidates
) -> None:
    """Offer point i to the columns begin:end of its row of squared distances, as queries."""
    near = candidates.squares
    for start in range(begin, end, STRIDE):
        part = row[start : min(start + STRIDE, end)]
        limits = candidates.limits[first + start :]
        hits = 0
        for c in range(len(part)):
            hits += part[c] < limits[c]
        if hits:
            for c in range(len(part)):
                j = first + start + c
                if part[c] < limits[c]:
                    _insert(part[c], i, near[j], candidates.references[j])
                    limits[c] = near[j, -1]


@jit_inner
def _insert(d: float, j: int, near: np.ndarray, index: np.ndarray) -> None:
    """Insert reference j at squared distance d in the order of a list, whose last entry is dropped."""
    slot = len(near) - 1
    while slot > 0 and near[slot - 1] > d:
        near[slot] = near[slot - 1]
        index[slot] = index[slot - 1]
        slot -= 1
    near[slot] = d
    index[slot] = j


# ---- exact distances


class Originals(NamedTuple):
    """The points that distances are measured between: query i is X[row[i]], reference j is
    R[reference_row[j]] and has numbers[j]; distances are multiplied by ``scale``, a power of two.
    """

    X: np.ndarray
    row: np.ndarray
    R: np.ndarray
    reference_row: np.ndarray
    numbers: np.ndarray
    scale: float


class Rounding(NamedTuple):
    """What rounding can do: the scan errs by at most gamma (reach[i] + d)^2 in the squared distance
    d^2, and distances from query i that exceed d by at most tie[i] + slope d are ties of d.
    """

    reach: np.ndarray
    gamma: float
    tie: np.ndarray
    slope: float


class Ranked(NamedTuple):
    """The nearest references of each query, written by the kernels."""

    numbers: np.ndarray  # (n, k); -1 if there are too few
    distances: np.ndarray  # (n, k); infinite if there are too few
    # (n,), the largest square in the scan of a reference that could be among them; infinite if there
    # are too few
    bounds: np.ndarray


class Doubtful(NamedTuple):
    """Queries that are searched again, among all references within their bounds."""

    rows: np.ndarray  # (m,), the queries
    tile: np.ndarray  # (m, r), their squared distances in the scan to every reference
    own: np.ndarray
    labels: np.ndarray
    reference_labels: np.ndarray
    same: bool  # whether references with the label of the query are looked for, or others


@jit_allocating
def rank_candidates(
    start: int,
    stop: int,
    candidates: Candidates,
    originals: Originals,
    rounding: Rounding,
    ranked: Ranked,
) -> None:
    """Rank the candidates of queries start:stop by their exact distances."""
    width = candidates.squares.shape[1]
    distances = np.empty(width)
    numbers = np.empty(width)
    for i in range(start, stop):
        count = 0
        while count < width and candidates.squares[i, count] < np.inf:
            j = candidates.references[i, count]
            distances[count] = _distance(i, j, originals)
            numbers[count] = originals.numbers[j]
            count += 1
        ranked.bounds[i] = _rank(i, distances, numbers, count, rounding, ranked)


@jit_allocating
def rank_within_bounds(
    start: int,
    stop: int,
    doubtful: Doubtful,
    originals: Originals,
    rounding: Rounding,
    ranked: Ranked,
) -> None:
    """Rank all references within the bounds of the doubtful queries start:stop."""
    rows, tile, own, labels, reference_labels, same = doubtful
    n_references = tile.shape[1]
    distances = np.empty(n_references)
    numbers = np.empty(n_references)
    for r in range(start, stop):
        i = rows[r]
        count = 0
        for j in range(n_references):
            right_label = (labels[i] == reference_labels[j]) == same
            if tile[r, j] <= ranked.bounds[i] and right_label and j != own[i]:
                distances[count] = _distance(i, j, originals)
                numbers[count] = originals.numbers[j]
                count += 1
        _rank(i, distances, numbers, count, rounding, ranked)


@jit_inner_sums
def _distance(i: int, j: int, originals: Originals) -> float:
    """Return the distance from query i to reference j, in float64."""
    x = originals.X[originals.row[i]]
    y = originals.R[originals.reference_row[j]]
    total = 0.0
    for c in range(len(x)):
        t = (np.float64(x[c]) - np.float64(y[c])) * originals.scale
        total += t * t
    return np.sqrt(total)


@jit_inner
def _rank(
    i: int,
    distances: np.ndarray,
    numbers: np.ndarray,
    count: int,
    rounding: Rounding,
    ranked: Ranked,
) -> float:
    """Write the nearest of the first ``count`` candidates of query i, and return its bound.

    Ties of the nearest are those farther by no more than rounding; they are sorted by number (held in
    float64). The nearest of the rest has its own ties, and so on.
    """
    reach, gamma, tie, slope = rounding
    k = ranked.numbers.shape[1]
    for slot in range(k):
        ranked.numbers[i, slot] = -1
        ranked.distances[i, slot] = np.inf
    first = ZERO
    _sort(distances, numbers, first, count)
    bound = np.inf
    if count >= k:
        farthest = distances[k - 1] + tie[i] + slope * distances[k - 1]
        bound = farthest**2 + gamma * (reach[i] + farthest) ** 2
    while first < min(k, count):
        farthest = distances[first] + tie[i] + slope * distances[first]
        last = first + 1
        while last < count and distances[last] <= farthest:
            last += 1
        _sort(numbers, distances, first, last)
        for slot in range(first, min(last, k)):
            ranked.numbers[i, slot] = np.int64(numbers[slot])
            ranked.distances[i, slot] = distances[slot]
        first = last
    return bound


@jit_inner
def _sort(keys: np.ndarray, others: np.ndarray, first: int, last: int) -> None:
    """Sort keys[first:last], and ``others`` with them, by a heap: Numba's own sort takes seconds to
    compile.
    """
    n = last - first
    for end in range(n + n // 2 - 1, 0, -1):
        if end >= n:  # make the heap, from its last parent on
            root = end - n
            size = n
        else:  # the largest goes to the end
            keys[first], keys[first + end] = keys[first + end], keys[first]
            others[first], others[first + end] = others[first + end], others[first]
            root = 0
            size = end
        key = keys[first + root]
        other = others[first + root]
        # let it sink below all larger ones
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and keys[first + child] < keys[first + child + 1]:
                child += 1
            if key >= keys[first + child]:
                break
            keys[first + root] = keys[first + child]
            others[first + root] = others[first + child]
            root = child
        keys[first + root] = key
        others[first + root] = other
