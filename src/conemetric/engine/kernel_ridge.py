"""Kernel ridge regression in a learned distance, with a certificate (docs/mathematics).

    f(x) = c + sum_i a_i k(x, x_i),    (K + ridge W^-1) a = y - c

Distances are relative to their mean over the rows, and c is the mean of y. Beyond MOST_DENSE rows K
is held in float32 only, as a Cholesky factor that preconditions conjugate gradients, which take the
entries of K block by block in float64. With very many rows f is a sum over some of them, landmarks.
"""

from collections.abc import Callable
from ctypes import CFUNCTYPE, byref, c_int64, c_void_p
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address
from scipy.linalg import get_lapack_funcs, solve_triangular

from ..core.arrays import (
    Array,
    DType,
    Pair,
    Values,
    float64,
    identity,
    is_torch,
    like,
    namespace,
    on_device,
    zeros,
)
from ..core.blas import blas_threads, side_by_side
from ..core.slices import slices
from ..core.threads import threaded
from .certificate import Bounds, Certificate, Status
from .distance_kernels import KERNELS, KernelSetting

JITTER = 1e-9  # added to the diagonal of K(z, z), where landmarks nearly coincide
TOL = 1e-6  # relative gap of a linear system that counts as solved
# Rows whose kernel matrix is held in float64 on the host, 32 MB. Of 4,000 the factor takes three times as
# long in double precision as in single with two products in double.
MOST_DENSE = 2000
MOST_STEPS = 20  # of conjugate gradients; two or three are usual
# Kernel values up to which all are computed at once; of more, so many at a time, since beyond the cache an
# entry takes three times as long.
AT_ONCE = 1 << 21
IN_CACHE = 1 << 17
HELD = 1 << 22  # kernel values held at a time, 32 MB in double precision
Map = Callable[[Array], Array]


def ridge_solve(K: Array, ridge: float | Array, Y: Array) -> Array | None:
    """Return (K + diag(ridge))^-1 Y by Cholesky; None if the matrix is not positive definite."""
    solve = ridge_solver(K + 0, ridge)
    if solve is None:
        return None
    return solve(Y)


def ridge_solver(K: Array, ridge: float | Array) -> Map | None:
    """Return the map from Y to (K + diag(ridge))^-1 Y; None if the matrix is not positive definite.

    The Cholesky factor takes the place of K, of which the upper half is read.
    """
    if is_torch(K):
        return _ridge_solver_of_tensor(K, ridge)
    K = np.ascontiguousarray(K)
    np.einsum("ii->i", K)[:] += ridge  # a view of the diagonal
    n = c_int64(len(K))  # read as 32 bits too, where LAPACK's integers are
    # LAPACK reads by columns: what it calls the lower half is the upper half of K by rows
    failed = c_int64()
    _potrf(K.dtype.char)(b"L", byref(n), K.ctypes.data, byref(n), byref(failed))
    if failed.value:
        return None
    (potrs,) = get_lapack_funcs(("potrs",), (K,))
    return lambda Y: potrs(K.T, Y, lower=True)[0]


def _ridge_solver_of_tensor(K: Any, ridge: float | Array) -> Map | None:
    xp = namespace(K)
    K.diagonal().add_(ridge)
    factor, failed = xp.linalg.cholesky_ex(K, upper=True)
    if bool(failed):
        return None
    return lambda Y: xp.cholesky_solve(Y, factor, upper=True)


@cache
def _potrf(precision: str) -> Callable[..., None]:
    """LAPACK's Cholesky factorisation by its address, where SciPy keeps it for compiled callers.

    The settings of a decision are tried in threads. Those would take turns in SciPy's function for
    Python, which keeps the GIL: a fit takes 1.1 to 1.4 times as long. NumPy's lets other threads
    run, but copies the matrix twice: 1.1 to 1.9 times as long.
    """
    function = {"f": "spotrf", "d": "dpotrf"}[precision]
    address = get_cython_function_address("scipy.linalg.cython_lapack", function)
    # which half is read, n, the matrix, its leading dimension, whether it failed
    return CFUNCTYPE(None, *[c_void_p] * 5)(address)


def in_blocks(function: Map, A: Array, width: int, dtype: DType = None) -> Array:
    """Return ``function`` of the rows of A, ``width`` numbers each: on the host in the cache, on all cores."""
    if is_torch(A) or len(A) * width <= AT_ONCE:
        return like(function(A), A, dtype)
    results = np.empty((len(A), width), dtype or A.dtype)
    blocks = slices(len(A), width, IN_CACHE)

    def fill(start: int, stop: int) -> None:
        for rows in blocks[start:stop]:
            results[rows] = function(A[rows])

    # blocks are spread over the cores, so each product has one of them
    with blas_threads(1):
        threaded(fill, len(blocks), results.size)
    return results


@dataclass(frozen=True)
class KernelSum:
    """f(x) = offset + sum_j coefficients_j k(x, points_j), in float64, with distances relative to
    ``scale``; the points are all training rows or some, ``landmarks``; in their precision.
    """

    setting: KernelSetting
    points: Array
    scale: float
    coefficients: Array
    offset: Array
    landmarks: bool = False

    def kernel(self, Z: Array) -> Array:
        """Kernel values between the rows of Z and the points."""
        distances = KERNELS[self.setting.kernel].distances

        def values(rows: Array) -> Array:
            return self.setting.values(distances(rows, self.points), self.scale)

        return in_blocks(values, like(Z, self.points), len(self.points))

    def __call__(self, Z: Array) -> Array:
        """f at each row of Z."""
        parts = slices(max(1, len(Z)), len(self.points), HELD)
        values = [self.kernel(Z[rows]) @ self.coefficients for rows in parts]
        return namespace(Z).concatenate(values) + self.offset


Fitted = tuple[KernelSum, Certificate | None]
# What makes a certificate of a solution x and product(x); None: none is asked for.
Certify = Callable[[Array, Array], Certificate] | None


def fit_exactly(
    setting: KernelSetting, Z: Array, Y: Array, weights: Array, certified: bool = True
) -> Fitted:
    """Fit kernel ridge regression of Y (n, k) on the rows of Z; uncertified many in float32 only."""
    Z = float64(Z)
    scale = KERNELS[setting.kernel].mean(Z)
    offset = _weighted_mean(Y, weights)
    model = KernelSum(setting, Z, scale, None, offset)
    targets = Y - offset
    if len(Z) <= MOST_DENSE or on_device(Z):
        a, certificate = solve_exactly(model.kernel(Z), setting.ridge, targets, weights)
        return replace(model, coefficients=a), certificate
    ridges = setting.ridge / weights
    certify = None
    if certified:
        certify = partial(certified_coefficients, ridge=setting.ridge, Y=targets, weights=weights)
    a, proof = _conjugate_gradients(
        targets,
        product=partial(kernel_product, model),
        precondition=_float32_solver(model, ridges),
        ridges=ridges[:, None],
        certify=certify,
    )
    return replace(model, coefficients=a), proof


def _weighted_mean(Y: Array, weights: Array) -> Array:
    return (weights[:, None] * Y).sum(0) / weights.sum()


def solve_exactly(K: Array, ridge: float, Y: Array, weights: Array) -> tuple[Array, Certificate]:
    """The coefficients for centred targets Y (n, k) and kernel matrix K, and their certificate."""
    ridges = ridge / weights
    _refuse_not_finite(K, ridges)
    a = ridge_solve(K, ridges, Y)
    if a is None:  # rounding has made the matrix indefinite
        a = namespace(K).linalg.lstsq(K + ridges * identity(len(K), K), Y)[0]
    return a, certified_coefficients(a, K @ a, ridge, Y, weights)


def certified_coefficients(
    a: Array, fitted: Array, ridge: float, Y: Array, weights: Array, tol: float = TOL
) -> Certificate:
    """The certificate of coefficients a, where fitted = K a; solved if the relative gap is ``tol``."""
    residual = Y - fitted
    primal = 0.5 * float((weights[:, None] * residual**2).sum())
    primal += 0.5 * ridge * float((a * fitted).sum())
    # r = Y - (K + ridge W^-1) a:  P(a) - D(a) = 1/2 sum_i w_i r_i^2
    residual = residual - (ridge / weights)[:, None] * a
    gap = 0.5 * float((weights[:, None] * residual**2).sum())
    return _certificate(primal, gap, tol)


def _conjugate_gradients(
    Y: Array, *, product: Map, precondition: Map, ridges: Values, certify: Certify
) -> tuple[Array, Certificate | None]:
    """Return the solution of product(x) + ridges x = Y, target by target, and its certificate, by
    ``certify``; None: the first solution.
    """
    xp = namespace(Y)
    x = precondition(Y)
    if certify is None:
        return x, None
    fitted = product(x)
    certificate = certify(x, fitted)
    direction = 0.0
    size_before = 1.0
    for _ in range(MOST_STEPS):
        if certificate.status is Status.CONVERGED:
            break
        residual = Y - fitted - ridges * x
        better = precondition(residual)
        size = (residual * better).sum(0)
        direction = better + size / size_before * direction
        change = product(direction)
        curvature = (direction * (change + ridges * direction)).sum(0)
        step = size / xp.where(curvature > 0, curvature, xp.ones_like(curvature))
        x = x + step * direction
        fitted = fitted + step * change
        size_before = xp.where(size > 0, size, xp.ones_like(size))
        certificate = certify(x, fitted)
    return x, certificate


def kernel_product(model: KernelSum, a: Array) -> Array:
    """Return K a, with the entries of K block by block; each off the diagonal serves twice."""
    points = model.points
    product = zeros(a.shape, a)
    for rows in slices(len(points), len(points), HELD):
        K = replace(model, points=points[rows.start :]).kernel(points[rows])
        product[rows] += K @ a[rows.start :]
        product[rows.stop :] += K[:, rows.stop - rows.start :].T @ a[rows]
    return product


def _float32_solver(model: KernelSum, ridges: Array) -> Map:
    """(K + diag(ridges))^-1 in float32."""
    # changes no distance, and float32 keeps the digits of rows far from the origin
    points = model.points - model.points.mean(0)
    points = like(points, points, namespace(points).float32)

    def upper_half() -> Array:
        K = zeros((len(points), len(points)), points)
        for rows in slices(len(points), len(points), HELD):
            K[rows, rows.start :] = replace(model, points=points[rows.start :]).kernel(points[rows])
        return K

    solve = _definite_solver(upper_half, like(ridges, points))
    return lambda B: float64(solve(like(B, points)))


def _definite_solver(matrix: Callable[[], Array], ridges: float | Array) -> Map:
    """`ridge_solver`, with larger ridges where rounding has made a matrix indefinite."""
    while True:
        # anew for every ridge: the attempt before has overwritten it
        K = matrix()
        _refuse_not_finite(K, ridges)  # no ridge helps
        if solve := ridge_solver(K, ridges):
            return solve
        ridges = 10 * ridges


def _refuse_not_finite(K: Array, ridges: float | Array) -> None:
    if not np.isfinite(float((K.diagonal() + ridges).sum())):
        raise ValueError("kernel values are not finite; pass finite rows and weights.")


def fit_landmarks(
    setting: KernelSetting, Z: Array, Y: Array, weights: Array, at: Array, certified: bool = True
) -> Fitted:
    """Fit the same with a sum over the landmarks ``at`` (m, d) only."""
    scale = KERNELS[setting.kernel].mean(float64(Z))
    offset = _weighted_mean(Y, weights)
    model = KernelSum(setting, float64(at), scale, None, offset, landmarks=True)
    system = LandmarkSystem(model, Z, Y - offset, weights)
    certify = None
    if certified:
        certify = system.certify
    b, certificate = _conjugate_gradients(
        system.moment,
        product=system.product,
        precondition=system.preconditioner(),
        ridges=setting.ridge,
        certify=certify,
    )
    return replace(model, coefficients=_solve_upper(system.R, b)), certificate


class LandmarkSystem:
    """The system of b = R a, with R'R = K(z, z) of the landmarks z, and F = K(x, z) R^-1:

    (F'W F + ridge I) b = F'W Y
    """

    def __init__(self, model: KernelSum, Z: Array, Y: Array, weights: Array):
        self.model = model
        self.Z = Z
        self.weights = weights
        self.ridge = model.setting.ridge
        self.K = model.kernel(model.points)
        m = len(self.K)
        self.R = namespace(self.K).linalg.cholesky(self.K + JITTER * m * identity(m, self.K)).T
        self.blocks = slices(len(Z), m, HELD)
        self.total = float((weights[:, None] * Y**2).sum())
        self.gram, moment = self._sums(Y)
        self.moment = _solve_upper(self.R, moment, transposed=True)

    def _sums(self, Y: Array) -> Pair:
        """Return K(z, x) W K(x, z) and K(z, x) W Y."""
        m = len(self.K)
        roots = self.weights[:, None] ** 0.5

        def of_block(rows: slice) -> Pair:
            across = self.model.kernel(self.Z[rows])
            across *= roots[rows]
            # NumPy computes one triangle of the first, since it is a product with its own transpose
            return across.T @ across, across.T @ (roots[rows] * Y[rows])

        gram = zeros((m, m), self.K)
        moment = zeros((m, Y.shape[1]), self.K)
        for products, with_targets in side_by_side(of_block, self.blocks, self.Z):
            gram += products
            moment += with_targets
        return gram, moment

    def product(self, b: Array) -> Array:
        """Return F'W F b."""
        a = _solve_upper(self.R, b)

        def of_block(rows: slice) -> Array:
            across = self.model.kernel(self.Z[rows])
            return across.T @ (self.weights[rows, None] * (across @ a))

        products = sum(side_by_side(of_block, self.blocks, self.Z))
        return _solve_upper(self.R, products, transposed=True)

    def preconditioner(self) -> Map:
        """Return (F'W F + ridge I)^-1 = R (K(z, x) W K(x, z) + ridge R'R)^-1 R', but for rounding."""
        m = len(self.K)
        solve = _definite_solver(lambda: self.gram + self.ridge * self.K, self.ridge * JITTER * m)
        return lambda residual: self.R @ solve(self.R.T @ residual)

    def certify(self, b: Array, fitted: Array) -> Certificate:
        """Return the certificate of b, where fitted = F'W F b."""
        gradient = fitted + self.ridge * b - self.moment
        # 2 P(b) = Y'W Y - 2 b'moment + b'(F'W F + ridge I) b
        primal = 0.5 * (self.total + float((b * (gradient - self.moment)).sum()))
        # P is strongly convex with constant ridge, so P(b) - min P <= ||grad P(b)||^2 / (2 ridge)
        return _certificate(primal, float((gradient**2).sum()) / (2 * self.ridge))


def _certificate(primal: float, gap: float, tol: float = TOL) -> Certificate:
    is_solved = primal == 0 or gap <= tol * abs(primal)
    status = Status.CONVERGED if is_solved else Status.STALLED
    return Certificate.from_bounds(Bounds(primal, primal - gap, 0.0), status)


def _solve_upper(R: Array, B: Array, transposed: bool = False) -> Array:
    """R^-1 B, or R^-T B."""
    if is_torch(R):
        if transposed:
            R = R.T
        return namespace(R).linalg.solve_triangular(R, B, upper=not transposed)
    return solve_triangular(R, B, trans=int(transposed), check_finite=False)
