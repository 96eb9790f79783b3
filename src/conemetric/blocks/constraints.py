"""Constraints in blocks: pairs and triplets of the rows of Dask collections.

A block holds the rows of one partition, copies of the rows of other blocks that its constraints
need, and the constraints as row numbers among these. Constraints given by row numbers go to the
block of their first row, and the other rows follow; tuples of points stay where they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import numpy as np

from ..constraints.in_memory import (
    ConstraintsInMemory,
    check_pairs,
    check_similar,
    check_triplets,
    unmarked,
)
from ..core.arrays import float64, is_dask, like
from ..core.extras import require
from ..core.vectors import same
from ..engine.operators.span import Coordinates, Matrix
from ..engine.operators.whitening import amount, ridge_of_spread, scatter, whitening
from .operator import BlockOperator
from .rows import BlockRows, checked_partitions, without_zeros
from .vectors import BlockSpace, BlockVector


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

    def coordinates(self, spanned: bool = False) -> Coordinates:
        """A sample of the rows, of which there are more than features."""
        return Coordinates(self.rows.sample)

    def whitened(self, similar_pairs: Callable, ridge: float) -> tuple[Coordinates, Any]:
        rows, space = self.rows, self.space
        pairs = space.recomputed(similar_pairs, self.index, self.similar, self.weights)
        total, n_pairs = space.sum(same, replace(self, index=pairs).over(_scatter, keep=False))
        if not n_pairs:
            raise ValueError("there are no similar pairs; give pairs of both kinds.")
        diagonal = ridge_of_spread(rows.spread, n_pairs, ridge)
        scale = diagonal[:, None] ** 0.5
        T = whitening(total / scale / scale.T).matrix / scale
        whitened = Coordinates((rows.sample - rows.mean) @ T, (Matrix(T),))
        return whitened, total + np.diag(diagonal)

    def over(self, function: Callable, /, *, keep: bool = True, **small: Any) -> BlockVector:
        """The vector of ``function(points, index, similar, **small)``; with ``keep=False``
        recomputed whenever it is needed.
        """
        make = self.space.map if keep else self.space.recomputed
        parts = self.rows.partitions, self.far, self.index, self.similar
        devices = getattr(self.space.engine, "devices", None)
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
            how, dtype, keep = {}, self.dtype, True
        else:
            (whitening,) = coordinates.maps
            assert isinstance(whitening, Matrix)
            how = {"T": whitening.matrix, "mean": self.rows.mean}
            dtype, keep = np.dtype(np.float64), self.dtype == np.float64
        pieces = self.over(_made, keep=keep, make=make, **how)
        return BlockOperator(pieces, self.n_constraints, self.rows.n_features, dtype)


Constraints = ConstraintsInMemory | ConstraintsInBlocks


def from_numbers(
    rows: BlockRows, index: Any, similar: Any = None, weights: Any = None
) -> ConstraintsInBlocks:
    """Triplets (m, 3) or pairs (m, 2) of row numbers, in memory or of Dask, each in its first row's block."""
    space = rows.space
    if not is_dask(index):
        index = np.asarray(index)
        size = max(1, -(-len(index) // len(rows.counts)))
        index = require("dask.array", "cluster").from_array(index, chunks={0: size}, name=False)
    beside = {"similar": similar, "sample_weight": weights}
    check = partial(_checked_numbers, n_rows=rows.n_rows, dtype=rows.dtype)
    given = checked_partitions(space, check, index, beside, "constraints")
    mine = space.across(_mine, rows.partitions, given, first=rows.first)
    return localised(rows, mine, similar is not None, weights is not None)


def from_tuples(rows: BlockRows, width: int) -> ConstraintsInBlocks:
    """Tuples of ``width`` points each, as `read` returns them; y tells which pairs are similar."""
    space = rows.space
    index = space.map(_consecutive, rows.partitions, width=width)
    similar = space.map(_similar, rows.partitions) if width == 2 else None
    weights = space.map(attrgetter("weights"), rows.partitions) if rows.weighted else None
    return _without_empty_blocks(ConstraintsInBlocks(rows, None, index, similar, weights))


def localised(
    rows: BlockRows, lists: BlockVector, similar: bool, weighted: bool, sample: tuple | None = None
) -> ConstraintsInBlocks:
    """Constraints by row numbers among all rows, renumbered within their blocks, from the index,
    which are ``similar`` and weights of each block, where there are any; rows of other blocks come
    from the sample, or from these blocks.
    """
    space, first, index = rows.space, rows.first, rows.space.map(itemgetter(0), lists)
    of_pairs = space.map(itemgetter(1), lists) if similar else None
    weights = space.map(itemgetter(2), lists) if weighted else None
    needed = space.map(_needed, rows.partitions, index, first=first)
    if sample is None:
        far = space.across(_fetched, needed, rows.partitions, first=first)
    else:
        far = space.map(_from_sample, needed, sample=sample)
    local = space.map(_local, rows.partitions, index, needed, first=first)
    return _without_empty_blocks(ConstraintsInBlocks(rows, far, local, of_pairs, weights))


def _without_empty_blocks(constraints):
    """The same without the blocks that have no constraint."""
    space, rows = constraints.space, constraints.rows
    counts = np.array(space.gather(len, constraints.index))
    if not counts.any():
        raise ValueError("no row has a target and an impostor; give more rows of each class.")
    there = np.flatnonzero(counts)
    constraints = replace(constraints, n_constraints=int(counts.sum()))
    if len(there) == len(counts):
        return constraints
    rows = replace(rows, partitions=space.select(rows.partitions, there))
    names = ("far", "index", "similar", "weights")
    held = {name: getattr(constraints, name) for name in names if getattr(constraints, name)}
    selected = {name: space.select(vector, there) for name, vector in held.items()}
    return replace(constraints, rows=rows, **selected)


# ---- functions that are mapped over the blocks


def _checked_numbers(number, index, similar, weights, n_rows, dtype):
    index = np.asarray(index)
    if not len(index):
        return index.astype(np.int64), similar, weights
    index = check_pairs(index, n_rows) if index.shape[-1] == 2 else check_triplets(index, n_rows)
    if similar is not None:
        similar = check_similar(similar, len(index))
    if weights is not None and np.shape(weights) != (len(index),):
        fault = f"sample_weight has shape {np.shape(weights)} for {len(index)} constraints"
        raise ValueError(f"{fault}; partition it like them.")
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return without_zeros(weights, dtype, f"in partition {number}", index, similar)


def _mine(before, partition, given, _, first):
    """(index, similar, weights) of the constraints whose first row is in this block."""
    inside = _inside(partition, given[0][:, 0], first)
    found = tuple(None if part is None else part[inside] for part in given)
    if before is None:
        return found
    both = zip(before, found, strict=True)
    return tuple(None if old is None else np.concatenate([old, new]) for old, new in both)


def _inside(partition, numbers, first):
    """Which of these numbers among all rows are in this block."""
    low = first[partition.number]
    return (numbers >= low) & (numbers < low + len(partition.X))


def _needed(partition, index, first):
    """Numbers of the rows of other blocks, ascending."""
    numbers = np.unique(index)
    return numbers[~_inside(partition, numbers, first)]


def _fetched(before, needed, partition, _, first):
    """The rows fetched so far, and those of one more block."""
    inside = needed[_inside(partition, needed, first)]
    found = partition.X[inside - first[partition.number]]
    return found if before is None else np.concatenate([before, found])


def _from_sample(needed, sample):
    references, _, numbers = sample
    return references[np.searchsorted(numbers, needed)]


def _local(partition, index, needed, first):
    own, far = index - first[partition.number], len(partition.X) + np.searchsorted(needed, index)
    return np.where(_inside(partition, index, first), own, far).astype(np.int32)


def _consecutive(partition, width):
    return np.arange(len(partition.X), dtype=np.int32).reshape(-1, width)


def _similar(partition):
    return check_similar(partition.y, len(partition.y))


def _scatter(points, weighed_pairs, similar):
    """Scatter of the similar pairs of a block, in float64, and how much they weigh."""
    pairs, weights = weighed_pairs
    if not len(pairs):
        return np.zeros((points.shape[1], points.shape[1])), 0
    return scatter(float64(points), pairs, weights), amount(pairs, weights)


def _made(points, index, similar, make, T=None, mean=None):
    if T is None:
        return make(points, index)
    points = float64(points)
    return make((points - like(mean, points)) @ like(T, points), index)


def _over(partition, far, index, similar, function, devices, small):
    points = partition.X if far is None else np.concatenate([partition.X, far])
    if devices is not None:
        import torch

        points = torch.as_tensor(points, device=devices[partition.number % len(devices)])
    return function(points, index, similar, **small)
