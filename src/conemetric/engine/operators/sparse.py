"""The difference operator on the rows of a sparse matrix: no difference is ever dense.

forward   Y = X L for a block of columns of L at a time, then as for dense rows
adjoint   S = X' (H X) with H X sparse, H half the Laplacian; summed in a dense D x D matrix
"""

from functools import cached_property

import numpy as np
from scipy import sparse

from ...core.arrays import Array
from ...core.compiled import jit
from ...core.slices import slices
from ...core.sparse_rows import SparseRows
from ...core.threads import threaded
from .numpy_pairs import PairOperator, degrees


class SparseOperator(PairOperator):
    """The points are `SparseRows`; everything else is a NumPy array."""

    X: SparseRows

    def pair_forward(self, M: Array) -> Array:
        values, vectors = np.linalg.eigh(M)
        L = vectors * abs(values) ** 0.5
        # M = L_+ L_+' - L_- L_-', of which each part gives squared distances
        positive = self.pair_forward_factor(L[:, values > 0])
        return positive - self.pair_forward_factor(L[:, values < 0])

    def pair_forward_factor(self, L: Array) -> Array:
        q = np.zeros(self.n_pairs, self.dtype)
        for columns in slices(L.shape[1], self.n_points):
            q += self.squared_distances(self.X @ L[:, columns])
        return q

    @cached_property
    def pair_lengths(self) -> Array:
        if self.X.basis is not None:
            return self.pair_forward_factor(np.eye(self.n_features, dtype=self.dtype))
        return self.X.squared_distances(self.a, self.b).astype(self.dtype, copy=False)

    @cached_property
    def _by_feature(self) -> sparse.csc_array:
        return sparse.csc_array(self.X.matrix)

    def pair_adjoint(self, w: Array) -> Array:
        degree = np.zeros(self.n_points, dtype=self.dtype)
        degrees(self.a, self.b, w, degree, np.zeros(self.n_points, np.bool_))
        used = np.flatnonzero(w)
        ends = (self.a[used], self.b[used])
        adjacency = sparse.csr_array((w[used], ends), (self.n_points, self.n_points))
        H = sparse.diags_array(degree / 2) - adjacency
        G = sparse.csr_array(H.tocsr() @ self.X.matrix)
        columns = self._by_feature
        D = self.X.matrix.shape[1]
        S = np.zeros((D, D), self.dtype)
        work = G.nnz * (columns.nnz // max(1, self.n_points))
        of_columns = (columns.indptr, columns.indices, columns.data)
        threaded(add_products, D, work, *of_columns, G.indptr, G.indices, G.data, S)
        if self.X.basis is not None:
            S = self.X.basis.T @ S @ self.X.basis
        return S + S.T


@jit
def add_products(  # noqa: PLR0913
    start: int,
    stop: int,
    first: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    g_first: np.ndarray,
    g_column: np.ndarray,
    g_value: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[f] += sum over entries (i, v) of column f of X of v G[i]; X by columns, G by rows."""
    for f in range(start, stop):
        for k in range(first[f], first[f + 1]):
            i = row[k]
            v = value[k]
            for g in range(g_first[i], g_first[i + 1]):
                out[f, g_column[g]] += v * g_value[g]
