"""Points that are rows of a sparse matrix: never dense, centred only if that is free."""

from typing import Any

import numpy as np
from scipy import sparse

from .arrays import Array, DType
from .compiled import jit
from .slices import slices
from .threads import threaded


class SparseRows:
    """The rows of a sparse ``matrix`` (n, D), or of ``matrix @ basis``, which is never formed.

    Offers what an array of points does, on the host: shape, dtype, device, length, rows by number,
    products with a dense matrix.
    """

    ndim = 2
    device = "cpu"

    def __init__(self, matrix: Any, basis: np.ndarray | None = None):
        matrix = sparse.csr_array(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        self.matrix, self.basis = matrix, basis

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], (self.matrix if self.basis is None else self.basis).shape[1]

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def __getitem__(self, rows: np.ndarray | slice) -> "SparseRows":
        return SparseRows(self.matrix[rows], self.basis)

    def __matmul__(self, factor: np.ndarray) -> np.ndarray:
        return self.matrix @ (factor if self.basis is None else self.basis @ factor)

    def astype(self, dtype: DType, copy: bool = False) -> "SparseRows":
        basis = None if self.basis is None else self.basis.astype(dtype, copy=copy)
        return SparseRows(self.matrix.astype(dtype, copy=copy), basis)

    def toarray(self) -> np.ndarray:
        """The points as a dense array."""
        return self.matrix.toarray() if self.basis is None else self.matrix @ self.basis

    def scaled(self, factors: np.ndarray) -> "SparseRows":
        """Each feature times its factor."""
        return self._with_data(self.matrix.data * factors[self.matrix.indices])

    def centred(self) -> "SparseRows":
        """Features without a zero entry about their mean, which changes no difference and keeps its
        digits; the others are never far from zero relative to their spread.
        """
        n, D = self.matrix.shape
        full = np.bincount(self.matrix.indices, minlength=D) == n
        if not full.any():
            return self
        shift = np.where(full, self.means(), 0.0)
        return self._with_data(self.matrix.data - shift[self.matrix.indices])

    def _with_data(self, data: np.ndarray) -> "SparseRows":
        matrix = self.matrix
        data = data.astype(self.dtype, copy=False)
        matrix = sparse.csr_array((data, matrix.indices, matrix.indptr), matrix.shape)
        return SparseRows(matrix, self.basis)

    def means(self) -> np.ndarray:
        """Mean of each feature, in float64."""
        return self._weighted_sums(self.matrix.data) / len(self)

    def variances(self) -> np.ndarray:
        """Mean squared distance from the mean of each feature, in float64."""
        rows = self.centred().astype(np.float64)
        squares = rows._weighted_sums(rows.matrix.data**2) / len(self)
        return np.maximum(squares - rows.means() ** 2, 0.0)

    def _weighted_sums(self, weights: np.ndarray) -> np.ndarray:
        return np.bincount(self.matrix.indices, weights, minlength=self.matrix.shape[1])

    def gram(self) -> np.ndarray:
        """Inner products of the rows, (n, n), in float64."""
        X = self.matrix.astype(np.float64, copy=False)
        gram = np.empty((len(self), len(self)))
        for rows in slices(len(self), len(self)):
            gram[rows] = (X[rows] @ X.T).toarray()
        return gram

    def squared_distances(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """||x_a - x_b||^2 of pairs of rows of the matrix, by their differences, in float64."""
        X, out = self.matrix, np.empty(len(a))
        work = len(a) * X.nnz // max(1, len(self))
        threaded(_squared_distances, len(a), work, X.indptr, X.indices, X.data, a, b, out)
        return out


@jit
def _squared_distances(
    start: int, stop: int, first: Array, column: Array, value: Array, a: Array, b: Array, out: Array
) -> None:
    """out[p] = ||x_a[p] - x_b[p]||^2 for p in start:stop; columns ascend within a row."""
    for p in range(start, stop):
        i, end_i = first[a[p]], first[a[p] + 1]
        j, end_j = first[b[p]], first[b[p] + 1]
        total = 0.0
        while i < end_i or j < end_j:
            if j == end_j or (i < end_i and column[i] < column[j]):
                difference = float(value[i])
                i += 1
            elif i == end_i or column[j] < column[i]:
                difference = float(value[j])
                j += 1
            else:
                difference = float(value[i]) - float(value[j])
                i += 1
                j += 1
            total += difference * difference
        out[p] = total
