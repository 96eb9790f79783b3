"""Exact search on the host: every pair is visited; among points themselves, once for both.

Tiles of squared distances, by matrix products in float32, are scanned for candidates, which are
then ranked by exact distances in float64.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import numpy as np
from scipy.spatial.distance import cdist

from ..core.blas import blas_threads, blas_threads_for
from ..core.progress import emit
from ..core.slices import slices
from ..core.threads import threaded
from . import kernels
from .ranks import (
    NearestByLabel,
    NearestRows,
    SearchQuery,
    Ties,
    product_gamma,
    rank_rows,
    tie_widths,
)

Player = TypeVar("Player")
Block = tuple[int, int]  # the first of a range of points, and the one after its last

TILE = 1024  # rows and columns of a tile
MAX_CENTRED = 1 << 17  # numbers centred at a time, which stay in the cache of a core
SPARE_CANDIDATES = 8  # of each list, so that rounding rarely forces a second search
# Operations up to which NumPy, without kernels, takes milliseconds.
MAX_WORK_IN_NUMPY = 1 << 24
# Selecting from distances costs as much as computing them with this many features.
FEATURES_PER_SELECTION = 16
# Operations for each entry of a tile that is searched again.
WORK_PER_DOUBTFUL_PAIR = 8


def search(query: SearchQuery) -> NearestByLabel:
    """Search exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles are visited
    on all cores at once, no two with a query in common. Memory: a tile per core, one copy of the
    points in float32, and the lists of candidates.
    """
    X = query.queries.X
    R = query.references.X
    if len(X) * len(R) * (X.shape[1] + FEATURES_PER_SELECTION) <= MAX_WORK_IN_NUMPY:
        return _search_in_numpy(query)
    state = HostSearch(query)
    state.find_candidates()
    same_label = state.rank(same=True)
    return NearestByLabel(same_label, state.rank(same=False))


# ---- which blocks meet when


def _rounds(query: SearchQuery) -> list[list[tuple[Block, Block]]]:
    """Return pairs of blocks of queries and of references, in rounds that all cores can share.

    Among points themselves, a pair stands for both of its orders.
    """
    blocks = [(part.start, part.stop) for part in slices(len(query.queries.y), max_held=TILE)]
    if query.among_themselves:
        return list(tournament(blocks))
    all_references = (0, len(query.references.y))
    return [[(block, all_references) for block in blocks]]


def tournament(players: list[Player]) -> Iterator[list[tuple[Player, Player]]]:
    """Yield rounds of pairs, each player in at most one, until all have met; first each meets itself.

    One player keeps its seat, and all others move on by one seat after each round.
    """
    yield [(player, player) for player in players]
    if len(players) < 2:
        return
    seats: list[Player | None] = [*players]
    if len(seats) % 2:
        seats.append(None)  # whoever meets it rests
    n_rounds = len(seats) - 1
    for _ in range(n_rounds):
        pairs = []
        for place in range(len(seats) // 2):
            one = seats[place]
            other = seats[-1 - place]
            if one is not None and other is not None:
                pairs.append((one, other))
        yield pairs
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _meet(
    start: int,
    stop: int,
    pairs: list[tuple[Block, Block]],
    among_themselves: bool,
    scan: kernels.Scan,
) -> None:
    """Offer the references of each block to its partner's queries; among themselves also the reverse."""
    for queries, references in pairs[start:stop]:
        both = among_themselves and queries != references
        kernels.offer(*queries, *references, TILE, both, scan)


def _blas_for(n_pairs: int, query: SearchQuery) -> AbstractContextManager[None]:
    """Let each core multiply by itself where there are several blocks, else BLAS use them all."""
    if n_pairs > 1:
        return blas_threads(1)
    return blas_threads_for(float(len(query.queries.y)) * query.references.X.size)


# ---- search by kernels


class HostSearch:
    """Points in the order of their labels, about a centre, and lists of candidates for the queries,
    to which references are offered in tiles.
    """

    def __init__(self, query: SearchQuery) -> None:
        X, y = query.queries
        R, reference_y = query.references
        self.query = query
        self.unit = _unit(X, R)
        self.order = np.argsort(y, kind="stable")
        queries = self._sorted(X, y, self.order)
        if query.among_themselves:
            self.reference_order = self.order
            references = queries
        else:
            self.reference_order = np.argsort(reference_y, kind="stable")
            references = self._sorted(R, reference_y, self.reference_order)
        # where a reference has gone; the entry -1, for queries that are none, stays -1
        place = np.full(len(R) + 1, -1)
        place[self.reference_order] = np.arange(len(R))
        self.scan = kernels.Scan(
            queries,
            references,
            own=place[query.own[self.order]],
            same=_no_candidates(len(X), query.n_same),
            other=_no_candidates(len(X), query.n_other),
        )

    def _sorted(self, X: np.ndarray, y: np.ndarray, order: np.ndarray) -> kernels.Points:
        """Return points about the centre of the references, in units of length, in this order."""
        centre = self.query.references.X.mean(0, dtype=np.float64)
        Z = np.empty(X.shape, np.float32)
        threaded(_centre, len(X), Z.size, X, order, centre, self.unit, Z)
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
        return kernels.Points(Z, squares.astype(np.float32), y[order])

    def find_candidates(self) -> None:
        """Offer every reference to every query."""
        rounds = _rounds(self.query)
        n_queries = len(self.query.queries.y)
        work = n_queries * self.query.references.X.size
        mutual = self.query.among_themselves
        with _blas_for(len(rounds[0]), self.query):
            for number, pairs in enumerate(rounds, 1):
                threaded(_meet, len(pairs), work, pairs, mutual, self.scan)
                emit("search", done=number / len(rounds))

    def rank(self, same: bool) -> NearestRows:
        """Return the nearest references with the label of the query, or (not ``same``) with others.

        Candidates are ranked by exact distances, and queries that may miss neighbours through rounding
        are searched again.
        """
        if same:
            candidates = self.scan.same
            count = self.query.n_same
        else:
            candidates = self.scan.other
            count = self.query.n_other
        n = len(self.order)
        ranked = kernels.Ranked(
            numbers=np.full((n, count), -1),
            distances=np.full((n, count), np.inf),
            bounds=np.full(n, np.inf),
        )
        if count == 0:
            return NearestRows(ranked.numbers, ranked.distances)
        # of all references, candidates alone need their number at first
        n_references = len(self.reference_order)
        numbers = np.empty(n_references, np.int64)
        is_candidate = np.zeros(n_references, bool)
        is_candidate[candidates.references] = True
        numbers[is_candidate] = self.query.numbers(self.reference_order[is_candidate])
        originals = self._originals(numbers)
        rounding = self._rounding()
        work = candidates.references.size * originals.X.shape[1]
        threaded(kernels.rank_candidates, n, work, candidates, originals, rounding, ranked)
        list_is_full = candidates.limits < np.inf
        misses_none = ranked.bounds < candidates.limits
        doubtful = np.flatnonzero(list_is_full & ~misses_none)
        # their second search is among all references, so now every one needs its number
        if len(doubtful):
            rest = self.reference_order[~is_candidate]
            numbers[~is_candidate] = self.query.numbers(rest)
        for part in slices(len(doubtful), n_references):
            again = self._doubtful(doubtful[part], same)
            work = again.tile.size * WORK_PER_DOUBTFUL_PAIR
            kernel = kernels.rank_within_bounds
            threaded(kernel, len(again.rows), work, again, originals, rounding, ranked)
        place = np.argsort(self.order)
        return NearestRows(ranked.numbers[place], ranked.distances[place] * self.unit)

    def _originals(self, numbers: np.ndarray) -> kernels.Originals:
        """Return the points as they were passed, to measure distances in units of length."""
        return kernels.Originals(
            X=self.query.queries.X,
            row=self.order,
            R=self.query.references.X,
            reference_row=self.reference_order,
            numbers=numbers,
            scale=1 / self.unit,
        )

    def _rounding(self) -> kernels.Rounding:
        """Return bounds on the rounding of the scan and of exact distances."""
        X = self.query.queries.X
        ties = tie_widths(X, self.query.references.X, self.unit)
        return kernels.Rounding(
            reach=2 * np.sqrt(self.scan.queries.squares.astype(np.float64)),
            gamma=product_gamma(X.shape[1], float(np.finfo(np.float32).eps)),
            tie=ties.widths[self.order],
            slope=ties.slope,
        )

    def _doubtful(self, rows: np.ndarray, same: bool) -> kernels.Doubtful:
        """Return the squared distances of a few queries to all references, as the scan has them."""
        queries = self.scan.queries
        references = self.scan.references
        tile = queries.squares[rows, None] + references.squares
        tile -= 2 * (queries.Z[rows] @ references.Z.T)
        return kernels.Doubtful(rows, tile, self.scan.own, queries.labels, references.labels, same)


def _centre(
    start: int,
    stop: int,
    X: np.ndarray,
    rows: np.ndarray,
    centre: np.ndarray,
    unit: float,
    Z: np.ndarray,
) -> None:
    """Write rows of X about ``centre``, in this unit, to Z[start:stop]."""
    for part in slices(stop - start, X.shape[1], MAX_CENTRED):
        places = slice(start + part.start, start + part.stop)
        Z[places] = (X[rows[places]] - centre) / unit


def _unit(*parts: np.ndarray) -> float:
    """Return the power of two below the largest entry: dividing by it rounds nothing."""
    largest = 0.0
    for X in parts:
        largest = max(largest, float(X.max(initial=0)), -float(X.min(initial=0)))
    if largest == 0:
        return 1.0
    return 2.0 ** np.floor(np.log2(largest))


def _no_candidates(n: int, count: int) -> kernels.Candidates:
    """Return empty lists for the ``count`` nearest of n queries."""
    width = count + SPARE_CANDIDATES
    limit = np.inf
    if count == 0:  # the limit of a list without room admits nothing
        width = 0
        limit = -np.inf
    return kernels.Candidates(
        squares=np.full((n, width), np.inf, np.float32),
        references=np.full((n, width), -1, np.int32),
        limits=np.full(n, limit, np.float32),
    )


# ---- search without kernels


def _search_in_numpy(query: SearchQuery) -> NearestByLabel:
    """Search with all distances in memory, without kernels: compiling them would take seconds."""
    X, y = query.queries
    R, reference_y = query.references
    unit = _unit(X, R)  # a power of two: only sums of squares are rounded
    distances = cdist(np.divide(X, unit, dtype=np.float64), np.divide(R, unit, dtype=np.float64))
    is_reference = np.flatnonzero(query.own >= 0)
    distances[is_reference, query.own[is_reference]] = np.inf
    ties = tie_widths(X, R, unit)
    numbers = query.numbers(np.arange(len(R)))
    same_label = y[:, None] == reference_y
    nearest = []
    for admitted, count in ((same_label, query.n_same), (~same_label, query.n_other)):
        rows = _rank_in_numpy(distances, admitted, numbers, count, ties)
        nearest.append(NearestRows(rows.numbers, rows.distances * unit))
    emit("search", done=1.0)
    return NearestByLabel(*nearest)


def _rank_in_numpy(
    distances: np.ndarray, admitted: np.ndarray, numbers: np.ndarray, count: int, ties: Ties
) -> NearestRows:
    """Return the ``count`` nearest admitted references of each row.

    They are ranked among a few candidates; where ties leave doubt, among all references.
    """
    references = NearestRows(np.broadcast_to(numbers, distances.shape), distances)
    if count == 0:
        return rank_rows(references, count, ties).nearest
    references = references._replace(distances=np.where(admitted, distances, np.inf))
    width = count + SPARE_CANDIDATES
    if width >= distances.shape[1]:
        return rank_rows(references, count, ties).nearest
    nearest_columns = np.argpartition(references.distances, width - 1, axis=1)[:, :width]
    candidates = NearestRows(
        np.take_along_axis(references.numbers, nearest_columns, axis=1),
        np.take_along_axis(references.distances, nearest_columns, axis=1),
    )
    nearest, farthest = rank_rows(candidates, count, ties)
    # beyond the farthest candidate there may be more ties; infinitely far ones are none
    farthest_candidate = candidates.distances.max(1)
    doubtful = farthest_candidate <= np.minimum(farthest, np.finfo(float).max)
    if doubtful.any():
        of_doubtful = NearestRows(references.numbers[doubtful], references.distances[doubtful])
        again = rank_rows(of_doubtful, count, ties.of(doubtful)).nearest
        nearest.numbers[doubtful] = again.numbers
        nearest.distances[doubtful] = again.distances
    return nearest
