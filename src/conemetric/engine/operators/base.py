"""The linear operator: from a symmetric matrix M to one number per constraint, and back.

A *pair* p = (a, b) of rows of X has the difference d_p = x_a - x_b and q_p(M) = d_p' M d_p. A
constraint is a weighted sum of pairs, row r of the sparse matrix B, so that

    forward   A(M)_r = (B q(M))_r            adjoint   A*(u) = sum_p (B'u)_p d_p d_p' = X' Lap(B'u) X

with Lap(w) the weighted graph Laplacian of the unique pairs; no array of size (constraints x
features) is ever formed. X is centred once, which changes no difference but keeps every digit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, Self

import numpy as np

from ...core.arrays import (
    Array,
    Arrays,
    DType,
    Values,
    arange,
    is_torch,
    like,
    namespace,
    zeros,
)
from ...core.slices import slices
from ...core.sparse_rows import SparseRows
from ...core.spectral import NearProduct
from ...core.vectors import ARRAYS, Reduction, VectorSpace

CG_ACCURACY = 1e-4  # residual, relative to the first, at which a system is solved
CG_STEPS = 200  # at most, which only systems that constraints make singular need
DIFFERENCES = 1 << 20  # numbers of pairs' differences held at a time

# Rows whose differences constraints are about.
Points = Array | SparseRows


class Operator(ABC):
    """A and A*, in the array library ``xp``; ``dtype`` is that of ``forward``."""

    n_constraints: int
    n_features: int
    n_columns: int = 0  # numbers beside the matrix (`ranking.column_operator`)
    reference: Array  # an empty vector in the library, dtype and on the device of D x D matrices

    @abstractmethod
    def forward(self, M: Array) -> Array:
        """A(M) for a symmetric matrix M (D x D)."""

    def forward_factor(self, L: Array) -> Array:
        """A(L L') for a factor L (D x r): of most operators cheaper and more accurate than here."""
        return self.forward(L @ L.T)

    @abstractmethod
    def adjoint(self, u: Array) -> Array:
        """A*(u), a symmetric D x D matrix."""

    def adjoint_and(self, u: Array, *requested: Reduction) -> tuple[Array, list[Any]]:
        """A*(u) and the results of reductions over vectors, in one visit to the blocks."""
        return self.adjoint(u), self.space.totals(*requested)

    def precise_adjoint(self, u: Array) -> Array:
        """A*(u) for a certificate, with all digits even if pairs nearly coincide."""
        return self.adjoint(u)

    def adjoint_product(self, u: Array, Y: Array) -> Array:
        """A*(u) Y."""
        return self.adjoint(u) @ Y

    def forward_product(self, B: Array, C: Array) -> Array:
        """A(B C')."""
        return self.forward(B @ C.T)

    def moved(
        self, L: Array, change: Array, which: Array | None = None, damping: float = 0.0
    ) -> Array:
        """L + A*(y) L for which A(L L') differs by ``change``, to first order: all, or ``which``; with
        ``damping``, by less, relative to the size of the system for y.
        """
        used: Values = 1.0
        if which is not None:
            used = like(which, change)

        def product(y: Array) -> Array:
            # A(A*(y) L L' + L L' A*(y)), the first-order change of A(L L')
            moved = self.adjoint_product(y * used, L)
            return (self.forward_product(moved, L) + self.forward_product(L, moved)) * used

        y = conjugate_gradients(product, change * used, damping)
        return L + self.adjoint_product(y, L)

    @property
    def space(self) -> VectorSpace:
        """The space of vectors with one entry per constraint."""
        return ARRAYS

    @property
    def blocks(self) -> Any:
        """The operator of each block, which can be mapped and summed like a vector."""
        return self

    @property
    def xp(self) -> ModuleType:
        """NumPy or PyTorch."""
        return namespace(self.reference)

    @property
    def dtype(self) -> Any:
        return self.reference.dtype

    @property
    def row_sizes(self) -> Values:
        """Norms of the A_r, up to a common factor; 1.0 if unknown."""
        return 1.0

    @property
    def eps(self) -> float:
        """Relative rounding error of one operation in this operator's precision."""
        return float(self.xp.finfo(self.dtype).eps)

    @abstractmethod
    def astype(self, dtype: DType) -> "Operator":
        """The same operator in another precision."""

    @property
    def dense_work(self) -> float:
        """Multiplications of the largest dense product or decomposition in an iteration."""
        return float(self.n_features) ** 3

    def empty_constraint_vector(self) -> Array:
        """Zeros, one per constraint, in this operator's library and dtype and on its device."""
        return zeros(self.n_constraints, self.reference)

    def constraint_vector(self, values: Array) -> Array:
        """``values``, one per constraint, as such a vector."""
        return like(values, self.empty_constraint_vector())


class RestrictableOperator(Operator):
    """An operator that can be restricted to some of its constraints: what a working set needs."""

    @abstractmethod
    def subset(self, index: Array) -> "RestrictableOperator":
        """The operator of the constraints ``index``, with only the points and pairs they need."""

    @abstractmethod
    def astype(self, dtype: DType) -> "RestrictableOperator":
        """The same operator in another precision."""


class NewtonOperator(Operator):
    """An operator that can form the matrix of a Newton step: what interior points need."""

    @abstractmethod
    def newton_matrix(self, curvature: NearProduct) -> Array:
        """The m x m matrix of <A_r, W(A_s)>, with W = ``curvature``."""


def kernels_of(X: Points) -> ModuleType:
    """Return what the library of X does to pairs of rows; that of PyTorch is imported on first use."""
    if is_torch(X):
        return import_module(".torch_pairs", __package__)
    return import_module(".numpy_pairs", __package__)


def starts(sorted_numbers: Array, n: int) -> Array:
    """Where each of 0 ... n-1 starts in a sorted list, and where the list ends."""
    numbers = like(arange(n + 1, sorted_numbers), sorted_numbers)
    return namespace(sorted_numbers).searchsorted(sorted_numbers, numbers)


def conjugate_gradients(product: Callable[[Array], Array], b: Array, damping: float) -> Array:
    """Roughly (H + ridge I)^-1 b for a positive semidefinite ``product`` with H; the ridge is
    ``damping`` times the size of H along b.
    """
    x = b * 0
    residual = b
    search = b
    first = float((b * b).sum())
    rest = first
    ridge = None
    for _ in range(CG_STEPS):
        if not rest > CG_ACCURACY**2 * first:
            break
        image = product(search)
        if ridge is None:
            ridge = damping * abs(float((search * image).sum())) / first
        image = image + ridge * search
        curvature = float((search * image).sum())
        if not curvature > 0:
            break
        x = x + (rest / curvature) * search
        residual = residual - (rest / curvature) * image
        rest_before = rest
        rest = float((residual * residual).sum())
        search = residual + (rest / rest_before) * search
    return x


class DifferenceOperator(RestrictableOperator):
    """Constraints on squared distances between rows of X; see the module docstring.

    X (n, D) is centred by `from_triplets` and `from_pairs`; ``a`` < ``b`` are the unique pairs,
    sorted; ``incidence`` is B in compressed rows: constraint r is ``sum(weight[k] * q[pair[k]] for
    k in row_start[r]:row_start[r+1])``.
    """

    X: Any  # of the type of `Points` that a subclass is for
    # the operator this one was rounded from: this one solves, that one certifies
    source: "DifferenceOperator | None" = None

    def __init__(self, X: Points, a: Array, b: Array, incidence: Arrays):
        self.X = X
        self.a = a
        self.b = b
        self.row_start, self.pair, self.weight = incidence
        self.n_constraints = self.row_start.shape[0] - 1
        self.n_points, self.n_features = X.shape
        self.reference = zeros(0, X)

    @abstractmethod
    def pair_forward(self, M: Array) -> Array:
        """q(M), one value per unique pair."""

    def pair_forward_factor(self, L: Array) -> Array:
        """q(L L'), one value per unique pair."""
        return self.squared_distances(self.X @ L)

    def squared_distances(self, Y: Array) -> Array:
        """||Y_a - Y_b||^2 for every unique pair."""
        return kernels_of(Y).squared_distances(Y, self.a, self.b)

    @abstractmethod
    def pair_adjoint(self, w: Array) -> Array:
        """sum_p w_p d_p d_p'."""

    @abstractmethod
    def combine(self, q: Array, sizes: bool = False) -> Array:
        """B q, or with ``sizes`` |B| q."""

    @abstractmethod
    def distribute(self, u: Array) -> Array:
        """B' u."""

    def forward(self, M: Array) -> Array:
        return self.combine(self.pair_forward(M))

    def forward_factor(self, L: Array) -> Array:
        return self.combine(self.pair_forward_factor(L))

    def adjoint(self, u: Array) -> Array:
        return self.pair_adjoint(self.distribute(u))

    def precise_adjoint(self, u: Array) -> Array:
        if isinstance(self.X, SparseRows):
            return self.adjoint(u)
        # from differences: the Laplacian's sums of whole rows cancel where pairs nearly coincide
        w = self.distribute(u)
        total = zeros((self.n_features, self.n_features), self.X)
        for part in slices(self.n_pairs, self.n_features, DIFFERENCES):
            d = self.X[self.a[part]] - self.X[self.b[part]]
            total += (d * w[part, None]).T @ d
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        n_bytes = 0
        for value in vars(self).values():
            if hasattr(value, "indptr"):  # a sparse matrix
                n_bytes += value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
            else:
                n_bytes += getattr(value, "nbytes", 0)
        return n_bytes

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    @property
    def n_pairs(self) -> int:
        return self.a.shape[0]

    @cached_property
    def pair_lengths(self) -> Array:
        """Squared Euclidean length of every unique pair."""
        return self.squared_distances(self.X)

    @property
    def row_sizes(self) -> Array:
        """sum_p |B_rp| ||d_p||^2, within a factor of two of the norm of A_r for a triplet."""
        return self.combine(self.pair_lengths, sizes=True)

    @property
    def dense_work(self) -> float:
        tallest = max(self.n_points, self.n_features)
        return float(tallest) * self.n_features**2

    def astype(self, dtype: DType) -> "DifferenceOperator":
        if self.X.dtype == dtype:
            return self
        if self.source is not None and self.source.dtype == dtype:
            return self.source
        X: Points
        if isinstance(self.X, SparseRows):
            X = self.X.astype(np.dtype(dtype))
        else:
            X = like(self.X, self.X, dtype)
        incidence = (self.row_start, self.pair, like(self.weight, self.weight, dtype))
        other = type(self)(X, self.a, self.b, incidence)
        if X.dtype.itemsize < self.X.dtype.itemsize:
            other.source = self
        return other

    def subset(self, index: Array) -> Self:
        xp = self.xp
        index = like(index, self.row_start)
        # the rows of B, one after the other
        length = (self.row_start[1:] - self.row_start[:-1])[index]
        row_start = zeros(index.shape[0] + 1, self.row_start)
        row_start[1:] = xp.cumsum(length, 0)
        shift = self.row_start[index] - row_start[:-1]
        repeat = xp.repeat_interleave if is_torch(self.X) else xp.repeat
        entry = arange(int(row_start[-1]), self.row_start) + repeat(shift, length)
        # the pairs in them, and the points in these, numbered anew
        pairs, pair = xp.unique(self.pair[entry], return_inverse=True)
        points, ends = xp.unique(xp.concat([self.a[pairs], self.b[pairs]]), return_inverse=True)
        a = like(ends[: pairs.shape[0]], self.a)
        b = like(ends[pairs.shape[0] :], self.b)
        incidence = (row_start, like(pair, self.pair), self.weight[entry])
        return type(self)(self.X[points], a, b, incidence)
