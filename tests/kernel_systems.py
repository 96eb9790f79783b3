"""Systems of kernel ridge regression, their optimum by another way, and the value of a fitted sum."""

import numpy as np
import pytest

from conemetric.core.arrays import to_numpy
from conemetric.engine.distance_kernels import KERNELS

N = 30
ROUNDING = 1e-8  # of objectives, where K is nearly singular


def rows(kind, rng):
    """(Z, Y, weights) of one kind."""
    Z, Y, weights = rng.normal(size=(N, 3)), rng.normal(size=(N, 2)), np.ones(N)
    if kind == "copies":
        Z = Z[rng.integers(6, size=N)]
    elif kind == "ties":
        Z = np.round(Z)
        Z[:, 0] = 0.1
    elif kind == "collinear":
        Z = np.outer(rng.normal(size=N), rng.normal(size=3))
    elif kind == "weights":
        weights = 10.0 ** rng.uniform(-3, 3, N)
    elif kind == "one row per class":
        Y = 2 * np.eye(N) - 1
    elif kind == "one point":
        Z = np.ones_like(Z)
    return Z, Y, weights


KINDS = ("random", "copies", "ties", "collinear", "weights", "one row per class", "one point")
RIDGES = (1e-3, 1.0)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def kernels_of(model, Z, jitter):
    """Kernel values among the points, with the jitter, and of the rows Z with them."""
    K, cross = (to_numpy(model.kernel(part)) for part in (model.points, Z))
    return K + jitter * len(K) * np.eye(len(K)), cross


def optimum(model, Z, Y, weights, jitter=0.0):
    """The least value of the program, by orthogonal least squares in eigenvectors of K."""
    K, cross = kernels_of(model, Z, jitter)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    F = cross @ vectors[:, kept] / values[kept] ** 0.5
    root, residual = weights[:, None] ** 0.5, Y - np.average(Y, axis=0, weights=weights)
    system = np.vstack([root * F, model.setting.ridge**0.5 * np.eye(F.shape[1])])
    target = np.vstack([root * residual, np.zeros((F.shape[1], Y.shape[1]))])
    b = np.linalg.lstsq(system, target, rcond=None)[0]
    return 0.5 * ((system @ b - target) ** 2).sum()


def reached(model, Z, Y, weights, jitter=0.0):
    """The value of a fitted sum."""
    a, (K, _) = to_numpy(model.coefficients), kernels_of(model, Z, jitter)
    misses = weights[:, None] * (Y - to_numpy(model(Z))) ** 2
    return 0.5 * misses.sum() + 0.5 * model.setting.ridge * (a * (K @ a)).sum()
