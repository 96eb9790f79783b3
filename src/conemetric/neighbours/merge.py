"""One answer from two: the nearest references found in different places."""

import numpy as np

from ..core.compiled import jit, threaded
from .kernels import rank
from .query import Nearest
from .rounding import tie_rule


def merge(X, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two answers for the same queries X, whose numbers mean the same;
    ties go to the lower number, as in any other search.
    """
    per_length, slope = tie_rule(X.shape[1], float(np.finfo(X.dtype).eps))
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    nothing = np.zeros(len(X))
    rule = nothing, 0.0, per_length * lengths, slope
    lists = []
    for numbers, distances in (("same", "same_distances"), ("other", "other_distances")):
        found = np.hstack([getattr(first, numbers), getattr(second, numbers)])
        far = np.hstack([getattr(first, distances), getattr(second, distances)])
        out, distance = (
            np.empty_like(getattr(first, numbers)),
            np.empty_like(getattr(first, distances)),
        )
        threaded(_rank_lists, len(X), found.size * 8, far, found, rule, out, distance)
        lists += [out, distance]
    same, same_distances, other, other_distances = lists
    return Nearest(same, other, same_distances, other_distances, first.n_again + second.n_again)


@jit
def _rank_lists(start, stop, distances, numbers, rule, out, distance):
    """The nearest of each row of candidates, whose distance is infinite where there is none."""
    exact, found = np.empty(distances.shape[1]), np.empty(distances.shape[1])
    for i in range(start, stop):
        count = 0
        for c in range(distances.shape[1]):
            if distances[i, c] < np.inf:
                exact[count], found[count] = distances[i, c], numbers[i, c]
                count += 1
        rank(i, exact, found, count, rule, out, distance)
