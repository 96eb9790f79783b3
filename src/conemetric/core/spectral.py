"""Operations on a symmetric matrix: positive part, leading eigenvectors, factors.

Up to `PARTIAL_FROM` rows by full decompositions; above it by Lanczos or LOBPCG if only a few
leading eigenpairs are needed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.linalg
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from .arrays import Array, DType, Pair, float64, is_torch, like, namespace, on_device, to_numpy
from .blas import half_the_cores

if TYPE_CHECKING:
    import torch

# rows; there one eigenvector takes 5 ms by Lanczos, all of them 12 (two Neoverse-N1 cores)
PARTIAL_FROM = 300
SINGLE_FROM = 384  # rows from which the host decomposes single precision without widening it
SIGN_FROM = 300  # rows from which a GPU computes a positive part faster by the sign function
# relative to the norm, by bytes of a number: what is rounding in single precision, and near it in double
NEGLIGIBLE = {4: 1e-7, 8: 1e-10}
DECIDED = 1 - 1e-13  # size at which an eigenvalue counts as its sign: 21 and 29 iterations
ABOVE = 1.001  # times the norm: above every eigenvalue, also after the shift by NEGLIGIBLE
UNDECIDED = 1e-3  # distance of a trace from an integer that reveals an eigenvalue without sign
MIN_ORDER_PER_PAIR = 10  # order of a matrix over the leading eigenpairs that LOBPCG may find
SPARE = 5  # eigenpairs computed beyond the expected rank, to see the sign change
LOBPCG_STEPS = 500  # it converges in far fewer; a limit against a stall
LOBPCG_TOL = 0.75  # exponent of eps in the residual at which LOBPCG ends
RIDGE, RIDGE_GROWTH = 4.0, 10.0  # first ridge in units of eps, and its growth until H is definite
IN_PLACE_FROM = 2000  # rows from which SciPy, whose threads delay those of NumPy, factors faster
DEVICE_FULL_UP_TO = 2048  # rows; a GPU's full decomposition beats many small launches there


@dataclass(frozen=True)
class PSDPart:
    """A positive semidefinite matrix: positive eigenvalues (descending), eigenvectors (columns)."""

    values: Array
    vectors: Array
    tail: Array | None = None  # the eigenvalues cut off, if known

    @property
    def factor(self) -> Array:
        """L with the matrix equal to L L'."""
        return self.vectors * self.values**0.5

    @property
    def squared_norm(self) -> float:
        """Squared Frobenius norm, summed in float64."""
        return float((float64(self.values) ** 2).sum())

    @property
    def rank(self) -> int:
        return len(self.values)

    def matrix(self) -> Array:
        L = self.factor
        return L @ L.T

    def times(self, multiple: float) -> "PSDPart":
        """Its product with a positive number."""
        tail = None if self.tail is None else self.tail * multiple
        return PSDPart(self.values * multiple, self.vectors, tail)


@dataclass(frozen=True)
class NearProduct:
    """S -> W S W + Q_k Y' + Y Q_k' with Y = Q (change' o (Q'S Q_k)), where Q_k are k columns of Q: for
    i < k <= j it adds ``change``_ij q_i q_i'S q_j q_j' and its transpose, for i, j < k twice that.
    """

    whole: Array | float  # W (D, D), or that multiple of the identity
    basis: Array  # Q (D, D)
    change: Array  # (k, D)

    @property
    def leading(self) -> Array:
        """Q_k."""
        return self.basis[:, : len(self.change)]

    def __call__(self, S: Array) -> Array:
        W, Q = self.whole, self.basis
        half = Q @ (self.change.T * (Q.T @ (S @ self.leading))) @ self.leading.T
        return (W**2 * S if isinstance(W, float) else W @ S @ W) + half + half.T


def cholesky_solver(H: Array) -> Callable[[Array], Array]:
    """b -> H^-1 b for positive semidefinite H, overwritten, with the least ridge that makes it definite."""
    xp = namespace(H)
    scale = xp.linalg.diagonal(H) ** -0.5
    H *= scale
    H *= scale[:, None]
    ridge, factor, i = RIDGE * float(xp.finfo(H.dtype).eps), None, range(len(H))
    in_place = not is_torch(H) and len(H) >= IN_PLACE_FROM
    while factor is None:
        H[i, i] = 1 + ridge
        try:  # of the transpose, which is in LAPACK's order of entries
            if in_place:
                factor = cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
            else:
                factor = xp.linalg.cholesky(H.T).T, False
        except xp.linalg.LinAlgError:
            if not ridge < 1:
                raise
            ridge *= RIDGE_GROWTH
            if in_place:
                H = np.tril(H, -1)  # the half that is left
                H += H.T

    def solve(b: Array) -> Array:
        b = scale * b
        if is_torch(b):
            return scale * xp.cholesky_solve(b[:, None], factor[0], upper=True)[:, 0]
        return scale * cho_solve(factor, b, overwrite_b=True, check_finite=False)

    return solve


@dataclass(frozen=True)
class FactoredPart:
    """A positive semidefinite matrix L L' by L = ``factor`` alone, of full column rank."""

    factor: Array
    squared_norm: float
    definite: Array | None = None  # the matrix itself, if known
    tail: ClassVar[None] = None

    @property
    def rank(self) -> int:
        return self.factor.shape[1]

    def matrix(self) -> Array:
        return self.factor @ self.factor.T if self.definite is None else self.definite

    def times(self, multiple: float) -> "FactoredPart":
        """Its product with a positive number."""
        return FactoredPart(self.factor * multiple**0.5, self.squared_norm * multiple**2)


def definite_part(S: Array) -> FactoredPart | None:
    """[S]_+ = S if S is positive definite, in a tenth of the time of `eigh`; else None."""
    xp = namespace(S)
    try:
        return FactoredPart(xp.linalg.cholesky(S), float((float64(S) ** 2).sum()), S)
    except xp.linalg.LinAlgError:
        return None


def positive_factor(
    S: Array, rank_guess: int | None = None, rough: bool = False
) -> PSDPart | FactoredPart:
    """[S]_+ by a factor; on a GPU a large one in single precision, or if it may be ``rough`` (by
    1e-10 of its norm), needs no eigenvalues.
    """
    fast = on_device(S) and len(S) >= SIGN_FROM and (rough or S.dtype.itemsize == 4)
    return (by_sign(S) if fast else None) or psd_split(S, rank_guess)


def by_sign(S: "torch.Tensor") -> FactoredPart | None:
    """[S]_+ of a tensor by matrix products in double precision; None if that fails.

    sign(S) is the limit of the Newton-Schulz iteration, scaled so that the least eigenvalue grows
    the most (Chen & Chow 2014, "A stable scaling of Newton-Schulz for improving the sign function
    computation of a Hermitian matrix"). Eigenvalues below `NEGLIGIBLE` ||S||_F count as negative.
    """
    xp = namespace(S)
    size = ABOVE * float(xp.linalg.matrix_norm(S, dtype=xp.float64))
    if not 0 < size < np.inf:
        return None
    A = S.double() / size
    sign, least = A.clone(), NEGLIGIBLE[S.dtype.itemsize]
    sign.diagonal().sub_(least)
    while least < DECIDED:
        scale = (3 / (1 + least + least**2)) ** 0.5
        sign = xp.addmm(sign, sign, sign @ sign, beta=1.5 * scale, alpha=-0.5 * scale**3)
        least = 0.5 * scale * least * (3 - (scale * least) ** 2)
    positive = (len(S) + float(sign.diagonal().sum())) / 2
    rank = round(positive)
    if abs(positive - rank) > UNDECIDED:
        return None
    generator = xp.Generator(device=S.device).manual_seed(0)
    drawn = xp.randn((len(S), rank), generator=generator, dtype=A.dtype, device=A.device)
    columns = sign @ drawn + drawn  # twice the projections of random vectors
    triangle, fault = xp.linalg.cholesky_ex(columns.T @ columns)
    basis = xp.linalg.solve_triangular(triangle, columns.T, upper=False).T
    core = basis.T @ A @ basis
    root, another = xp.linalg.cholesky_ex((core + core.T) / 2)
    if bool(fault) or bool(another):
        return None
    factor = (basis @ root) * size**0.5
    return FactoredPart(factor.to(S.dtype), float((core**2).sum()) * size**2)


def psd_split(S: Array, rank_guess: int | None = None) -> PSDPart:
    """[S]_+ by eigenvalues.

    If ``rank_guess``, the expected number of positive eigenvalues, is a small part of a large D,
    only the leading ones are computed, and more if the guess was low; the result does not depend
    on it.
    """
    n = S.shape[0]
    if rank_guess is not None and n > PARTIAL_FROM:
        k = rank_guess + SPARE
        while k <= n // MIN_ORDER_PER_PAIR:
            values, vectors = leading_eigenpairs(S, k)
            if float(values[-1]) <= 0:
                return replace(_positive(values, vectors), tail=None)
            k *= 2
    return _positive(*eigh(S))


def _positive(values: Array, vectors: Array) -> PSDPart:
    keep = int((values > 0).sum())
    return PSDPart(values[:keep], vectors[:, :keep], values[keep:])


def positive_values(S: Array) -> PSDPart:
    """[S]_+ by its eigenvalues alone: its vectors are None."""
    xp = namespace(S)
    try:
        values = xp.linalg.eigvalsh(S)
    except xp.linalg.LinAlgError:  # on a device; the host's algorithm may converge
        values = like(np.linalg.eigvalsh(to_numpy(S)), S)
    positive = values > 0
    return PSDPart(values[positive], None, values[~positive])


def psd_derivative(S: Array) -> NearProduct:
    """A generalised derivative of [S]_+: divided differences of max(0, .) in the eigenbasis, or the
    identity less those of the negative part if that has the lower rank.
    """
    xp = namespace(S)
    values, vectors = eigh(S)
    k, n = int((values > 0).sum()), len(values)
    most = k > n - k
    if most:
        k, values, vectors = n - k, -xp.flip(values, (0,)), xp.flip(vectors, (1,))
    ratio = values[:k, None] / (values[:k, None] - values[k:])
    halves = xp.full((k, k), 0.5, dtype=S.dtype, device=S.device)
    change = xp.concatenate([halves, ratio], 1)
    return NearProduct(float(most), vectors, -change if most else change)


def eigh(S: Array) -> Pair:
    """All eigenvalues, descending, and the eigenvectors.

    A GPU decomposes single precision in double, which is faster there (1.4 against 2.4 ms at D =
    164 on an H200); if its algorithm does not converge, the host's takes over. NumPy decomposes it
    in double too. SciPy does not (32 against 19 ms at D = 384 on one core), but it has threads
    of its own (`half_the_cores`), and waking them does not pay for small matrices.
    """
    if is_torch(S):
        xp = namespace(S)
        wide = S.double() if S.is_cuda else S
        try:
            values, vectors = xp.linalg.eigh(wide)
        except xp.linalg.LinAlgError:
            values, vectors = (like(part, wide) for part in np.linalg.eigh(to_numpy(wide)))
        return values.to(S.dtype).flip(0), vectors.to(S.dtype).flip(1)
    if by_scipy(len(S), S.dtype):
        with half_the_cores():
            values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    else:
        values, vectors = np.linalg.eigh(S)
    return values[::-1], vectors[:, ::-1]


def by_scipy(n: int, dtype: DType) -> bool:
    """Whether `eigh` decomposes an n x n matrix on the host by SciPy, and not by NumPy."""
    return n >= SINGLE_FROM and dtype == np.float32


def leading_eigenpair(S: Array, start: Array | None = None) -> tuple[float, Array]:
    """Largest eigenvalue of S, a float, and its unit eigenvector (see `leading_eigenpairs`)."""
    values, vectors = leading_eigenpairs(S, 1, start)
    return float(values[0]), vectors[:, 0]


def largest_eigenvalue(S: Array, tol: float = 0.0) -> float:
    """Largest eigenvalue of S, as a float, if S is large to the relative accuracy ``tol`` (0: full)."""
    if isinstance(S, np.ndarray) and S.shape[0] <= PARTIAL_FROM:
        return float(np.linalg.eigvalsh(S)[-1])
    return float(leading_eigenpairs(S, 1, tol=tol)[0][0])


def leading_eigenpairs(S: Any, k: int, start: Array | None = None, tol: float = 0.0) -> Pair:
    """The k largest eigenvalues and eigenvectors of a matrix or ``LinearOperator`` S, by an
    iteration from ``start`` to the relative accuracy ``tol`` (0: full) if S is large.
    """
    n, rng = S.shape[0], np.random.default_rng(0)
    if issparse(S) and n <= PARTIAL_FROM:
        S = S.toarray()
    explicit = is_torch(S) or isinstance(S, np.ndarray)
    full_up_to = DEVICE_FULL_UP_TO if is_torch(S) and S.is_cuda else PARTIAL_FROM
    full = explicit and (n <= full_up_to or k > n // MIN_ORDER_PER_PAIR)
    if is_torch(S) and not full:
        block = like(rng.standard_normal((n, k)), S)
        if start is not None:
            block[:, 0] = start
        xp = namespace(S)
        accuracy = float(xp.finfo(S.dtype).eps) ** LOBPCG_TOL
        return xp.lobpcg(S, X=block, niter=LOBPCG_STEPS, tol=accuracy)
    if not full:
        try:
            v0 = np.asarray(rng.standard_normal(n), S.dtype) if start is None else start
            values, vectors = eigsh(S, k, which="LA", v0=v0, tol=tol)
            order = np.argsort(values)[::-1]
            return values[order], vectors[:, order]
        except ArpackNoConvergence:
            if not explicit:
                raise
    values, vectors = eigh(S)
    return values[:k], vectors[:, :k]


def eigenvalues_of(components: Array) -> Array:
    """Eigenvalues of the metric C'C with C = ``components``, descending; one per row of C."""
    return namespace(components).linalg.svdvals(components) ** 2


def factor(M: Array) -> Array:
    """L (D x r) with M = L L', r the numerical rank: by descending eigenvalue, `with_fixed_signs`."""
    return _signed_factor(*eigh(M))


def canonical_factor(L: Array, rtol: float | None = None) -> Array:
    """The `factor` of L L', not formed; eigenvalues below ``rtol`` of the largest (D eps) are zero."""
    if L.shape[1] == 0:
        return L
    vectors, singular, _ = namespace(L).linalg.svd(L, full_matrices=False)
    # squares of tiny or huge singular values would leave the range of single precision
    size = float(singular[0]) or 1.0
    return size * _signed_factor((singular / size) ** 2, vectors, rtol)


def _signed_factor(values: Array, vectors: Array, rtol: float | None = None) -> Array:
    xp = namespace(values)
    rtol = vectors.shape[0] * float(xp.finfo(values.dtype).eps) if rtol is None else rtol
    L = vectors * xp.clip(values, 0, None) ** 0.5
    return with_fixed_signs(L[:, values > rtol * values[0]])


def with_fixed_signs(L: Array) -> Array:
    """L with the entry of largest magnitude in each column positive."""
    return L * signs(L)


def signs(L: Array) -> Array:
    """-1 for each column whose entry of largest magnitude is negative, else 1."""
    xp = namespace(L)
    positive = xp.amax(L, 0) >= -xp.amin(L, 0)
    return 2 * like(positive, L) - 1
