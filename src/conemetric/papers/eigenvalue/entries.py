"""The operator of entries of an n x m matrix X, through M = [[A, X], [X', B]].

    forward   A(M)_r = sign_r X[row_r, column_r]
    adjoint   A*(u) = 1/2 [[0, W], [W', 0]],   W = sum_r sign_r u_r e_row e_column'

The adjoint is a matrix of order n + m: dense up to `MOST_DENSE`, where sparse products take longer;
sparse beyond, and nothing dense of that order is ever formed.
"""

from typing import Any, Self

import numpy as np
from scipy import sparse

from ...engine.operators.base import Operator
from ...engine.operators.numpy_pairs import inner_products

MOST_DENSE = 120  # order of the adjoint up to which dense products are faster


class EntryOperator(Operator):
    """Operator over entries of a matrix of this ``shape``, NumPy only; entries may repeat."""

    reference = np.zeros(0)

    def __init__(
        self, rows: np.ndarray, columns: np.ndarray, signs: np.ndarray, shape: tuple[int, int]
    ):
        self.signs = np.asarray(signs, dtype=float)
        self.n_constraints = len(rows)
        self.n_features = sum(shape)
        self.is_dense = self.n_features <= MOST_DENSE
        # entries observed more than once, by several thresholds, are read and written once
        keys = np.asarray(rows, dtype=np.int64) * shape[1] + columns
        keys, self._entry = np.unique(keys, return_inverse=True)
        self._a = keys // shape[1]
        self._b = shape[0] + keys % shape[1]
        # positions of each entry and its mirror image in the compressed rows of the bordered matrix
        order = np.tile(np.arange(len(keys)), 2)
        ends = np.append(self._a, self._b), np.append(self._b, self._a)
        pattern = sparse.csr_array((order + 1.0, ends), shape=(self.n_features, self.n_features))
        self._place = pattern.data.astype(np.int64) - 1
        self._indices = pattern.indices
        self._row_start = pattern.indptr

    def forward(self, M: Any) -> np.ndarray:
        return self.signs * M[self._a, self._b][self._entry]

    def forward_factor(self, L: Any) -> np.ndarray:
        return self.signs * inner_products(L, L, self._a, self._b)[self._entry]

    def adjoint(self, u: Any) -> Any:
        weight = np.bincount(self._entry, weights=self.signs * u, minlength=len(self._a))
        parts = (0.5 * weight[self._place], self._indices, self._row_start)
        adjoint = sparse.csr_array(parts, shape=(self.n_features, self.n_features))
        return adjoint.toarray() if self.is_dense else adjoint

    def astype(self, dtype: Any) -> Self:
        if dtype != np.float64:
            raise ValueError(f"EntryOperator works in float64 only; got dtype={dtype}.")
        return self
