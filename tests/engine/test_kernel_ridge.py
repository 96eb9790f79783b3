"""Kernel ridge regression reaches its optimum, and its certificate is true."""

import numpy as np
import pytest
from cases import pairs_of
from kernel_systems import KINDS, RIDGES, ROUNDING, N, every_kernel, optimum, reached, rows
from scipy.linalg import solve
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge

from conemetric.core.arrays import to_numpy
from conemetric.core.blas import side_by_side
from conemetric.engine import kernel_ridge
from conemetric.engine.distance_kernels import (
    KERNELS,
    KernelSetting,
    city_block_distances,
    mean_square,
    squared_distances,
)
from conemetric.engine.kernel_ridge import JITTER, fit_exactly, fit_landmarks


@pairs_of(d=(1, 3, 40, 400), shift=(0.0, 100.0), asarray=True, dtype=True)
def test_distances_of_equal_rows_are_zero(d, shift, asarray, dtype, seed):
    Z = (np.random.default_rng(seed).normal(size=(50, d)) + shift).astype(dtype)
    squares = to_numpy(squared_distances(asarray(np.vstack([Z, Z])), asarray(Z)))
    expected = cdist(Z, Z, "sqeuclidean")
    assert (squares[:50].diagonal() == 0).all() and (squares[50:].diagonal() == 0).all()
    rounding = 20 * np.finfo(dtype).eps * (Z.astype(float) ** 2).sum(1).max()
    assert abs(squares[:50] - expected).max() <= 2 * rounding


@pytest.mark.parametrize("d", [1, 40])
def test_city_block_distances(d, asarray, dtype, seed):
    rng = np.random.default_rng(seed)
    A, B = (rng.normal(size=(n, d)).astype(dtype) for n in (7, 12))
    found = to_numpy(city_block_distances(asarray(A), asarray(B)))
    np.testing.assert_allclose(found, cdist(A, B, "cityblock"), rtol=20 * np.finfo(dtype).eps)
    assert (to_numpy(city_block_distances(asarray(A), asarray(A))).diagonal() == 0).all()


def assert_optimal(certificate, reached, optimum):
    assert certificate.status == "converged"
    slack = ROUNDING * abs(optimum) + 1e-12
    assert certificate.dual <= optimum + slack
    assert optimum <= reached + slack
    assert abs(reached - certificate.primal) <= slack
    assert reached - optimum <= certificate.gap + slack


@pairs_of(kind=KINDS, kernel=KERNELS, ridge=RIDGES, asarray=True, dtype=True)
def test_all_rows(kind, kernel, ridge, asarray, dtype, seed):
    Z, Y, weights = rows(kind, np.random.default_rng(seed))
    Z, setting = Z.astype(dtype), KernelSetting(kernel, 0.5, ridge)
    model, certificate = fit_exactly(setting, *map(asarray, (Z, Y, weights)))
    program = model, asarray(Z), Y, weights
    assert_optimal(certificate, reached(*program), optimum(*program))


@pairs_of(kind=KINDS, kernel=KERNELS, ridge=RIDGES, width=(0.5, 64.0), asarray=True)
def test_in_blocks(kind, kernel, ridge, width, asarray, seed, monkeypatch):
    """As for more rows than float64 matrices are held for."""
    monkeypatch.setattr(kernel_ridge, "MOST_DENSE", 0)
    Z, Y, weights = rows(kind, np.random.default_rng(seed))
    setting = KernelSetting(kernel, width, ridge)
    model, certificate = fit_exactly(setting, *map(asarray, (Z, Y, weights)))
    program = model, asarray(Z), Y, weights
    assert_optimal(certificate, reached(*program), optimum(*program))


@pairs_of(kind=KINDS, kernel=KERNELS, ridge=RIDGES, asarray=True, dtype=True)
def test_landmarks(kind, kernel, ridge, asarray, dtype, seed):
    Z, Y, weights = rows(kind, np.random.default_rng(seed))
    Z, setting = Z.astype(dtype), KernelSetting(kernel, 0.5, ridge)
    model, certificate = fit_landmarks(setting, *map(asarray, (Z, Y, weights, Z[:9])))
    program = model, asarray(Z), Y, weights, JITTER
    assert_optimal(certificate, reached(*program), optimum(*program))


@pairs_of(kind=KINDS, kernel=KERNELS, asarray=True)
def test_all_rows_as_landmarks(kind, kernel, asarray, seed):
    Z, Y, weights = rows(kind, np.random.default_rng(seed))
    parts, setting = [asarray(part) for part in (Z, Y, weights)], KernelSetting(kernel, 0.5, 0.1)
    one, _ = fit_exactly(setting, *parts)
    other, _ = fit_landmarks(setting, *parts, parts[0])
    np.testing.assert_allclose(to_numpy(other(parts[0])), to_numpy(one(parts[0])), atol=1e-4)


@pytest.mark.parametrize(
    "kernel, name", [("gaussian", "rbf"), ("laplacian", None), ("city block", "laplacian")]
)
def test_beside_kernel_ridge_of_scikit_learn(kernel, name, seed):
    Z, Y, weights = rows("weights", np.random.default_rng(seed))
    setting = KernelSetting(kernel, 0.5, 0.1)
    model, _ = fit_exactly(setting, Z, Y, weights)
    if name:
        apart = np.abs(Z[:, None] - Z).sum(2).mean() if kernel == "city block" else mean_square(Z)
        peer = KernelRidge(alpha=0.1, kernel=name, gamma=1 / (0.5 * apart))
        K, new = Z, Z + 0.1
    else:
        peer = KernelRidge(alpha=0.1, kernel="precomputed")
        K, new = model.kernel(Z), model.kernel(Z + 0.1)
    offset = np.average(Y, axis=0, weights=weights)
    peer.fit(K, Y - offset, sample_weight=weights)
    np.testing.assert_allclose(model(Z + 0.1), peer.predict(new) + offset, atol=1e-8)


@pytest.mark.parametrize("decimals", [1, 12])
@every_kernel
def test_many_rows_with_few_distinct_landmarks(kernel, decimals, seed):
    """K of the landmarks is singular but for the jitter, and thousands of rows add up."""
    rng = np.random.default_rng(seed)
    Z = np.round(rng.normal(size=(5000, 2)), decimals)
    Y, weights = np.sin(3 * Z[:, :1]) + 0.1 * rng.normal(size=(5000, 1)), np.ones(5000)
    setting = KernelSetting(kernel, 4.0, 1e-3)
    model, certificate = fit_landmarks(setting, Z, Y, weights, Z[:150])
    program = model, Z, Y, weights, JITTER
    assert_optimal(certificate, reached(*program), optimum(*program))


def fits(Z, monkeypatch):
    """Each way to fit: (function, landmarks, jitter)."""
    yield fit_exactly, (), 0.0
    yield fit_landmarks, (Z[:9],), JITTER
    monkeypatch.setattr(kernel_ridge, "MOST_DENSE", 0)
    yield fit_exactly, (), 0.0


@every_kernel
def test_a_perturbed_solution_is_not_called_optimal(kernel, monkeypatch, seed):
    Z, Y, weights = rows("random", np.random.default_rng(seed))
    solver = kernel_ridge.ridge_solver
    monkeypatch.setattr(kernel_ridge, "MOST_STEPS", 0)
    monkeypatch.setattr(
        kernel_ridge, "ridge_solver", lambda *system: lambda Y: 1.01 * solver(*system)(Y)
    )
    setting = KernelSetting(kernel, 0.5, 0.1)
    for fit, landmarks, jitter in fits(Z, monkeypatch):
        model, certificate = fit(setting, Z, Y, weights, *landmarks)
        program = model, Z, Y, weights, jitter
        assert certificate.status == "stalled"
        assert certificate.dual <= optimum(*program) < certificate.primal
        assert reached(*program) == pytest.approx(certificate.primal, rel=ROUNDING)


def test_the_certificate_is_that_of_the_last_step(monkeypatch, seed):
    """Where steps run out, here after two with no preconditioner to speak of."""
    Z, Y, weights = rows("random", np.random.default_rng(seed))
    monkeypatch.setattr(kernel_ridge, "MOST_STEPS", 2)
    monkeypatch.setattr(kernel_ridge, "ridge_solver", lambda K, ridge: lambda Y: 0.01 * Y)
    for fit, landmarks, jitter in list(fits(Z, monkeypatch))[1:]:
        model, certificate = fit(KernelSetting("gaussian", 0.5, 0.1), Z, Y, weights, *landmarks)
        assert certificate.status == "stalled"
        assert reached(model, Z, Y, weights, jitter) == pytest.approx(certificate.primal, rel=1e-9)


@every_kernel
def test_uncertified_fits_are_close(kernel, monkeypatch, seed):
    """What only a choice is made by: no certificate, nearly the same sum."""
    Z, Y, weights = rows("random", np.random.default_rng(seed))
    setting = KernelSetting(kernel, 0.5, 0.1)
    for fit, landmarks, _ in list(fits(Z, monkeypatch))[1:]:
        one, _ = fit(setting, Z, Y, weights, *landmarks)
        other, certificate = fit(setting, Z, Y, weights, *landmarks, certified=False)
        assert certificate is None
        np.testing.assert_allclose(other(Z), one(Z), atol=1e-4)


@pytest.mark.parametrize("most_dense", [0, N])
@pytest.mark.parametrize("in_blocks, nan", [(True, "rows"), (True, "weights"), (False, "weights")])
def test_nan_is_refused(in_blocks, nan, most_dense, asarray, monkeypatch):
    """Instead of larger and larger ridges, none of which helps."""
    monkeypatch.setattr(kernel_ridge, "MOST_DENSE", most_dense)
    Z, Y, weights = rows("random", np.random.default_rng(0))
    landmarks = [] if in_blocks else [Z[:9].copy()]
    (Z if nan == "rows" else weights)[20] = np.nan
    fit = fit_exactly if in_blocks else fit_landmarks
    with pytest.raises(ValueError, match="kernel values are not finite; pass"):
        fit(KernelSetting("gaussian", 0.5, 0.1), *map(asarray, (Z, Y, weights, *landmarks)))


@pytest.mark.parametrize("seed", [0])
@every_kernel
def test_landmarks_on_any_number_of_cores_give_the_same_bits(kernel, monkeypatch, seed):
    monkeypatch.setattr(kernel_ridge, "HELD", 40)
    Z, Y, weights = rows("weights", np.random.default_rng(seed))
    fitted = []
    for cores in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        fitted.append(fit_landmarks(KernelSetting(kernel, 0.5, 0.1), Z, Y, weights, Z[:9])[0])
    assert fitted[0].coefficients.tobytes() == fitted[1].coefficients.tobytes()


@every_kernel
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_values_in_blocks(kernel, dtype, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(50, 3)).astype(dtype), rng.normal(size=(20, 3)).astype(dtype)
    setting = KernelSetting(kernel, 0.5, 0.1)
    whole = kernel_ridge.KernelSum(setting, B, 2.0, None, None).kernel(A)
    monkeypatch.setattr(kernel_ridge, "AT_ONCE", 0)
    monkeypatch.setattr(kernel_ridge, "IN_CACHE", 130)
    parts = kernel_ridge.KernelSum(setting, B, 2.0, None, None).kernel(A)
    assert parts.dtype == whole.dtype == dtype
    np.testing.assert_allclose(parts, whole, rtol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_systems_are_solved_as_by_scipy_in_threads_too(dtype, seed):
    rng = np.random.default_rng(seed)
    A, Y = rng.normal(size=(40, 50)).astype(dtype), rng.normal(size=(40, 3)).astype(dtype)
    K, ridge = A @ A.T, np.linspace(0.1, 2, 40, dtype=dtype)
    expected = solve(np.float64(K) + np.diag(np.float64(ridge)), Y, assume_a="pos")
    given = [K, np.asfortranarray(K), np.kron(K, np.ones((2, 2), dtype))[::2, ::2]] * 4
    for found in side_by_side(lambda each: kernel_ridge.ridge_solve(each, ridge, Y), given):
        np.testing.assert_allclose(found, expected, atol=200 * np.finfo(dtype).eps)
        assert found.dtype == dtype
    assert all((each == K).all() for each in given)
    assert kernel_ridge.ridge_solve(K - 2 * K.max() * np.eye(40, dtype=dtype), ridge, Y) is None
