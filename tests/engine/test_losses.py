"""Losses: their multipliers are derivatives, their gains are conjugates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from conemetric.core.arrays import to_numpy
from conemetric.engine.losses import LOSSES, LogSumExp

SMOOTH = [name for name, loss in LOSSES.items() if not loss.linear]


@pytest.mark.parametrize("name", LOSSES)
@given(rho=st.floats(-20, 20), v=st.floats(0, 1))
def test_gain_bounds_the_loss_from_below(name, rho, v):
    """l(rho) >= g(v) - v rho, with equality at v = -l'(rho): Fenchel and Young."""
    loss, rho, v = LOSSES[name], np.float64(rho), np.float64(v)
    at = loss.multiplier(rho)
    assert loss.value(rho) >= loss.gain(v) - v * rho - 1e-9 * (1 + abs(rho))
    assert_allclose(loss.value(rho), loss.gain(at) - at * rho, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_multiplier_slope_and_bend_are_derivatives(name, asarray):
    loss, h = LOSSES[name], 1e-6
    rho, v = np.linspace(-3.05, 3.0, 40), np.linspace(0.05, 0.95, 40)

    def values(function, x):
        return to_numpy(function(asarray(x)))

    fall = values(loss.value, rho - h) - values(loss.value, rho + h)
    assert_allclose(values(loss.multiplier, rho), fall / (2 * h), atol=1e-5)
    rise = values(loss.gain, v + h) - values(loss.gain, v - h)
    assert_allclose(values(loss.slope, v), rise / (2 * h), atol=1e-5)
    fall = values(loss.slope, v - h) - values(loss.slope, v + h)
    assert_allclose(values(loss.curvature, v), fall / (2 * h), atol=1e-4)


@pytest.mark.parametrize("name", SMOOTH)
def test_sums_along_a_line(name, asarray):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    margins, change = asarray(rng.normal(size=30)), asarray(rng.normal(size=30))
    value, u, captured = loss.evaluate(margins)
    assert value == pytest.approx(float(loss.value(margins).sum()))
    assert captured == pytest.approx(float((u * margins).sum()))
    h = 1e-5
    points = [float(loss.value(margins + (0.3 + t) * change).sum()) for t in (-h, 0, h)]
    first, second = loss.along(margins, change, 0.3)
    assert first == pytest.approx((points[2] - points[0]) / (2 * h), rel=1e-5)
    difference = (points[2] - 2 * points[1] + points[0]) / h**2
    assert second == pytest.approx(difference, rel=1e-3)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("ratio", [1e-6, 1e-2, 1.0, 1e2, 1e6])
def test_best_multiple_is_the_maximiser(name, ratio):
    loss = LOSSES[name]
    low, high = loss.domain(np.float64)

    def fall(t):
        return 0.5 * t * t - ratio * float(loss.gain(np.float64(t)))

    best = loss.best_multiple(ratio, 1.0)
    assert low <= best <= high
    found = minimize_scalar(fall, bounds=(low, min(high, 2 + ratio)), options={"xatol": 1e-12})
    assert fall(best) <= found.fun + 1e-9 * abs(found.fun)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_sum_exp_its_weights_and_derivatives(weighted, asarray):
    """Of margins whose exponentials overflow."""
    rng, t = np.random.default_rng(0), 0.7
    rho, change = rng.normal(size=30) - 2000, rng.normal(size=30)
    w = rng.uniform(0.1, 10, 30) if weighted else np.ones(30)
    weights = asarray(w) if weighted else 1.0
    value, u, captured = LogSumExp().evaluate(asarray(rho), weights=weights)
    assert_allclose(value, logsumexp(np.log(w) - rho), rtol=1e-12)
    assert_allclose(to_numpy(u), softmax(np.log(w) - rho), rtol=1e-9)
    assert_allclose(captured, to_numpy(u) @ rho, rtol=1e-12)
    slope, curvature = LogSumExp().along(asarray(rho), asarray(change), t, w=weights)
    after = softmax(np.log(w) - rho - t * change)
    mean = after @ change
    assert_allclose((slope, curvature), (-mean, after @ (change - mean) ** 2), rtol=1e-9)
