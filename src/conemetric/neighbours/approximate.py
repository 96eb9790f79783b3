"""The approximate search on the host: references fall into cells about centres, and each
query visits the cells nearest to it.

Cells are visited by label: for neighbours of its own label a query passes over cells
that have none of it, for others over cells that have nothing else. So classes that lie
apart cost no more than classes that overlap, where the nearest of any label, in order,
would be own-label points for long. Of points searched among themselves, a visit counts
for both: two points meet if either visits the cell of the other. How many cells to
visit is read off the exact answers of a random sample of queries.
"""

import warnings
from itertools import pairwise

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ..compiled import threaded
from . import exact
from .host import Frame, HostSearch, Visits, parts
from .progress import report
from .question import Labelled, Nearest, Question

CELLS = 2.0  # times the root of the number of references
GOAL = 0.994  # share of a sample's neighbours in the cells that are visited
SAMPLE = 500  # queries by which visits are counted, and as many to measure recall on
PER_CENTRE = 64  # references that a centre is placed by
QUERIES = 2048  # that choose their cells together
TILE = 1 << 20  # distances held at a time by each core


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
    chosen = cells.choose(cells.frame.centred(queries.X, first), queries.y[first], counts)
    # of points among themselves the exact search visits each pair once for both
    if (chosen @ np.diff(cells.start)).mean() > len(references.y) / (2 if alone else 1):
        return exact.search(question), 1.0
    order = cells.order if alone else np.argsort(cells.nearest(queries.X), kind="stable")
    state = HostSearch(question, order, cells.order)
    with threadpool_limits(1, "blas"):
        _visit_cells(state, cells, counts, alone)
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


def _visit_cells(state, cells, counts, alone):
    """Every query visits its cells, on all cores at once, no two with a query in common."""
    n, work = len(state.order), state.Z.size * len(cells.centres)
    blocks = [slice(start, min(start + QUERIES, n)) for start in range(0, n, QUERIES)]
    mask = np.empty((n, -(-len(cells.centres) // 8)), np.uint8)
    threaded(_choose, len(blocks), work, state, blocks, cells, counts, mask)
    both = Visits(cells.cell[cells.order], mask) if alone else None
    if alone:
        rounds = [
            [_meeting(cells, *pair) for pair in pairs] for pairs in exact.tournament(cells.groups)
        ]
    else:
        rounds = [[[(block, slice(0, len(cells.centres)))] for block in blocks]]
    for played, calls in enumerate(rounds, 1):
        threaded(_call, len(calls), work, state, calls, cells, mask, both)
        report(played / len(rounds))


def _meeting(cells, one, other):
    """The points of each of two groups of cells call on the cells of the other."""
    calls = [(cells.points(one), other), (cells.points(other), one)]
    return calls[:1] if one == other else calls


def _choose(start, stop, state, blocks, cells, counts, mask):
    for block in blocks[start:stop]:
        chosen = cells.choose(state.Z[block], state.labels[block], counts)
        mask[block] = np.packbits(chosen, axis=1)


def _call(start, stop, state, calls, cells, mask, both):
    """Offer to some queries the cells that they visit, among some."""
    scratch = np.empty(TILE, np.float32)
    for rows, group in (call for several in calls[start:stop] for call in several):
        byte = group.start // 8
        chosen = np.unpackbits(mask[rows, byte : -(-group.stop // 8)], axis=1)
        for cell in range(group.start, group.stop):
            visitors = rows.start + np.flatnonzero(chosen[:, cell - 8 * byte])
            begin, end = cells.start[cell : cell + 2]
            for column in range(begin, end, exact.TILE):
                columns = slice(column, min(column + exact.TILE, end))
                step = TILE // (columns.stop - columns.start)
                for row in range(0, len(visitors), step):
                    state.offer(visitors[row : row + step], columns, scratch, both)


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
    groups : list of slices
        Cells that are near each other.
    """

    def __init__(self, question: Question, random_state):
        X, y = question.references
        self.frame = Frame.of(question)
        n_centres = max(1, round(CELLS * len(X) ** 0.5))
        drawn = random_state.permutation(len(X))[: PER_CENTRE * n_centres]
        self._place(_centres(self.frame.centred(X, drawn), n_centres, random_state)[0])
        used, cell = np.unique(self.nearest(X), return_inverse=True)
        group = _centres(self.centres[used], round(len(used) ** 0.5), random_state)[1]
        by_group = np.argsort(group, kind="stable")
        self._place(self.centres[used][by_group])
        self.cell = np.argsort(by_group)[cell]
        edges = np.append(np.flatnonzero(np.diff(group[by_group], prepend=-1)), len(group))
        self.groups = [slice(*ends) for ends in pairwise(edges.tolist())]
        self.order = np.lexsort((y, self.cell))
        self.start = np.searchsorted(self.cell[self.order], np.arange(len(group) + 1))
        labels = y[self.order]
        least, most = labels[self.start[:-1]], labels[self.start[1:] - 1]
        self._only_label = np.where(least == most, least, -1)
        # the cells of each label, side by side
        n_labels = max(int(part.y.max()) for part in question[:2]) + 1
        pairs = np.unique(y * len(group) + self.cell)
        self._cells_of_label = pairs % len(group)
        self._label_start = np.searchsorted(pairs // len(group), np.arange(n_labels + 1))

    def _place(self, centres):
        self.centres = np.ascontiguousarray(centres, np.float32)
        self._squares = np.einsum("ij,ij->i", self.centres, self.centres)

    def points(self, group):
        """Where in ``order`` the references of a group of cells are."""
        return slice(int(self.start[group.start]), int(self.start[group.stop]))

    def _distances(self, Z):
        """Squared distances to the centres, less the squared length of the point."""
        return self._squares - 2 * (Z @ self.centres.T)

    def nearest(self, X):
        """The cell of each point."""
        cell = np.empty(len(X), np.int64)
        for part in parts(len(X), len(self.centres) + X.shape[1]):
            Z = self.frame.centred(X, np.arange(part.start, part.stop))
            cell[part] = self._distances(Z).argmin(1)
        return cell

    def distances_by_label(self, Z, labels):
        """Distances to the cells that have the label of a point, and to those that have
        another; infinite to the rest.
        """
        distances = self._distances(Z)
        same = np.full_like(distances, np.inf)
        size = self._label_start[labels + 1] - self._label_start[labels]
        row = np.repeat(np.arange(len(labels)), size)
        shift = self._label_start[labels] + size - size.cumsum()
        cell = self._cells_of_label[np.arange(len(row)) + np.repeat(shift, size)]
        same[row, cell] = distances[row, cell]
        return same, np.where(self._only_label == labels[:, None], np.inf, distances)

    def choose(self, Z, labels, counts):
        """Mask (points, cells) of the nearest cells of each point: with its label, with
        another.
        """
        chosen = np.zeros((len(Z), len(self.centres)), bool)
        for distances, count in zip(self.distances_by_label(Z, labels), counts, strict=True):
            if count:
                last = min(count, distances.shape[1]) - 1
                limit = np.partition(distances, last, axis=1)[:, last, None]
                chosen |= (distances <= limit) & (distances < np.inf)
        return chosen

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


def _centres(points, n, random_state):
    """Means of n clusters, and the cluster of each point."""
    means = KMeans(n, init="random", n_init=1, max_iter=10, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # among duplicates there are fewer
        means.fit(points)
    return means.cluster_centers_, means.labels_


def _rank(distances, cell):
    """How many cells are nearer than this one, row by row."""
    return (distances < np.take_along_axis(distances, cell[:, None], axis=1)).sum(1)
