"""The difference operator on NumPy arrays: BLAS for products, Numba for the pairs."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...core.arrays import Array, Arrays
from ...core.blas import half_the_cores
from ...core.compiled import jit, jit_allocating
from ...core.spectral import by_scipy
from ...core.threads import threaded
from .base import DifferenceOperator, Points, starts

MOST_TOUCHED = 0.9  # share of points with a multiplier above which copying these does not pay
# Features from which computing half of a symmetric product saves more than visiting each pair once does.
SYMMETRIC_FROM = 512
PARTS = 8  # block rows of that product


class PairOperator(DifferenceOperator):
    def __init__(self, X: Points, a: Array, b: Array, incidence: Arrays):
        if isinstance(X, np.ndarray):
            X = np.ascontiguousarray(X)
        super().__init__(X, a, b, incidence)
        shape = (self.n_constraints, self.n_pairs)
        self._B = sparse.csr_array((self.weight, self.pair, self.row_start.astype(np.int32)), shape)
        self._B_transposed = sparse.csr_array(self._B.T)
        self._first = starts(self.a, self.n_points)

    def combine(self, q: Array, sizes: bool = False) -> Array:
        if not sizes:
            return self._B @ q
        # not abs(B), which would merge equal pairs of a row in the memory that B shares
        parts = (abs(self.weight), self._B.indices, self._B.indptr)
        return sparse.csr_array(parts, self._B.shape) @ q

    def distribute(self, u: Array) -> Array:
        return self._B_transposed @ u

    def _cores(self) -> AbstractContextManager[None]:
        """A limit on the threads of products, where decompositions by SciPy take turns with them."""
        if by_scipy(self.n_features, self.dtype):
            return half_the_cores()
        return nullcontext()

    def _mapped(self, M: Array) -> Array:
        with self._cores():
            return self.X @ M

    def pair_forward(self, M: Array) -> Array:
        return difference_products(self.X, self._mapped(M), self.a, self.b)

    def pair_forward_factor(self, L: Array) -> Array:
        return self.squared_distances(self._mapped(L))

    def pair_adjoint(self, w: Array) -> Array:
        degree = np.zeros(self.n_points, self.dtype)
        touched = np.zeros(self.n_points, np.bool_)
        degrees(self.a, self.b, w, degree, touched)
        rows = np.flatnonzero(touched)
        # points without a multiplier add nothing, and copying the others is cheap
        if len(rows) > MOST_TOUCHED * self.n_points:
            rows = np.arange(self.n_points)
            X = self.X
        else:
            X = self.X[rows]
        G = np.empty_like(X)
        work = self.n_pairs * self.n_features
        if self.n_features < SYMMETRIC_FROM:
            threaded(
                half_laplacian, len(rows), work, rows, self.X, w, degree, self._first, self.b, G
            )
            with self._cores():
                S = X.T @ G
            return S + S.T
        ends = self._from_both_ends
        both = w[ends.number]
        threaded(
            half_laplacian,
            len(rows),
            2 * work,
            rows,
            self.X,
            both,
            2 * degree,
            ends.first,
            ends.other,
            G,
        )
        with self._cores():
            return symmetric_product(X, G)

    @cached_property
    def _from_both_ends(self) -> "PairsOfPoints":
        ends = np.concatenate([self.a, self.b])
        others = np.concatenate([self.b, self.a])
        order = np.argsort(ends, kind="stable")
        first = starts(ends[order], self.n_points)
        return PairsOfPoints(first, others[order], order % self.n_pairs)


class PairsOfPoints(NamedTuple):
    """The pairs of every point, in compressed rows: those of i are ``first[i]:first[i + 1]``."""

    first: np.ndarray
    other: np.ndarray  # the other end
    number: np.ndarray  # among the unique pairs


def symmetric_product(X: np.ndarray, G: np.ndarray) -> np.ndarray:
    """X'G, known to be symmetric, from its blocks on and above the diagonal."""
    D = X.shape[1]
    S = np.empty((D, D), X.dtype)
    step = -(-D // PARTS)
    for start in range(0, D, step):
        own = slice(start, start + step)
        rest = slice(start + step, None)
        S[own, start:] = X[:, own].T @ G[:, start:]
        S[rest, own] = S[own, rest].T
        # not symmetric to the last bit, as the mirrored blocks are
        S[own, own] = (S[own, own] + S[own, own].T) / 2
    return S


def squared_distances(Y: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """||Y_a - Y_b||^2 of every pair."""
    return _per_pair(pair_squared_distances, a, b, np.ascontiguousarray(Y))


def inner_products(Y: np.ndarray, Z: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """<Y_a, Z_b> of every pair."""
    return _per_pair(pair_inner_products, a, b, np.ascontiguousarray(Y), np.ascontiguousarray(Z))


def difference_products(Y: np.ndarray, Z: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """<Y_a - Y_b, Z_a - Z_b> of every pair."""
    return _per_pair(pair_products, a, b, np.ascontiguousarray(Y), np.ascontiguousarray(Z))


def _per_pair(
    kernel: Callable[..., None], a: np.ndarray, b: np.ndarray, *arrays: np.ndarray
) -> np.ndarray:
    """Return what the kernel writes for every pair of rows of the arrays."""
    out = np.empty(len(a), dtype=arrays[0].dtype)
    threaded(kernel, len(a), len(a) * arrays[0].shape[1], *arrays, a, b, out)
    return out


def edge_products(M: np.ndarray, w: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(d_r'M_0 d_s)^2 + sum_i w_ri w_si d_r'M_i d_s of all pairs d_r = e_a - e_b, d_s (M_i symmetric)."""
    out = np.empty((len(a), len(a)), M.dtype)
    threaded(edge_product_rows, len(a), len(a) ** 2 * len(M), M, np.ascontiguousarray(w), a, b, out)
    return out


def weighted_sums(w: np.ndarray, Z: np.ndarray, b: np.ndarray, first: np.ndarray) -> np.ndarray:
    """For each i the sum of w[p] Z[b[p]], p in ``first[i]:first[i + 1]``."""
    out = np.empty((len(first) - 1, Z.shape[1]), Z.dtype)
    threaded(weighted_rows, len(out), len(b) * Z.shape[1], Z, w, first, b, out)
    return out


@jit
def pair_squared_distances(
    start: int, stop: int, Y: np.ndarray, a: np.ndarray, b: np.ndarray, out: np.ndarray
) -> None:
    """out[p] = ||Y[a[p]] - Y[b[p]]||^2 for p in start:stop."""
    r = Y.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i = a[p]
        j = b[p]
        # four running totals vectorise without fast-math, and always add up in one order
        s0 = s1 = s2 = s3 = Y.dtype.type(0)
        # products of differences: their power of two would take twice as long to compile
        for c in range(0, body, 4):
            d0 = Y[i, c] - Y[j, c]
            d1 = Y[i, c + 1] - Y[j, c + 1]
            d2 = Y[i, c + 2] - Y[j, c + 2]
            d3 = Y[i, c + 3] - Y[j, c + 3]
            s0 += d0 * d0
            s1 += d1 * d1
            s2 += d2 * d2
            s3 += d3 * d3
        for c in range(body, r):
            d0 = Y[i, c] - Y[j, c]
            s0 += d0 * d0
        out[p] = (s0 + s1) + (s2 + s3)


@jit_allocating
def edge_product_rows(
    start: int,
    stop: int,
    M: np.ndarray,
    w: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
) -> None:
    """Rows start:stop of `edge_products`."""
    k = M.shape[0]
    n = M.shape[1]
    along = np.empty((n, k), M.dtype)  # M_i d_r, times w_ri
    for r in range(start, stop):
        for i in range(k):
            weight = w[r, i - 1] if i > 0 else M.dtype.type(1)
            for c in range(n):
                along[c, i] = weight * (M[i, a[r], c] - M[i, b[r], c])
        for s in range(len(a)):
            p = a[s]
            q = b[s]
            total = (along[p, 0] - along[q, 0]) ** 2
            for i in range(1, k):
                total += w[s, i - 1] * (along[p, i] - along[q, i])
            out[r, s] = total


@jit
def pair_products(
    start: int,
    stop: int,
    X: np.ndarray,
    Y: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[p] = <X[a[p]] - X[b[p]], Y[a[p]] - Y[b[p]]> for p in start:stop."""
    r = X.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i = a[p]
        j = b[p]
        s0 = s1 = s2 = s3 = X.dtype.type(0)
        for c in range(0, body, 4):
            s0 += (X[i, c] - X[j, c]) * (Y[i, c] - Y[j, c])
            s1 += (X[i, c + 1] - X[j, c + 1]) * (Y[i, c + 1] - Y[j, c + 1])
            s2 += (X[i, c + 2] - X[j, c + 2]) * (Y[i, c + 2] - Y[j, c + 2])
            s3 += (X[i, c + 3] - X[j, c + 3]) * (Y[i, c + 3] - Y[j, c + 3])
        for c in range(body, r):
            s0 += (X[i, c] - X[j, c]) * (Y[i, c] - Y[j, c])
        out[p] = (s0 + s1) + (s2 + s3)


@jit
def half_laplacian(  # noqa: PLR0913
    start: int,
    stop: int,
    rows: np.ndarray,
    X: np.ndarray,
    w: np.ndarray,
    degree: np.ndarray,
    first: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[k] = degree[i]/2 X[i] - sum over pairs p = (i, b[p]) of w[p] X[b[p]] with i = rows[k],
    for k in start:stop.

    If each unique pair is listed once, at its first point, X' Lap(w) X is out' X plus its
    transpose; if it is listed at both points, with twice the degree, it is out' X.
    """
    n_columns = X.shape[1]
    for k in range(start, stop):
        i = rows[k]
        half = degree[i] * X.dtype.type(0.5)
        for c in range(n_columns):
            out[k, c] = half * X[i, c]
        for p in range(first[i], first[i + 1]):
            weight = w[p]
            if weight != 0:
                j = b[p]
                for c in range(n_columns):
                    out[k, c] -= weight * X[j, c]


@jit
def degrees(
    a: np.ndarray, b: np.ndarray, w: np.ndarray, out: np.ndarray, touched: np.ndarray
) -> None:
    """out[i] = sum of w over the pairs of point i; touched[i] if one of them is not zero."""
    for p in range(len(w)):
        if w[p] != 0:
            out[a[p]] += w[p]
            out[b[p]] += w[p]
            touched[a[p]] = touched[b[p]] = True


@jit
def pair_inner_products(
    start: int,
    stop: int,
    Y: np.ndarray,
    Z: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[p] = <Y[a[p]], Z[b[p]]> for p in start:stop."""
    r = Y.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i = a[p]
        j = b[p]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)
        for c in range(0, body, 4):
            s0 += Y[i, c] * Z[j, c]
            s1 += Y[i, c + 1] * Z[j, c + 1]
            s2 += Y[i, c + 2] * Z[j, c + 2]
            s3 += Y[i, c + 3] * Z[j, c + 3]
        for c in range(body, r):
            s0 += Y[i, c] * Z[j, c]
        out[p] = (s0 + s1) + (s2 + s3)


@jit
def weighted_rows(
    start: int,
    stop: int,
    Z: np.ndarray,
    w: np.ndarray,
    first: np.ndarray,
    b: np.ndarray,
    out: np.ndarray,
) -> None:
    """out[i] = sum over pairs p = (i, b[p]) of w[p] Z[b[p]], for rows i in start:stop."""
    n_columns = Z.shape[1]
    for i in range(start, stop):
        out[i] = 0
        for p in range(first[i], first[i + 1]):
            weight = w[p]
            if weight != 0:
                j = b[p]
                for c in range(n_columns):
                    out[i, c] += weight * Z[j, c]
