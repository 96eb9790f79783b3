"""The operator of explicitly given constraint matrices: A(M)_r = <A_r, M>, dense or sparse."""

from copy import copy
from typing import Any, Self

import numpy as np
from scipy import sparse

from ...core.arrays import like, namespace, zeros
from ...core.spectral import NearProduct
from .base import Operator


class MatrixOperator(Operator):
    """Operator of the symmetric parts of m matrices: (m, D, D), or a sequence, dense or sparse."""

    def __init__(self, matrices: Any):
        self.n_features = matrices[0].shape[-1]
        if sparse.issparse(matrices[0]):
            stacked = [sparse.csr_array((A + A.T) / 2).reshape((1, -1)) for A in matrices]
            flat = sparse.csr_array(sparse.vstack(stacked))
        else:
            together = hasattr(matrices, "mT")
            A = matrices if together else namespace(matrices[0]).stack(list(matrices))
            flat = ((A + A.mT) / 2).reshape(len(A), -1)
        self._set(flat)

    def _set(self, flat):
        self._flat = flat
        self._flat_transposed = flat.T.tocsr() if sparse.issparse(flat) else flat.T
        self.n_constraints = flat.shape[0]
        self.reference = np.zeros(0, flat.dtype) if sparse.issparse(flat) else zeros(0, flat)

    def forward(self, M: Any) -> Any:
        return self._flat @ M.reshape(-1)

    def adjoint(self, u: Any) -> Any:
        return (self._flat_transposed @ u).reshape(self.n_features, self.n_features)

    @property
    def row_sizes(self) -> Any:
        if sparse.issparse(self._flat):
            return np.asarray(self._flat.power(2).sum(axis=1)).reshape(-1) ** 0.5
        return (self._flat**2).sum(1) ** 0.5

    def newton_matrix(self, curvature: NearProduct) -> Any:
        flat = self._flat.toarray() if sparse.issparse(self._flat) else self._flat
        matrices = flat.reshape(-1, self.n_features, self.n_features)
        return self.xp.stack([self.forward(curvature(A)) for A in matrices])

    def astype(self, dtype: Any) -> Self:
        flat, other = self._flat, copy(self)
        other._set(flat.astype(dtype) if self.xp is np else like(flat, flat, dtype))
        return other
