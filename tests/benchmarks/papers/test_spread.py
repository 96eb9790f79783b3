"""Local spread against constructed patches."""

import numpy as np
import pytest

from benchmarks.papers.spread import local_spread


def test_spread_of_a_line_is_consistent_and_that_of_noise_is_not():
    rng = np.random.default_rng(2)
    line = np.sort(rng.uniform(size=100))[:, None] * [1.0, 2.0]
    straight, cloud = local_spread(line, line), local_spread(*[rng.normal(size=(100, 2))] * 2)
    assert straight.alcd == pytest.approx(1.0)
    assert straight.gscd == pytest.approx(straight.alstd)
    assert 0.5 < cloud.alcd < 0.9 < straight.alcd
    assert cloud.gscd > cloud.alstd and cloud.aled > cloud.alstd
    np.testing.assert_allclose(np.linalg.norm(cloud.directions, axis=1), 1.0)


def test_even_spacing_is_smooth():
    even = np.arange(60.0)[:, None] * [1.0, 0.0]
    uneven = even**2 / 60
    inner = local_spread(even, even, n_neighbors=4)
    assert inner.spread[10] == pytest.approx(np.sqrt(2))  # positions -2 ... 2
    assert inner.alstd < local_spread(even, uneven, n_neighbors=4).alstd


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="inconsistent"):
        local_spread(np.zeros((8, 2)), np.zeros((9, 2)))
    with pytest.raises(ValueError, match="minimum of 7"):
        local_spread(np.zeros((6, 2)), np.zeros((6, 2)), n_neighbors=6)
