"""Points in as few coordinates as their differences need, and the map back to the features.

Constraints see differences of rows of X, and these lie in the span of the centred rows: a program that
is regularised by trace or Frobenius norm has its optimum at Q N Q', with Q (D x r) an orthonormal basis
of the span and N the optimum over the coordinates z, x - mean = Q z, for the same multipliers and bounds
(docs/mathematics). Nothing here is D x D unless X has more rows than features.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from ...core.arrays import (
    Array,
    Pair,
    float64,
    identity,
    is_torch,
    like,
    namespace,
    to_index,
    zeros,
)
from ...core.blas import blas_threads_for
from ...core.slices import slices
from ...core.sparse_rows import SparseRows
from ...core.spectral import definite_part, eigh
from .base import Points

# rank, as a share of the features, above which solving in the span does not pay for finding
# it: a QR factorisation in float64 costs as much as three to six evaluations of the dual
WORTHWHILE = 0.9
# eigenvalues of a Gram matrix above this share of the largest are certainly not rounding
SURELY_POSITIVE = 1e-10


@dataclass(frozen=True)
class Coordinates:
    """Rows of X as ``points`` (n, r) in r <= D coordinates, and the ``maps`` whose product B (D x r)
    leads back: a metric with factor L over the points has factor B L over the features.
    """

    points: Any  # an array, a tensor or `SparseRows`; None of the maps alone
    maps: tuple["Map", ...] = ()

    def lift(self, L: Array) -> Array:
        """B L, in the precision of L."""
        if not self.maps:
            return L
        lifted = float64(L)
        for step in reversed(self.maps):
            lifted = step.lift(lifted)
        return like(lifted, L)

    def lower(self, F: Array) -> Array:
        """The L whose `lift` is F, a factor in the range of the maps, in float64."""
        F = float64(F)
        for step in self.maps:
            F = step.lower(F)
        return F

    @property
    def isometric(self) -> bool:
        """Whether the maps preserve inner products."""
        return all(step.isometric for step in self.maps)

    def outside(self) -> Array:
        """An orthonormal basis of the complement of the range of the maps, in float64: up to D x D."""
        xp = namespace(self.points)
        r = self.points.shape[1]
        basis = self.lift(identity(r, like(self.points[:0], self.points, xp.float64)))
        return xp.linalg.qr(basis, mode="complete")[0][:, r:]

    def without_points(self) -> "Coordinates":
        """Only the maps, to keep."""
        return replace(self, points=None)


# A `Map` is a matrix with independent columns, in float64: ``lift`` multiplies by it, ``lower`` finds
# the L whose ``lift`` is F, and ``isometric`` means orthonormal up to rounding.


@dataclass(frozen=True)
class Orthonormal:
    """A product of matrices, with orthonormal columns (from sparse rows only up to about 1e-10)."""

    factors: tuple[Any, ...]  # arrays, tensors or `CentredColumns`
    isometric: bool = True

    def lift(self, L: Array) -> Array:
        for factor in reversed(self.factors):
            if isinstance(factor, CentredColumns):
                L = factor @ L
            else:  # in column order, so that the transpose is in the order of a metric's rows
                L = (L.T @ factor.T).T
        return L

    def lower(self, F: Array) -> Array:
        for factor in self.factors:
            F = factor.T @ F
        return F


@dataclass(frozen=True)
class Diagonal:
    """The matrix with this diagonal."""

    values: Array
    isometric: bool = False

    def lift(self, L: Array) -> Array:
        return self.values[:, None] * L

    def lower(self, F: Array) -> Array:
        return F / self.values[:, None]


@dataclass(frozen=True)
class Matrix:
    """Any matrix, and its inverse if known."""

    matrix: Array
    inverse: Array | None = None
    isometric: bool = False

    def lift(self, L: Array) -> Array:
        return self.matrix @ L

    def lower(self, F: Array) -> Array:
        if self.inverse is not None:
            return self.inverse @ F
        xp = namespace(self.matrix)
        basis, R = xp.linalg.qr(self.matrix)
        return xp.linalg.solve(R, basis.T @ F)


Map = Orthonormal | Diagonal | Matrix


class CentredColumns:
    """X_c', the centred rows of a sparse X as columns; with ``transposed``, X_c."""

    def __init__(self, matrix: Any, means: np.ndarray, transposed: bool = False):
        self.matrix = matrix
        self.means = means
        self.transposed = transposed

    @property
    def T(self) -> "CentredColumns":
        return CentredColumns(self.matrix, self.means, not self.transposed)

    def __matmul__(self, L: Array) -> Array:
        if self.transposed:
            return self.matrix @ L - self.means @ L
        return self.matrix.T @ L - self.means[:, None] * L.sum(0)


def in_span(X: Points, *, at_most: float = WORTHWHILE) -> Coordinates:
    """Coordinates of X in an orthonormal basis of the span of its centred rows, in float64.

    Only directions with singular values at the rounding level of float64 are left out. With n > D
    rows, X is left unchanged unless its rank is at most this share of D; so are sparse rows if
    there are more of them than features, unless the share is 1.
    """
    n, D = X.shape
    with blas_threads_for(float(n) * D * min(n, D)):
        if isinstance(X, SparseRows):
            span = _sparse_span(X)
            if n > D and at_most == 1.0:
                span = _sparse_span_of_many(X)
        elif _rank_is_above(X, _most_worthwhile(X, at_most)):
            return Coordinates(X)
        else:
            first, mean = _centre(X)
            span = centred_in_span(float64(X) - first - mean, at_most=at_most)
    if not span.maps:
        return Coordinates(X)  # as they are, in their own precision
    return span


def centred_in_span(Z: Points, *, at_most: float = WORTHWHILE) -> Coordinates:
    """`in_span` of centred rows in float64, which may be overwritten, or of sparse ones."""
    if isinstance(Z, SparseRows):
        return _sparse_span(Z)
    n, D = Z.shape
    if n <= D:
        return _span_of_few(Z)
    xp = namespace(Z)
    most = _most_worthwhile(Z, at_most)
    if _rank_is_above(Z, most):
        return Coordinates(Z)
    R = xp.linalg.qr(Z, mode="r")
    if is_torch(Z):
        R = R[1]
    _, singular, right = xp.linalg.svd(R)
    r = _rank(singular)
    if r > most:
        return Coordinates(Z)
    basis = right[:r].T
    return Coordinates(Z @ basis, (Orthonormal((basis,)),))


def _span_of_few(Z: Array) -> Coordinates:
    """Return the coordinates of at most as many rows as features: Z = R'Q' = V s (Q U)'."""
    xp = namespace(Z)
    if is_torch(Z):
        basis, R = xp.linalg.qr(Z.T)
    else:
        basis, R = scipy.linalg.qr(Z.T, mode="economic", overwrite_a=True, check_finite=False)
    left, singular, right = xp.linalg.svd(R)
    r = _rank(singular)
    return Coordinates(right[:r].T * singular[:r], (Orthonormal((basis, left[:, :r])),))


def _sparse_span(X: SparseRows) -> Coordinates:
    n, D = X.shape
    if n > D:
        return Coordinates(X)
    centred = X.centred().astype(np.dtype(np.float64))
    gram = centred.gram()
    # `centred` leaves columns with zeros where they are; this subtracts their means from both sides
    gram -= gram.mean(0)
    gram -= gram.mean(1)[:, None]
    values, vectors = eigh(gram)
    r = _rank(values)
    root = np.maximum(values[:r], np.finfo(float).tiny) ** 0.5
    factors = (CentredColumns(centred.matrix, centred.means()), vectors[:, :r] / root)
    return Coordinates(vectors[:, :r] * root, (Orthonormal(factors, isometric=False),))


def _sparse_span_of_many(X: SparseRows) -> Coordinates:
    """Return the span of more sparse rows than features, by the D x D matrix of their second moments."""
    centred = X.centred().astype(np.dtype(np.float64))
    means = centred.means()
    moments = (centred.matrix.T @ centred.matrix).toarray() - len(X) * np.outer(means, means)
    values, vectors = eigh(moments)
    r = _rank(values)
    if r == X.shape[1]:
        return Coordinates(X)
    basis = vectors[:, :r]
    return Coordinates(SparseRows(centred.matrix, basis), (Orthonormal((basis,)),))


def _most_worthwhile(X: Array, at_most: float) -> int:
    """Return the largest rank that is worth mapping."""
    n, D = X.shape
    if n <= D:
        return n
    return min(D - 1, int(at_most * D))


def _rank_is_above(X: Array, most: int) -> bool:
    """Return whether a Gram matrix proves a rank above ``most``."""
    n, D = X.shape
    if n <= D:
        return False
    step = max(1, 2 * n // (3 * D))  # 3/2 D rows usually prove full rank
    if _least_rank(X[::step]) > most:
        return True
    return step > 1 and _least_rank(X) > most


def _least_rank(X: Array) -> int:
    """Return a lower bound on the rank of the centred rows: directions below 1e-8 are not seen."""
    xp = namespace(X)
    first, mean = _centre(X)
    gram = zeros((X.shape[1], X.shape[1]), mean)
    for part in slices(*X.shape):
        rows = float64(X[part]) - first - mean
        gram += rows.T @ rows
    varying = to_index(xp.diagonal(gram) > 0)
    gram = gram[varying][:, varying]
    scale = xp.diagonal(gram) ** 0.5
    gram = gram / scale / scale[:, None]
    floor = SURELY_POSITIVE * len(varying)  # the trace, which no eigenvalue exceeds
    if definite_part(gram - floor * identity(len(varying), gram)) is not None:
        return len(varying)
    return int((xp.linalg.eigvalsh(gram) > floor).sum())


def _centre(X: Array) -> Pair:
    """A row, and the mean difference of all rows from it, in float64.

    In a column that does not vary this is exactly zero, where the mean of the column may be rounded.
    """
    first = float64(X[:1])
    total = zeros(X.shape[1], first)
    for part in slices(*X.shape):
        total += (float64(X[part]) - first).sum(0)
    return first, total / len(X)


def _rank(singular: Array) -> int:
    """Singular values, descending, above rounding; at least one."""
    eps = namespace(singular).finfo(singular.dtype).eps
    return max(1, int((singular > len(singular) * eps * singular[0]).sum()))
