"""Rank candidates by distance, and merge two search results: by NumPy alone, because compiling
kernels would take seconds.
"""

import numpy as np

from .query import Found, Nearest
from .rounding import tie_rule

__all__ = ["merge", "rank_rows"]


def merge(X: np.ndarray, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two results for the same queries X, whose numbers agree; the lower wins ties."""
    per_length, slope = tie_rule(X.shape[1], float(np.finfo(X.dtype).eps))
    tie = per_length * np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))

    def nearer(one, more):
        both = Found(*map(np.hstack, zip(one, more, strict=True)))
        return rank_rows(both, one.numbers.shape[1], tie, slope)[0]

    same, other = nearer(first.same, second.same), nearer(first.other, second.other)
    return Nearest(same, other, first.n_again + second.n_again)


def rank_rows(
    candidates: Found, count: int, tie: np.ndarray, slope: float
) -> tuple[Found, np.ndarray]:
    """As `kernels.rank_candidates`, for arrays (n, k), infinitely far where there is none: the
    ``count`` nearest of each row, and where the ties of the last of them end.
    """
    n, width = candidates.distances.shape
    kept = min(count, width)
    out, nearest, last = np.full((n, count), -1), np.full((n, count), np.inf), np.full(n, np.inf)
    if kept == 0:
        return Found(out, nearest), last
    order = np.argsort(candidates.distances, axis=1)
    found, exact = (np.take_along_axis(part, order, axis=1) for part in candidates)
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
    return Found(out, nearest), farthest[:, count - 1] if kept == count else last
