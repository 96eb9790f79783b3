"""Vectors and operators in many blocks, each with a memory of its own.

A block holds some points, the constraints among them and its part of every vector. The operator of
the blocks is a sum,

    A(M) = one vector per block        A*(u) = sum over the blocks of D x D matrices

so only D x D matrices, Gram matrices and scalars ever leave a block. Mapping a function over vectors
computes nothing yet: the result is a promise. A sum is a *visit* to all blocks (docs/design.md), which
computes the promises it needs, in one task per block and thread, and keeps those still in use.

An engine decides where blocks are visited: `blocks.threads` (this process, out of core when memory
is short, on several devices) or `blocks.cluster` (dask.distributed). Both make the same `Visit`.
"""

from operator import attrgetter
from typing import Any

import numpy as np

from ..core.arrays import like
from ..core.vectors import total
from ..engine.operators.base import DifferenceOperator, Operator
from .vectors import BlockSpace, BlockVector, astype


class BlockOperator(Operator):
    """A sum of operators, one per block; see the module docstring.

    ``pieces`` holds the operator of each block, all of this ``dtype`` and none without
    constraints; ``n_constraints`` counts those of all blocks.
    """

    def __init__(self, pieces: BlockVector, n_constraints: int, n_features: int, dtype: Any):
        self._blocks = pieces
        self.n_constraints = int(n_constraints)
        self.n_features = int(n_features)
        self.reference = np.empty(0, dtype)

    @property
    def space(self) -> BlockSpace:
        return self._blocks.space

    @property
    def blocks(self) -> BlockVector:
        return self._blocks

    def forward(self, M: Any) -> BlockVector:
        return self.space.map(_mapped, self.blocks, method="forward", matrix=M)

    def forward_factor(self, L: Any) -> BlockVector:
        return self.space.map(_mapped, self.blocks, method="forward_factor", matrix=L)

    def adjoint(self, u: Any) -> Any:
        return self.adjoint_and(u)[0]

    def adjoint_and(self, u: Any, *requested: Any) -> tuple[Any, list]:
        own = total(DifferenceOperator.adjoint, self.blocks, u)
        # all of these in one visit: each visit reads every block
        adjoint, *results = self.space.totals(own, *requested)
        return adjoint.astype(self.dtype, copy=False), results

    def precise_adjoint(self, u: Any) -> Any:
        adjoint = self.space.sum(DifferenceOperator.precise_adjoint, self.blocks, u)
        return adjoint.astype(self.dtype, copy=False)

    @property
    def row_sizes(self) -> BlockVector:
        return self.space.map(attrgetter("row_sizes"), self.blocks)

    def astype(self, dtype: Any) -> "BlockOperator":
        if self.dtype == dtype:
            return self
        is_wider = np.dtype(dtype).itemsize > self.dtype.itemsize
        if is_wider:  # too large to keep
            pieces = self.space.recomputed(astype, self.blocks, dtype=dtype)
        else:
            pieces = self.space.map(astype, self.blocks, dtype=dtype)
        return BlockOperator(pieces, self.n_constraints, self.n_features, dtype)

    def empty_constraint_vector(self) -> BlockVector:
        return self.space.map(DifferenceOperator.empty_constraint_vector, self.blocks)

    def constraint_vector(self, values: Any) -> BlockVector:
        if not isinstance(values, BlockVector):
            raise TypeError(
                f"got {type(values).__name__} for one number per constraint of an operator in "
                "blocks; pass a vector of its space."
            )
        return values.astype(self.dtype)


def _mapped(piece: Operator, method: str, matrix: Any) -> Any:
    """Return what a method of the operator of a block makes of a matrix of the host."""
    return getattr(piece, method)(like(matrix, piece.reference))
