"""Rank lists of candidates by distance, and merge two search results."""

import numpy as np

from ..core.compiled import jit, threaded
from .kernels import rank
from .query import Nearest
from .rounding import tie_rule

__all__ = ["merge", "rank_lists"]

HEAP_SORT = 8  # operations per candidate to sort some ten of them


def merge(X: np.ndarray, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two results for the same queries X, whose numbers agree; the lower wins ties."""
    per_length, slope = tie_rule(X.shape[1], float(np.finfo(X.dtype).eps))
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    rule = np.zeros(len(X)), 0.0, per_length * lengths, slope
    found = first.same, first.same_distances, second.same, second.same_distances
    same, same_distances = _nearest(*found, rule)
    found = first.other, first.other_distances, second.other, second.other_distances
    other, other_distances = _nearest(*found, rule)
    return Nearest(same, other, same_distances, other_distances, first.n_again + second.n_again)


def _nearest(numbers, distances, more, their_distances, rule):
    lists = np.hstack([distances, their_distances]), np.hstack([numbers, more])
    return rank_lists(*lists, numbers.shape[1], rule)[:2]


def rank_lists(
    distances: np.ndarray, numbers: np.ndarray, count: int, rule: tuple
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, distances of the ``count`` nearest of each row, and the bounds of `kernels.rank`."""
    n = len(distances)
    out, distance, bound = np.empty((n, count), np.int64), np.empty((n, count)), np.empty(n)
    work = distances.size * HEAP_SORT
    threaded(_rank_lists, n, work, distances, numbers, rule, out, distance, bound)
    return out, distance, bound


@jit
def _rank_lists(start, stop, distances, numbers, rule, out, distance, bound):
    exact, found = np.empty(distances.shape[1]), np.empty(distances.shape[1])
    for i in range(start, stop):
        count = 0
        for c in range(distances.shape[1]):
            if distances[i, c] < np.inf:
                exact[count], found[count] = distances[i, c], numbers[i, c]
                count += 1
        bound[i] = rank(i, exact, found, count, rule, out, distance)
