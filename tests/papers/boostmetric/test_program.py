"""The smooth boosting programs: value, multipliers and slopes against plain formulas;
their bound against a conic solver.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import KINDS, triplet_instance, triplet_matrices
from numpy.testing import assert_allclose
from oracles import trace_optimum

from conemetric.core.arrays import to_numpy
from conemetric.engine.losses import Logistic, LogSumExp, SquaredHinge
from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.program import TraceProgram

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())
NAMES = {ExponentialTrace: "exponential", LogisticTrace: "logistic"}

LOSSES = [ExponentialTrace, LogisticTrace]


@pytest.mark.parametrize("loss", LOSSES)
def test_value_multipliers_and_slopes(loss, asarray, dtype, eps):
    X, T = triplet_instance("labels")
    problem = loss(from_triplets(asarray(X.astype(dtype)), asarray(T)), 0.1)
    rng = np.random.default_rng(1)
    margins, change = rng.normal(size=(2, len(T))) * 3

    def plain(rho):
        return (
            np.log(np.exp(-rho).sum()) if loss is ExponentialTrace else np.log1p(np.exp(-rho)).sum()
        )

    value, u, captured = problem.evaluate(asarray(margins.astype(dtype)))
    h = 1e-5
    gradient = np.array(
        [(plain(margins + h * e) - plain(margins - h * e)) / (2 * h) for e in np.eye(len(T))]
    )
    assert_allclose(value, plain(margins), rtol=eps)
    assert_allclose(to_numpy(u), -gradient, atol=1e-6)
    assert_allclose(captured, -gradient @ margins, rtol=1e-4)
    first, second = problem.slope(
        asarray(margins.astype(dtype)), asarray(change.astype(dtype)), 0.3
    )
    points = [plain(margins + (0.3 + t) * change) for t in (-1e-4, 0, 1e-4)]
    assert_allclose(first, (points[2] - points[0]) / 2e-4, rtol=1e-4)
    assert_allclose(second, (points[2] - 2 * points[1] + points[0]) / 1e-8, rtol=1e-3)


@given(
    exponent=st.integers(-8, 8),
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 8),
    single=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_no_scale_overflows(exponent, loss, kind, seed, single):
    X, T = triplet_instance(kind, seed)
    X = X.astype(np.float32 if single else np.float64)
    problem = loss(from_triplets(X, T), 1.0)
    margins = problem.operator.forward_factor(np.eye(X.shape[1], dtype=X.dtype)) * X.dtype.type(
        10.0**exponent
    )
    value, u, captured = problem.evaluate(margins)
    first, second = problem.slope(margins, margins, 1.0)
    assert (
        np.isfinite([value, captured, first, second]).all()
        and second >= -1e-3 * abs(first) * abs(margins).max()
    )
    assert (u >= 0).all() and (u <= 1).all()
    assert value >= -margins.min() - 1e-3 * abs(margins).max()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
def test_bound_holds_for_every_metric_of_no_larger_trace(loss, kind, seed):
    X, T = triplet_instance(kind, seed)
    L = np.random.default_rng(seed).normal(size=(X.shape[1], 2)) * 0.3
    problem = loss(from_triplets(X, T), 0.05)
    bounds = problem.certify(L)
    margins = np.einsum("mij,ij->m", triplet_matrices(X, T), L @ L.T)
    trace = (L**2).sum()
    optimum, _ = trace_optimum(X, T, NAMES[loss], 0.05, largest_trace=trace)
    assert_allclose(bounds.primal, problem.evaluate(margins)[0] + 0.05 * trace, rtol=1e-10)
    assert bounds.dual <= optimum + 1e-6 * abs(optimum) <= bounds.primal + 2e-6 * abs(optimum)
    assert bounds.violation >= 0


@pytest.mark.parametrize("kind", KINDS)
def test_logistic_bound_holds_for_every_metric(kind, seed):
    X, T = triplet_instance(kind, seed)
    rng = np.random.default_rng(seed)
    problem = LogisticTrace(from_triplets(X, T), 0.05)
    optimum, _ = trace_optimum(X, T, "logistic", 0.05)
    for u in (None, rng.random(len(T))):  # those of the metric, and any others
        bounds = problem.certify(rng.normal(size=(X.shape[1], 2)) * 0.3, u)
        assert 0 <= bounds.dual <= optimum + 1e-6 * abs(optimum)
        assert bounds.violation == 0


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()])
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 8),
    size=st.floats(0.01, 2),
    leading=st.floats(0.01, 10),
    weighted=st.booleans(),
)
@settings(deadline=None, max_examples=40)
def test_the_bound_by_the_chord_is_below_the_bound(loss, kind, seed, size, leading, weighted):
    X, T = triplet_instance(kind, seed)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2, len(T)) if weighted else None
    problem = TraceProgram(from_triplets(X, T), 0.5, loss, weights)
    margins = size * rng.normal(size=len(T))
    value, u, captured = problem.evaluate(margins)
    bound, chord = problem.lower_bound(u, leading), problem.chord_bound(value, captured, leading)
    assert chord <= bound + 1e-12 * abs(bound)
    if leading <= problem.v:
        assert_allclose(chord, bound, rtol=1e-10)


def test_far_from_its_constraint_the_exponential_program_has_no_bound():
    X, T = triplet_instance("duplicates")
    bounds = ExponentialTrace(from_triplets(X, T), 1e-4).certify(np.zeros((X.shape[1], 1)))
    assert bounds.violation > 0.1 and bounds.dual == -np.inf


def test_a_program_without_a_minimum_is_proven_so():
    X = np.array([[0.0, 0.0], [0.1, 0.0], [2.0, 0.5]])
    operator, L = from_triplets(X, np.array([[0, 1, 2], [1, 0, 2]])), np.array([[1.0], [0.0]])
    smallest = operator.forward_factor(L).min()
    assert "no minimum" in ExponentialTrace(operator, 0.99 * smallest).unbounded(L)
    assert ExponentialTrace(operator, 1.01 * smallest).unbounded(L) == ""
    assert LogisticTrace(operator, 1e-9).unbounded(L) == ""  # bounded below by zero


def test_certificate_is_in_float64(asarray):
    X, T = triplet_instance("labels", 1)
    L = np.random.default_rng(0).normal(size=(X.shape[1], 2)).astype(np.float32)
    single = ExponentialTrace(
        from_triplets(asarray(X.astype(np.float32)), asarray(T)), 0.1
    ).certify(asarray(L))
    double = ExponentialTrace(
        from_triplets(X.astype(np.float32).astype(np.float64), T), 0.1
    ).certify(L.astype(np.float64))
    assert_allclose(single, double, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_restricted_weights_are_optimal(loss, asarray):
    X, T = triplet_instance("contradictory")
    operator = from_triplets(asarray(X), asarray(T))
    H = np.random.default_rng(0).normal(size=(4, len(T)))
    weights = loss(operator, 0.3).restricted(asarray(H), np.zeros(4), 1e-8)
    u = to_numpy(loss(operator, 0.3).evaluate(asarray(weights @ H))[1])
    slope = 0.3 - H @ u
    assert (weights >= 0).all() and (weights > 0).any()
    assert_allclose(slope[weights > 0], 0, atol=1e-7)
    assert (slope[weights == 0] >= -1e-7).all()
