"""Constraints in blocks: pairs and triplets of the rows of Dask collections.

A block holds the rows of one partition, copies of the rows of other blocks that its constraints
need, and the constraints as row numbers among these. Constraints given by row numbers go to the
block of their first row, and the other rows follow; tuples of points stay where they are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..constraints.in_memory import (
    check_pairs,
    check_similar,
    check_triplets,
    unmarked,
)
from ..core.arrays import Array, float64, is_dask, like
from ..core.extras import require
from ..core.vectors import same
from ..engine.operators.base import Operator
from ..engine.operators.span import Coordinates, Matrix
from ..engine.operators.whitening import amount, ridge_of_spread, scatter, whitening
from .operator import BlockOperator
from .rows import BlockRows, Partition, checked_partitions, without_zeros
from .vectors import BlockSpace, BlockVector

First = dict[int, int]  # the number, among all rows, of the first row of each partition


@dataclass(frozen=True)
class ConstraintsInBlocks:
    """Constraints in blocks, none of them empty, with the methods of `ConstraintsInMemory`.

    ``index``, ``similar`` and ``weights`` are vectors in blocks. ``far`` holds copies of rows of
    other blocks, numbered after the block's own rows; None if there are none.
    """

    rows: BlockRows
    far: BlockVector | None
    index: BlockVector
    similar: BlockVector | None = None
    weights: BlockVector | None = None
    n_constraints: int = 0
    from_labels: bool = False
    n_references: int | None = None
    labels: ClassVar[None] = None  # neighbours are searched once
    row_numbers: ClassVar[None] = None  # blocks keep no such list

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def space(self) -> BlockSpace:
        return self.rows.space

    def coordinates(self, spanned: bool = False, always: bool = False) -> Coordinates:
        """A sample of the rows, of which there are more than features."""
        return Coordinates(self.rows.sample)

    def whitened(self, similar_pairs: Callable, ridge: float) -> tuple[Coordinates, Any]:
        rows, space = self.rows, self.space
        pairs = space.recomputed(similar_pairs, self.index, self.similar, self.weights)
        total, n_pairs = space.sum(same, replace(self, index=pairs).over(_scatter, keep=False))
        if not n_pairs:
            raise ValueError("there are no similar pairs; pass pairs of both kinds.")
        diagonal = ridge_of_spread(rows.spread, n_pairs, ridge)
        scale = diagonal[:, None] ** 0.5
        T = whitening(total / scale / scale.T).matrix / scale
        whitened = Coordinates((rows.sample - rows.mean) @ T, (Matrix(T),))
        return whitened, total + np.diag(diagonal)

    def over(self, function: Callable, /, *, keep: bool = True, **small: Any) -> BlockVector:
        """The vector of ``function(points, index, similar, **small)``; with ``keep=False``
        recomputed whenever it is needed.
        """
        parts = (self.rows.partitions, self.far, self.index, self.similar)
        devices = getattr(self.space.engine, "devices", None)
        make = self.space.map if keep else self.space.recomputed
        return make(_over, *parts, function=function, devices=devices, small=small)

    def narrowed(self, function: Callable, /) -> "ConstraintsInBlocks | None":
        index = self.over(function)
        if not self.space.sum(len, index):
            return None
        return _without_empty_blocks(replace(self, index=index, similar=None, weights=None))

    def without(self, marked: BlockVector) -> "ConstraintsInBlocks":
        index = self.space.map(unmarked, self.index, marked)
        return _without_empty_blocks(replace(self, index=index, similar=None, weights=None))

    def operator(self, make: Callable, coordinates: Coordinates) -> BlockOperator:
        """In whitened coordinates in float64, kept only if the solve is in float64 too."""
        if not coordinates.maps:
            dtype = self.dtype
            pieces = self.over(_operator, make=make)
        else:
            (whitening,) = coordinates.maps
            assert isinstance(whitening, Matrix)
            dtype = np.dtype(np.float64)
            pieces = self.over(
                _whitened_operator,
                keep=self.dtype == dtype,
                make=make,
                T=whitening.matrix,
                mean=self.rows.mean,
            )
        return BlockOperator(pieces, self.n_constraints, self.rows.n_features, dtype)


def from_numbers(
    rows: BlockRows, index: Any, similar: Any = None, weights: Any = None
) -> ConstraintsInBlocks:
    """Triplets (m, 3) or pairs (m, 2) of row numbers, in memory or of Dask, each in its first row's block."""
    space = rows.space
    if not is_dask(index):
        index = np.asarray(index)
        # as many lists as there are blocks, so that no task holds all constraints
        size = max(1, -(-len(index) // len(rows.counts)))
        index = require("dask.array", "cluster").from_array(index, chunks={0: size}, name=False)
    beside = {"similar": similar, "sample_weight": weights}
    check = partial(_checked_numbers, n_rows=rows.n_rows, dtype=rows.dtype)
    listed = checked_partitions(space, check, index, beside, "constraints")
    own = space.across(_own, rows.partitions, listed, first=rows.first)
    return localised(rows, own, similar=similar is not None, weighted=weights is not None)


def from_tuples(rows: BlockRows, width: int) -> ConstraintsInBlocks:
    """Tuples of ``width`` points each, as `read` returns them; y tells which pairs are similar."""
    space = rows.space
    index = space.map(_consecutive, rows.partitions, width=width)
    similar = space.map(_similar, rows.partitions) if width == 2 else None
    weights = space.map(attrgetter("weights"), rows.partitions) if rows.weighted else None
    return _without_empty_blocks(ConstraintsInBlocks(rows, None, index, similar, weights))


def localised(
    rows: BlockRows, lists: BlockVector, *, similar: bool, weighted: bool, sample: Any = None
) -> ConstraintsInBlocks:
    """Return the constraints `Listed` for each block, renumbered within it.

    ``similar`` and ``weighted`` tell which of their parts there are. Rows of other blocks come from
    the sample, or from these blocks.
    """
    space = rows.space
    first = rows.first
    index = space.map(attrgetter("numbers"), lists)
    of_pairs = space.map(attrgetter("similar"), lists) if similar else None
    weights = space.map(attrgetter("weights"), lists) if weighted else None
    needed = space.map(_needed, rows.partitions, index, first=first)
    if sample is None:
        far = space.across(_fetched, needed, rows.partitions, first=first)
    else:
        far = space.map(_from_sample, needed, sample=sample)
    local = space.map(_local, rows.partitions, index, needed, first=first)
    return _without_empty_blocks(ConstraintsInBlocks(rows, far, local, of_pairs, weights))


def _without_empty_blocks(constraints: ConstraintsInBlocks) -> ConstraintsInBlocks:
    """Return the same without the blocks that have no constraint."""
    space = constraints.space
    rows = constraints.rows
    counts = np.array(space.gather(len, constraints.index))
    if not counts.any():
        raise ValueError("no row has a target and an impostor; pass more rows of each class.")
    not_empty = np.flatnonzero(counts).tolist()
    constraints = replace(constraints, n_constraints=int(counts.sum()))
    if len(not_empty) == len(counts):
        return constraints
    selected: dict[str, Any] = {}
    for name in ("far", "index", "similar", "weights"):
        vector = getattr(constraints, name)
        if vector is not None:
            selected[name] = space.select(vector, not_empty)
    rows = replace(rows, partitions=space.select(rows.partitions, not_empty))
    return replace(constraints, rows=rows, **selected)


# ---- functions that are mapped over the blocks


class Listed(NamedTuple):
    """Constraints of a block by row numbers, which pairs are similar, and weights; or None."""

    numbers: np.ndarray
    similar: np.ndarray | None
    weights: np.ndarray | None


def _checked_numbers(
    number: int, index: Any, similar: Any, weights: Any, n_rows: int, dtype: np.dtype
) -> Listed:
    """Return the constraints of a partition, validated."""
    index = np.asarray(index)
    if not len(index):
        return Listed(index.astype(np.int64), similar, weights)
    if index.shape[-1] == 2:
        index = check_pairs(index, n_rows)
    else:
        index = check_triplets(index, n_rows)
    if similar is not None:
        similar = check_similar(similar, len(index))
    if weights is not None and np.shape(weights) != (len(index),):
        fault = f"sample_weight has shape {np.shape(weights)} for {len(index)} constraints"
        raise ValueError(f"{fault}; partition it like them.")
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
    return Listed(*without_zeros(weights, dtype, f"in partition {number}", index, similar))


def _own(
    before: Listed | None, partition: Partition, listed: Listed, _: int, first: First
) -> Listed:
    """Return the constraints so far whose first row is in this block, and those of one more list."""
    inside = _inside(partition, listed.numbers[:, 0], first)
    parts: list[Any] = []
    for number, part in enumerate(listed):
        if part is None:
            parts.append(None)
        elif before is None:
            parts.append(part[inside])
        else:
            parts.append(np.concatenate([before[number], part[inside]]))
    return Listed(*parts)


def _inside(partition: Partition, numbers: np.ndarray, first: First) -> np.ndarray:
    """Return which of these numbers among all rows are in this block."""
    low = first[partition.number]
    return (numbers >= low) & (numbers < low + len(partition.X))


def _needed(partition: Partition, index: np.ndarray, first: First) -> np.ndarray:
    """Return the numbers of the rows of other blocks, ascending."""
    numbers = np.unique(index)
    return numbers[~_inside(partition, numbers, first)]


def _fetched(
    before: np.ndarray | None, needed: np.ndarray, partition: Partition, _: int, first: First
) -> np.ndarray:
    """Return the rows fetched so far, and those of one more block."""
    inside = needed[_inside(partition, needed, first)]
    rows = partition.X[inside - first[partition.number]]
    if before is None:
        return rows
    return np.concatenate([before, rows])


def _from_sample(needed: np.ndarray, sample: Any) -> np.ndarray:
    return sample.X[np.searchsorted(sample.numbers, needed)]


def _local(partition: Partition, index: np.ndarray, needed: np.ndarray, first: First) -> np.ndarray:
    """Return the constraints by row numbers within the block, where rows of other blocks follow."""
    own = index - first[partition.number]
    far = len(partition.X) + np.searchsorted(needed, index)
    # four bytes number the rows of a block, and every triplet holds three of them
    return np.where(_inside(partition, index, first), own, far).astype(np.int32)


def _consecutive(partition: Partition, width: int) -> np.ndarray:
    """Return the constraints of a block whose rows are the points of tuples, one after the other."""
    return np.arange(len(partition.X), dtype=np.int32).reshape(-1, width)


def _similar(partition: Partition) -> np.ndarray:
    return check_similar(partition.y, len(partition.y))


def _scatter(points: Array, weighed_pairs: tuple[Any, Any], similar: Any) -> tuple[Array, float]:
    """Return the scatter of the similar pairs of a block, in float64, and how much they weigh."""
    pairs, weights = weighed_pairs
    if not len(pairs):
        return np.zeros((points.shape[1], points.shape[1])), 0
    return scatter(float64(points), pairs, weights), amount(pairs, weights)


def _operator(points: Array, index: Array, similar: Any, make: Callable[..., Operator]) -> Operator:
    return make(points, index)


def _whitened_operator(
    points: Array, index: Array, similar: Any, make: Callable[..., Operator], T: Any, mean: Any
) -> Operator:
    points = float64(points)
    return make((points - like(mean, points)) @ like(T, points), index)


def _over(
    partition: Partition,
    far: np.ndarray | None,
    index: Any,
    similar: Any,
    function: Callable[..., Any],
    devices: Sequence[str] | None,
    small: dict[str, Any],
) -> Any:
    """Return a function of the points and constraints of a block, on the device of the block."""
    points = partition.X
    if far is not None:
        points = np.concatenate([points, far])
    if devices is not None:
        import torch

        # by the number of the partition: a block goes to the same device in every visit
        points = torch.as_tensor(points, device=devices[partition.number % len(devices)])
    return function(points, index, similar, **small)
