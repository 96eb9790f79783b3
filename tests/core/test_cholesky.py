"""Linear systems of positive semidefinite matrices, definite and singular, in every library."""

import numpy as np
import pytest

from conemetric.core import cholesky
from conemetric.core.arrays import to_numpy


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("rank", [3, 11, 12])
@pytest.mark.parametrize("units", [1.0, 1e6])
def test_a_system_is_solved_also_if_it_is_singular(asarray, rank, units, in_place, monkeypatch):
    monkeypatch.setattr(cholesky, "IN_PLACE_FROM", 0 if in_place else 100)
    rng = np.random.default_rng(rank)
    L = rng.normal(size=(12, rank)) * np.geomspace(1, units, 12)[:, None]
    H = L @ L.T
    b, scale = H @ rng.normal(size=12), np.diagonal(H) ** 0.5
    noise = 1e-12 * rng.normal(size=H.shape)  # for which the first ridge is too small
    H += (noise + noise.T) * scale * scale[:, None]
    x = to_numpy(cholesky.cholesky_solver(asarray(H.copy()))(asarray(b)))
    np.testing.assert_allclose((H @ x - b) / scale, 0, atol=1e-6 * abs(b / scale).max())
