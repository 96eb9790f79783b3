"""Points that are rows of a sparse matrix: never dense, centred only if that is free."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

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

    def __init__(self, matrix: Any, basis: np.ndarray | None = None) -> None:
        matrix = sparse.csr_array(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # the user's own matrix stays as it is
            matrix.sum_duplicates()
        self.matrix = matrix
        self.basis = basis

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        if self.basis is not None:
            n_columns = self.basis.shape[1]
        return n_rows, n_columns

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    def __len__(self) -> int:
        return self.matrix.shape[0]

    def __getitem__(self, rows: np.ndarray | slice) -> "SparseRows":
        return SparseRows(self.matrix[rows], self.basis)

    def __matmul__(self, factor: np.ndarray) -> np.ndarray:
        if self.basis is not None:
            factor = self.basis @ factor
        return self.matrix @ factor

    def astype(self, dtype: DTypeLike, copy: bool = False) -> "SparseRows":
        basis = self.basis
        if basis is not None:
            basis = basis.astype(dtype, copy=copy)
        return SparseRows(self.matrix.astype(dtype, copy=copy), basis)

    def toarray(self) -> np.ndarray:
        """Return the points as a dense array."""
        if self.basis is None:
            return self.matrix.toarray()
        return self.matrix @ self.basis

    def scaled(self, factors: np.ndarray) -> "SparseRows":
        """Return the points with each feature times its factor."""
        return self._with_data(self.matrix.data * factors[self.matrix.indices])

    def centred(self) -> "SparseRows":
        """Return the points with those features that have no zero entry about their mean.

        This changes no difference of two points and keeps the digits of each; all other features
        have zeros, so they are never far from zero relative to their spread.
        """
        n_rows, n_features = self.matrix.shape
        n_entries = np.bincount(self.matrix.indices, minlength=n_features)
        without_zeros = n_entries == n_rows
        if not without_zeros.any():
            return self
        shift = np.where(without_zeros, self.means(), 0.0)
        return self._with_data(self.matrix.data - shift[self.matrix.indices])

    def _with_data(self, data: np.ndarray) -> "SparseRows":
        """Return points with other entries at the same places, in the same dtype."""
        pattern = self.matrix
        data = data.astype(self.dtype, copy=False)
        matrix = sparse.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)
        return SparseRows(matrix, self.basis)

    def means(self) -> np.ndarray:
        """Return the mean of each feature, in float64."""
        return self._sums(self.matrix.data) / len(self)

    def variances(self) -> np.ndarray:
        """Return the mean squared distance of each feature from its mean, in float64."""
        rows = self.centred().astype(np.float64)
        mean_squares = rows._sums(rows.matrix.data**2) / len(self)
        # rounding can leave the difference below zero
        return np.maximum(mean_squares - rows.means() ** 2, 0.0)

    def _sums(self, data: np.ndarray) -> np.ndarray:
        """Sum ``data``, a number for each entry of the matrix, over each feature."""
        return np.bincount(self.matrix.indices, data, minlength=self.matrix.shape[1])

    def gram(self) -> np.ndarray:
        """Return the inner products of the rows, (n, n), in float64."""
        n = len(self)
        X = self.matrix.astype(np.float64, copy=False)
        gram = np.empty((n, n))
        for rows in slices(n, n):
            gram[rows] = (X[rows] @ X.T).toarray()
        return gram

    def squared_distances(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return ||x_a - x_b||^2 of pairs of rows of the matrix, by their differences, in float64."""
        X = self.matrix
        rows = _CompressedRows(X.indptr, X.indices, X.data)
        distances = np.empty(len(a))
        work = len(a) * X.nnz // max(1, len(self))  # the entries of as many rows, on average
        threaded(_squared_distances, len(a), work, rows, a, b, distances)
        return distances


class _CompressedRows(NamedTuple):
    """The arrays of a CSR matrix: the entries of row i lie at first[i]:first[i + 1]; their columns
    ascend.
    """

    first: np.ndarray
    column: np.ndarray
    value: np.ndarray


@jit
def _squared_distances(
    start: int,
    stop: int,
    rows: _CompressedRows,
    a: np.ndarray,
    b: np.ndarray,
    distances: np.ndarray,
) -> None:
    """Write ||x_a[p] - x_b[p]||^2 to ``distances[p]`` for p in start:stop, by merging the entries of
    both rows as two sorted lists.
    """
    first, column, value = rows
    for p in range(start, stop):
        i = first[a[p]]
        end_i = first[a[p] + 1]
        j = first[b[p]]
        end_j = first[b[p] + 1]
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
        distances[p] = total
