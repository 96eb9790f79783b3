"""Exact search among few points, by NumPy and SciPy alone: compiling kernels would take seconds."""

import numpy as np
from scipy.spatial.distance import cdist

from ..core.progress import emit
from .cpu import SPARE, Frame
from .merge import rank_rows
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
        _rank(np.where(left_out, np.inf, distances), numbers, count, *ties)
        for left_out, count in ((differs, query.n_same), (~differs, query.n_other))
    ]
    emit("search", done=1.0)
    (same, same_distances), (other, other_distances) = found
    return Nearest(same, other, same_distances * unit, other_distances * unit, 0)


def _rank(distances, numbers, count, tie, slope):
    """Numbers and distances of the ``count`` nearest of each row, sought among a few candidates
    or, where ties leave doubt, among all.
    """
    numbers, width = np.broadcast_to(numbers, distances.shape), count + SPARE
    if count == 0 or width >= distances.shape[1]:
        return rank_rows(distances, numbers, count, tie, slope)[:2]
    candidates = np.argpartition(distances, width - 1, axis=1)[:, :width]
    exact, found = (np.take_along_axis(part, candidates, 1) for part in (distances, numbers))
    out, nearest, farthest = rank_rows(exact, found, count, tie, slope)
    unsure = exact.max(1) <= np.minimum(farthest, np.finfo(float).max)  # more may belong there
    if unsure.any():
        out[unsure], nearest[unsure], _ = rank_rows(
            distances[unsure], numbers[unsure], count, tie[unsure], slope
        )
    return out, nearest
