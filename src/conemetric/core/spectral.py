"""Operations on a symmetric matrix: positive part, leading eigenvectors, factors.

Up to `PARTIAL_FROM` rows by full decompositions; above it by Lanczos or LOBPCG if only a few
leading eigenpairs are needed.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.linalg
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from .arrays import Array, DType, Pair, float64, is_torch, like, namespace, on_device, to_numpy
from .blas import half_the_cores

if TYPE_CHECKING:
    import torch

# Rows from which leading eigenpairs are found by Lanczos: at this size one takes 5 ms, and a full
# decomposition 12 (two Neoverse-N1 cores).
PARTIAL_FROM = 300
# Rows of a matrix for each leading eigenpair; for more pairs a full decomposition is faster.
MIN_ORDER_PER_PAIR = 10
# Rows up to which a GPU decomposes fully: LOBPCG launches many small kernels, one after the other.
DEVICE_FULL_UP_TO = 2048
# Rows from which the host decomposes single precision without widening it.
SINGLE_FROM = 384
# Rows from which a GPU computes a positive part faster by the sign function.
SIGN_FROM = 300

# Eigenpairs computed beyond the expected rank, so that the change of sign is seen among them.
SPARE_EIGENPAIRS = 5
# LOBPCG converges in far fewer iterations; the limit ends a stall.
LOBPCG_MAX_ITER = 500
# LOBPCG ends when residuals are below this power of the precision's eps.
LOBPCG_TOL_EXPONENT = 0.75

# The sign function of S / ||S||_F. Eigenvalues below the first, by the bytes of a number, count as
# negative: what is rounding in single precision, and near it in double.
NEGATIVE_RTOL = {4: 1e-7, 8: 1e-10}
# Times the norm: above every eigenvalue, also after the shift by NEGATIVE_RTOL.
NORM_MARGIN = 1.001
# The iteration ends when all eigenvalues are this near to -1 or 1: after 21 (single) or 29 (double) steps.
SIGN_CONVERGED = 1 - 1e-13
# A trace farther than this from an integer reveals an eigenvalue that has become neither -1 nor 1.
MAX_TRACE_ERROR = 1e-3


# ---- what the operations return


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
        """Return the matrix itself."""
        L = self.factor
        return L @ L.T

    def times(self, multiple: float) -> "PSDPart":
        """Return its product with a positive number."""
        tail = self.tail
        if tail is not None:
            tail = tail * multiple
        return PSDPart(self.values * multiple, self.vectors, tail)


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
        """Return the matrix itself."""
        if self.definite is not None:
            return self.definite
        return self.factor @ self.factor.T

    def times(self, multiple: float) -> "FactoredPart":
        """Return its product with a positive number."""
        return FactoredPart(self.factor * multiple**0.5, self.squared_norm * multiple**2)


@dataclass(frozen=True)
class NearProduct:
    """S -> W S W + Q_k Y' + Y Q_k' with Y = Q (change' o (Q'S Q_k)), where Q_k are k columns of Q.

    For i < k <= j this adds ``change``_ij q_i q_i'S q_j q_j' and its transpose, for i, j < k twice
    that.
    """

    whole: Array | float  # W (D, D), or that multiple of the identity
    basis: Array  # Q (D, D)
    change: Array  # (k, D)

    @property
    def leading(self) -> Array:
        """Q_k."""
        return self.basis[:, : len(self.change)]

    def __call__(self, S: Array) -> Array:
        W = self.whole
        Q = self.basis
        Y = Q @ (self.change.T * (Q.T @ (S @ self.leading)))
        half = Y @ self.leading.T
        if isinstance(W, float):
            product = W**2 * S
        else:
            product = W @ S @ W
        return product + half + half.T


# ---- positive part


def positive_factor(
    S: Array, rank_guess: int | None = None, rough: bool = False
) -> PSDPart | FactoredPart:
    """Return [S]_+ by a factor, if possible without eigenvalues.

    A GPU can do without for a large matrix in single precision, or if the result may be ``rough``, by
    1e-10 of its norm. ``rank_guess`` is that of `psd_split`.
    """
    may_be_rough = rough or S.dtype.itemsize == 4
    if may_be_rough and len(S) >= SIGN_FROM and on_device(S):
        part = by_sign(S)
        if part is not None:
            return part
    return psd_split(S, rank_guess)


def psd_split(S: Array, rank_guess: int | None = None) -> PSDPart:
    """Return [S]_+ by eigenvalues.

    If ``rank_guess``, the expected number of positive eigenvalues, is a small part of a large D,
    only the leading ones are computed, and more if the guess was low; the result does not depend
    on it.
    """
    n = S.shape[0]
    if rank_guess is not None and n > PARTIAL_FROM:
        k = rank_guess + SPARE_EIGENPAIRS
        while k <= n // MIN_ORDER_PER_PAIR:
            values, vectors = leading_eigenpairs(S, k)
            if float(values[-1]) <= 0:  # all positive ones are among these
                # of the eigenvalues cut off only a few were computed
                return replace(_positive(values, vectors), tail=None)
            k *= 2
    values, vectors = eigh(S)
    return _positive(values, vectors)


def _positive(values: Array, vectors: Array) -> PSDPart:
    """Return the positive part of a matrix with these eigenvalues, descending, and eigenvectors."""
    n_positive = int((values > 0).sum())
    return PSDPart(values[:n_positive], vectors[:, :n_positive], values[n_positive:])


def positive_values(S: Array) -> PSDPart:
    """Return [S]_+ by its eigenvalues alone, ascending; its vectors are None."""
    xp = namespace(S)
    try:
        values = xp.linalg.eigvalsh(S)
    except xp.linalg.LinAlgError:  # on a device; the host's algorithm may converge
        values = like(np.linalg.eigvalsh(to_numpy(S)), S)
    positive = values > 0
    return PSDPart(values[positive], None, values[~positive])


def definite_part(S: Array) -> FactoredPart | None:
    """Return [S]_+ = S if S is positive definite, in a tenth of the time of `eigh`; else None."""
    xp = namespace(S)
    try:
        factor = xp.linalg.cholesky(S)
    except xp.linalg.LinAlgError:
        return None
    squared_norm = float((float64(S) ** 2).sum())
    return FactoredPart(factor, squared_norm, S)


def by_sign(S: "torch.Tensor") -> FactoredPart | None:
    """Return [S]_+ of a tensor by matrix products in double precision; None if that fails.

    (sign(S) + 1) / 2 projects onto the eigenvectors with positive eigenvalues. Its trace is their
    number, and its products with as many random vectors span them. Eigenvalues below `NEGATIVE_RTOL`
    ||S||_F count as negative.
    """
    xp = namespace(S)
    size = NORM_MARGIN * float(xp.linalg.matrix_norm(S, dtype=xp.float64))
    if not 0 < size < np.inf:
        return None
    A = S.double() / size
    sign = _matrix_sign(A, NEGATIVE_RTOL[S.dtype.itemsize])
    n_positive = (len(S) + float(sign.diagonal().sum())) / 2
    rank = round(n_positive)
    if abs(n_positive - rank) > MAX_TRACE_ERROR:
        return None
    generator = xp.Generator(device=S.device).manual_seed(0)
    drawn = xp.randn((len(S), rank), generator=generator, dtype=A.dtype, device=A.device)
    columns = sign @ drawn + drawn  # twice their projections
    # an orthonormal basis of the columns, by the Cholesky factor of their inner products
    triangle, not_independent = xp.linalg.cholesky_ex(columns.T @ columns)
    basis = xp.linalg.solve_triangular(triangle, columns.T, upper=False).T
    # A on the space of its positive eigenvectors, so definite
    core = basis.T @ A @ basis
    root, not_definite = xp.linalg.cholesky_ex((core + core.T) / 2)
    if bool(not_independent) or bool(not_definite):
        return None
    factor = (basis @ root) * size**0.5
    squared_norm = float((core**2).sum()) * size**2
    return FactoredPart(factor.to(S.dtype), squared_norm)


def _matrix_sign(A: "torch.Tensor", threshold: float) -> "torch.Tensor":
    """Return the sign of A - ``threshold`` 1, for a symmetric A with eigenvalues from -1 to 1.

    It is the limit of the Newton-Schulz iteration, here scaled so that the least eigenvalue grows the
    most (Chen & Chow 2014, "A stable scaling of Newton-Schulz for improving the sign function
    computation of a Hermitian matrix").
    """
    xp = namespace(A)
    sign = A.clone()
    sign.diagonal().sub_(threshold)
    least = threshold  # a lower bound on the magnitude of every eigenvalue that began above it
    while least < SIGN_CONVERGED:
        scale = (3 / (1 + least + least**2)) ** 0.5
        # 1.5 (scale A) - 0.5 (scale A)^3
        sign = xp.addmm(sign, sign, sign @ sign, beta=1.5 * scale, alpha=-0.5 * scale**3)
        # the same cubic of the least magnitude: a bound on all others without another decomposition
        least = 0.5 * scale * least * (3 - (scale * least) ** 2)
    return sign


def psd_derivative(S: Array) -> NearProduct:
    """Return a generalised derivative of [S]_+: divided differences of max(0, .) in the eigenbasis.

    If fewer eigenvalues are negative than positive, it is the identity less the derivative of the
    negative part, which then has the lower rank.
    """
    xp = namespace(S)
    values, vectors = eigh(S)
    n_positive = int((values > 0).sum())
    n_others = len(values) - n_positive
    of_negative_part = n_positive > n_others
    if of_negative_part:  # the eigenpairs of -S, in their order
        k = n_others
        values = -xp.flip(values, (0,))
        vectors = xp.flip(vectors, (1,))
    else:
        k = n_positive
    # l_i / (l_i - l_j) between a positive and a nonpositive eigenvalue; 1 between two positive
    # ones, which `NearProduct` counts twice
    ratio = values[:k, None] / (values[:k, None] - values[k:])
    halves = xp.full((k, k), 0.5, dtype=S.dtype, device=S.device)
    change = xp.concatenate([halves, ratio], 1)
    if of_negative_part:
        return NearProduct(1.0, vectors, -change)
    return NearProduct(0.0, vectors, change)


# ---- eigenpairs


def eigh(S: Array) -> Pair:
    """Return all eigenvalues, descending, and the eigenvectors.

    A GPU decomposes single precision in double, which is faster there (1.4 against 2.4 ms at D =
    164 on an H200); if its algorithm does not converge, the host's takes over. NumPy decomposes it
    in double too. SciPy does not (32 against 19 ms at D = 384 on one core), but it has threads
    of its own (`half_the_cores`), and waking them does not pay for small matrices.
    """
    if is_torch(S):
        return _eigh_of_tensor(S)
    if by_scipy(len(S), S.dtype):
        with half_the_cores():
            values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    else:
        values, vectors = np.linalg.eigh(S)
    return values[::-1], vectors[:, ::-1]


def _eigh_of_tensor(S: "torch.Tensor") -> Pair:
    """`eigh` of a tensor, on its device if that converges."""
    xp = namespace(S)
    wide = S.double() if S.is_cuda else S
    try:
        values, vectors = xp.linalg.eigh(wide)
    except xp.linalg.LinAlgError:
        on_host = np.linalg.eigh(to_numpy(wide))
        values = like(on_host.eigenvalues, wide)
        vectors = like(on_host.eigenvectors, wide)
    return values.to(S.dtype).flip(0), vectors.to(S.dtype).flip(1)


def by_scipy(n: int, dtype: DType) -> bool:
    """Tell whether `eigh` decomposes an n x n matrix on the host by SciPy, and not by NumPy."""
    return n >= SINGLE_FROM and dtype == np.float32


def leading_eigenpair(S: Array, start: Array | None = None) -> tuple[float, Array]:
    """Return the largest eigenvalue of S, a float, and its unit eigenvector.

    ``start`` is that of `leading_eigenpairs`.
    """
    values, vectors = leading_eigenpairs(S, 1, start)
    return float(values[0]), vectors[:, 0]


def largest_eigenvalue(S: Array, tol: float = 0.0) -> float:
    """Return the largest eigenvalue of S, as a float.

    If S is large, it has the relative accuracy ``tol`` (0: full).
    """
    if isinstance(S, np.ndarray) and S.shape[0] <= PARTIAL_FROM:
        return float(np.linalg.eigvalsh(S)[-1])
    values, _ = leading_eigenpairs(S, 1, tol=tol)
    return float(values[0])


def leading_eigenpairs(S: Any, k: int, start: Array | None = None, tol: float = 0.0) -> Pair:
    """Return the k largest eigenvalues and eigenvectors of a matrix or ``LinearOperator`` S.

    If S is large, they come from an iteration that begins at the vector ``start`` and ends at the
    relative accuracy ``tol`` (0: full).
    """
    n = S.shape[0]
    if issparse(S) and n <= PARTIAL_FROM:
        S = S.toarray()
    has_entries = is_torch(S) or isinstance(S, np.ndarray)
    full_up_to = DEVICE_FULL_UP_TO if is_torch(S) and S.is_cuda else PARTIAL_FROM
    if has_entries and (n <= full_up_to or k > n // MIN_ORDER_PER_PAIR):
        return _leading_by_eigh(S, k)
    if is_torch(S):
        return _leading_by_lobpcg(S, k, start)
    try:
        return _leading_by_lanczos(S, k, start, tol)
    except ArpackNoConvergence:
        if not has_entries:
            raise
    return _leading_by_eigh(S, k)


def _leading_by_eigh(S: Array, k: int) -> Pair:
    """Return the k leading eigenpairs of all."""
    values, vectors = eigh(S)
    return values[:k], vectors[:, :k]


def _leading_by_lobpcg(S: "torch.Tensor", k: int, start: Array | None) -> Pair:
    """Return the k leading eigenpairs of a tensor by products with blocks of vectors, on its device."""
    xp = namespace(S)
    block = like(np.random.default_rng(0).standard_normal((len(S), k)), S)
    if start is not None:
        block[:, 0] = start
    tol = float(xp.finfo(S.dtype).eps) ** LOBPCG_TOL_EXPONENT
    return xp.lobpcg(S, X=block, niter=LOBPCG_MAX_ITER, tol=tol)


def _leading_by_lanczos(S: Any, k: int, start: Array | None, tol: float) -> Pair:
    """Return the k leading eigenpairs of a matrix or ``LinearOperator`` on the host, by ARPACK."""
    if start is None:
        # ARPACK's own start is random, and two fits would not be bit-identical
        start = np.asarray(np.random.default_rng(0).standard_normal(S.shape[0]), S.dtype)
    values, vectors = eigsh(S, k, which="LA", v0=start, tol=tol)
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def eigenvalues_of(components: Array) -> Array:
    """Return the eigenvalues of the metric C'C with C = ``components``, descending; one per row of C."""
    return namespace(components).linalg.svdvals(components) ** 2


# ---- factors


def factor(M: Array) -> Array:
    """Return L (D x r) with M = L L', where r is the numerical rank of M.

    Columns are ordered by descending eigenvalue and have the signs of `with_fixed_signs`.
    """
    values, vectors = eigh(M)
    return _signed_factor(values, vectors)


def canonical_factor(L: Array, rtol: float | None = None) -> Array:
    """Return the `factor` of L L', which is not formed.

    Eigenvalues below ``rtol`` of the largest (default: D eps) count as zero.
    """
    if L.shape[1] == 0:
        return L
    vectors, singular, _ = namespace(L).linalg.svd(L, full_matrices=False)
    # squares of tiny or huge singular values would leave the range of single precision
    size = float(singular[0]) or 1.0
    return size * _signed_factor((singular / size) ** 2, vectors, rtol)


def _signed_factor(values: Array, vectors: Array, rtol: float | None = None) -> Array:
    """Return the factor of a matrix with these eigenvalues, descending, and eigenvectors."""
    xp = namespace(values)
    if rtol is None:
        rtol = vectors.shape[0] * float(xp.finfo(values.dtype).eps)
    L = vectors * xp.clip(values, 0, None) ** 0.5
    return with_fixed_signs(L[:, values > rtol * values[0]])


def with_fixed_signs(L: Array) -> Array:
    """Return L with the entry of largest magnitude in each column positive."""
    return L * signs(L)


def signs(L: Array) -> Array:
    """Return -1 for each column whose entry of largest magnitude is negative, else 1."""
    xp = namespace(L)
    positive = xp.amax(L, 0) >= -xp.amin(L, 0)
    return 2 * like(positive, L) - 1
