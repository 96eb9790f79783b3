"""The preconditioner of a kernel system is its inverse where it leaves nothing out, and always definite."""

import numpy as np
import pytest
from cases import pairs_of
from kernel_systems import KINDS, N, every_kernel, rows

from conemetric.engine import kernel_preconditioner
from conemetric.engine.distance_kernels import KERNELS, KernelSetting
from conemetric.engine.kernel_preconditioner import KernelPoints, preconditioner


def system(kind, kernel, ridge, seed):
    """(points, ridges, K + diag(ridges))."""
    Z, _, weights = rows(kind, np.random.default_rng(seed))
    setting = KernelSetting(kernel, 0.5, ridge)
    scale = KERNELS[kernel].mean(Z)
    points = KernelPoints(setting, (Z - Z.mean(0)).astype(np.float32), scale)
    K = setting.values(KERNELS[kernel].distances(Z, Z), scale)
    ridges = ridge / weights
    return points, ridges, K + np.diag(ridges)


def sizes(monkeypatch, *, landmarks, nearest, block):
    monkeypatch.setattr(kernel_preconditioner, "N_LANDMARKS", landmarks)
    monkeypatch.setattr(kernel_preconditioner, "N_NEAREST", nearest)
    monkeypatch.setattr(kernel_preconditioner, "BLOCK", block)


def shuffled(seed):
    return np.random.default_rng(seed).permutation(N)


@every_kernel
@pytest.mark.parametrize("landmarks", [1, 7])
def test_with_all_rows_before_each_it_is_the_inverse(kernel, landmarks, monkeypatch, seed):
    sizes(monkeypatch, landmarks=landmarks, nearest=N, block=1)
    monkeypatch.setattr(kernel_preconditioner, "ROUNDING", 0.0)
    points, ridges, A = system("random", kernel, 0.1, seed)
    inverse = preconditioner(points, ridges, shuffled(seed))
    np.testing.assert_allclose(inverse(A), np.eye(N), atol=1e-3)


@every_kernel
def test_with_all_rows_as_landmarks_it_is_the_inverse(kernel, monkeypatch, seed):
    sizes(monkeypatch, landmarks=N, nearest=3, block=4)
    points, ridges, A = system("random", kernel, 0.1, seed)
    inverse = preconditioner(points, ridges, shuffled(seed))
    np.testing.assert_allclose(inverse(A), np.eye(N), atol=2e-2)


@pairs_of(kind=KINDS, kernel=KERNELS, ridge=(1e-3, 1.0))
def test_it_is_symmetric_and_definite(kind, kernel, ridge, monkeypatch, seed):
    sizes(monkeypatch, landmarks=6, nearest=3, block=4)
    points, ridges, _ = system(kind, kernel, ridge, seed)
    M = preconditioner(points, ridges, shuffled(seed))(np.eye(N))
    assert np.isfinite(M).all()
    # of weights that differ by a million entries do too
    roots = ridges**0.5
    relative = roots[:, None] * M * roots
    np.testing.assert_allclose(relative, relative.T, atol=1e-5)
    assert np.linalg.eigvalsh((relative + relative.T) / 2)[0] > 0


@every_kernel
def test_it_narrows_the_spectrum(kernel, monkeypatch, seed):
    sizes(monkeypatch, landmarks=6, nearest=8, block=2)
    points, ridges, A = system("random", kernel, 1e-3, seed)
    M = preconditioner(points, ridges, shuffled(seed))(np.eye(N))
    R = np.linalg.cholesky((M + M.T) / 2)
    assert np.linalg.cond(R.T @ A @ R) < 0.3 * np.linalg.cond(A)


def test_a_small_system_that_rounding_made_indefinite_leaves_its_row_alone(monkeypatch):
    """Entries that contradict each other stand for rounding."""
    sizes(monkeypatch, landmarks=2, nearest=3, block=4)
    points, ridges, _ = system("random", "gaussian", 0.1, 0)
    monkeypatch.setattr(
        KernelPoints,
        "values_within",
        lambda self, groups: -np.ones((*groups.shape, groups.shape[1])),
    )
    M = preconditioner(points, ridges, np.arange(N))(np.eye(N))
    assert np.isfinite(M).all()
    assert np.linalg.eigvalsh((M + M.T) / 2)[0] > 0


def test_copies_with_large_weights_leave_no_singular_system(monkeypatch):
    sizes(monkeypatch, landmarks=2, nearest=3, block=4)
    points, ridges, _ = system("copies", "gaussian", 1e-20, 0)
    M = preconditioner(points, ridges, np.arange(N))(np.eye(N))
    assert np.isfinite(M).all()
