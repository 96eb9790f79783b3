"""Fits without the kernel matrix reach the optimum of `kernel_ridge`, and their certificates are true."""

import numpy as np
import pytest
from cases import pairs_of
from kernel_systems import KINDS, every_kernel, optimum, reached, rows

from conemetric.engine import kernel_blocks, kernel_preconditioner
from conemetric.engine.distance_kernels import KERNELS, KernelSetting
from conemetric.engine.kernel_blocks import KernelSystem, fit_in_blocks
from conemetric.engine.kernel_ridge import fit_exactly


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Of thirty rows."""
    monkeypatch.setattr(kernel_blocks, "BLOCK", 7)
    monkeypatch.setattr(kernel_preconditioner, "BLOCK", 4)
    monkeypatch.setattr(kernel_preconditioner, "ROWS_OF_G", 11)
    monkeypatch.setattr(kernel_preconditioner, "N_LANDMARKS", 6)
    monkeypatch.setattr(kernel_preconditioner, "N_NEAREST", 3)


def fitted(kind, kernel, ridge, seed, **options):
    Z, Y, weights = rows(kind, np.random.default_rng(seed))
    order = np.random.default_rng(0).permutation(len(Z))
    setting = KernelSetting(kernel, 0.5, ridge)
    return fit_in_blocks(setting, Z, Y, weights, order, **options), (Z, Y, weights)


@pairs_of(kind=KINDS, kernel=KERNELS, ridge=(1e-2, 1.0))
def test_the_certificate_is_true(kind, kernel, ridge, seed):
    (model, certificate), (Z, Y, weights) = fitted(kind, kernel, ridge, seed)
    least, value = optimum(model, Z, Y, weights), reached(model, Z, Y, weights)
    slack = 1e-8 * abs(least) + 1e-12
    assert certificate.status == "converged"
    assert certificate.relative_gap <= kernel_blocks.TOL
    assert certificate.dual - slack <= least <= value + slack
    assert abs(value - certificate.primal) <= slack


@every_kernel
def test_scores_are_those_of_the_exact_fit(kernel, monkeypatch, seed):
    monkeypatch.setattr(kernel_blocks, "TOL", 1e-9)
    (model, _), (Z, Y, weights) = fitted("random", kernel, 0.1, seed)
    exact, _ = fit_exactly(model.setting, Z, Y, weights)
    np.testing.assert_allclose(model(Z + 0.1), exact(Z + 0.1), atol=1e-3)


@every_kernel
def test_what_is_only_judged_is_close_and_has_no_certificate(kernel, seed):
    (model, certificate), (Z, Y, weights) = fitted("random", kernel, 0.1, seed, for_use=False)
    exact, _ = fit_exactly(model.setting, Z, Y, weights)
    assert certificate is None
    assert abs(model(Z) - exact(Z)).max() < 0.3 * abs(Y).max()


def test_the_preconditioner_saves_steps(monkeypatch, seed):
    products = []
    product = KernelSystem.product

    def counted(system, vectors):
        products.append(vectors)
        return product(system, vectors)

    monkeypatch.setattr(KernelSystem, "product", counted)
    fitted("random", "laplacian", 0.01, seed)
    n_with = len(products)
    monkeypatch.setattr(kernel_blocks, "preconditioner", lambda points, ridges, order: np.copy)
    fitted("random", "laplacian", 0.01, seed)
    assert n_with < 0.8 * (len(products) - n_with)


def test_a_restart_goes_on_from_the_residual_of_what_was_reached(monkeypatch, seed):
    starts, solve = [], kernel_blocks._conjugate_gradients

    def roughly_at_first(*given):
        *system, start, tol = given
        starts.append(start)
        return solve(*system, start, 0.1 if len(starts) == 1 else tol)

    monkeypatch.setattr(kernel_blocks, "_conjugate_gradients", roughly_at_first)
    (model, certificate), (Z, Y, weights) = fitted("random", "gaussian", 0.1, seed)
    assert certificate.status == "converged" and len(starts) == 2
    reached = starts[1].coefficients
    K = model.setting.values(KERNELS["gaussian"].distances(Z, Z), model.scale)
    residual = Y - model.offset - K @ reached - 0.1 / weights[:, None] * reached
    np.testing.assert_allclose(starts[1].residual, residual, atol=1e-4 * abs(Y).max())
    assert abs(residual).max() > 1e-3 * abs(Y).max()


def test_too_few_steps_are_said(monkeypatch, seed):
    monkeypatch.setattr(kernel_blocks, "MAX_STEPS", 0)
    (_, certificate), _ = fitted("random", "gaussian", 0.1, seed)
    assert certificate.status == "stalled"


@pytest.mark.parametrize("nan", ["rows", "weights"])
def test_nan_is_refused(nan):
    Z, Y, weights = rows("random", np.random.default_rng(0))
    (Z if nan == "rows" else weights)[20] = np.nan
    with pytest.raises(ValueError, match="kernel values are not finite; pass"):
        fit_in_blocks(KernelSetting("gaussian", 0.5, 0.1), Z, Y, weights, np.arange(len(Z)))


@every_kernel
@pytest.mark.costly
def test_any_number_of_cores_gives_the_same_bits(kernel, monkeypatch):
    coefficients = []
    for cores in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        (model, _), _ = fitted("weights", kernel, 0.1, 0)
        coefficients.append(model.coefficients.tobytes())
    assert coefficients[0] == coefficients[1]
