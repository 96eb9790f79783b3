"""Exact search on the host: every pair is visited; among points themselves, once for both."""

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np

from ..core.compiled import one_blas_thread, threaded
from ..core.progress import emit
from . import few, kernels
from .cpu import HostSearch
from .query import Nearest, SearchQuery

__all__ = ["search", "tournament"]

TILE = 1024  # rows and columns of a tile
# operations up to which NumPy takes milliseconds; selecting from distances costs as much as
# computing them with this many features
FEW, SELECTION = 1 << 24, 16


def search(query: SearchQuery) -> Nearest:
    """Search exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles are visited
    on all cores at once, no two with a query in common. Memory: a tile per core, one copy of the
    points in float32, and the lists of candidates.
    """
    queries, references, alone = query.queries, query.references, query.among_themselves
    n, n_references = len(queries.y), len(references.y)
    if n * n_references * (queries.X.shape[1] + SELECTION) <= FEW:
        return few.search(query)
    order = np.argsort(queries.y, kind="stable")
    state = HostSearch(query, order, order if alone else np.argsort(references.y, kind="stable"))
    blocks = [(start, min(start + TILE, n)) for start in range(0, n, TILE)]
    against_all = [(block, (0, n_references)) for block in blocks]
    rounds = list(tournament(blocks)) if alone else [against_all]
    # all in one cell without visitors: the points of a row are offered to all columns
    visits = np.zeros(n, np.int64), np.zeros((1, -(-n // 8)), np.uint8)
    with one_blas_thread() if len(blocks) > 1 else nullcontext():
        for played, pairs in enumerate(rounds, 1):
            args = pairs, alone, state.arrays, visits
            threaded(_meet, len(pairs), n * references.X.size, *args)
            emit("search", done=played / len(rounds))
    return state.rank(all_offered=True)


def _meet(start, stop, pairs, alone, arrays, visits):
    """Offer the references of each block to its partner's queries; with ``alone`` also the reverse."""
    for one, other in pairs[start:stop]:
        both = int(alone and one != other)
        kernels.offer(np.arange(*one), *other, TILE, both, arrays, visits)


def tournament(players: list) -> Iterator[list]:
    """Rounds of pairs, each player in at most one, until all have met; first each meets itself."""
    yield [(player, player) for player in players]
    first, *circle = [*players, None] if len(players) % 2 else players
    for _ in circle if len(players) > 1 else ():
        seats = [first, *circle]
        pairs = zip(seats, reversed(seats[len(seats) // 2 :]), strict=False)
        yield [(one, other) for one, other in pairs if one is not None and other is not None]
        circle = [circle[-1], *circle[:-1]]
