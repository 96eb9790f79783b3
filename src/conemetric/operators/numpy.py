"""The difference and the bilinear operator on NumPy arrays: BLAS for the dense products, Numba threads
for the pairs.
"""

import numpy as np
from scipy import sparse

from . import kernels
from .base import DifferenceOperator
from .bilinear import BilinearOperator


class NumpyOperator(DifferenceOperator):
    def _prepare(self):
        self.X = np.ascontiguousarray(self.X)
        shape = (self.n_constraints, self.n_pairs)
        self._B = sparse.csr_array((self.weight, self.pair, self.row_start.astype(np.int32)), shape)
        self._B_transposed = sparse.csr_array(self._B.T)
        self._first = np.searchsorted(self.a, np.arange(self.n_points + 1))

    def combine(self, q):
        return self._B @ q

    def distribute(self, u):
        return self._B_transposed @ u

    def pair_forward(self, M):
        return self._per_pair(kernels.pair_products, self.X, self.X @ M)

    def pair_forward_factor(self, L):
        return self._pair_squared_distances(self.X @ L)

    def _pair_squared_distances(self, Y):
        return self._per_pair(kernels.pair_squared_distances, Y)

    def _per_pair(self, kernel, *arrays):
        q = np.empty(self.n_pairs, dtype=self.dtype)
        kernels.threaded(
            kernel, self.n_pairs, self.n_pairs * arrays[0].shape[1], *arrays, self.a, self.b, q
        )
        return q

    def pair_adjoint(self, w):
        degree = np.zeros(self.n_points, dtype=self.dtype)
        kernels.degrees(self.a, self.b, w, degree)
        G = np.empty_like(self.X)
        work = self.n_pairs * self.n_features
        kernels.threaded(
            kernels.half_laplacian, self.n_points, work, self.X, w, degree, self._first, self.b, G
        )
        S = self.X.T @ G
        return S + S.T


class NumpyBilinear(BilinearOperator):
    def _prepare(self):
        self.queries, self.documents = map(np.ascontiguousarray, (self.queries, self.documents))
        self._first = np.searchsorted(self.query, np.arange(len(self.queries) + 1))

    def pair_scores(self, mapped):
        scores = np.empty(self.n_pairs, dtype=self.dtype)
        args = (mapped, self.documents, self.query, self.document, scores)
        kernels.threaded(
            kernels.pair_inner_products, self.n_pairs, self.n_pairs * self.n_features, *args
        )
        return scores

    def distribute(self, u):
        won, lost = (np.bincount(pair, u, self.n_pairs) for pair in (self.better, self.worse))
        return (won - lost).astype(self.dtype, copy=False)

    def weighted_documents(self, w):
        total = np.empty_like(self.queries)
        work = self.n_pairs * self.n_features
        args = (self.documents, w, self._first, self.document, total)
        kernels.threaded(kernels.weighted_rows, len(total), work, *args)
        return total
