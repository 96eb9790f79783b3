"""The bilinear operator of compared documents, in the array library of the queries."""

from ..core.arrays import is_torch
from .bilinear import compared


def from_comparisons(queries, documents, comparisons):
    """Operator with one row per comparison (query, better, worse): A(W) = q'W (b - w).

    Parameters
    ----------
    queries : array (n_queries, D), float32 or float64, NumPy or PyTorch
    documents : array (n_documents, D)
    comparisons : integer array (m, 3)
        Row (i, j, k) says that document j suits query i better than document k.

    Returns
    -------
    BilinearOperator
        Over the queries and documents that are compared.
    """
    return _backend(queries)(*compared(queries, documents, comparisons))


def _backend(X):
    if is_torch(X):
        from .torch import TorchBilinear

        return TorchBilinear
    from .numpy import NumpyBilinear

    return NumpyBilinear
