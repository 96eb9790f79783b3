"""The hinge boosting program: its value, its dual set and its bound, against a conic
solver.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import KINDS, triplet_instance
from numpy.testing import assert_allclose
from oracles import soft_margin_optimum

from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.soft_margin import SoftMarginProgram


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_value_is_the_best_over_rho(margins, share):
    margins = np.array(margins)
    v = 1 / (1 + share * (len(margins) - 1))
    problem = object.__new__(SoftMarginProgram)
    problem.slack_penalty = np.full(len(margins), v)
    candidates = [v * np.maximum(rho - margins, 0).sum() - rho for rho in margins]
    assert_allclose(problem.value(margins), min(candidates), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bound_and_dual_set(kind, seed, asarray):
    X, T = triplet_instance(kind, seed)
    rng, m = np.random.default_rng(seed), len(T)
    problem = SoftMarginProgram(from_triplets(asarray(X), asarray(T)), 3 / m)
    for u in (rng.random(m) / m, rng.random(m), np.zeros(m), -rng.random(m)):
        u = problem.feasible(asarray(u))
        assert (
            abs(float(u.sum()) - 1) < 1e-12
            and float(u.min()) >= 0
            and float(u.max()) <= 3 / m * (1 + 1e-12)
        )
        L = rng.normal(size=(X.shape[1], 2))
        bounds = problem.certify(asarray(L / np.linalg.norm(L)), u)
        optimum = soft_margin_optimum(X, T, 3 / m)
        assert bounds.dual <= optimum + 1e-7 and optimum <= bounds.primal + 1e-7


def test_price_of_slack_below_one_over_m_is_refused():
    X, T = triplet_instance("labels")
    with pytest.raises(
        ValueError, match=r"v=1e-07 is below 1/m for m=80 triplets.*pass v >= 0.0125"
    ):
        SoftMarginProgram(from_triplets(X, T), 1e-7)


def test_a_metric_that_meets_nothing_has_the_optimum_zero_exactly():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])  # and one direction of no use
    program = SoftMarginProgram(from_triplets(X, np.array([[0, 1, 2], [0, 2, 1]])), 0.5)
    bounds = program.certify(np.array([[1e-9], [1.0]]), np.array([0.5, 0.5]))
    assert bounds == (0.0, 0.0, 0.0)
