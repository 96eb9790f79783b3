"""Constraints in memory, from labels, pairs or triplets, as validated index arrays.

The papers' rule for labels: each point has its ``n_targets`` nearest neighbours of the same label
(targets, to be kept close) and its ``n_impostors`` nearest of another label (impostors, to be pushed
away), by Euclidean distance; its triplets are all (point, target, impostor).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core.arrays import arange, like, namespace, refuse_masked, to_index, to_numpy, unique_rows
from ..core.sparse_rows import SparseRows
from ..core.vectors import ARRAYS, VectorSpace
from ..engine.operators.base import Operator
from ..engine.operators.span import WORTHWHILE, Coordinates, in_span
from ..engine.operators.whitening import similar_scatter, whiten
from ..neighbours.search import MIN_IMPOSTORS, nearest, neighbours_by_label
from ..neighbours.ties import row_keys
from .labels import encode_labels

# neighbours among which a quantity y chooses targets and impostors, relative to the number of
# both: 1 to 10 make little difference (mean R2 of FrobMetric with 5-NN 0.67 to 0.64 on diabetes and
# Friedman's three functions, 300 training rows)
NEAR = 3
# one in so many dissimilar pairs, the nearest, is learned from. AUC of FrobMetric on faces of people that it
# was not learned from, with all and with a third of them: LFW 0.695 and 0.713, ORL 32 x 32 0.926 and 0.925
NEAREST_OF_DISSIMILAR = 3


@dataclass(frozen=True)
class ConstraintsInMemory:
    """Pairs, triplets or quadruplets of the rows of an array, a tensor or `SparseRows`.

    An estimator is written once for these and for `in_blocks.ConstraintsInBlocks`, which has the same
    attributes and methods, with vectors in blocks.
    """

    points: Any
    index: Any  # integers (m, 2), (m, 3) or (m, 4)
    weights: Any = None  # positive ones; None means one each
    similar: Any = None  # which pairs are similar
    labels: Any = None  # classes of the points, if neighbours can be searched again by them
    point_weights: Any = None  # those of the points, if constraints come from labels
    rows: Any = None  # numbers of the points in the user's X; None if no row was left out
    from_labels: bool = False  # each constraint then weighs as much as its first row
    n_references: int | None = None  # rows sampled to search among; None: all, or no search
    space: ClassVar[VectorSpace] = ARRAYS

    @property
    def dtype(self) -> Any:
        return self.points.dtype

    @property
    def n_constraints(self) -> int:
        return len(self.index)

    @property
    def row_numbers(self) -> Any:
        """``index`` by row numbers of the user's X."""
        if self.rows is None:
            return self.index
        return self.rows[self.index]

    def coordinates(self, spanned: bool = False, always: bool = False) -> Coordinates:
        """The points as they are, or in the span of their differences (`engine.operators.span`), where
        that saves time or ``always``.
        """
        if spanned:
            return in_span(self.points, at_most=1.0 if always else WORTHWHILE)
        return Coordinates(self.points)

    def whitened(self, similar_pairs: Callable, ridge: float) -> tuple[Coordinates, Any]:
        """Coordinates in which the scatter of the similar pairs is the identity, and the scatter
        with its ridge, or None if that would be larger than the data. ``similar_pairs(index,
        similar, weights)`` returns the pairs and their weights.
        """
        n_points, n_features = self.points.shape
        pairs, weights = similar_pairs(self.index, self.similar, self.weights)
        scatter = None
        if n_features <= n_points:
            scatter = similar_scatter(self.points, pairs, ridge, weights)
        return whiten(self.points, pairs, ridge, weights), scatter

    def over(self, function: Callable, /) -> Any:
        """The vector of ``function(points, index, similar)``."""
        return function(self.points, self.index, self.similar)

    def narrowed(self, function: Callable, /) -> "ConstraintsInMemory | None":
        """The same points with ``function(points, index, similar)`` for their index, without
        weights; None if nothing is left.
        """
        index = self.over(function)
        if not len(index):
            return None
        return replace(self, index=index, similar=None, weights=None)

    def without(self, marked: Any) -> "ConstraintsInMemory":
        """The same points without the constraints ``marked`` by a number above 0, without weights."""
        return replace(self, index=unmarked(self.index, marked), similar=None, weights=None)

    def operator(self, make: Callable, coordinates: Coordinates) -> Operator:
        """The operator ``make(points, index)`` over the points in these coordinates."""
        return make(coordinates.points, self.index)


def unmarked(index: Any, marked: Any) -> Any:
    """The rows of ``index`` that are not ``marked`` by a number above 0."""
    return index[like(to_index(marked <= 0), index)]


def triplets_from_labels(X: Any, y: Any, n_targets: int = 3, n_impostors: int | str = 3) -> Any:
    """All (point, target, impostor) of the papers' rule, as an integer array (m, 3) in
    the library of X.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.constraints.in_memory import triplets_from_labels
    >>> X = np.array([[0.0], [1.0], [3.0], [3.5]])
    >>> triplets_from_labels(X, np.array([0, 0, 1, 1]), n_targets=1, n_impostors=1)
    array([[0, 1, 2],
           [1, 0, 2],
           [2, 3, 1],
           [3, 2, 1]])
    """
    lists = neighbours_by_label(X, encode_labels(y), n_targets, n_impostors)
    return triplets_from_neighbours(*lists)


def triplets_from_neighbours(targets: Any, impostors: Any) -> Any:
    """All (point, target, impostor) of index arrays (n, k), padded with -1."""
    xp = namespace(targets, impostors)
    points = arange(len(targets), targets)
    columns = points[:, None, None], targets[:, :, None], impostors[:, None, :]
    shape = len(targets), targets.shape[1], impostors.shape[1]
    triplets = xp.stack([xp.broadcast_to(column, shape) for column in columns], -1).reshape(-1, 3)
    there = (triplets >= 0).all(1)
    if bool(there.all()):  # mostly, and a selection of all would be a copy
        return triplets
    return triplets[there]


def triplets_from_values(X: Any, y: Any, n_targets: int = 3, n_impostors: int | str = 3) -> Any:
    """Triplets from numbers y instead of labels: near in y should be near in the metric.

    Among the `NEAR` (n_targets + n_impostors) rows of X nearest to each point, those
    nearest to it in y are its targets and those farthest in y its impostors; its
    triplets are all (point, target, impostor) whose target is nearer in y.
    """
    if n_impostors == "auto":
        n_impostors = MIN_IMPOSTORS
    n_farthest = int(n_impostors)
    y = np.ravel(to_numpy(y)).astype(np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity; drop those rows.")
    if y.min() == y.max():
        raise ValueError(f"y has the single value {y[0]}; pass at least two.")
    n_near = min(len(y) - 1, NEAR * (n_targets + n_farthest))
    keys = row_keys(X) + row_keys(y[:, None])  # equal rows may have different values
    rows = X
    if isinstance(X, SparseRows):
        rows = X.matrix
    near = to_numpy(nearest(rows, None, n_near, keys)[0])
    # by the difference in y, and where that is equal by the distance in X
    order = np.argsort(abs(y[near] - y[:, None]), axis=1, kind="stable")
    near = np.take_along_axis(near, order, 1)
    triplets = triplets_from_neighbours(near[:, :n_targets], near[:, ::-1][:, :n_farthest])
    i, j, k = triplets.T
    # also drops a row that is target and impostor at once, where neighbours are few
    nearer = abs(y[j] - y[i]) < abs(y[k] - y[i])
    if not nearer.any():
        raise ValueError("y is the same for all neighbouring rows of X; pass other features.")
    return like(triplets[nearer], X, namespace(X).int64)


def pairs_from_labels(X: Any, y: Any, n_targets: int = 3, n_impostors: int | str = 3) -> Any:
    """Every point with its targets (similar) and its impostors (not), as pairs and a mask."""
    return pairs_from_neighbours(*neighbours_by_label(X, encode_labels(y), n_targets, n_impostors))


def pairs_from_neighbours(targets: Any, impostors: Any) -> tuple[Any, Any]:
    """Each point with its targets (similar) and its impostors (not), index arrays (n, k) padded with
    -1, as ordered pairs (m, 2) and a mask (m,).
    """
    near = _pairs_of(targets)
    far = _pairs_of(impostors)
    pairs = namespace(targets, impostors).concat([near, far])
    return pairs, arange(len(pairs), near) < len(near)


def _pairs_of(neighbours: Any) -> Any:
    """Each point with its neighbours, an index array (n, k) padded with -1, as pairs (m, 2)."""
    xp = namespace(neighbours)
    points = arange(len(neighbours), neighbours)[:, None]
    pairs = xp.stack([xp.broadcast_to(points, neighbours.shape), neighbours], -1).reshape(-1, 2)
    return pairs[pairs[:, 1] >= 0]


def check_triplets(triplets: Any, n_points: int) -> np.ndarray:
    """Validate the user's triplets or quadruplets and return them as an integer array."""
    if np.ndim(triplets) == 2 and np.shape(triplets)[1] == 4:
        must_differ = {"have i == j": (0, 1), "have k == l": (2, 3)}
        remedy = "compare two pairs of different rows"
        return _checked(triplets, "quadruplets", 4, n_points, must_differ, remedy)
    must_differ = {"have i == j": (0, 1), "have i == k": (0, 2), "have j == k": (1, 2)}
    remedy = "name three different rows of X in each"
    return _checked(triplets, "triplets", 3, n_points, must_differ, remedy)


def quadruplets_from_pairs(
    pairs: np.ndarray, similar: np.ndarray, length: np.ndarray, n_rounds: int
) -> np.ndarray:
    """The numbers (m, 2) of similar and of dissimilar pairs to compare. Of the dissimilar ones, those
    that are nearest by their ``length``, as impostors are: the others are told apart anyhow. In
    every round each of these pairs is in one comparison, or in several if there are fewer of its kind.
    Which ones are compared is drawn, always in the same way, so that pairs in the order of a file are
    spread.
    """
    rng = np.random.default_rng(0)
    apart = np.flatnonzero(~similar)
    n_nearest = -(-len(apart) // NEAREST_OF_DISSIMILAR)
    nearest_apart = apart[np.argsort(length[apart], kind="stable")[:n_nearest]]
    kinds = np.flatnonzero(similar), nearest_apart
    n = max(map(len, kinds))
    rounds = []
    for _ in range(n_rounds):
        # `resize` repeats the smaller kind until every pair of the larger one has a partner
        drawn = [np.resize(rng.permutation(kind), n) for kind in kinds]
        rounds.append(np.column_stack(drawn))
    compared = np.unique(np.concatenate(rounds), axis=0)
    # of a pair that is marked both ways nothing can be learned
    ends = np.sort(pairs, axis=1)
    contradict = (ends[compared[:, 0]] == ends[compared[:, 1]]).all(axis=1)
    return compared[~contradict]


def find_rows(rows: Any, among: Any) -> Any:
    """The position of each row of an integer array in another one, -1 if it is missing."""
    xp = namespace(rows, among)
    if rows.shape == among.shape and bool((rows == among).all()):
        return arange(len(rows), rows)
    # equal rows of either array have one code, by which sorted numbers can be searched
    code = unique_rows(xp.concat([among, rows]))[1]
    there = code[: len(among)]
    wanted = code[len(among) :]
    order = xp.argsort(there, stable=True)
    place = xp.searchsorted(there[order], wanted)
    place = order[xp.clip(place, 0, len(among) - 1)]
    return xp.where(there[place] == wanted, place, -1)


def check_pairs(pairs: Any, n_points: int) -> np.ndarray:
    """Validate the user's pairs and return them as an integer array (m, 2)."""
    return _checked(pairs, "pairs", 2, n_points, {"join a point to itself": (0, 1)}, "drop them")


def check_similar(similar: Any, n_pairs: int, name: str = "similar") -> np.ndarray:
    """Validate the mask of similar pairs, an argument of this name, and return it as a boolean array."""
    refuse_masked(similar, name)
    similar = np.asarray(to_numpy(similar))
    if similar.shape != (n_pairs,):
        raise ValueError(
            f"{name} has shape {similar.shape}; pass one value for each of the {n_pairs} pairs."
        )
    if not (np.isin(similar, (0, 1)).all() or np.isin(similar, (-1, 1)).all()):
        found = np.unique(similar)[:5]
        raise ValueError(f"{name} must be boolean, only 0 and 1, or only -1 and 1; got {found}.")
    return similar > 0


def _checked(
    indices: Any,
    name: str,
    width: int,
    n_points: int,
    must_differ: Mapping[str, tuple[int, int]],
    remedy: str,
) -> np.ndarray:
    """Row numbers (m, width), each in range and different from those that it must differ from."""
    refuse_masked(indices, name)
    indices = np.asarray(to_numpy(indices))
    if indices.ndim != 2 or indices.shape[1] != width:
        raise ValueError(f"{name} has shape {indices.shape}; pass integers of shape (m, {width}).")
    if len(indices) == 0:
        raise ValueError(f"{name} is empty; pass at least one row.")
    if indices.dtype.kind not in "iu":
        # files often give whole numbers as floats
        if indices.dtype.kind != "f" or not np.array_equal(indices, np.round(indices)):
            raise ValueError(f"{name} has dtype {indices.dtype}; pass integers, row numbers.")
        indices = indices.astype(np.int64)
    outside = ((indices < 0) | (indices >= n_points)).any(axis=1)
    in_range = f"use row numbers of X from 0 to {n_points - 1}"
    _refuse_any(outside, "have an index out of range", indices, name, in_range)
    for fault, (a, b) in must_differ.items():
        _refuse_any(indices[:, a] == indices[:, b], fault, indices, name, remedy)
    return indices.astype(np.int64, copy=False)


def _refuse_any(bad: np.ndarray, fault: str, indices: np.ndarray, name: str, remedy: str) -> None:
    """Refuse row numbers some of which have a fault, and show the first of these."""
    if bad.any():
        first = bad.argmax()
        raise ValueError(
            f"{int(bad.sum())} of the {len(indices)} {name} {fault}, first "
            f"{name}[{first}] = {indices[first].tolist()}; {remedy}."
        )
