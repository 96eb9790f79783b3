"""Neighbours found by the user: with a vector database, UMAP, a graph of scikit-learn."""

from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import like, namespace, to_numpy
from ..core.warn import warn_user
from .search import MOST_IMPOSTORS, Neighbours, enough_of, nearer_impostors
from .ties import row_keys

MAX_SHORT_SHARE = 0.5  # share of points with too few neighbours in a graph above which we warn


def precomputed_neighbours(
    neighbors: Any, X: Any, y: np.ndarray, n_targets: int, n_impostors: int | str
) -> Neighbours:
    """Check neighbours given by the user for the rows of X with labels y (-1: none).

    ``neighbors`` is (targets, impostors), integer arrays (n, k) with row numbers of points of the
    same label and of another, -1 for none. Or it is a sparse graph (n, n): row i holds the
    distances of point i to its nearest points of any label, of which the first ``n_targets`` and
    ``n_impostors`` are taken, as by `neighbours_by_label`.
    """
    if sparse.issparse(neighbors):
        graph, keys = sparse.csr_array(neighbors), row_keys(X)
        targets, impostors = _from_graph(graph, keys, y, n_targets, n_impostors)
    else:
        if not isinstance(neighbors, tuple | list) or len(neighbors) != 2:
            kind = type(neighbors).__name__
            raise ValueError(f"neighbors is {kind}; give two index arrays or a sparse graph.")
        targets = _checked(neighbors[0], "targets", y, True)
        impostors = _checked(neighbors[1], "impostors", y, False)
    if (targets < 0).all() or (impostors < 0).all():
        missing = "target" if (targets < 0).all() else "impostor"
        raise ValueError(f"neighbors gives no point a {missing}; give more neighbours.")
    xp = namespace(X)
    return Neighbours(like(targets, X, xp.int64), like(impostors, X, xp.int64))


def _checked(numbers, name, y, same):
    numbers, n = np.asarray(to_numpy(numbers)), len(y)
    wrong_shape = numbers.ndim != 2 or len(numbers) != n or numbers.shape[1] == 0
    if wrong_shape or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"neighbors: {name} has shape {numbers.shape} and dtype {numbers.dtype}; give row "
            f"numbers of X as integers ({n}, k), -1 for none."
        )
    numbers = numbers.astype(np.int64)
    inside = np.clip(numbers, 0, n - 1)
    unlabelled = (y[:, None] < 0) | (y[inside] < 0)
    faults = {
        f"is neither a row of X (0 to {n - 1}) nor -1": (numbers < -1) | (numbers >= n),
        "is the point itself": numbers == np.arange(n)[:, None],
        f"has {'another' if same else 'the same'} label": (numbers >= 0)
        & ((y[inside] == y[:, None]) != same)
        & ~unlabelled,
    }
    for fault, wrong in faults.items():
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"neighbors: {name}[{row}, {column}] = {numbers[row, column]} {fault}; "
                f"{int(wrong.sum())} of {numbers.size} entries are wrong in this way."
            )
    return np.where(unlabelled, -1, numbers)


def _from_graph(graph, keys, y, n_targets, n_impostors):
    n, most = len(y), MOST_IMPOSTORS if n_impostors == "auto" else n_impostors
    if graph.shape != (n, n):
        raise ValueError(f"neighbors is a graph of shape {graph.shape}; give one of ({n}, {n}).")
    row, column = np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices.astype(np.int64)
    distance = graph.data.astype(np.float64)
    if not (distance >= 0).all():
        raise ValueError("neighbors is a graph with negative or NaN distances; remove them.")
    order = np.lexsort((keys[column], distance, row))
    order = order[(row != column)[order] & (y[row] >= 0)[order] & (y[column] >= 0)[order]]
    row, column, distance = row[order], column[order], distance[order]
    same = y[row] == y[column]
    targets, target_distances = _first(row[same], column[same], distance[same], n, n_targets)
    impostors, distances = _first(row[~same], column[~same], distance[~same], n, most)
    if n_impostors == "auto":
        impostors = impostors[:, : enough_of(nearer_impostors(target_distances, distances))]
    short = float(((targets[:, -1] < 0) | (impostors[:, -1] < 0))[y >= 0].mean())
    if short > MAX_SHORT_SHARE:
        warn_user(
            f"{short:.0%} of the points have fewer than {n_targets} neighbours of their label or "
            f"{impostors.shape[1]} of another in the graph; build it with more neighbours."
        )
    return targets, impostors


def _first(row, column, distance, n, k):
    """The first k entries of each row of a list sorted by row, as arrays (n, k)."""
    place = np.arange(len(row)) - np.searchsorted(row, np.arange(n))[row]
    kept = place < k
    numbers, distances = np.full((n, k), -1), np.full((n, k), np.inf)
    numbers[row[kept], place[kept]] = column[kept]
    distances[row[kept], place[kept]] = distance[kept]
    return numbers, distances
