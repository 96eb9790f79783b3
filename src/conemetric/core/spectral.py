"""What the solvers ask of one symmetric D x D matrix: positive part, shrinkage, leading
eigenvectors, a factor.

Full decompositions (LAPACK's divide and conquer, or the device's) up to `PARTIAL_FROM`
rows; above it, Lanczos or LOBPCG for the few leading eigenpairs whenever few are
wanted, warm-started where the caller has a starting vector.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from scipy.linalg import cho_solve
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from .arrays import float64, is_torch, like, namespace, to_numpy

# rows; one eigenvector by Lanczos takes 5 ms there, all of them 12 (two Neoverse-N1
# cores)
PARTIAL_FROM = 300
SINGLE_FROM = 512  # rows from which single precision is decomposed in it, on the host
SIGN_FROM = 300  # rows from which a GPU finds a positive part faster by the sign
NEGLIGIBLE = 1e-7  # part of the norm of a matrix that is rounding in single precision
SIGN_STEPS = 21  # after which eigenvalues so small have got their sign


@dataclass(frozen=True)
class PSDPart:
    """A positive semidefinite matrix by its positive eigenvalues (descending) and their
    eigenvectors (columns).
    """

    values: Any
    vectors: Any
    tail: Any = None  # the eigenvalues cut off, where they are known

    @property
    def factor(self):
        """L with the matrix equal to L L'."""
        return self.vectors * self.values**0.5

    @property
    def squared_norm(self):
        """Squared Frobenius norm, summed in float64."""
        return float((float64(self.values) ** 2).sum())

    @property
    def trace(self):
        return float(float64(self.values).sum())

    @property
    def rank(self):
        return self.values.shape[0]

    def matrix(self):
        L = self.factor
        return L @ L.T

    def times(self, multiple):
        """A positive multiple of it."""
        tail = None if self.tail is None else self.tail * multiple
        return PSDPart(self.values * multiple, self.vectors, tail)


@dataclass(frozen=True)
class SpectralMap:
    """S -> Q (Phi o (Q'SQ)) Q', the linear map between A* and A in a Newton system.

    Phi is symmetric, with the rows ``leading``; below them it is ``tail tail'``.
    """

    basis: Any  # Q (D, D)
    leading: Any  # (k, D)
    tail: Any  # (D - k,), no entry negative

    @cached_property
    def weights(self):
        """Phi."""
        k = len(self.leading)
        lower = namespace(self.tail).concatenate(
            [self.leading[:, k:].T, self.tail[:, None] * self.tail], 1
        )
        return namespace(self.tail).concatenate([self.leading, lower], 0)

    def __call__(self, S):
        Q = self.basis
        return Q @ (self.weights * (Q.T @ S @ Q)) @ Q.T


def cholesky_solver(H):
    """The map b -> H^-1 b for positive semidefinite H, with the least ridge (relative to
    the diagonal) that makes it definite in this precision.
    """
    xp = namespace(H)
    scale = xp.linalg.diagonal(H) ** -0.5
    scaled = H * scale * scale[:, None]
    ridge = 4 * float(xp.finfo(H.dtype).eps)
    while True:
        try:
            L = xp.linalg.cholesky(scaled + ridge * xp.eye(len(H), dtype=H.dtype, device=H.device))
            break
        except xp.linalg.LinAlgError:
            if not ridge < 1:
                raise
            ridge *= 10

    def solve(b):
        b = scale * b
        x = xp.cholesky_solve(b[:, None], L)[:, 0] if is_torch(b) else cho_solve((L, True), b)
        return scale * x

    return solve


@dataclass(frozen=True)
class DefinitePart:
    """A positive definite matrix and its Cholesky factor: its own positive part, without
    its eigenvalues.
    """

    definite: Any
    factor: Any
    tail: ClassVar[None] = None

    @cached_property
    def squared_norm(self):
        return float((float64(self.definite) ** 2).sum())

    @property
    def rank(self):
        return self.definite.shape[0]

    def matrix(self):
        return self.definite


def definite_part(S) -> DefinitePart | None:
    """[S]_+ = S where S is positive definite, in a tenth of the time of its eigenvalues;
    else None.
    """
    if is_torch(S):
        factor, fault = namespace(S).linalg.cholesky_ex(S)
        return None if bool(fault) else DefinitePart(S, factor)
    try:
        return DefinitePart(S, np.linalg.cholesky(S))
    except np.linalg.LinAlgError:
        return None


@dataclass(frozen=True)
class FactoredPart:
    """A positive semidefinite matrix L L' by L = ``factor`` alone, of full column rank."""

    factor: Any
    squared_norm: float
    tail: ClassVar[None] = None

    @property
    def rank(self):
        return self.factor.shape[1]

    def matrix(self):
        return self.factor @ self.factor.T

    def times(self, multiple):
        """A positive multiple of it."""
        return FactoredPart(self.factor * multiple**0.5, self.squared_norm * multiple**2)


def positive_factor(S, rank_guess=None) -> PSDPart | FactoredPart:
    """[S]_+ where its factor will do, as `psd_split` has it: in single precision on a GPU
    a large one is found without eigenvalues.
    """
    if is_torch(S) and S.is_cuda and len(S) >= SIGN_FROM and S.dtype.itemsize == 4:
        part = by_sign(S)
        if part is not None:
            return part
    return psd_split(S, rank_guess)


def by_sign(S) -> FactoredPart | None:
    """[S]_+ of a tensor in single precision by matrix products in double; None where
    that fails.

    sign(S) is the limit of the Newton-Schulz iteration, scaled so that the least
    eigenvalue grows the most (Chen & Chow 2014, "A stable scaling of Newton-Schulz for
    improving the sign function computation of a Hermitian matrix"). Eigenvalues below
    `NEGLIGIBLE` times ||S||_F count as negative: to single precision they are zero.
    """
    import torch

    # a little more than the norm, so that no eigenvalue of A, shifted, is above one
    size = 1.001 * float(torch.linalg.matrix_norm(S, dtype=torch.float64))
    if not 0 < size < np.inf:
        return None
    A = S.double() / size
    sign = A.clone()
    sign.diagonal().sub_(NEGLIGIBLE)
    least = NEGLIGIBLE
    for _ in range(SIGN_STEPS):
        scale = (3 / (1 + least + least**2)) ** 0.5
        sign = torch.addmm(sign, sign, sign @ sign, beta=1.5 * scale, alpha=-0.5 * scale**3)
        least = 0.5 * scale * least * (3 - (scale * least) ** 2)
    positive = (len(S) + float(sign.diagonal().sum())) / 2
    rank = round(positive)
    if abs(positive - rank) > 1e-3:  # an eigenvalue that is neither
        return None
    generator = torch.Generator(device=S.device).manual_seed(0)
    drawn = torch.randn((len(S), rank), generator=generator, dtype=A.dtype, device=A.device)
    columns = sign @ drawn + drawn  # twice the projections of random vectors
    triangle, fault = torch.linalg.cholesky_ex(columns.T @ columns)
    basis = torch.linalg.solve_triangular(triangle, columns.T, upper=False).T
    core = basis.T @ A @ basis
    root, another = torch.linalg.cholesky_ex((core + core.T) / 2)
    if bool(fault) or bool(another):
        return None
    factor = (basis @ root) * size**0.5
    return FactoredPart(factor.to(S.dtype), float((core**2).sum()) * size**2)


def psd_split(S, rank_guess=None):
    """Positive part [S]_+ of a symmetric matrix; the negative part is what is missing, S - [S]_+.

    Parameters
    ----------
    S : array (D, D)
    rank_guess : int, default=None
        How many positive eigenvalues to expect (from the last iteration, say). When it
        is a small part of a large D, only the leading ones are computed, and more if
        the guess was low; the result does not depend on it.
    """
    return shrink(S, 0.0, rank_guess)


def positive_values(S):
    """[S]_+ by its eigenvalues alone: its vectors are None."""
    xp = namespace(S)
    try:
        values = xp.linalg.eigvalsh(S)
    except xp.linalg.LinAlgError:  # of a device; the host's may converge
        values = like(np.linalg.eigvalsh(to_numpy(S)), S)
    positive = values > 0
    return PSDPart(values[positive], None, values[~positive])


def psd_derivative(S):
    """A generalised derivative of the positive part at S: in its eigenbasis every entry is
    multiplied by a divided difference of max(0, .) between two eigenvalues.
    """
    xp = namespace(S)
    values, vectors = eigh(S)
    k = int((values > 0).sum())
    ratio = values[:k, None] / (values[:k, None] - values[k:])
    ones = xp.ones((k, k), dtype=S.dtype, device=S.device)
    return SpectralMap(vectors, xp.concatenate([ones, ratio], 1), xp.zeros_like(values[k:]))


def shrink(S, threshold, rank_guess=None):
    """[S - threshold I]_+ , the proximal map of ``threshold * trace`` over the cone."""
    n = S.shape[0]
    if rank_guess is not None and n > PARTIAL_FROM:
        k = rank_guess + 5
        while k <= n // 10:
            values, vectors = leading_eigenpairs(S, k)
            if float(values[-1]) <= threshold:
                return replace(_positive(values - threshold, vectors), tail=None)
            k *= 2
    values, vectors = eigh(S)
    return _positive(values - threshold, vectors)


def eigh(S):
    """All eigenvalues, descending, and the eigenvectors.

    On a GPU single precision is decomposed in double, which is faster there (1.4
    against 2.4 ms at D = 164 on an H200); where the device's algorithm does not converge,
    the host's is asked. NumPy decomposes it in double, too; SciPy does not (1.6 against 0.8 s
    at D = 1,536 on one core), but its threads are others than NumPy's, which small matrices
    are too short to wait for.
    """
    if is_torch(S):
        xp = namespace(S)
        wide = S.double() if S.is_cuda else S
        try:
            values, vectors = xp.linalg.eigh(wide)
        except xp.linalg.LinAlgError:
            values, vectors = (like(part, wide) for part in np.linalg.eigh(to_numpy(wide)))
        return values.to(S.dtype).flip(0), vectors.to(S.dtype).flip(1)
    if S.dtype == np.float32 and len(S) >= SINGLE_FROM:
        values, vectors = scipy.linalg.eigh(S, driver="evd", check_finite=False)
    else:
        values, vectors = np.linalg.eigh(S)
    return values[::-1], vectors[:, ::-1]


def _positive(values, vectors):
    keep = int((values > 0).sum())
    return PSDPart(values[:keep], vectors[:, :keep], values[keep:])


def leading_eigenpair(S, start=None, tol=0.0):
    """Largest eigenvalue of S (algebraically) and its unit eigenvector, as ``(float, array)``.

    ``start`` is a starting vector (the last answer); ``tol`` the relative accuracy of
    the eigenvalue, 0 for full.
    """
    values, vectors = leading_eigenpairs(S, 1, start, tol)
    return float(values[0]), vectors[:, 0]


def largest_eigenvalue(S):
    """Largest eigenvalue of S, as a float."""
    if isinstance(S, np.ndarray) and S.shape[0] <= PARTIAL_FROM:
        return float(np.linalg.eigvalsh(S)[-1])
    return leading_eigenpair(S)[0]


def leading_eigenpairs(S, k, start=None, tol=0.0):
    """The k largest eigenvalues (descending) and their eigenvectors; S may also be
    sparse or a SciPy ``LinearOperator``.
    """
    n = S.shape[0]
    if issparse(S) and n <= PARTIAL_FROM:
        S = S.toarray()
    explicit = hasattr(S, "dtype") and (is_torch(S) or isinstance(S, np.ndarray))
    if explicit and (n <= PARTIAL_FROM or k > n // 10):
        values, vectors = eigh(S)
        return values[:k], vectors[:, :k]
    if is_torch(S):
        return _leading_torch(S, k, start)
    try:
        v0 = np.random.default_rng(0).standard_normal(n).astype(S.dtype) if start is None else start
        values, vectors = eigsh(S, k, which="LA", v0=v0, tol=tol)
    except ArpackNoConvergence:
        if not explicit:
            raise
        values, vectors = eigh(S)
        values, vectors = values[:k], vectors[:, :k]
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def _leading_torch(S, k, start):
    import torch

    # the device's full decomposition is faster than many small launches
    if S.is_cuda and S.shape[0] <= 2048:
        values, vectors = eigh(S)
        return values[:k], vectors[:, :k]
    rng = np.random.default_rng(0)
    block = like(rng.standard_normal((S.shape[0], k)), S)
    if start is not None:
        block[:, 0] = start
    return torch.lobpcg(S, X=block, niter=500, tol=float(torch.finfo(S.dtype).eps) ** 0.75)


def eigenvalues_of(components):
    """Eigenvalues of the metric C'C with C = ``components``, falling; as many as rows of C."""
    return namespace(components).linalg.svdvals(components) ** 2


def factor(M, rtol=None):
    """L (D x r) with M = L L', columns by descending eigenvalue, r the numerical rank, signs fixed.

    Eigenvalues below ``rtol`` times the largest (default: D times the machine
    precision) count as zero. The entry of largest magnitude in each column is positive.
    """
    values, vectors = eigh(M)
    return _signed_factor(values, vectors, rtol)


def canonical_factor(L, rtol=None):
    """The `factor` of L L', found without forming it."""
    if L.shape[1] == 0:
        return L
    vectors, singular, _ = namespace(L).linalg.svd(L, full_matrices=False)
    # squares of tiny or huge ones would leave the range of single precision
    size = float(singular[0]) or 1.0
    return size * _signed_factor((singular / size) ** 2, vectors, rtol)


def _signed_factor(values, vectors, rtol):
    xp = namespace(values)
    rtol = vectors.shape[0] * float(xp.finfo(values.dtype).eps) if rtol is None else rtol
    L = vectors * xp.clip(values, 0, None) ** 0.5
    return with_fixed_signs(L[:, values > rtol * values[0]])


def with_fixed_signs(L):
    """L with the entry of largest magnitude in each column positive."""
    return L * signs(L)


def signs(L):
    """-1 for each column whose entry of largest magnitude is negative, else 1."""
    xp = namespace(L)
    positive = xp.amax(L, 0) >= -xp.amin(L, 0)
    return 2 * like(positive, L) - 1
