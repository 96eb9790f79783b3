"""Neighbours found by the user: with a vector database, UMAP, a graph of scikit-learn."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.arrays import like, namespace, to_numpy
from ..core.warn import warn_user
from .ranks import NearestRows
from .search import MAX_IMPOSTORS, Neighbours, enough_impostors, nearer_impostors
from .ties import row_keys

MAX_SHORT_SHARE = 0.5  # share of points with too few neighbours in a graph above which we warn


def precomputed_neighbours(
    neighbors: Any, X: Any, y: np.ndarray, n_targets: int, n_impostors: int | str
) -> Neighbours:
    """Check neighbours passed by the user for the rows of X with labels y (-1: none).

    ``neighbors`` is (targets, impostors), integer arrays (n, k) with row numbers of points of the
    same label and of another, -1 for none. Or it is a sparse graph (n, n): row i holds the
    distances of point i to its nearest points of any label, of which the first ``n_targets`` and
    ``n_impostors`` are taken, as by `neighbours_by_label`.
    """
    if sparse.issparse(neighbors):
        graph = sparse.csr_array(neighbors)
        found = _from_graph(graph, row_keys(X), y, n_targets, n_impostors)
    elif isinstance(neighbors, tuple | list) and len(neighbors) == 2:
        targets = _checked(neighbors[0], "targets", y, same=True)
        found = Neighbours(targets, _checked(neighbors[1], "impostors", y, same=False))
    else:
        kind = type(neighbors).__name__
        raise ValueError(f"neighbors is {kind}; pass two index arrays or a sparse graph.")
    for kind, numbers in (("target", found.targets), ("impostor", found.impostors)):
        if (numbers < 0).all():
            raise ValueError(f"neighbors has no {kind} for any point; pass more neighbours.")
    xp = namespace(X)
    return Neighbours(like(found.targets, X, xp.int64), like(found.impostors, X, xp.int64))


# ---- index arrays


def _checked(numbers: Any, name: str, y: np.ndarray, *, same: bool) -> np.ndarray:
    """Check row numbers of neighbours with the same label or another; points without one have none."""
    numbers = np.asarray(to_numpy(numbers))
    n = len(y)
    wrong_shape = numbers.ndim != 2 or len(numbers) != n or numbers.shape[1] == 0
    if wrong_shape or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"neighbors: {name} has shape {numbers.shape} and dtype {numbers.dtype}; pass row "
            f"numbers of X as integers ({n}, k), -1 for none."
        )
    numbers = numbers.astype(np.int64)
    no_row = (numbers < -1) | (numbers >= n)
    _refuse(no_row, numbers, name, f"is neither a row of X (0 to {n - 1}) nor -1")
    itself = numbers == np.arange(n)[:, None]
    _refuse(itself, numbers, name, "is the point itself")
    label = y[:, None]
    label_of_neighbour = y[np.maximum(numbers, 0)]
    unlabelled = (label < 0) | (label_of_neighbour < 0)
    wrong_label = (numbers >= 0) & ~unlabelled & ((label_of_neighbour == label) != same)
    _refuse(wrong_label, numbers, name, f"has {'another' if same else 'the same'} label")
    # searches ignore rows without a label, and so must what is passed in place of one
    return np.where(unlabelled, -1, numbers)


def _refuse(wrong: np.ndarray, numbers: np.ndarray, name: str, fault: str) -> None:
    """Refuse entries that are wrong, naming the first."""
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"neighbors: {name}[{row}, {column}] = {numbers[row, column]} {fault}; "
            f"{int(wrong.sum())} of {numbers.size} entries are wrong in this way."
        )


# ---- graphs


class _Edges(NamedTuple):
    """The edges of a graph, sorted by row, and within a row the nearest first."""

    row: np.ndarray
    column: np.ndarray
    distance: np.ndarray

    def of(self, edges: np.ndarray) -> "_Edges":
        """Return some of the edges."""
        return _Edges(self.row[edges], self.column[edges], self.distance[edges])

    def first(self, n: int, k: int) -> NearestRows:
        """Return the first k columns and distances of each of n rows; -1 and infinity beyond."""
        starts = np.searchsorted(self.row, np.arange(n))
        place = np.arange(len(self.row)) - starts[self.row]
        edges = self.of(place < k)
        place = place[place < k]
        nearest = NearestRows(np.full((n, k), -1), np.full((n, k), np.inf))
        nearest.numbers[edges.row, place] = edges.column
        nearest.distances[edges.row, place] = edges.distance
        return nearest


def _from_graph(
    graph: sparse.csr_array,
    keys: np.ndarray,
    y: np.ndarray,
    n_targets: int,
    n_impostors: int | str,
) -> Neighbours:
    """Return the nearest targets and impostors of a graph; of equal distances the lower key is nearer."""
    n = len(y)
    edges = _edges(graph, keys, y)
    same = y[edges.row] == y[edges.column]
    targets = edges.of(same).first(n, n_targets)
    if n_impostors == "auto":
        nearest_others = edges.of(~same).first(n, MAX_IMPOSTORS)
        counts = nearer_impostors(targets.distances, nearest_others.distances)
        impostors = nearest_others.numbers[:, : enough_impostors(counts)]
    else:
        impostors = edges.of(~same).first(n, int(n_impostors)).numbers
    has_too_few = (targets.numbers[:, -1] < 0) | (impostors[:, -1] < 0)
    short_share = float(has_too_few[y >= 0].mean())
    if short_share > MAX_SHORT_SHARE:
        warn_user(
            f"{short_share:.0%} of the points have fewer than {n_targets} neighbours of their label "
            f"or {impostors.shape[1]} of another in the graph; build it with more neighbours."
        )
    return Neighbours(targets.numbers, impostors)


def _edges(graph: sparse.csr_array, keys: np.ndarray, y: np.ndarray) -> _Edges:
    """Check a graph and return its edges between different points that have labels."""
    n = len(y)
    if graph.shape != (n, n):
        raise ValueError(f"neighbors is a graph of shape {graph.shape}; pass one of ({n}, {n}).")
    distance = graph.data.astype(np.float64)
    if not (distance >= 0).all():
        raise ValueError("neighbors is a graph with negative or NaN distances; remove them.")
    row = np.repeat(np.arange(n), np.diff(graph.indptr))
    column = graph.indices.astype(np.int64)
    order = np.lexsort((keys[column], distance, row))
    edges = _Edges(row, column, distance).of(order)
    has_labels = (y[edges.row] >= 0) & (y[edges.column] >= 0)
    return edges.of((edges.row != edges.column) & has_labels)
