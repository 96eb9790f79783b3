"""Exact search among sparse points: products of sparse rows, a block of queries at a time, and
candidates ranked by their differences.
"""

import numpy as np
from scipy import sparse

from ..core.slices import slices
from ..core.sparse_rows import SparseRows
from .ranks import (
    DOUBLE_EPS,
    NearestByLabel,
    NearestRows,
    SearchQuery,
    Ties,
    product_gamma,
    rank_rows,
    tie_rule,
)

SPARE_CANDIDATES = 8  # of each query, so that rounding rarely forces a second search


def search(query: SearchQuery) -> NearestByLabel:
    """Search exactly. Memory: the distances of one of `slices`, and one copy of the points."""
    state = SparseSearch(query)
    y = query.queries.y
    reference_y = query.references.y
    same_label = _no_neighbours(len(y), query.n_same)
    other_label = _no_neighbours(len(y), query.n_other)
    for part in slices(len(y), len(reference_y)):
        rows = np.arange(len(y))[part]
        tile = state.squared_distances(rows)
        is_same = y[rows, None] == reference_y
        if query.n_same:
            squares = np.where(is_same, tile, np.inf)
            _write(same_label, rows, state.nearest(rows, squares, query.n_same))
        if query.n_other:
            squares = np.where(is_same, np.inf, tile)
            _write(other_label, rows, state.nearest(rows, squares, query.n_other))
    return NearestByLabel(same_label, other_label)


def _no_neighbours(n: int, count: int) -> NearestRows:
    """Return room for the ``count`` nearest of n queries, none of which has any."""
    return NearestRows(np.full((n, count), -1), np.full((n, count), np.inf))


def _write(result: NearestRows, rows: np.ndarray, nearest: NearestRows) -> None:
    """Enter the nearest of these rows in the result."""
    result.numbers[rows] = nearest.numbers
    result.distances[rows] = nearest.distances


class SparseSearch:
    """Queries and references, their squared lengths, and bounds on rounding."""

    def __init__(self, query: SearchQuery) -> None:
        queries = query.queries.X
        references = query.references.X
        if query.among_themselves:
            parts = [queries]
            self.first_reference = 0
        else:
            parts = [queries, references]
            self.first_reference = len(queries)
        # one matrix, so that differences of a query and a reference can be formed
        matrices = [part.astype("float64").matrix for part in parts]
        self.points = SparseRows(sparse.vstack(matrices, format="csr"))
        self.centred = self.points.centred()
        self.own = query.own
        self.numbers = query.numbers(np.arange(len(references)))
        self.squares = _squared_lengths(self.centred)
        self.gamma = product_gamma(queries.shape[1], DOUBLE_EPS)
        eps = max(float(np.finfo(part.dtype).eps) for part in parts)
        rule = tie_rule(queries.shape[1], eps)
        self.ties = Ties(rule.per_length * _squared_lengths(self.points) ** 0.5, rule.slope)

    def squared_distances(self, rows: np.ndarray) -> np.ndarray:
        """Return those from queries to every reference, infinite to themselves."""
        X = self.centred.matrix
        references = slice(self.first_reference, None)
        tile = self.squares[rows, None] + self.squares[references]
        tile -= 2 * (X[rows] @ X[references].T).toarray()
        is_reference = np.flatnonzero(self.own[rows] >= 0)
        tile[is_reference, self.own[rows[is_reference]]] = np.inf
        return tile

    def nearest(self, rows: np.ndarray, tile: np.ndarray, count: int) -> NearestRows:
        """Return the ``count`` nearest of a tile of squared distances, infinite where none may be.

        A query is searched again if others than its candidates may belong to them.
        """
        n_references = tile.shape[1]
        width = min(count + SPARE_CANDIDATES, n_references)
        candidates = np.argpartition(tile, width - 1, axis=1)[:, :width]
        squares = np.take_along_axis(tile, candidates, 1)
        nearest, bounds = self._rank(rows, candidates, squares < np.inf, count)
        limits = squares.max(1)
        list_is_full = (limits < np.inf) & (width < n_references)
        misses_none = bounds < limits
        for r in np.flatnonzero(list_is_full & ~misses_none):
            within = np.flatnonzero(tile[r] <= bounds[r])[None]
            nearest_of_row, _ = self._rank(rows[[r]], within, np.ones(within.shape, bool), count)
            _write(nearest, np.array([r]), nearest_of_row)
        return nearest

    def _rank(
        self, rows: np.ndarray, references: np.ndarray, is_candidate: np.ndarray, count: int
    ) -> tuple[NearestRows, np.ndarray]:
        """Rank references (len(rows), k), where they are candidates, by their exact distances.

        Return the nearest of each row, and the largest square that a tile can have for any of their
        ties.
        """
        distances = np.full(references.shape, np.inf)
        queries = np.broadcast_to(rows[:, None], references.shape)[is_candidate]
        others = self.first_reference + references[is_candidate]
        distances[is_candidate] = self.points.squared_distances(queries, others) ** 0.5
        candidates = NearestRows(self.numbers[references], distances)
        nearest, farthest = rank_rows(candidates, count, self.ties.of(rows))
        reach = 2 * self.squares[rows] ** 0.5
        return nearest, farthest**2 + self.gamma * (reach + farthest) ** 2


def _squared_lengths(points: SparseRows) -> np.ndarray:
    """Return the squared length of each row."""
    return np.asarray(points.matrix.power(2).sum(1)).ravel()
