"""A search for neighbours, and how its candidates are ranked: bounds on rounding, and ties.

Points z are those of X about a centre, in a unit of length that is a power of two. The square that a
search computes in low precision for a reference at distance d from query i is at most d^2 + gamma (2
|z_i| + d)^2: looking at all below that misses none as near (docs/neighbours.md). The ties of the nearest
reference are those whose distances differ from its by no more than a few roundings, the nearest of the
rest has its own, and so on; `ties` decides which comes first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import is_torch, namespace
from ..core.slices import slices
from ..core.vectors import same

TIES = 4.0  # roundings by which ties may differ
DOUBLE_EPS = 2.0**-52  # spacing of float64 numbers at 1
SQUARES = 8  # roundings of a squared distance besides those of its products


class LabelledRows(NamedTuple):
    """Rows X (n, D), float32 or float64, and labels y (n,), integers from 0 on the host."""

    X: Any
    y: Any


class SearchQuery(NamedTuple):
    """Find the references nearest to each query: ``n_same`` of its label, ``n_other`` of others.

    ``references`` is the object ``queries`` if points are searched among themselves. ``own`` (q,)
    names for each query the reference that is the query itself, to be skipped, or -1. ``numbers`` is
    the function from rows of the references to what identifies them in the result, distinct integers
    below 2^53 on the host; of ties the lower number comes first (see `ties`).
    """

    queries: LabelledRows
    references: LabelledRows
    n_same: int
    n_other: int
    own: Any
    numbers: Callable[[Any], Any] = same


class Found(NamedTuple):
    """Numbers of the references found (q, k) and their distances in float64, nearest first; -1 and
    infinity if there are too few.
    """

    numbers: Any
    distances: Any


class Nearest(NamedTuple):
    """The references found of a query's label and of others."""

    same: Found
    other: Found


def product_gamma(n_features: int, eps: float) -> float:
    """gamma of sums of products in a precision of ``eps``, in any order of summation."""
    return (SQUARES + n_features) * eps


def tie_rule(n_features: int, eps: float) -> tuple[float, float]:
    """(a, b): distances from x_i within a |x_i| + b d of d are ties of d."""
    return TIES * eps, TIES * (eps + n_features**0.5 * DOUBLE_EPS)


def tie_widths(X: np.ndarray, R: np.ndarray, unit: float = 1.0) -> tuple[np.ndarray, float]:
    """a |x_i| of the queries X, and b, for distances to references R in this unit."""
    eps = max(float(np.finfo(each.dtype).eps) for each in (X, R))
    per_length, slope = tie_rule(X.shape[1], eps)
    # columns of one value do not count: rounding moves no distance there
    varying = (R[:1] != X).any(0) | (R[:1] != R).any(0)
    widths = np.empty(len(X))
    for part in slices(*X.shape):
        Z = X[part] * varying / unit
        widths[part] = per_length * np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))
    return widths, slope


def rank_rows(candidates: Found, count: int, tie: Any, slope: float) -> tuple[Found, Any]:
    """As `kernels.rank_candidates`, for arrays or tensors (n, k), infinitely far where there is none:
    the ``count`` nearest of each row, and where the ties of the last of them end.
    """
    numbers, distances = candidates
    xp, (n, width) = namespace(distances), distances.shape
    if count == 0:
        return Found(numbers[:, :0], distances[:, :0]), tie + xp.inf
    if width < count:
        shape, where = (n, count - width), {"device": distances.device}
        numbers = xp.concat([numbers, xp.full(shape, -1, dtype=xp.int64, **where)], 1)
        distances = xp.concat([distances, xp.full(shape, xp.inf, dtype=xp.float64, **where)], 1)
    order = xp.argsort(distances)
    numbers, distances = _along(numbers, order), _along(distances, order)
    farthest = distances + tie[:, None] + slope * distances  # ties of each candidate end here
    group, end = xp.zeros_like(numbers), farthest[:, 0]
    for c in range(1, count):
        beyond = distances[:, c] > end
        end = xp.where(beyond, farthest[:, c], end)
        group[:, c] = group[:, c - 1] + beyond
    tied = distances[:, count:] <= end[:, None]
    group[:, count:] = xp.where(tied, group[:, count - 1 : count], count)
    order = xp.argsort(numbers, stable=True)
    order = _along(order, xp.argsort(_along(group, order), stable=True))[:, :count]
    numbers, distances = _along(numbers, order), _along(distances, order)
    return Found(xp.where(distances < xp.inf, numbers, -1), distances), farthest[:, count - 1]


def _along(rows, order):
    return rows.gather(1, order) if is_torch(rows) else np.take_along_axis(rows, order, 1)


def merge(X: np.ndarray, first: Nearest, second: Nearest) -> Nearest:
    """The nearest of two results for the same queries X, whose numbers agree; the lower wins ties."""
    tie, slope = tie_widths(X, X)

    def nearer(one, more):
        both = Found(*map(np.hstack, zip(one, more, strict=True)))
        return rank_rows(both, one.numbers.shape[1], tie, slope)[0]

    return Nearest(nearer(first.same, second.same), nearer(first.other, second.other))
