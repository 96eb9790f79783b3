"""Rank candidates by distance, and merge two search results: by NumPy alone, because compiling
kernels would take seconds.
"""

import numpy as np

from .query import Nearest
from .rounding import tie_rule

__all__ = ["merge", "rank_rows"]


def merge(X: np.ndarray, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two results for the same queries X, whose numbers agree; the lower wins ties."""
    per_length, slope = tie_rule(X.shape[1], float(np.finfo(X.dtype).eps))
    tie = per_length * np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    same, other, same_distances, other_distances = (
        np.hstack([one, more]) for one, more in zip(first[:4], second[:4], strict=True)
    )
    same, same_distances, _ = rank_rows(same_distances, same, first.same.shape[1], tie, slope)
    other, other_distances, _ = rank_rows(other_distances, other, first.other.shape[1], tie, slope)
    return Nearest(same, other, same_distances, other_distances, first.n_again + second.n_again)


def rank_rows(
    distances: np.ndarray, numbers: np.ndarray, count: int, tie: np.ndarray, slope: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `kernels.rank_candidates`, for arrays (n, k) of candidates, infinitely far where there is none: numbers
    and distances of the ``count`` nearest of each row, and where the ties of the last of them end.
    """
    (n, width), kept = distances.shape, min(count, distances.shape[1])
    out, nearest, last = np.full((n, count), -1), np.full((n, count), np.inf), np.full(n, np.inf)
    if kept == 0:
        return out, nearest, last
    order = np.argsort(distances, axis=1)
    exact, found = (np.take_along_axis(part, order, axis=1) for part in (distances, numbers))
    farthest = exact + tie[:, None] + slope * exact  # ties of each candidate end here
    group, end = np.zeros(exact.shape, int), farthest[:, 0]
    for c in range(1, width):
        beyond = exact[:, c] > end
        end = np.where(beyond, farthest[:, c], end)
        group[:, c] = group[:, c - 1] + beyond
    order = np.lexsort((found, group), axis=1)[:, :kept]
    nearest[:, :kept] = np.take_along_axis(exact, order, axis=1)
    out[:, :kept] = np.take_along_axis(found, order, axis=1)
    out[nearest == np.inf] = -1
    return out, nearest, farthest[:, count - 1] if kept == count else last
