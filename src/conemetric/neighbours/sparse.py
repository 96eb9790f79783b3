"""Exact search among sparse points: products of sparse rows, a block of queries at a time, and
candidates ranked by their differences.
"""

import numpy as np
from scipy import sparse

from ..core.slices import slices
from ..core.sparse_rows import SparseRows
from .ranks import DOUBLE_EPS, Found, Nearest, SearchQuery, product_gamma, rank_rows, tie_rule

SPARE = 8  # extra candidates, so that rounding rarely forces a second search


def search(query: SearchQuery) -> Nearest:
    """Search exactly. Memory: the distances of one of `slices`, and one copy of the points."""
    state = SparseSearch(query)
    n, counts = len(query.queries.y), (query.n_same, query.n_other)
    found = [Found(np.full((n, count), -1), np.full((n, count), np.inf)) for count in counts]
    for part in slices(n, len(query.references.y)):
        rows = np.arange(n)[part]
        tile = state.squared_distances(rows)
        same = query.queries.y[rows, None] == query.references.y
        for hidden, (numbers, distances), count in zip((~same, same), found, counts, strict=True):
            if count:
                near = state.nearest(rows, np.where(hidden, np.inf, tile), count)
                numbers[rows], distances[rows] = near
    return Nearest(*found)


class SparseSearch:
    """Queries and references, their squared lengths, and bounds on rounding."""

    def __init__(self, query: SearchQuery):
        queries, references = query.queries.X, query.references.X
        parts = [queries] if query.references is query.queries else [queries, references]
        # one matrix, so that differences of a query and a reference can be formed
        matrices = [part.astype("float64").matrix for part in parts]
        self.points = SparseRows(sparse.vstack(matrices, format="csr"))
        self.centred = self.points.centred()
        self.own, self.first_reference = query.own, 0 if len(parts) == 1 else len(queries)
        self.numbers = query.numbers(np.arange(len(references)))
        self.squares = _squared_lengths(self.centred)
        self.gamma = product_gamma(queries.shape[1], DOUBLE_EPS)
        eps = max(float(np.finfo(part.dtype).eps) for part in parts)
        per_length, self.slope = tie_rule(queries.shape[1], eps)
        self.tie = per_length * _squared_lengths(self.points) ** 0.5

    def squared_distances(self, rows: np.ndarray) -> np.ndarray:
        """From queries to every reference, infinite to themselves."""
        X, references = self.centred.matrix, slice(self.first_reference, None)
        tile = self.squares[rows, None] + self.squares[references]
        tile -= 2 * (X[rows] @ X[references].T).toarray()
        mine = np.flatnonzero(self.own[rows] >= 0)
        tile[mine, self.own[rows[mine]]] = np.inf
        return tile

    def nearest(self, rows: np.ndarray, tile: np.ndarray, count: int) -> Found:
        """The ``count`` nearest, searched again if more than a row's candidates may belong there."""
        width = min(count + SPARE, tile.shape[1])
        candidates = np.argpartition(tile, width - 1, axis=1)[:, :width]
        values = np.take_along_axis(tile, candidates, 1)
        near, bound = self._rank(rows, candidates, values < np.inf, count)
        limit = values.max(1)
        again = np.flatnonzero((width < tile.shape[1]) & (limit < np.inf) & ~(bound < limit))
        for r in again:
            within = np.flatnonzero(tile[r] <= bound[r])[None]
            found, _ = self._rank(rows[[r]], within, np.ones(within.shape, bool), count)
            near.numbers[r], near.distances[r] = found.numbers[0], found.distances[0]
        return near

    def _rank(self, rows, references, there, count):
        """Rank references, where ``there``; also the largest value of a tile for any of their ties."""
        exact = np.full(references.shape, np.inf)
        queries = np.broadcast_to(rows[:, None], references.shape)[there]
        pairs = queries, self.first_reference + references[there]
        exact[there] = self.points.squared_distances(*pairs) ** 0.5
        candidates = Found(self.numbers[references], exact)
        found, farthest = rank_rows(candidates, count, self.tie[rows], self.slope)
        reach = 2 * self.squares[rows] ** 0.5
        return found, farthest**2 + self.gamma * (reach + farthest) ** 2


def _squared_lengths(points):
    return np.asarray(points.matrix.power(2).sum(1)).ravel()
