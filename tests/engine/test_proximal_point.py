"""The proximal-point method: its bounds, its subproblems, and what it does when it cannot go on."""

import numpy as np
import pytest
from instances import KINDS, triplet_instance
from sklearn.exceptions import ConvergenceWarning

from conemetric.engine.certificate import Status
from conemetric.engine.eigenvalue_program import EigenvalueProgram, ProximalDual
from conemetric.engine.operators import from_triplets
from conemetric.engine.proximal_point import ProximalPoint


def program(kind="labels", seed=0, dtype=None, loss_weight=1.0, trace_weight=5.0):
    X, T = triplet_instance(kind, seed)
    return EigenvalueProgram(from_triplets(X, T), trace_weight, loss_weight, dtype)


def test_gradient_and_gap_of_a_subproblem():
    """Its gradient is the derivative of its dual, and no dual value exceeds a primal one."""
    problem = program()
    rng = np.random.default_rng(0)
    center = rng.normal(size=(problem.operator.n_features, 2))
    step = ProximalDual(problem, center, 0.7)
    u, direction, h = (
        rng.uniform(0.2, 0.8, step.operator.n_constraints),
        rng.normal(size=step.operator.n_constraints),
        1e-6,
    )
    slope = (step.evaluate(u + h * direction).dual - step.evaluate(u - h * direction).dual) / (
        2 * h
    )
    assert slope == pytest.approx(step.evaluate(u).gradient @ direction, rel=1e-5)
    for _ in range(20):
        L, v = rng.normal(size=center.shape), rng.uniform(size=len(u))
        primal, _ = step.primal_at(L, problem.operator.forward_factor(L))
        distance = np.sum((L @ L.T - center @ center.T) ** 2) / (2 * 0.7)
        expected = problem.bounds(L, u).primal + distance
        assert primal == pytest.approx(expected, rel=1e-10)
        assert step.evaluate(v).dual <= primal


def test_a_point_of_which_no_multiple_is_feasible_solves_no_subproblem():
    """Its objective is infinite; a gap without a value was taken for 0, and sigma grew for ever."""
    problem = program(loss_weight=np.inf)
    center = np.zeros((problem.operator.n_features, 0))
    nowhere = ProximalDual(problem, center, 1.0).evaluate(
        problem.operator.empty_constraint_vector()
    )
    assert nowhere.primal == (np.inf, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.costly
def test_a_high_accuracy_is_reached(kind, seed):
    result = ProximalPoint(tol=1e-8).solve(program(kind, seed))
    assert result.status is Status.CONVERGED
    assert abs(result.certificate.relative_gap) <= 1e-8


def test_what_single_precision_cannot_reach_is_reported():
    with pytest.warns(ConvergenceWarning, match="ProximalPoint ended as"):
        result = ProximalPoint(tol=1e-12, max_iter=100).solve(program(dtype=np.float32))
    exact = ProximalPoint(tol=1e-7).solve(program()).certificate.primal
    assert result.certificate.dual <= exact * (1 + 1e-6)
    assert result.certificate.primal == pytest.approx(exact, rel=1e-3)


def test_multipliers_that_are_all_zero_still_bound_the_optimum():
    problem = program(loss_weight=np.inf)
    u = problem.operator.empty_constraint_vector()
    L = np.eye(problem.operator.n_features)
    assert problem.bounds(L, u).dual == problem.bounds(L, u + 1).dual > 0
