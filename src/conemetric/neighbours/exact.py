"""Exact search on the host: every pair is visited; among points themselves, once for both."""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
from scipy.spatial.distance import cdist

from ..core.blas import blas_threads
from ..core.progress import emit
from ..core.slices import slices
from ..core.threads import threaded
from . import kernels
from .cpu import SPARE, Frame, HostSearch
from .merge import rank_rows
from .query import Found, Nearest, SearchQuery
from .rounding import tie_rule

__all__ = ["search", "tournament"]

TILE = 1024  # rows and columns of a tile
# operations up to which NumPy takes milliseconds; selecting from distances costs as much as
# computing them with this many features
MAX_WORK_IN_NUMPY, SELECTION = 1 << 24, 16


def search(query: SearchQuery) -> Nearest:
    """Search exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles are visited
    on all cores at once, no two with a query in common. Memory: a tile per core, one copy of the
    points in float32, and the lists of candidates.
    """
    queries, references, mutual = query.queries, query.references, query.among_themselves
    n, n_references = len(queries.y), len(references.y)
    if n * n_references * (queries.X.shape[1] + SELECTION) <= MAX_WORK_IN_NUMPY:
        return _search_in_numpy(query)
    order = np.argsort(queries.y, kind="stable")
    state = HostSearch(query, order, order if mutual else np.argsort(references.y, kind="stable"))
    blocks = [(part.start, part.stop) for part in slices(n, held=TILE)]
    against_all = [(block, (0, n_references)) for block in blocks]
    rounds = list(tournament(blocks)) if mutual else [against_all]
    with blas_threads(1) if len(blocks) > 1 else nullcontext():
        for played, pairs in enumerate(rounds, 1):
            threaded(_meet, len(pairs), n * references.X.size, pairs, mutual, state.arrays)
            emit("search", done=played / len(rounds))
    return state.rank()


def _meet(start, stop, pairs, mutual, arrays):
    """Offer the references of each block to its partner's queries; with ``mutual`` also the reverse."""
    for one, other in pairs[start:stop]:
        both = int(mutual and one != other)
        kernels.offer(np.arange(*one), *other, TILE, both, arrays)


def _search_in_numpy(query):
    """Search with all distances in memory, by NumPy and SciPy only: compiling kernels would take
    seconds.
    """
    (X, y), (R, y_reference) = query[:2]
    unit = Frame.of(query).unit  # a power of two: only sums of squares are rounded
    distances = cdist(*(np.divide(part, unit, dtype=np.float64) for part in (X, R)))
    itself = np.flatnonzero(query.own >= 0)
    distances[itself, query.own[itself]] = np.inf
    per_length, slope = tie_rule(X.shape[1], max(np.finfo(part.dtype).eps for part in (X, R)))
    ties = per_length * np.linalg.norm(np.divide(X, unit, dtype=np.float64), axis=1), slope
    numbers = query.numbers_of(np.arange(len(R)))
    differs = y[:, None] != y_reference
    same, other = (
        _rank_in_numpy(np.where(left_out, np.inf, distances), numbers, count, *ties)
        for left_out, count in ((differs, query.n_same), (~differs, query.n_other))
    )
    emit("search", done=1.0)
    same, other = (found._replace(distances=found.distances * unit) for found in (same, other))
    return Nearest(same, other, 0)


def _rank_in_numpy(distances, numbers, count, tie, slope):
    """The ``count`` nearest of each row, sought among a few candidates or, where ties leave doubt,
    among all.
    """
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


def tournament(players: list) -> Iterator[list]:
    """Rounds of pairs, each player in at most one, until all have met; first each meets itself."""
    yield [(player, player) for player in players]
    first, *circle = [*players, None] if len(players) % 2 else players
    for _ in circle if len(players) > 1 else ():
        seats = [first, *circle]
        pairs = zip(seats, reversed(seats[len(seats) // 2 :]), strict=False)
        yield [(one, other) for one, other in pairs if one is not None and other is not None]
        circle = [circle[-1], *circle[:-1]]
