"""The hinge boosting program: its value, its dual set, its linear program and its
bound, against a conic solver.
"""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import triplet_instance, triplet_matrices
from numpy.testing import assert_allclose

from conemetric.operators import from_triplets
from conemetric.problems.boosting_hinge import BoostingHinge


def hinge_optimum(X, T, v):
    """The optimum as a minimisation, by CVXPY."""
    M, rho, slack = (
        cp.Variable((X.shape[1], X.shape[1]), PSD=True),
        cp.Variable(),
        cp.Variable(len(T), nonneg=True),
    )
    margins = cp.hstack([cp.trace(A @ M) for A in triplet_matrices(X, T)])
    problem = cp.Problem(
        cp.Minimize(v * cp.sum(slack) - rho), [margins >= rho - slack, cp.trace(M) == 1]
    )
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_value_is_the_best_over_rho(margins, share):
    margins = np.array(margins)
    v = 1 / (1 + share * (len(margins) - 1))
    problem = object.__new__(BoostingHinge)
    problem.v = v
    candidates = [v * np.maximum(rho - margins, 0).sum() - rho for rho in margins]
    assert_allclose(problem.value(margins), min(candidates), atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_bound_and_dual_set(seed, asarray):
    X, T, _ = triplet_instance(seed)
    rng, m = np.random.default_rng(seed), len(T)
    problem = BoostingHinge(from_triplets(asarray(X), asarray(T)), 3 / m)
    for u in (rng.random(m) / m, rng.random(m), np.zeros(m), -rng.random(m)):
        u = problem.feasible(asarray(u))
        assert (
            abs(float(u.sum()) - 1) < 1e-12
            and float(u.min()) >= 0
            and float(u.max()) <= 3 / m * (1 + 1e-12)
        )
        bounds = problem.certify(asarray(rng.normal(size=(X.shape[1], 2))), u)
        optimum = hinge_optimum(X, T, 3 / m)
        assert bounds.dual <= optimum + 1e-7 and optimum <= bounds.primal + 1e-7


def test_price_of_slack_below_one_over_m_is_refused():
    X, T, _ = triplet_instance(0)
    with pytest.raises(
        ValueError, match=r"v=1e-07 is below 1/m for m=80 triplets.*give v >= 0.0125"
    ):
        BoostingHinge(from_triplets(X, T), 1e-7)
