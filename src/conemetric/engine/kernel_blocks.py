"""Kernel ridge regression of many rows without their kernel matrix, with a certificate.

    (K + D) a = y - c,     D = ridge W^-1,     f(x) = c + sum_i a_i k(x, x_i)        (`kernel_ridge`)

The n x n matrix K of 16,000 rows takes 1 GB in single precision, 500 times as much as rows of 16 columns.
Conjugate gradients only multiply it by vectors, so its entries are computed a block at a time, in single
precision and in the cache, are used and forgotten.

Their number of steps grows with the spread of the eigenvalues of K + D. An approximate inverse
(`kernel_preconditioner`) is applied to every residual. It shortens the way and does not change where it
ends: the optimum is that of all n rows. Steps end when the bound on the distance from the optimum
(`kernel_ridge`), recomputed from double precision products, is small enough; what single precision lost
is made up from there.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.blas import side_by_side
from ..core.slices import slices
from .certificate import Certificate, Status
from .distance_kernels import KERNELS, KernelSetting
from .kernel_preconditioner import KernelPoints, Preconditioner, preconditioner
from .kernel_ridge import KernelSum, certified_coefficients, kernel_product

# Relative gap that counts as solved, as in the other solvers. Scores of new rows then differ from those
# of the exact solution by about a two-hundredth (root mean square, relative to the scores; letter).
TOL = 1e-3
# The same where the fit is only to be judged: scores differ by about a hundredth.
TOL_TO_JUDGE = 1e-2
MAX_STEPS = 300  # of conjugate gradients from one double precision residual to the next
MAX_RESTARTS = 5  # from a double precision residual; one or two are usual
# Rows of a block, 1 MB of kernel values in single precision: they stay in the cache of one core.
BLOCK = 512


class Solution(NamedTuple):
    """Coefficients, and what the targets miss of the system with them."""

    coefficients: np.ndarray  # (n, t)
    residual: np.ndarray  # (n, t): y - K a - D a


@dataclass(frozen=True)
class KernelSystem:
    """The system of some rows, with D = ``ridges``."""

    points: KernelPoints
    ridges: np.ndarray  # (n,)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times the columns of ``vectors`` (n, t), from single precision entries."""
        vectors = vectors.astype(np.float32)
        blocks = slices(len(vectors), 1, BLOCK)

        def from_block(number: int) -> np.ndarray:
            """What entries between these rows and all later ones add. Each off the diagonal serves
            twice, since K is symmetric.
            """
            rows = blocks[number]
            added = np.zeros((len(vectors) - rows.start, vectors.shape[1]), np.float32)
            own = added[: rows.stop - rows.start]
            for columns in blocks[number:]:
                K = self.points.values(rows, columns)
                own += K @ vectors[columns]
                if columns.start > rows.start:
                    added[columns.start - rows.start : columns.stop - rows.start] += (
                        K.T @ vectors[rows]
                    )
            return added

        total = np.zeros(vectors.shape)
        added_by_block = side_by_side(from_block, range(len(blocks)))
        # in the order of the blocks, whichever core was first: two runs are bit-identical
        for rows, added in zip(blocks, added_by_block, strict=True):
            total[rows.start :] += added
        return total


def fit_in_blocks(
    setting: KernelSetting,
    Z: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    order: np.ndarray,
    for_use: bool = True,
) -> tuple[KernelSum, Certificate | None]:
    """Kernel ridge regression of Y (n, t) on the rows of Z, with a sum over all of them.

    ``order`` numbers the rows at random, for the preconditioner. A fit that is not ``for_use`` but only
    to be judged is less accurate, and not certified.
    """
    Z = Z.astype(np.float64)
    centred = Z - Z.mean(0)
    if not (np.isfinite(centred).all() and np.isfinite(1 / weights).all()):
        raise ValueError("kernel values are not finite; pass finite rows and weights.")
    scale = KERNELS[setting.kernel].mean(Z)
    offset = (weights[:, None] * Y).sum(0) / weights.sum()
    targets = Y - offset
    points = KernelPoints(setting, centred.astype(np.float32), scale)
    system = KernelSystem(points, setting.ridge / weights)
    precondition = preconditioner(points, system.ridges, order)
    model = KernelSum(setting, Z, scale, None, offset)

    solution = Solution(np.zeros(targets.shape), targets)
    if not for_use:
        solution = _conjugate_gradients(
            system, precondition, targets, weights, solution, TOL_TO_JUDGE
        )
        return replace(model, coefficients=solution.coefficients), None
    for _ in range(MAX_RESTARTS):
        # half, since the running residual does not see what single precision products have lost
        solution = _conjugate_gradients(system, precondition, targets, weights, solution, TOL / 2)
        a = solution.coefficients
        fitted = kernel_product(model, a)
        certificate = certified_coefficients(a, fitted, setting.ridge, targets, weights, TOL)
        if certificate.status is Status.CONVERGED:
            break
        solution = Solution(a, targets - fitted - system.ridges[:, None] * a)
    return replace(model, coefficients=a), certificate


def _conjugate_gradients(
    system: KernelSystem,
    precondition: Preconditioner,
    targets: np.ndarray,
    weights: np.ndarray,
    start: Solution,
    tol: float,
) -> Solution:
    """Steps from a solution until the relative gap is ``tol``: for every target on its own, but with the
    same products.
    """
    a, residual = start
    ridges = system.ridges[:, None]
    direction = np.zeros(a.shape)
    size_before = np.ones(a.shape[1])
    for _ in range(MAX_STEPS):
        if _relative_gap(system, targets, weights, a, residual) <= tol:
            break
        better = precondition(residual)
        size = (residual * better).sum(0)
        direction = better + size / size_before * direction
        change = system.product(direction) + ridges * direction
        curvature = (direction * change).sum(0)
        step = np.divide(size, curvature, where=curvature > 0, out=np.zeros_like(size))
        a = a + step * direction
        residual = residual - step * change
        # a target that is solved exactly must not divide by zero
        size_before = np.where(size > 0, size, 1.0)
    return Solution(a, residual)


def _relative_gap(
    system: KernelSystem,
    targets: np.ndarray,
    weights: np.ndarray,
    a: np.ndarray,
    residual: np.ndarray,
) -> float:
    """The bound on the distance from the optimum, relative to the value, by the running residual."""
    misses = residual + system.ridges[:, None] * a  # y - K a
    primal = 0.5 * float((weights[:, None] * misses**2).sum())
    primal += 0.5 * system.points.setting.ridge * float((a * (targets - misses)).sum())
    gap = 0.5 * float((weights[:, None] * residual**2).sum())
    if primal <= 0:
        return np.inf if gap > 0 else 0.0
    return gap / primal
