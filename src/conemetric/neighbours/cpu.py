"""Search on the host: tiles of squared distances, by matrix products in float32, are scanned for
candidates, then ranked by exact distances in float64.
"""

from typing import NamedTuple

import numpy as np

from ..core.slices import slices
from ..core.threads import threaded
from . import kernels
from .query import Found, Nearest, SearchQuery
from .rounding import product_gamma, tie_rule

__all__ = ["Frame", "HostSearch"]

PIECE = 1 << 17  # numbers centred at a time, which stay in the cache of a core
SPARE = 8  # extra candidates, so that rounding rarely forces a second search


class Frame(NamedTuple):
    """Origin and unit of length of the points; the unit is a power of two."""

    centre: np.ndarray
    unit: float

    @classmethod
    def of(cls, query: SearchQuery) -> "Frame":
        X, R = query.queries.X, query.references.X
        return cls(R.mean(0, dtype=np.float64), max(_power_of_two(X), _power_of_two(R)))

    def centred(self, X: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """These rows of X relative to the centre, in the unit, in float32."""
        Z = np.empty((len(rows), X.shape[1]), np.float32)
        threaded(_centre, len(rows), Z.size, X, rows, self, Z)
        return Z


class HostSearch:
    """Lists of candidates for every query, to which references are offered in tiles. Labels must
    ascend within the columns of a tile, in ``order`` (of queries) and ``reference_order``.
    """

    def __init__(self, query: SearchQuery, order: np.ndarray, reference_order: np.ndarray):
        self.query, self.order, self.reference_order = query, order, reference_order
        queries, references = query.queries, query.references
        self.labels, self.reference_labels = queries.y[order], references.y[reference_order]
        place = np.full(len(reference_order) + 1, -1)
        place[reference_order] = np.arange(len(reference_order))
        self.own = place[query.own[order]]
        frame = Frame.of(query)
        self.unit = frame.unit
        self.Z = frame.centred(queries.X, order)
        self.Z_reference = (
            self.Z if query.among_themselves else frame.centred(references.X, reference_order)
        )
        self.squares, self.reference_squares = (
            np.einsum("ij,ij->i", Z, Z, dtype=np.float64).astype(np.float32)
            for Z in (self.Z, self.Z_reference)
        )
        counts = query.n_same, query.n_other
        self.lists = tuple(_no_candidates(len(order), count) for count in counts)

    @property
    def arrays(self) -> tuple:
        """The argument ``search`` of `kernels.offer`."""
        queries = self.Z, self.squares, self.labels
        references = self.Z_reference, self.reference_squares, self.reference_labels
        return queries, references, self.own, *self.lists

    # ---- from candidates to neighbours

    def rank(self) -> Nearest:
        """Rank candidates by exact distances, and search again for queries that may miss
        neighbours through rounding.
        """
        same, again_same = self._rank(True)
        other, again_other = self._rank(False)
        return Nearest(same, other, again_same + again_other)

    def _rank(self, same):
        lists = self.lists[0 if same else 1]
        n, width = lists[0].shape
        found = np.full((n, max(0, width - SPARE)), -1)
        distances, bound = np.full(found.shape, np.inf), np.full(n, np.inf)
        again = np.zeros(0, np.int64)
        if width:
            (X, _), (R, _) = self.query[:2]
            numbers, known = np.empty(len(R), np.int64), np.zeros(len(R), bool)
            known[lists[1]] = True  # of all references, candidates alone need their number
            numbers[known] = self.query.numbers_of(self.reference_order[known])
            data = X, self.order, R, self.reference_order, numbers, 1 / self.unit
            args = data, self._rounding(), found, distances, bound
            threaded(kernels.rank_candidates, n, width * X.size, lists, *args)
            unsure = (lists[-1] < np.inf) & ~(bound < lists[-1])
            again = np.flatnonzero(unsure)
            if len(again):
                numbers[~known] = self.query.numbers_of(self.reference_order[~known])
            labels = self.labels, self.reference_labels, same
            for part in slices(len(again), len(self.Z_reference)):
                rows = again[part]
                tile = self.squares[rows, None] + self.reference_squares
                tile -= 2 * (self.Z[rows] @ self.Z_reference.T)
                rest = rows, self.own, *labels, *args
                threaded(kernels.rank_within_bound, len(rows), tile.size * 8, tile, *rest)
        answer = Found(np.empty_like(found), np.empty_like(distances))
        answer.numbers[self.order], answer.distances[self.order] = found, distances * self.unit
        return answer, len(again)

    def _rounding(self):
        """Bounds on the error of tiles, and which distances are ties: see `rounding`."""
        X, R = self.query.queries.X, self.query.references.X
        lengths = np.empty(len(X))
        for part in slices(len(X), X.shape[1]):
            scaled = X[self.order[part]] / self.unit
            lengths[part] = np.sqrt(np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64))
        gamma = product_gamma(X.shape[1], float(np.finfo(np.float32).eps))
        eps = max(float(np.finfo(part.dtype).eps) for part in (X, R))
        per_length, slope = tie_rule(X.shape[1], eps)
        return 2 * np.sqrt(self.squares.astype(np.float64)), gamma, per_length * lengths, slope


def _centre(start, stop, X, rows, frame, Z):
    for part in slices(stop - start, X.shape[1], PIECE):
        part = slice(start + part.start, start + part.stop)
        Z[part] = (X[rows[part]] - frame.centre) / frame.unit


def _power_of_two(X):
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    return 2.0 ** np.floor(np.log2(largest)) if largest > 0 else 1.0


def _no_candidates(n, count):
    """Empty lists: squared distances, references, and the last distance of each."""
    width = count + SPARE if count else 0
    # the limit of a list without room admits nothing
    limit = np.full(n, np.inf if count else -np.inf, np.float32)
    return np.full((n, width), np.inf, np.float32), np.full((n, width), -1, np.int32), limit
