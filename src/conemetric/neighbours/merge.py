"""Rank lists of candidates by distance, and merge two search results."""

import numpy as np

from ..core.compiled import jit, threaded
from .kernels import rank
from .query import Nearest
from .rounding import tie_rule


def merge(X: np.ndarray, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two results for the same queries X, whose numbers agree; of ties the
    lower number comes first, as in any other search.
    """
    per_length, slope = tie_rule(X.shape[1], float(np.finfo(X.dtype).eps))
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    rule = np.zeros(len(X)), 0.0, per_length * lengths, slope
    same, same_distances, _ = rank_lists(
        np.hstack([first.same_distances, second.same_distances]),
        np.hstack([first.same, second.same]),
        first.same.shape[1],
        rule,
    )
    other, other_distances, _ = rank_lists(
        np.hstack([first.other_distances, second.other_distances]),
        np.hstack([first.other, second.other]),
        first.other.shape[1],
        rule,
    )
    return Nearest(same, other, same_distances, other_distances, first.n_again + second.n_again)


def rank_lists(
    distances: np.ndarray, numbers: np.ndarray, count: int, rule: tuple
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers and distances of the ``count`` nearest of each row of candidates, whose
    distance is infinite if there is none, and the bounds of `kernels.rank`.
    """
    n = len(distances)
    out, distance, bound = np.empty((n, count), np.int64), np.empty((n, count)), np.empty(n)
    work = distances.size * 8  # a heap sort of some ten candidates
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
