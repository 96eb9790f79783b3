"""A sum of spaces: constraints on a matrix and on a few numbers besides it.

The point is one matrix with two diagonal blocks: M (D x D), and v (c numbers) on the rest of the
diagonal. With S the values of c columns for each constraint,

    forward   A(M) + S v        adjoint   A*(u) with S'u on the rest of the diagonal

so that whatever holds for a matrix holds for both together.
"""

from typing import Any

from ..core.arrays import like, zeros
from ..engine.operators.base import RestrictableOperator


class WithColumns(RestrictableOperator):
    """The constraints of ``operator`` with ``columns`` (m, c) besides; see the module docstring."""

    def __init__(self, operator: RestrictableOperator, columns: Any):
        self.operator = operator
        self.reference = operator.reference
        self.columns = like(columns, operator.reference)
        self.n_constraints = operator.n_constraints
        self.n_columns = self.columns.shape[1]
        self.n_features = operator.n_features + self.n_columns

    def forward(self, M):
        block, v = partitioned(M, self.n_columns)
        return self.operator.forward(block) + self.columns @ v

    def forward_factor(self, L):
        block = L[: -self.n_columns]
        tail = L[-self.n_columns :]
        return self.operator.forward_factor(block) + self.columns @ (tail**2).sum(1)

    def adjoint(self, u):
        return concatenated(self.operator.adjoint(u), self.columns.T @ u)

    def precise_adjoint(self, u):
        return concatenated(self.operator.precise_adjoint(u), self.columns.T @ u)

    @property
    def row_sizes(self):
        sizes = self.operator.row_sizes
        if isinstance(sizes, float):
            return sizes
        return (sizes**2 + (self.columns**2).sum(1)) ** 0.5

    @property
    def dense_work(self) -> float:
        return self.operator.dense_work

    def subset(self, index):
        return WithColumns(self.operator.subset(index), self.columns[index])

    def astype(self, dtype):
        if self.dtype == dtype:
            return self
        return WithColumns(self.operator.astype(dtype), like(self.columns, self.columns, dtype))


def concatenated(block: Any, v: Any) -> Any:
    """The matrix with the diagonal blocks ``block`` and diag(``v``); ``block`` may be a factor."""
    rows, columns = block.shape
    whole = zeros((rows + len(v), columns + len(v)), block)
    whole[:rows, :columns] = block
    for i, value in enumerate(v):
        whole[rows + i, columns + i] = value
    return whole


def partitioned(M: Any, n_columns: int) -> tuple[Any, Any]:
    """The matrix and the numbers of which M is `concatenated`."""
    return M[:-n_columns, :-n_columns], M[-n_columns:, -n_columns:].diagonal()
