"""Conjugate gradients against the solution of the damped system."""

import numpy as np
import pytest

from conemetric.engine.operators import base


@pytest.mark.parametrize("rank", [2, 6])
@pytest.mark.parametrize("damping", [1e-6, 0.1])
def test_the_damped_system_is_solved(rank, damping, monkeypatch, seed):
    monkeypatch.setattr(base, "CG_STEPS", 30)
    monkeypatch.setattr(base, "CG_ACCURACY", 1e-9)
    rng = np.random.default_rng(seed)
    F, b = rng.normal(size=(6, rank)), rng.normal(size=6)
    b = b if rank == 6 else F @ rng.normal(size=rank)  # within the range of H
    H = F @ F.T
    x = base.conjugate_gradients(lambda v: H @ v, b, damping)
    ridge = damping * (b @ H @ b) / (b @ b)
    np.testing.assert_allclose(x, np.linalg.solve(H + ridge * np.eye(6), b), rtol=1e-5, atol=1e-7)


def test_it_stops_where_the_residual_is_small(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    F, b, products = rng.normal(size=(30, 30)), rng.normal(size=30), []
    H = F @ F.T + 30 * np.eye(30)

    def product(v):
        products.append(v)
        return H @ v

    monkeypatch.setattr(base, "CG_ACCURACY", 0.1)
    x = base.conjugate_gradients(product, b, 0.0)
    assert len(products) < base.CG_STEPS
    assert np.linalg.norm(H @ x - b) <= 0.1 * np.linalg.norm(b)
