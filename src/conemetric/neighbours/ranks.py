"""A search for neighbours, and how its candidates are ranked: bounds on rounding, and ties.

Points z are those of X about a centre, in a unit of length that is a power of two. The square that a
search computes in low precision for a reference at distance d from query i is at most d^2 + gamma (2
|z_i| + d)^2: looking at all below that misses none as near (docs/mathematics/neighbours.md). The ties of the nearest
reference are those whose distances differ from its by no more than a few roundings, the nearest of the
rest has its own, and so on; `ties` decides which comes first.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Array, is_torch, namespace
from ..core.slices import slices
from ..core.vectors import same

TIES = 4.0  # roundings by which the distances of ties may differ
DOUBLE_EPS = 2.0**-52  # spacing of float64 numbers at 1
SQUARES = 8  # roundings of a squared distance besides those of its products


# ---- a search and its result


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

    @property
    def among_themselves(self) -> bool:
        """Whether the queries are the references."""
        return self.references is self.queries


class NearestRows(NamedTuple):
    """Numbers of the nearest references (q, k) and their distances in float64, nearest first; -1 and
    infinity if there are too few.
    """

    numbers: Any
    distances: Any


class NearestByLabel(NamedTuple):
    """The nearest references of a query's label, and of others."""

    same: NearestRows
    other: NearestRows


# ---- bounds on rounding


class TieRule(NamedTuple):
    """Distances from x_i that differ from d by at most ``per_length`` |x_i| + ``slope`` d are ties of d."""

    per_length: float
    slope: float


class Ties(NamedTuple):
    """Distances from row i that exceed d by at most ``widths``[i] + ``slope`` d are ties of d."""

    widths: Any
    slope: float

    def of(self, rows: Any) -> "Ties":
        """Return the ties of some of the rows."""
        return Ties(self.widths[rows], self.slope)


def product_gamma(n_features: int, eps: float) -> float:
    """Return gamma of sums of products in a precision of ``eps``, in any order of summation."""
    return (SQUARES + n_features) * eps


def tie_rule(n_features: int, eps: float) -> TieRule:
    """Return the rule for rows in a precision of ``eps``, whose distances are in float64."""
    return TieRule(TIES * eps, TIES * (eps + n_features**0.5 * DOUBLE_EPS))


def tie_widths(X: np.ndarray, R: np.ndarray, unit: float = 1.0) -> Ties:
    """Return the ties of distances from rows X to references R, measured in this unit."""
    eps = max(float(np.finfo(rows.dtype).eps) for rows in (X, R))
    rule = tie_rule(X.shape[1], eps)
    # columns of one value do not count: rounding moves no distance there
    varying = (R[:1] != X).any(0) | (R[:1] != R).any(0)
    widths = np.empty(len(X))
    for part in slices(*X.shape):
        Z = X[part] * varying / unit
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))
        widths[part] = rule.per_length * lengths
    return Ties(widths, rule.slope)


# ---- ranking


class Ranking(NamedTuple):
    """The nearest candidates of each row, and where the ties of the last of them end: infinity if there
    are too few.
    """

    nearest: NearestRows
    farthest: Any


def rank_rows(candidates: NearestRows, count: int, ties: Ties) -> Ranking:
    """Rank the ``count`` nearest candidates of each row by their numbers where they are ties.

    Candidates are arrays or tensors (n, k), in any order, infinitely far where there is none.
    `kernels.rank_candidates` does the same, row by row.
    """
    n, width = candidates.distances.shape
    xp = namespace(candidates.distances)
    if count == 0:
        none = NearestRows(candidates.numbers[:, :0], candidates.distances[:, :0])
        return Ranking(none, ties.widths + xp.inf)
    if width < count:
        candidates = _padded(candidates, n, count - width)
    order = xp.argsort(candidates.distances)
    numbers = _along(candidates.numbers, order)
    distances = _along(candidates.distances, order)
    # where the ties of each candidate end
    ends = distances + ties.widths[:, None] + ties.slope * distances
    groups = _tie_groups(distances, ends, count)
    # by group, and within a group by number
    by_number = xp.argsort(numbers, stable=True)
    by_group = xp.argsort(_along(groups, by_number), stable=True)
    order = _along(by_number, by_group)[:, :count]
    numbers = _along(numbers, order)
    distances = _along(distances, order)
    nearest = NearestRows(xp.where(distances < xp.inf, numbers, -1), distances)
    return Ranking(nearest, ends[:, count - 1])


def _padded(candidates: NearestRows, n: int, n_missing: int) -> NearestRows:
    """Add candidates that are infinitely far to each of the n rows."""
    xp = namespace(candidates.distances)
    device = candidates.distances.device
    no_numbers = xp.full((n, n_missing), -1, dtype=xp.int64, device=device)
    no_distances = xp.full((n, n_missing), xp.inf, dtype=xp.float64, device=device)
    return NearestRows(
        xp.concat([candidates.numbers, no_numbers], 1),
        xp.concat([candidates.distances, no_distances], 1),
    )


def _tie_groups(distances: Array, ends: Array, count: int) -> Array:
    """Number the groups of ties in each row of ascending distances, whose ties lie below ``ends``.

    Candidates after the first ``count`` belong to the group of the last of these, or to one after it.
    """
    xp = namespace(distances)
    groups = xp.zeros_like(distances, dtype=xp.int64)
    end = ends[:, 0]  # of the group of the candidate before
    for c in range(1, count):
        begins_group = distances[:, c] > end
        end = xp.where(begins_group, ends[:, c], end)
        groups[:, c] = groups[:, c - 1] + begins_group
    tied_with_last = distances[:, count:] <= end[:, None]
    groups[:, count:] = xp.where(tied_with_last, groups[:, count - 1 : count], count)
    return groups


def _along(rows: Array, order: Array) -> Array:
    """Reorder each row by its own order."""
    if is_torch(rows):
        return rows.gather(1, order)
    return np.take_along_axis(rows, order, 1)


def merge(X: np.ndarray, first: NearestByLabel, second: NearestByLabel) -> NearestByLabel:
    """Return the nearest of two results for the same queries X, as one search among all would.

    Their numbers must agree on which rows they mean.
    """
    ties = tie_widths(X, X)
    same_label = _merged(first.same, second.same, ties)
    return NearestByLabel(same_label, _merged(first.other, second.other, ties))


def _merged(first: NearestRows, second: NearestRows, ties: Ties) -> NearestRows:
    """Return the nearest of both, as many as ``first`` has."""
    candidates = NearestRows(
        np.hstack([first.numbers, second.numbers]), np.hstack([first.distances, second.distances])
    )
    return rank_rows(candidates, first.numbers.shape[1], ties).nearest
