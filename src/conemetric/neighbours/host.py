"""Exact search on the host: every pair is visited; among points themselves, once for both.

Tiles of squared distances, by matrix products in float32, are scanned for candidates, which are
then ranked by exact distances in float64.
"""

from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

from ..core.blas import blas_threads, blas_threads_for
from ..core.progress import emit
from ..core.slices import slices
from ..core.threads import threaded
from . import kernels
from .ranks import Found, Nearest, SearchQuery, product_gamma, rank_rows, tie_widths

TILE = 1024  # rows and columns of a tile
PIECE = 1 << 17  # numbers centred at a time, which stay in the cache of a core
SPARE = 8  # extra candidates, so that rounding rarely forces a second search
# operations up to which NumPy takes milliseconds; selecting from distances costs as much as
# computing them with this many features
MAX_WORK_IN_NUMPY, SELECTION = 1 << 24, 16


def search(query: SearchQuery) -> Nearest:
    """Search exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles are visited
    on all cores at once, no two with a query in common. Memory: a tile per core, one copy of the
    points in float32, and the lists of candidates.
    """
    (X, y), (R, _), mutual = query.queries, query.references, query.references is query.queries
    if len(X) * len(R) * (X.shape[1] + SELECTION) <= MAX_WORK_IN_NUMPY:
        return _search_in_numpy(query)
    state = HostSearch(query)
    blocks = [(part.start, part.stop) for part in slices(len(y), max_held=TILE)]
    rounds = list(tournament(blocks)) if mutual else [[(block, (0, len(R))) for block in blocks]]
    with blas_threads(1) if len(blocks) > 1 else blas_threads_for(float(len(X)) * R.size):
        for played, pairs in enumerate(rounds, 1):
            threaded(_meet, len(pairs), len(y) * R.size, pairs, mutual, state.arrays)
            emit("search", done=played / len(rounds))
    return Nearest(state.rank(same=True), state.rank(same=False))


def _meet(start, stop, pairs, mutual, arrays):
    """Offer the references of each block to its partner's queries; with ``mutual`` also the reverse."""
    for one, other in pairs[start:stop]:
        kernels.offer(*one, *other, TILE, int(mutual and one != other), arrays)


def tournament(players: list) -> Iterator[list]:
    """Rounds of pairs, each player in at most one, until all have met; first each meets itself."""
    yield [(player, player) for player in players]
    first, *circle = [*players, None] if len(players) % 2 else players
    for _ in circle if len(players) > 1 else ():
        seats = [first, *circle]
        pairs = zip(seats, reversed(seats[len(seats) // 2 :]), strict=False)
        yield [(one, other) for one, other in pairs if one is not None and other is not None]
        circle = [circle[-1], *circle[:-1]]


class HostSearch:
    """Points in the order of their labels, about a centre, and lists of candidates for the queries,
    to which references are offered in tiles.
    """

    def __init__(self, query: SearchQuery):
        (X, y), (R, y_reference) = query.queries, query.references
        self.query, self.unit = query, _unit(X, R)
        self.order = np.argsort(y, kind="stable")
        self.queries = self.references = self._sorted(X, y, self.order)
        self.reference_order = self.order
        if query.references is not query.queries:
            self.reference_order = np.argsort(y_reference, kind="stable")
            self.references = self._sorted(R, y_reference, self.reference_order)
        place = np.full(len(R) + 1, -1)
        place[self.reference_order] = np.arange(len(R))
        self.own = place[query.own[self.order]]
        self.lists = [_no_candidates(len(X), count) for count in (query.n_same, query.n_other)]
        # the argument ``search`` of `kernels.offer`
        self.arrays = self.queries, self.references, self.own, *self.lists

    def _sorted(self, X, y, order):
        """Points about the centre of the references, in float32; their squared lengths and labels."""
        centre, Z = self.query.references.X.mean(0, dtype=np.float64), np.empty(X.shape, np.float32)
        threaded(_centre, len(X), Z.size, X, order, centre, self.unit, Z)
        return Z, np.einsum("ij,ij->i", Z, Z, dtype=np.float64).astype(np.float32), y[order]

    def rank(self, same: bool) -> Found:
        """Rank candidates by exact distances, and search again for queries that may miss
        neighbours through rounding.
        """
        lists, (X, _), (R, _) = self.lists[0 if same else 1], *self.query[:2]
        (Z, squares, labels), (Z_reference, reference_squares, reference_labels) = self.arrays[:2]
        n, width = lists[0].shape
        shape = n, max(0, width - SPARE)
        found = Found(np.full(shape, -1), np.full(shape, np.inf))
        if width == 0:
            return found
        numbers, known = np.empty(len(R), np.int64), np.zeros(len(R), bool)
        known[lists[1]] = True  # of all references, candidates alone need their number
        numbers[known] = self.query.numbers(self.reference_order[known])
        tie, slope = tie_widths(X, R, self.unit)
        gamma = product_gamma(X.shape[1], float(np.finfo(np.float32).eps))
        rule = 2 * np.sqrt(squares.astype(np.float64)), gamma, tie[self.order], slope
        data = X, self.order, R, self.reference_order, numbers, 1 / self.unit
        args = data, rule, *found, np.full(n, np.inf)
        threaded(kernels.rank_candidates, n, width * X.size, lists, *args)
        again = np.flatnonzero((lists[-1] < np.inf) & ~(args[-1] < lists[-1]))
        if len(again):
            numbers[~known] = self.query.numbers(self.reference_order[~known])
        for part in slices(len(again), len(R)):
            rows = again[part]
            tile = squares[rows, None] + reference_squares
            tile -= 2 * (Z[rows] @ Z_reference.T)
            rest = rows, self.own, labels, reference_labels, same, *args
            threaded(kernels.rank_within_bound, len(rows), tile.size * 8, tile, *rest)
        place = np.argsort(self.order)
        return Found(found.numbers[place], found.distances[place] * self.unit)


def _centre(start, stop, X, rows, centre, unit, Z):
    for part in slices(stop - start, X.shape[1], PIECE):
        part = slice(start + part.start, start + part.stop)
        Z[part] = (X[rows[part]] - centre) / unit


def _unit(*parts):
    """The power of two below the largest entry."""
    largest = max(max(float(X.max(initial=0)), -float(X.min(initial=0))) for X in parts)
    return 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0


def _no_candidates(n, count):
    """Empty lists: squared distances, references, and the last distance of each."""
    width = count + SPARE if count else 0
    # the limit of a list without room admits nothing
    limit = np.full(n, np.inf if count else -np.inf, np.float32)
    return np.full((n, width), np.inf, np.float32), np.full((n, width), -1, np.int32), limit


def _search_in_numpy(query):
    """Search with all distances in memory, without kernels: compiling them would take seconds."""
    (X, y), (R, y_reference) = query[:2]
    unit = _unit(X, R)  # a power of two: only sums of squares are rounded
    distances = cdist(*(np.divide(part, unit, dtype=np.float64) for part in (X, R)))
    itself = np.flatnonzero(query.own >= 0)
    distances[itself, query.own[itself]] = np.inf
    ties, numbers = tie_widths(X, R, unit), query.numbers(np.arange(len(R)))
    differs = y[:, None] != y_reference
    same, other = (
        _rank_in_numpy(distances, left_out, numbers, count, *ties)
        for left_out, count in ((differs, query.n_same), (~differs, query.n_other))
    )
    emit("search", done=1.0)
    return Nearest(*(Found(found.numbers, found.distances * unit) for found in (same, other)))


def _rank_in_numpy(distances, left_out, numbers, count, tie, slope):
    """The ``count`` nearest of each row: among a few candidates or, where ties leave doubt, all."""
    distances = np.where(left_out, np.inf, distances) if count else distances
    every, width = Found(np.broadcast_to(numbers, distances.shape), distances), count + SPARE
    if count == 0 or width >= distances.shape[1]:
        return rank_rows(every, count, tie, slope)[0]
    candidates = np.argpartition(distances, width - 1, axis=1)[:, :width]
    near = Found(*(np.take_along_axis(part, candidates, axis=1) for part in every))
    found, farthest = rank_rows(near, count, tie, slope)
    # more may belong there
    unsure = near.distances.max(1) <= np.minimum(farthest, np.finfo(float).max)
    if unsure.any():
        again, _ = rank_rows(Found(*(part[unsure] for part in every)), count, tie[unsure], slope)
        found.numbers[unsure], found.distances[unsure] = again
    return found
