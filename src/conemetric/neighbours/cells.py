"""Approximate search on the host: references are divided into cells about centres, and each query
visits the cells nearest to it.

Cells are visited by label: for neighbours of its own label a query skips cells without that label,
for others it skips cells with that label only. So well separated classes cost no more than
overlapping ones, although the nearest points of any label would mostly be of the query's own. Among
points themselves a visit counts for both: two points meet if either visits the cell of the other.
The number of cells to visit comes from the exact neighbours of a random sample of queries.
"""

from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from ..core.blas import one_blas_thread
from ..core.progress import emit
from ..core.slices import slices
from ..core.threads import threaded
from . import exact, kernels
from .cpu import Frame, HostSearch
from .query import LabelledRows, Nearest, SearchQuery

__all__ = ["Cells", "search"]

CELLS = 3.0  # number of cells over the square root of the number of references
GOAL = 0.992  # share of a sample's neighbours in the cells that are visited
SAMPLE = 500  # queries that set the number of visits, and as many to measure recall on
PER_CENTRE = 32  # references per centre, of those that place the centres
LLOYD_STEPS = 5  # that place the centres: they need not converge
AS_NEAR = 1 + 1e-6  # times a distance: farther than rounding can put one as near
QUERIES = 2048  # that choose their cells together, a multiple of 8


def search(query: SearchQuery, random_state: np.random.RandomState) -> tuple[Nearest, float]:
    """Search approximately, and measure the recall: the share of the true neighbours that was
    found, over random queries that set no parameter. If exact costs no more, it is used.
    """
    queries, references, alone = query.queries, query.references, query.among_themselves
    sample = random_state.permutation(len(queries.y))[: 2 * SAMPLE]
    first, second = sample[::2], sample[1::2]
    sampled = LabelledRows(*(part[sample] for part in queries))
    truth = exact.search(query._replace(queries=sampled, own=query.own[sample]))
    cells = Cells(query, random_state)
    counts = cells.enough(query, first, [part.numbers[::2] for part in truth[:2]])
    visited = cells.n_visited(queries, first, counts)
    # among points themselves the exact search visits each pair once for both
    if visited > len(references.y) / (2 if alone else 1):
        return exact.search(query), 1.0
    order = cells.order if alone else np.argsort(cells.nearest(queries.X), kind="stable")
    state = HostSearch(query, order, cells.order)
    with one_blas_thread():
        _visit(state, cells, counts, alone)
    found = state.rank(all_offered=False)
    return found, _recall(found, truth, second)


def _recall(found, truth, rows):
    """Share found of the neighbours of every second query of ``truth``, counting others as near."""
    n_there = n_found = 0
    for near, nearest in zip(found[:2], truth[:2], strict=True):
        distances, true = near.distances[rows], nearest.distances[1::2]
        farthest = np.where(true < np.inf, true, -1.0).max(1, keepdims=True, initial=-1.0)
        n_there += int((true < np.inf).sum())
        n_found += int((distances <= farthest * AS_NEAR).sum())
    return n_found / max(1, n_there)


def _visit(state, cells, counts, alone):
    """Let every query visit its cells, on all cores at once; no two cores share a query."""
    n, n_cells = len(state.order), len(cells.centres)
    work = state.Z.size * n_cells
    mask = np.zeros((n_cells, -(-n // 8)), np.uint8)
    blocks = [(start, min(start + QUERIES, n)) for start in range(0, n, QUERIES)]
    threaded(_choose, len(blocks), work, state, blocks, cells, counts, mask)
    if alone:
        rounds = [_calls(cells, pairs) for pairs in exact.tournament(cells.groups)]
    else:
        rounds = [np.array([[(*block, 0, n_cells, False)] for block in blocks])]
    visits = cells.cell[cells.order], mask
    for played, calls in enumerate(rounds, 1):
        args = calls, cells.start, exact.TILE, state.arrays, visits
        threaded(kernels.visit_cells, len(calls), work, *args)
        emit("search", done=played / len(rounds))


def _calls(cells, pairs):
    """The points of each of two groups of cells visit the cells of the other, in turn."""
    calls = np.zeros((len(pairs), 2, 5), np.int64)
    for number, (one, other) in enumerate(pairs):
        calls[number, 0] = *cells.points(one), *other, True
        if one != other:
            calls[number, 1] = *cells.points(other), *one, True
    return calls


def _choose(start, stop, state, blocks, cells, counts, mask):
    for first, last in blocks[start:stop]:
        cells.choose(state.Z[first:last], state.labels[first:last], counts, first, mask)


class Cells:
    """References by the nearest of some centres; within a cell by label.

    ``cell`` is that of each reference; ``order`` lists the references cell by cell, and cell k is
    order[start[k]:start[k + 1]]; ``groups`` are ranges (first, last) of cells near each other.
    """

    def __init__(self, query: SearchQuery, random_state: np.random.RandomState):
        X, y = query.references
        self.frame = Frame.of(query)
        self._place_centres(X, random_state)
        used, self.cell = np.unique(self.nearest(X), return_inverse=True)
        self.centres = self._centres[used]
        edges = np.unique(np.searchsorted(used, self._group_start))
        self.groups = list(pairwise(edges.tolist()))
        self.order = np.lexsort((y, self.cell))
        self.start = np.searchsorted(self.cell[self.order], np.arange(len(used) + 1))
        labels = y[self.order]
        least, most = labels[self.start[:-1]], labels[self.start[1:] - 1]
        self._only_label = np.where(least == most, least, -1)
        # the cells of each label, side by side
        n_labels = max(int(part.y.max()) for part in query[:2]) + 1
        pairs = np.unique(y * len(used) + self.cell)
        self._cells_of_label = pairs % len(used)
        self._label_start = np.searchsorted(pairs // len(used), np.arange(n_labels + 1))

    def _place_centres(self, X, random_state):
        """Cluster a random part of the references into groups, and each group into cells."""
        n_centres = max(1, round(CELLS * len(X) ** 0.5))
        drawn = random_state.permutation(len(X))[: PER_CENTRE * n_centres]
        Z = self.frame.centred(X, drawn)
        self._group_centres, group = _means(Z, round(n_centres**0.5), random_state)
        centres = []
        for number in range(len(self._group_centres)):
            part = Z[group == number]
            share = max(1, round(n_centres * len(part) / len(Z)))
            centres.append(_means(part, share, random_state)[0])
        self._centres = np.concatenate(centres)
        self._group_start = np.cumsum([0, *map(len, centres)])

    def nearest(self, X: np.ndarray) -> np.ndarray:
        """The centre nearest to each point, in the group nearest to it."""
        centre = np.empty(len(X), np.int64)
        for part in slices(len(X), len(self._group_centres) + X.shape[1]):
            Z = self.frame.centred(X, np.arange(part.start, part.stop))
            group = _squared_distances(Z, self._group_centres).argmin(1)
            for number, (first, last) in enumerate(pairwise(self._group_start.tolist())):
                rows = np.flatnonzero(group == number)
                distances = _squared_distances(Z[rows], self._centres[first:last])
                centre[part.start + rows] = first + distances.argmin(1)
        return centre

    def points(self, group: tuple[int, int]) -> tuple[int, ...]:
        """The range of ``order`` with the references of a group of cells."""
        return tuple(self.start[list(group)].tolist())

    def distances_by_label(self, Z: np.ndarray, labels: np.ndarray) -> tuple:
        """Distances to cells with the point's label, and with another; infinite to the rest."""
        distances = _squared_distances(Z, self.centres)
        same = np.full_like(distances, np.inf)
        size = self._label_start[labels + 1] - self._label_start[labels]
        row = np.repeat(np.arange(len(labels)), size)
        shift = self._label_start[labels] + size - size.cumsum()
        cell = self._cells_of_label[np.arange(len(row)) + np.repeat(shift, size)]
        same[row, cell] = distances[row, cell]
        return same, np.where(self._only_label == labels[:, None], np.inf, distances)

    def choose(
        self, Z: np.ndarray, labels: np.ndarray, counts: list[int], first: int, mask: np.ndarray
    ) -> None:
        """Set the bits of the nearest cells of each point in ``mask`` (cells, points / 8):
        counts[0] with its label, counts[1] with another. Point r is column ``first + r``.
        """
        for distances, count in zip(self.distances_by_label(Z, labels), counts, strict=True):
            if count:
                kernels.choose_cells(distances, first, min(count, len(mask)), mask)

    def n_visited(self, queries: LabelledRows, rows: np.ndarray, counts: list[int]) -> float:
        """Mean number of references in the cells that these queries would visit."""
        mask = np.zeros((len(self.centres), -(-len(rows) // 8)), np.uint8)
        self.choose(self.frame.centred(queries.X, rows), queries.y[rows], counts, 0, mask)
        return np.diff(self.start) @ np.bitwise_count(mask).sum(1) / len(rows)

    def enough(self, query: SearchQuery, rows: np.ndarray, truth: list[np.ndarray]) -> list[int]:
        """How many cells of either kind these queries must visit to meet `GOAL`."""
        X, y = query.queries
        mine = self.distances_by_label(self.frame.centred(X, rows), y[rows])
        counts = []
        for kind, numbers in enumerate(truth):
            i, slot = np.nonzero(numbers >= 0)
            j = numbers[i, slot]
            rank = _rank(mine[kind][i], self.cell[j])
            if query.among_themselves:
                theirs = self.distances_by_label(self.frame.centred(X, j), y[j])[kind]
                rank = np.minimum(rank, _rank(theirs, self.cell[rows[i]]))
            counts.append(1 + int(np.quantile(rank, GOAL, method="higher")) if len(rank) else 0)
        return counts


def _means(points, n, random_state):
    """Centres of at most n clusters by a few steps of Lloyd's algorithm, and those of points."""
    # KMeans of scikit-learn would warn of clusters that duplicates leave empty
    centres, rows = points[random_state.permutation(len(points))[:n]], np.arange(len(points))
    for _ in range(LLOYD_STEPS):
        _, cluster, size = _clusters(points, centres)
        members = csr_array((np.ones(len(points), points.dtype), (cluster, rows)))
        centres = (members @ points) / size[:, None].astype(points.dtype)
    used, cluster, _ = _clusters(points, centres)
    return centres[used], cluster


def _clusters(points, centres):
    """The centres nearest to some point, the one of each point, and how many points each has."""
    nearest = _squared_distances(points, centres).argmin(1)
    return np.unique(nearest, return_inverse=True, return_counts=True)


def _squared_distances(Z, centres):
    """To the centres, minus the squared length of the point."""
    return np.einsum("ij,ij->i", centres, centres) - 2 * (Z @ centres.T)


def _rank(distances, cell):
    """How many cells are nearer than this one, for each row."""
    return (distances < np.take_along_axis(distances, cell[:, None], axis=1)).sum(1)
