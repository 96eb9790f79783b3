"""The exact search among sparse points: products of sparse rows, a block of queries at a
time, and candidates ranked by their differences.
"""

import numpy as np
from scipy import sparse

from ..core.arrays import float64
from ..core.sparse_rows import SparseRows
from .query import Nearest, Question
from .rounding import product_gamma, tie_rule

SPARE = 8  # candidates kept beyond those asked for, so that rounding seldom matters
BLOCK = 1 << 24  # distances held at a time


def search(question: Question) -> Nearest:
    """Answer exactly. Memory: `BLOCK` distances, and the references once more."""
    state = SparseSearch(question)
    n, counts = len(question.queries.y), (question.n_same, question.n_other)
    numbers = [np.full((n, count), -1) for count in counts]
    distances = [np.full((n, count), np.inf) for count in counts]
    n_again, step = 0, max(1, BLOCK // len(question.references.y))
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        tile = state.tile(rows)
        alike = question.queries.y[rows, None] == question.references.y
        for hidden, found, lengths in zip((~alike, alike), numbers, distances, strict=True):
            if found.shape[1]:
                part = np.where(hidden, np.inf, tile)
                found[rows], lengths[rows], again = state.nearest(rows, part, found.shape[1])
                n_again += again
    return Nearest(numbers[0], numbers[1], distances[0], distances[1], n_again)


class SparseSearch:
    """Queries and references, their squared lengths, and what rounding may do to both."""

    def __init__(self, question: Question):
        queries, references = question.queries.X, question.references.X
        alone = question.references is question.queries
        parts = [queries] if alone else [queries, references]
        # one matrix, so that differences of a query and a reference can be formed
        self.points = SparseRows(
            sparse.vstack([float64(part).matrix for part in parts], format="csr")
        )
        self.centred = self.points.centred()
        self.own, self.first_reference = question.own, 0 if alone else len(queries)
        self.numbers = question.names
        self.squares = _squared_lengths(self.centred)
        self.gamma = product_gamma(queries.shape[1], 2.0**-52)
        eps = max(float(np.finfo(part.dtype).eps) for part in parts)
        per_length, self.slope = tie_rule(queries.shape[1], eps)
        self.tie = per_length * _squared_lengths(self.points) ** 0.5

    def tile(self, rows):
        """Squared distances from queries to every reference, infinite to themselves."""
        X, references = self.centred.matrix, slice(self.first_reference, None)
        tile = (X[rows] @ X[references].T).toarray()
        tile *= -2
        tile += self.squares[rows, None]
        tile += self.squares[references]
        mine = np.flatnonzero(self.own[rows] >= 0)
        tile[mine, self.own[rows[mine]]] = np.inf
        return tile

    def nearest(self, rows, tile, count):
        """Numbers and distances of the ``count`` nearest, and how many rows were ranked
        again because more than their candidates may belong there.
        """
        width = min(count + SPARE, tile.shape[1])
        candidates = np.argpartition(tile, width - 1, axis=1)[:, :width]
        values = np.take_along_axis(tile, candidates, 1)
        exact = self._measure(rows, candidates, values < np.inf)
        numbers, distances, farthest = self._rank(rows, exact, self.numbers[candidates], count)
        limit = values.max(1)
        bound = farthest**2 + self.gamma * (2 * self.squares[rows] ** 0.5 + farthest) ** 2
        again = np.flatnonzero((width < tile.shape[1]) & (limit < np.inf) & ~(bound < limit))
        for r in again:
            near = np.flatnonzero(tile[r] <= bound[r])[None]
            exact = self._measure(rows[[r]], near, np.ones(near.shape, bool))
            numbers[r], distances[r] = (
                part[0] for part in self._rank(rows[[r]], exact, self.numbers[near], count)[:2]
            )
        return numbers, distances, len(again)

    def _measure(self, rows, references, there):
        """Distances by differences; infinite where there is none."""
        exact = np.full(references.shape, np.inf)
        queries = np.broadcast_to(rows[:, None], references.shape)[there]
        pairs = queries, self.first_reference + references[there]
        exact[there] = self.points.squared_distances(*pairs) ** 0.5
        return exact

    def _rank(self, rows, exact, numbers, count):
        """The ``count`` nearest of each row, ties by number; and the distance beyond
        which no tie of theirs can be.
        """
        missing = max(0, count - exact.shape[1])
        exact = np.pad(exact, ((0, 0), (0, missing)), constant_values=np.inf)
        numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
        order = np.lexsort((numbers, exact))
        exact, numbers = (np.take_along_axis(part, order, 1) for part in (exact, numbers))
        tie = self.tie[rows, None]
        group, here = np.full(exact.shape, count), np.arange(len(exact))
        for turn in range(count):
            first = np.minimum((group < count).sum(1), exact.shape[1] - 1)
            leader = exact[here, first][:, None]
            group[(exact <= leader + tie + self.slope * leader) & (group == count)] = turn
        numbers = np.where(exact < np.inf, numbers, -1)
        kth = exact[:, count - 1]
        order = np.lexsort((numbers, group))[:, :count]
        return *(np.take_along_axis(part, order, 1) for part in (numbers, exact)), (
            kth + tie[:, 0] + self.slope * kth
        )


def _squared_lengths(points):
    return np.asarray(points.matrix.power(2).sum(1)).ravel()
