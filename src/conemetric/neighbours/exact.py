"""The exact search on the host: every pair of points is visited; of points among
themselves, once for both.
"""

from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from ..compiled import threaded
from .host import HostSearch
from .question import Nearest, Question

TILE = 1024  # rows and columns of a tile


def search(question: Question) -> Nearest:
    """Answer exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles
    are visited on all cores at once, no two with a query in common. Memory: a tile per
    core, the points once more in float32, and the lists of candidates.
    """
    queries, references = question.queries, question.references
    order = np.argsort(queries.y, kind="stable")
    alone = references is queries
    state = HostSearch(question, order, order if alone else np.argsort(references.y, kind="stable"))
    rows, columns = _blocks(len(queries.y)), _blocks(len(references.y))
    rounds = _tournament(rows) if alone else [[(block, columns) for block in rows]]
    work = len(queries.y) * references.X.size
    with threadpool_limits(1 if len(rows) > 1 else None, "blas"):
        for jobs in rounds:
            threaded(_visit, len(jobs), work, state, jobs, alone)
    return state.rank(all_offered=True)


def _visit(start, stop, state, jobs, among_themselves):
    scratch = np.empty(TILE * TILE, np.float32)
    for rows, partners in jobs[start:stop]:
        for columns in partners:
            both_ways = among_themselves and columns != rows
            state.offer(np.arange(rows.start, rows.stop), columns, scratch, both_ways)


def _blocks(n):
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]


def _tournament(blocks) -> Iterator[list]:
    """Rounds in which each block meets one other, until all have met; first itself."""
    yield [(block, [block]) for block in blocks]
    first, *circle = [*blocks, None] if len(blocks) % 2 else blocks
    for _ in circle:
        seats = [first, *circle]
        pairs = zip(seats, reversed(seats[len(seats) // 2 :]), strict=False)
        yield [(one, [other]) for one, other in pairs if one and other]
        circle = [circle[-1], *circle[:-1]]
