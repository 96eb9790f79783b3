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
from typing import Any, Self

from ...core.arrays import arange, is_torch, like, namespace, zeros
from ...core.slices import slices
from ...core.sparse_rows import SparseRows
from ...core.spectral import NearProduct
from ...core.vectors import ARRAYS, Reduction, VectorSpace

CG_ACCURACY, CG_STEPS = 1e-4, 200  # residual, relative to the first, at which a system is solved
DIFFERENCES = 1 << 20  # numbers of pairs' differences held at a time


class Operator(ABC):
    """A and A*, in the array library ``xp``; ``dtype`` is that of ``forward``."""

    n_constraints: int
    n_features: int
    n_columns: int = 0  # numbers beside the matrix (`ranking.column_operator`)
    reference: Any  # an empty vector in the library, dtype and on the device of D x D matrices

    @abstractmethod
    def forward(self, M: Any) -> Any:
        """A(M) for a symmetric matrix M (D x D)."""

    def forward_factor(self, L: Any) -> Any:
        """A(L L') for a factor L (D x r): of most operators cheaper and more accurate than here."""
        return self.forward(L @ L.T)

    @abstractmethod
    def adjoint(self, u: Any) -> Any:
        """A*(u), a symmetric D x D matrix."""

    def adjoint_and(self, u: Any, *requested: Reduction) -> tuple[Any, list]:
        """A*(u) and the results of reductions over vectors, in one visit to the blocks."""
        return self.adjoint(u), self.space.totals(*requested)

    def precise_adjoint(self, u: Any) -> Any:
        """A*(u) for a certificate, with all digits even if pairs nearly coincide."""
        return self.adjoint(u)

    def subset(self, index: Any) -> "Operator":
        """The operator of the constraints ``index``, with only the points and pairs they need."""
        raise NotImplementedError(f"{type(self).__name__} has no subsets.")

    def adjoint_product(self, u: Any, Y: Any) -> Any:
        """A*(u) Y."""
        return self.adjoint(u) @ Y

    def forward_product(self, B: Any, C: Any) -> Any:
        """A(B C')."""
        return self.forward(B @ C.T)

    def moved(self, L: Any, change: Any, which: Any = None, damping: float = 0.0) -> Any:
        """L + A*(y) L for which A(L L') differs by ``change``, to first order: all, or ``which``; with
        ``damping``, by less, relative to the size of the system for y.
        """
        used = 1.0 if which is None else like(which, change)

        def product(y: Any) -> Any:
            moved = self.adjoint_product(y * used, L)
            return (self.forward_product(moved, L) + self.forward_product(L, moved)) * used

        y = conjugate_gradients(product, change * used, damping)
        return L + self.adjoint_product(y, L)

    def newton_matrix(self, curvature: NearProduct) -> Any:
        """The m x m matrix of <A_r, W(A_s)>, with W = ``curvature``."""
        raise NotImplementedError(f"{type(self).__name__} has no Newton matrix.")

    @property
    def space(self) -> VectorSpace:
        """The space of vectors with one entry per constraint."""
        return ARRAYS

    @property
    def blocks(self) -> Any:
        """The operator of each block, which can be mapped and summed like a vector."""
        return self

    @property
    def xp(self) -> Any:
        """NumPy or PyTorch."""
        return namespace(self.reference)

    @property
    def dtype(self) -> Any:
        return self.reference.dtype

    @property
    def row_sizes(self) -> Any:
        """Norms of the A_r, up to a common factor; 1.0 if unknown."""
        return 1.0

    @property
    def eps(self) -> float:
        """Relative rounding error of one operation in this operator's precision."""
        return float(self.xp.finfo(self.dtype).eps)

    @abstractmethod
    def astype(self, dtype: Any) -> "Operator":
        """The same operator in another precision."""

    @property
    def dense_work(self) -> float:
        """Multiplications of the largest dense product or decomposition in an iteration."""
        return float(self.n_features) ** 3

    def empty_constraint_vector(self) -> Any:
        """Zeros, one per constraint, in this operator's library and dtype and on its device."""
        return zeros(self.n_constraints, self.reference)

    def constraint_vector(self, values: Any) -> Any:
        """``values``, one per constraint, as such a vector."""
        return like(values, self.empty_constraint_vector())


def kernels_of(X: Any) -> Any:
    """What the library of X does to pairs of rows: `engine.operators.numpy_pairs`, or `torch` on first use."""
    return import_module(".torch_pairs" if is_torch(X) else ".numpy_pairs", __package__)


def starts(sorted_numbers: Any, n: int) -> Any:
    """Where each of 0 ... n-1 starts in a sorted list, and where the list ends."""
    numbers = like(arange(n + 1, sorted_numbers), sorted_numbers)
    return namespace(sorted_numbers).searchsorted(sorted_numbers, numbers)


def conjugate_gradients(product: Callable[[Any], Any], b: Any, damping: float) -> Any:
    """Roughly (H + ridge I)^-1 b for a positive semidefinite ``product`` with H; the ridge is
    ``damping`` times the size of H along b.
    """
    x, residual, search = b * 0, b, b
    rest = first = float((b * b).sum())
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
        last, rest = rest, float((residual * residual).sum())
        search = residual + (rest / last) * search
    return x


class DifferenceOperator(Operator):
    """Constraints on squared distances between rows of X; see the module docstring.

    X (n, D) is centred by `from_triplets` and `from_pairs`; ``a`` < ``b`` are the unique pairs,
    sorted; ``incidence`` is B in compressed rows: constraint r is ``sum(weight[k] * q[pair[k]] for
    k in row_start[r]:row_start[r+1])``.
    """

    # the operator this one was rounded from: this one solves, that one certifies
    source: "DifferenceOperator | None" = None

    def __init__(self, X: Any, a: Any, b: Any, incidence: tuple[Any, Any, Any]):
        self.X, self.a, self.b = X, a, b
        self.row_start, self.pair, self.weight = incidence
        self.n_constraints = self.row_start.shape[0] - 1
        self.n_points, self.n_features = X.shape
        self.reference = zeros(0, X)

    @abstractmethod
    def pair_forward(self, M: Any) -> Any:
        """q(M), one value per unique pair."""

    def pair_forward_factor(self, L: Any) -> Any:
        """q(L L'), one value per unique pair."""
        return self.squared_distances(self.X @ L)

    def squared_distances(self, Y: Any) -> Any:
        """||Y_a - Y_b||^2 for every unique pair."""
        return kernels_of(Y).squared_distances(Y, self.a, self.b)

    @abstractmethod
    def pair_adjoint(self, w: Any) -> Any:
        """sum_p w_p d_p d_p'."""

    @abstractmethod
    def combine(self, q: Any, sizes: bool = False) -> Any:
        """B q, or with ``sizes`` |B| q."""

    @abstractmethod
    def distribute(self, u: Any) -> Any:
        """B' u."""

    def forward(self, M: Any) -> Any:
        return self.combine(self.pair_forward(M))

    def forward_factor(self, L: Any) -> Any:
        return self.combine(self.pair_forward_factor(L))

    def adjoint(self, u: Any) -> Any:
        return self.pair_adjoint(self.distribute(u))

    def precise_adjoint(self, u: Any) -> Any:
        if isinstance(self.X, SparseRows):
            return self.adjoint(u)
        w, total = self.distribute(u), zeros((self.n_features, self.n_features), self.X)
        for some in slices(self.n_pairs, self.n_features, DIFFERENCES):
            d = self.X[self.a[some]] - self.X[self.b[some]]
            total += (d * w[some, None]).T @ d
        return total

    @property
    def nbytes(self) -> int:
        """Bytes of all its arrays."""
        held = [getattr(each, "nbytes", 0) for each in vars(self).values()]
        sparse = [each for each in vars(self).values() if hasattr(each, "indptr")]
        return sum(held) + sum(M.data.nbytes + M.indices.nbytes + M.indptr.nbytes for M in sparse)

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes

    @property
    def n_pairs(self) -> int:
        return self.a.shape[0]

    @cached_property
    def pair_lengths(self) -> Any:
        """Squared Euclidean length of every unique pair."""
        return self.squared_distances(self.X)

    @property
    def row_sizes(self) -> Any:
        """sum_p |B_rp| ||d_p||^2, within a factor of two of the norm of A_r for a triplet."""
        return self.combine(self.pair_lengths, sizes=True)

    @property
    def dense_work(self) -> float:
        tallest = max(self.n_points, self.n_features)
        return float(tallest) * self.n_features**2

    def astype(self, dtype: Any) -> "DifferenceOperator":
        if self.X.dtype == dtype:
            return self
        if self.source is not None and self.source.dtype == dtype:
            return self.source
        X = self.X.astype(dtype) if isinstance(self.X, SparseRows) else like(self.X, self.X, dtype)
        incidence = self.row_start, self.pair, like(self.weight, self.weight, dtype)
        other = type(self)(X, self.a, self.b, incidence)
        if X.dtype.itemsize < self.X.dtype.itemsize:
            other.source = self
        return other

    def subset(self, index: Any) -> Self:
        xp = self.xp
        index = like(index, self.row_start)
        length = (self.row_start[1:] - self.row_start[:-1])[index]
        row_start = zeros(index.shape[0] + 1, self.row_start)
        row_start[1:] = xp.cumsum(length, 0)
        shift = self.row_start[index] - row_start[:-1]
        repeat = xp.repeat_interleave if is_torch(self.X) else xp.repeat
        entry = arange(int(row_start[-1]), self.row_start) + repeat(shift, length)
        pairs, pair = xp.unique(self.pair[entry], return_inverse=True)
        points, ends = xp.unique(xp.concat([self.a[pairs], self.b[pairs]]), return_inverse=True)
        a, b = like(ends[: pairs.shape[0]], self.a), like(ends[pairs.shape[0] :], self.b)
        incidence = row_start, like(pair, self.pair), self.weight[entry]
        return type(self)(self.X[points], a, b, incidence)
