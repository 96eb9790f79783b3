"""Neighbourhood quality against counting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from conemetric.evaluation.manifold import neighbourhood_quality


def ranks(points):
    """Rank of every point among the neighbours of every other, by definition; the point
    itself is 0.
    """
    distances = cdist(points, points)
    np.fill_diagonal(distances, -1)
    return np.argsort(np.argsort(distances, axis=1, kind="stable"), axis=1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 30))
def test_curves_count_neighbours(seed, n):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(n, 3)), rng.normal(size=(n, 2))
    quality = neighbourhood_quality(X, Y)
    rho, r = ranks(X), ranks(Y)
    for K, Q, B in zip(quality.K, quality.Q_nx, quality.B_nx, strict=True):
        inside = (rho > 0) & (rho <= K) & (r <= K)
        np.testing.assert_allclose(Q, inside.sum() / (K * n))
        np.testing.assert_allclose(
            B, ((inside & (rho < r)).sum() - (inside & (r < rho)).sum()) / (K * n), atol=1e-12
        )


def test_blocks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    whole = neighbourhood_quality(X, Y)
    monkeypatch.setattr("conemetric.core.slices.MAX_HELD", 4 * 60 * 7)
    np.testing.assert_array_equal(neighbourhood_quality(X, Y).Q_nx, whole.Q_nx)


def test_area_is_one_for_a_copy_and_near_zero_by_chance():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    assert neighbourhood_quality(X, X[:, ::-1] * 3).auc == pytest.approx(1.0)
    assert abs(neighbourhood_quality(X, rng.normal(size=(300, 2))).auc) < 0.05
    np.testing.assert_allclose(neighbourhood_quality(X, X).R_nx, 1.0)


def test_unfolding_tears_and_crushing_intrudes():
    t = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    circle, line = np.column_stack([np.cos(t), np.sin(t)]), t[:, None]
    assert neighbourhood_quality(circle, line).B_nx.mean() < 0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="inconsistent"):
        neighbourhood_quality(np.zeros((5, 2)), np.zeros((6, 2)))
    with pytest.raises(ValueError, match="minimum of 4"):
        neighbourhood_quality(np.zeros((3, 2)), np.zeros((3, 2)))
