"""Exact search among few points, by NumPy and SciPy alone: compiling kernels would take seconds."""

import numpy as np
from scipy.spatial.distance import cdist

from ..core.progress import emit
from .cpu import SPARE, Frame
from .query import Nearest, SearchQuery
from .rounding import tie_rule

__all__ = ["search"]


def search(query: SearchQuery) -> Nearest:
    """Search exactly, with all distances in memory."""
    (X, y), (R, y_reference) = query[:2]
    unit = Frame.of(query).unit  # a power of two: only sums of squares are rounded
    distances = cdist(*(np.divide(part, unit, dtype=np.float64) for part in (X, R)))
    itself = np.flatnonzero(query.own >= 0)
    distances[itself, query.own[itself]] = np.inf
    per_length, slope = tie_rule(X.shape[1], max(np.finfo(part.dtype).eps for part in (X, R)))
    ties = per_length * np.linalg.norm(np.divide(X, unit, dtype=np.float64), axis=1), slope
    numbers = query.numbers_of(np.arange(len(R)))
    differs = y[:, None] != y_reference
    found = [
        _rank(np.where(left_out, np.inf, distances), numbers, count, count + SPARE, *ties)
        for left_out, count in ((differs, query.n_same), (~differs, query.n_other))
    ]
    emit("search", done=1.0)
    (same, same_distances), (other, other_distances) = found
    return Nearest(same, other, same_distances * unit, other_distances * unit, 0)


def _rank(distances, numbers, count, width, tie, slope):
    """`kernels.rank` for the rows of an array: numbers and distances of the ``count`` nearest,
    sought among ``width`` candidates or, where ties leave doubt, among all.
    """
    n, n_references = distances.shape
    out, nearest = np.full((n, count), -1), np.full((n, count), np.inf)
    count, width = min(count, n_references), min(width, n_references)
    if count == 0:
        return out, nearest
    candidates = np.argpartition(distances, width - 1, axis=1)[:, :width]
    exact = np.take_along_axis(distances, candidates, axis=1)
    order = np.argsort(exact, axis=1)
    exact = np.take_along_axis(exact, order, axis=1)
    found = numbers[np.take_along_axis(candidates, order, axis=1)]
    farthest = exact + tie[:, None] + slope * exact  # ties of each candidate end here
    group, end = np.zeros(exact.shape, int), farthest[:, 0]
    for c in range(1, width):
        beyond = exact[:, c] > end
        end = np.where(beyond, farthest[:, c], end)
        group[:, c] = group[:, c - 1] + beyond
    order = np.lexsort((found, group), axis=1)[:, :count]
    nearest[:, :count] = np.take_along_axis(exact, order, axis=1)
    out[:, :count] = np.take_along_axis(found, order, axis=1)
    out[nearest == np.inf] = -1
    unsure = exact[:, -1] <= np.minimum(farthest[:, count - 1], np.finfo(float).max)
    if width < n_references and unsure.any():  # more may belong there
        out[unsure], nearest[unsure] = _rank(
            distances[unsure], numbers, nearest.shape[1], n_references, tie[unsure], slope
        )
    return out, nearest
