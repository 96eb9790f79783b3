"""The approximate search on the host: references fall into cells about centres, and each
query visits the cells nearest to it.

Cells are visited by label: for neighbours of its own label a query passes over cells
that have none of it, for others over cells that have nothing else. So classes that lie
apart cost no more than classes that overlap, where the nearest of any label, in order,
would be own-label points for long. Of points searched among themselves, a visit counts
for both: two points meet if either visits the cell of the other. How many cells to
visit is read off the exact answers of a random sample of queries.
"""

import threading
import warnings
from itertools import pairwise

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ..core.compiled import one_blas_thread, threaded
from ..core.progress import emit
from . import exact, kernels
from .cpu import Frame, HostSearch, parts
from .query import Labelled, Nearest, Question

CELLS = 3.0  # times the root of the number of references
GOAL = 0.992  # share of a sample's neighbours in the cells that are visited
SAMPLE = 500  # queries by which visits are counted, and as many to measure recall on
PER_CENTRE = 32  # references that a centre is placed by
QUERIES = 2048  # that choose their cells together, a multiple of 8


def search(question: Question, random_state) -> tuple[Nearest, float]:
    """Answer approximately, and measure how well.

    Parameters
    ----------
    question : Question
    random_state : numpy.random.RandomState

    Returns
    -------
    Nearest
    recall : float
        Share of the true neighbours that was found, over a random sample of queries by
        which nothing was chosen; 1.0 where the exact search costs no more, and answers.
    """
    queries, references = question.queries, question.references
    alone = references is queries
    sample = random_state.permutation(len(queries.y))[: 2 * SAMPLE]
    first, second = sample[::2], sample[1::2]
    truth = exact.search(_only(question, sample))
    cells = Cells(question, random_state)
    counts = cells.enough(question, first, [numbers[::2] for numbers in truth[:2]])
    visited = cells.n_visited(queries, first, counts)
    # of points among themselves the exact search visits each pair once for both
    if visited > len(references.y) / (2 if alone else 1):
        return exact.search(question), 1.0
    order = cells.order if alone else np.argsort(cells.nearest(queries.X), kind="stable")
    state = HostSearch(question, order, cells.order)
    with one_blas_thread():
        _visit(state, cells, counts, alone)
    found = state.rank(all_offered=False)
    return found, _recall(found, truth, second)


def _only(question, rows):
    """The same about some of the queries."""
    queries = Labelled(*(part[rows] for part in question.queries))
    return question._replace(queries=queries, own=question.own[rows])


def _recall(found, truth, rows):
    """Share of the neighbours of every second query of ``truth`` that was found, or
    others as near.
    """
    n_there = n_found = 0
    for distances, true in zip(found[2:4], truth[2:4], strict=True):
        distances, true = distances[rows], true[1::2]
        farthest = np.where(true < np.inf, true, -1.0).max(1, keepdims=True, initial=-1.0)
        n_there += int((true < np.inf).sum())
        n_found += int((distances <= farthest * (1 + 1e-6)).sum())
    return n_found / max(1, n_there)


def _visit(state, cells, counts, alone):
    """Every query visits its cells, on all cores at once, no two with a query in common."""
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
    """The points of each of two groups of cells call on the cells of the other, in turn."""
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

    Parameters
    ----------
    question : Question
    random_state : numpy.random.RandomState

    Attributes
    ----------
    cell : integer array (n,)
        Of each reference.
    order : integer array (n,)
        References, cell by cell.
    start : integer array (c + 1,)
        Where in that order each cell begins.
    groups : list of (first, last)
        Ranges of cells near each other.
    """

    def __init__(self, question: Question, random_state):
        X, y = question.references
        self.frame = Frame.of(question)
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
        n_labels = max(int(part.y.max()) for part in question[:2]) + 1
        pairs = np.unique(y * len(used) + self.cell)
        self._cells_of_label = pairs % len(used)
        self._label_start = np.searchsorted(pairs // len(used), np.arange(n_labels + 1))

    def _place_centres(self, X, random_state):
        """Means of a random part of the references in a few groups, and in each group
        means of its own.
        """
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

    def nearest(self, X):
        """Number of the centre nearest to each point in the group nearest to it."""
        centre = np.empty(len(X), np.int64)
        for part in parts(len(X), len(self._group_centres) + X.shape[1]):
            Z = self.frame.centred(X, np.arange(part.start, part.stop))
            group = _squared_distances(Z, self._group_centres).argmin(1)
            for number, (first, last) in enumerate(pairwise(self._group_start.tolist())):
                rows = np.flatnonzero(group == number)
                distances = _squared_distances(Z[rows], self._centres[first:last])
                centre[part.start + rows] = first + distances.argmin(1)
        return centre

    def points(self, group):
        """Where in ``order`` the references of a group of cells are."""
        return tuple(self.start[list(group)].tolist())

    def distances_by_label(self, Z, labels):
        """Distances to the cells that have the label of a point, and to those that have
        another; infinite to the rest.
        """
        distances = _squared_distances(Z, self.centres)
        same = np.full_like(distances, np.inf)
        size = self._label_start[labels + 1] - self._label_start[labels]
        row = np.repeat(np.arange(len(labels)), size)
        shift = self._label_start[labels] + size - size.cumsum()
        cell = self._cells_of_label[np.arange(len(row)) + np.repeat(shift, size)]
        same[row, cell] = distances[row, cell]
        return same, np.where(self._only_label == labels[:, None], np.inf, distances)

    def choose(self, Z, labels, counts, first, mask):
        """Set the bits of the nearest cells of each point in ``mask`` (cells, points / 8):
        so many with its label, so many with another. Point r is column ``first + r``.
        """
        for distances, count in zip(self.distances_by_label(Z, labels), counts, strict=True):
            if count:
                kernels.choose_cells(distances, first, min(count, len(mask)), mask)

    def n_visited(self, queries, rows, counts):
        """References in the cells that these queries would visit, on average."""
        mask = np.zeros((len(self.centres), -(-len(rows) // 8)), np.uint8)
        self.choose(self.frame.centred(queries.X, rows), queries.y[rows], counts, 0, mask)
        return np.diff(self.start) @ np.bitwise_count(mask).sum(1) / len(rows)

    def enough(self, question, rows, truth):
        """Of cells with the own label and with another, how many to visit so that some
        queries meet `GOAL` of their true neighbours.
        """
        (X, y), alone = question.queries, question.references is question.queries
        mine = self.distances_by_label(self.frame.centred(X, rows), y[rows])
        counts = []
        for kind, numbers in enumerate(truth):
            i, slot = np.nonzero(numbers >= 0)
            j = numbers[i, slot]
            rank = _rank(mine[kind][i], self.cell[j])
            if alone:
                theirs = self.distances_by_label(self.frame.centred(X, j), y[j])[kind]
                rank = np.minimum(rank, _rank(theirs, self.cell[rows[i]]))
            counts.append(1 + int(np.quantile(rank, GOAL, method="higher")) if len(rank) else 0)
        return counts


_filters = threading.Lock()


def _means(points, n, random_state):
    """Centres of at most n clusters, and the cluster of each point."""
    means = KMeans(n, init="random", n_init=1, max_iter=5, random_state=random_state)
    # KMeans warns where duplicates leave fewer, and only filters of the whole process keep it
    # silent: one thread at a time, or one would restore what another has changed
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(points)
    used, cluster = np.unique(means.labels_, return_inverse=True)
    return means.cluster_centers_[used], cluster


def _squared_distances(Z, centres):
    """To the centres, less the squared length of the point."""
    return np.einsum("ij,ij->i", centres, centres) - 2 * (Z @ centres.T)


def _rank(distances, cell):
    """How many cells are nearer than this one, row by row."""
    return (distances < np.take_along_axis(distances, cell[:, None], axis=1)).sum(1)
