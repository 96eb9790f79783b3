"""The difference operator of triplets and pairs of rows of X, in the array library of X."""

from typing import Any

import numpy as np
from scipy import sparse

from ...core.arrays import like, namespace
from ...core.sparse_rows import SparseRows
from .base import DifferenceOperator, kernels_of
from .sparse import SparseOperator


def _operator(X, *pairs):
    if isinstance(X, SparseRows):
        return SparseOperator(X.centred(), *pairs)
    return kernels_of(X).PairOperator(_centred(X), *pairs)


def _unique_pairs(X, first, second):
    """Unordered unique pairs, sorted, and the position of each given pair among them."""
    xp, n = namespace(X), X.shape[0]
    first, second = like(first, X, xp.int64), like(second, X, xp.int64)
    keys = xp.minimum(first, second) * n + xp.maximum(first, second)
    keys, number = xp.unique(keys, return_inverse=True)
    return like(keys // n, X, xp.int32), like(keys % n, X, xp.int32), like(number, X, xp.int32)


def _centred(X):
    """X about its mean. In single precision only the columns that lose no digit, those with all
    numbers between half and twice their mean (Sterbenz): a certificate is about the rows as given.
    """
    mean = X.mean(0)
    if X.dtype.itemsize < 8:
        low, high = (abs(mean) * factor for factor in (0.5, 2.0))
        size = X * namespace(X).sign(mean)
        mean = mean * ((size >= low) & (size <= high)).all(0)
    return X - mean


def from_triplets(X: Any, triplets: Any) -> DifferenceOperator:
    """Operator with one row per triplet (i, j, k): A(M) = d_ik' M d_ik - d_ij' M d_ij; or quadruplet
    (i, j, k, l), x_i to be closer to x_j than x_k to x_l: d_kl' M d_kl - d_ij' M d_ij.
    """
    xp, m = namespace(X), len(triplets)
    triplets = like(triplets, X, xp.int64)
    i, j, l = triplets[:, 0], triplets[:, 1], triplets[:, -1]
    k = i if triplets.shape[1] == 3 else triplets[:, 2]
    a, b, number = _unique_pairs(X, xp.concat([k, i]), xp.concat([l, j]))
    pair = xp.stack([number[:m], number[m:]], 1).reshape(-1)
    weight = xp.ones((m, 2), dtype=X.dtype, device=X.device)
    weight[:, 1] = -1
    row_start = xp.arange(0, 2 * m + 1, 2, dtype=xp.int64, device=X.device)
    return _operator(X, a, b, (row_start, pair, weight.reshape(-1)))


def from_pairs(X: Any, pairs: Any, weights: Any = None) -> DifferenceOperator:
    """Operator over pairs of rows of X, one constraint per pair or one per row of ``weights``.

    A vector of weights scales each pair (1 / ||d||^2 makes unit secants); with a sparse matrix (m,
    P), constraint r is the sum of ``weights[r, p] * d_p' M d_p``.
    """
    xp, n_pairs = namespace(X), len(pairs)
    pairs = like(pairs, X, xp.int64)
    a, b, number = _unique_pairs(X, pairs[:, 0], pairs[:, 1])
    if sparse.issparse(weights):
        B = sparse.csr_array(weights)
        row_start, weight = like(B.indptr, X, xp.int64), like(B.data, X)
        number = number[like(B.indices, X, xp.int64)]
    else:
        row_start = xp.arange(n_pairs + 1, dtype=xp.int64, device=X.device)
        weight = like(np.ones(n_pairs) if weights is None else weights, X)
    return _operator(X, a, b, (row_start, number, weight))
