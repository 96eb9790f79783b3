"""An operator with a multiple of the trace added to every constraint."""

from typing import Any

from ...core.arrays import Array, DType, float64, identity
from ...core.vectors import VectorSpace
from .base import Operator


class ShiftedOperator(Operator):
    """A(M)_r + shift Tr M, and its adjoint A*(u) + shift (sum u) I."""

    def __init__(self, operator: Operator, shift: float):
        self.operator = operator
        self.shift = shift
        self.n_constraints = operator.n_constraints
        self.n_features = operator.n_features
        self.reference = operator.reference

    def forward(self, M: Array) -> Array:
        return self.operator.forward(M) + self.shift * float(float64(M).diagonal().sum())

    def forward_factor(self, L: Array) -> Array:
        return self.operator.forward_factor(L) + self.shift * float((float64(L) ** 2).sum())

    def forward_product(self, B: Array, C: Array) -> Array:
        return self.operator.forward_product(B, C) + self.shift * float((B * C).sum())

    def adjoint(self, u: Array) -> Array:
        return self.operator.adjoint(u) + self._of_trace(u)

    def precise_adjoint(self, u: Array) -> Array:
        return self.operator.precise_adjoint(u) + self._of_trace(u)

    def adjoint_product(self, u: Array, Y: Array) -> Array:
        return self.operator.adjoint_product(u, Y) + self.shift * float(u.sum()) * Y

    def _of_trace(self, u: Array) -> Array:
        return self.shift * float(u.sum()) * identity(self.n_features, self.reference)

    @property
    def space(self) -> VectorSpace:
        return self.operator.space

    @property
    def row_sizes(self) -> Any:
        return self.operator.row_sizes

    @property
    def dense_work(self) -> float:
        return self.operator.dense_work

    def astype(self, dtype: DType) -> "ShiftedOperator":
        return ShiftedOperator(self.operator.astype(dtype), self.shift)
