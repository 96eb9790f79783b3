"""The difference operator of triplets and pairs of rows of X, in the array library of X."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.arrays import Array, like, namespace
from ...core.sparse_rows import SparseRows
from .base import DifferenceOperator, Points, kernels_of
from .sparse import SparseOperator


class UniquePairs(NamedTuple):
    """Unordered pairs a < b, sorted, and the position of each given pair among them."""

    a: Array
    b: Array
    number: Array


def _operator(X: Points, pairs: UniquePairs, row_start: Array, weight: Array) -> DifferenceOperator:
    """Return the operator of constraints that use the pairs ``pairs.number``, one after the other."""
    incidence = (row_start, pairs.number, weight)
    if isinstance(X, SparseRows):
        return SparseOperator(X.centred(), pairs.a, pairs.b, incidence)
    operator: DifferenceOperator = kernels_of(X).PairOperator(
        _centred(X), pairs.a, pairs.b, incidence
    )
    return operator


def _unique_pairs(X: Points, first: Array, second: Array) -> UniquePairs:
    xp = namespace(X)
    n = X.shape[0]
    first = like(first, X, xp.int64)
    second = like(second, X, xp.int64)
    # one number for a pair in either order
    keys = xp.minimum(first, second) * n + xp.maximum(first, second)
    keys, number = xp.unique(keys, return_inverse=True)
    a = like(keys // n, X, xp.int32)
    b = like(keys % n, X, xp.int32)
    return UniquePairs(a, b, like(number, X, xp.int32))


def _centred(X: Array) -> Array:
    """X about its mean. In single precision only the columns that lose no digit, those with all
    numbers between half and twice their mean (Sterbenz): a certificate is about the rows as given.
    """
    mean = X.mean(0)
    if X.dtype.itemsize < 8:
        size = X * namespace(X).sign(mean)
        loses_no_digit = (size >= abs(mean) * 0.5) & (size <= abs(mean) * 2.0)
        mean = mean * loses_no_digit.all(0)
    return X - mean


def from_triplets(X: Points, triplets: Array) -> DifferenceOperator:
    """Operator with one row per triplet (i, j, k): A(M) = d_ik' M d_ik - d_ij' M d_ij; or quadruplet
    (i, j, k, l), x_i to be closer to x_j than x_k to x_l: d_kl' M d_kl - d_ij' M d_ij.
    """
    xp = namespace(X)
    m = len(triplets)
    triplets = like(triplets, X, xp.int64)
    i = triplets[:, 0]
    j = triplets[:, 1]
    k = triplets[:, 2]
    l = triplets[:, -1]
    if triplets.shape[1] == 3:  # (i, j, k) is the quadruplet (i, j, i, k)
        k = i
    unique = _unique_pairs(X, xp.concat([k, i]), xp.concat([l, j]))
    pair = xp.stack([unique.number[:m], unique.number[m:]], 1).reshape(-1)
    weight = xp.ones((m, 2), dtype=X.dtype, device=X.device)
    weight[:, 1] = -1
    row_start = xp.arange(0, 2 * m + 1, 2, dtype=xp.int64, device=X.device)
    return _operator(X, unique._replace(number=pair), row_start, weight.reshape(-1))


def from_pairs(X: Points, pairs: Array, weights: Array | None = None) -> DifferenceOperator:
    """Operator over pairs of rows of X, one constraint per pair or one per row of ``weights``.

    A vector of weights scales each pair (1 / ||d||^2 makes unit secants); with a sparse matrix (m,
    P), constraint r is the sum of ``weights[r, p] * d_p' M d_p``.
    """
    xp = namespace(X)
    n_pairs = len(pairs)
    pairs = like(pairs, X, xp.int64)
    unique = _unique_pairs(X, pairs[:, 0], pairs[:, 1])
    if sparse.issparse(weights):
        B = sparse.csr_array(weights)
        row_start = like(B.indptr, X, xp.int64)
        weight = like(B.data, X)
        unique = unique._replace(number=unique.number[like(B.indices, X, xp.int64)])
    else:
        if weights is None:
            weights = np.ones(n_pairs)
        row_start = xp.arange(n_pairs + 1, dtype=xp.int64, device=X.device)
        weight = like(weights, X)
    return _operator(X, unique, row_start, weight)
