"""The operator of explicitly given constraint matrices: A(M)_r = <A_r, M>, dense or sparse."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from scipy import sparse

from ...core.arrays import Array, DType, Values, like, namespace, zeros
from ...core.spectral import NearProduct
from .base import NewtonOperator


class MatrixOperator(NewtonOperator):
    """Operator of the symmetric parts of m matrices: (m, D, D), or a sequence, dense or sparse."""

    def __init__(self, matrices: Array | Sequence[Any]):
        self.n_features = matrices[0].shape[-1]
        if sparse.issparse(matrices[0]):
            stacked = [sparse.csr_array((A + A.T) / 2).reshape((1, -1)) for A in matrices]
            flat = sparse.csr_array(sparse.vstack(stacked))
        else:
            if not hasattr(matrices, "mT"):  # a sequence
                matrices = namespace(matrices[0]).stack(list(matrices))
            flat = ((matrices + matrices.mT) / 2).reshape(len(matrices), -1)
        self._set(flat)

    def _set(self, flat: Any) -> None:
        """Hold the matrices as rows of a dense or sparse matrix (m, D * D)."""
        self._flat = flat
        self.n_constraints = flat.shape[0]
        if sparse.issparse(flat):
            self._flat_transposed = flat.T.tocsr()
            self.reference = np.zeros(0, flat.dtype)
        else:
            self._flat_transposed = flat.T
            self.reference = zeros(0, flat)

    def forward(self, M: Array) -> Array:
        return self._flat @ M.reshape(-1)

    def adjoint(self, u: Array) -> Array:
        return (self._flat_transposed @ u).reshape(self.n_features, self.n_features)

    @property
    def row_sizes(self) -> Values:
        if sparse.issparse(self._flat):
            return np.asarray(self._flat.power(2).sum(axis=1)).reshape(-1) ** 0.5
        return (self._flat**2).sum(1) ** 0.5

    def newton_matrix(self, curvature: NearProduct) -> Array:
        flat = self._flat
        if sparse.issparse(flat):
            flat = flat.toarray()
        matrices = flat.reshape(-1, self.n_features, self.n_features)
        return self.xp.stack([self.forward(curvature(A)) for A in matrices])

    def astype(self, dtype: DType) -> Self:
        other = copy(self)
        if self.xp is np:
            other._set(self._flat.astype(dtype))
        else:
            other._set(like(self._flat, self._flat, dtype))
        return other
