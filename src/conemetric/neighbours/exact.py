"""The exact search on the host: every pair of points is visited; of points among
themselves, once for both.
"""

from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from ..compiled import threaded
from .host import HostSearch, Visits
from .progress import report
from .question import Nearest, Question

TILE = 1024  # rows and columns of a tile


def search(question: Question) -> Nearest:
    """Answer exactly.

    Rows are sorted by label, so that those of one label are a range of columns. Tiles
    are visited on all cores at once, no two with a query in common. Memory: a tile per
    core, the points once more in float32, and the lists of candidates.
    """
    queries, references = question.queries, question.references
    n, alone = len(queries.y), references is queries
    order = np.argsort(queries.y, kind="stable")
    state = HostSearch(question, order, order if alone else np.argsort(references.y, kind="stable"))
    blocks, partners = _blocks(n), _blocks(len(references.y))
    if alone:
        rounds = [[(one, [other]) for one, other in pairs] for pairs in tournament(blocks)]
    else:
        rounds = [[(block, partners) for block in blocks]]
    # nobody visits of its own accord: whoever is in the rows is offered to the columns
    visits = Visits(np.zeros(n, np.int64), np.zeros((n, 1), np.uint8)) if alone else None
    with threadpool_limits(1 if len(blocks) > 1 else None, "blas"):
        for played, jobs in enumerate(rounds, 1):
            threaded(_visit, len(jobs), n * references.X.size, state, jobs, visits)
            report(played / len(rounds))
    return state.rank(all_offered=True)


def _visit(start, stop, state, jobs, visits):
    scratch = np.empty(TILE * TILE, np.float32)
    for rows, partners in jobs[start:stop]:
        for columns in partners:
            both = visits if columns != rows else None
            state.offer(np.arange(rows.start, rows.stop), columns, scratch, both)


def _blocks(n):
    return [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]


def tournament(players: list) -> Iterator[list]:
    """Rounds of pairs in which each meets at most one other, until all have met; in the
    first, each meets itself.
    """
    yield [(player, player) for player in players]
    first, *circle = [*players, None] if len(players) % 2 else players
    for _ in circle:
        seats = [first, *circle]
        pairs = zip(seats, reversed(seats[len(seats) // 2 :]), strict=False)
        yield [(one, other) for one, other in pairs if one is not None and other is not None]
        circle = [circle[-1], *circle[:-1]]
