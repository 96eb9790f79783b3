"""FrobMetric's optimum and bounds against an independent conic solver."""

import cvxpy as cp
import numpy as np
import pytest
from instances import triplet_instance, triplet_matrices

from conemetric.arrays import to_numpy
from conemetric.operators import from_triplets
from conemetric.problems.frobenius_metric import FrobeniusMetric
from conemetric.solvers.dual_quasi_newton import DualQuasiNewton


def conic_optimum(X, T, C):
    """The optimum by an interior-point method, in units (M = s N, objective / C) that
    keep its numbers near one.
    """
    A = triplet_matrices(X, T)
    D, m, s = X.shape[1], len(T), min(C, 1.0)
    N = cp.Variable((D, D), PSD=True)
    margins = s * A.reshape(m, -1) @ cp.vec(N, order="C")
    objective = 0.5 * s**2 / C * cp.sum_squares(N) + cp.sum(cp.pos(1 - margins)) / m
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return C * problem.value


@pytest.mark.parametrize("seed", range(54))
def test_optimum_and_bounds_agree_with_a_conic_solver(seed):
    X, T, _ = triplet_instance(seed)
    C = 10.0 ** np.random.default_rng(seed).uniform(-3, 4)
    optimum = conic_optimum(X, T, C)
    slack = 1e-7 * abs(optimum)
    problem = FrobeniusMetric(from_triplets(X, T), C)
    result = DualQuasiNewton(tol=5e-7, max_iter=20000).solve(problem)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)
    assert np.all(result.history["dual"] <= optimum + slack)
    assert np.all(result.history["primal"] >= optimum - slack)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack


@pytest.mark.parametrize("seed", range(6))
def test_optimality_conditions(seed):
    """Stationarity by construction; feasibility of both points; complementarity of
    multipliers and margins.
    """
    X, T, _ = triplet_instance(seed)
    problem = FrobeniusMetric(from_triplets(X, T), C=1.0)
    result = DualQuasiNewton(tol=1e-9, max_iter=5000).solve(problem)
    u, L = result.dual_point, result.primal_point
    margins = problem.operator.forward_factor(L)
    scale = max(1.0, abs(margins).max())
    assert u.min() >= 0
    assert u.max() <= problem.upper
    slack_side = problem.upper - u > 1e-3 * problem.upper
    assert np.all(margins[slack_side] >= 1 - 1e-3 * scale)
    assert np.all(margins[u > 1e-3 * problem.upper] <= 1 + 1e-3 * scale)


@pytest.mark.parametrize("seed", range(6))
def test_any_point_of_the_box_certifies(seed, asarray, dtype):
    X, T, _ = triplet_instance(seed)
    rng = np.random.default_rng(seed)
    optimum = conic_optimum(X.astype(dtype).astype(float), T, 1.0)
    problem = FrobeniusMetric(from_triplets(asarray(X.astype(dtype)), T), 1.0)
    u = asarray((rng.uniform(size=len(T)) * problem.upper).astype(dtype))
    L = asarray(rng.normal(size=(X.shape[1], 2)).astype(dtype))
    bounds = problem.certify(L, u)
    assert bounds.dual <= optimum + 1e-8 <= bounds.primal + 2e-8


def test_gradient_is_the_derivative_of_the_dual():
    X, T, _ = triplet_instance(0)
    problem = FrobeniusMetric(from_triplets(X, T), 3.0)
    rng = np.random.default_rng(0)
    u, direction, h = (
        problem.upper * rng.uniform(0.2, 0.8, len(T)),
        rng.normal(size=len(T)),
        1e-6 * problem.upper,
    )
    slope = (
        problem.evaluate(u + h * direction).dual - problem.evaluate(u - h * direction).dual
    ) / (2 * h)
    assert slope == pytest.approx(problem.evaluate(u).gradient @ direction, rel=1e-5)


def test_libraries_and_precisions_agree(asarray, dtype):
    X, T, _ = triplet_instance(6)
    reference = (
        DualQuasiNewton(tol=1e-6)
        .solve(FrobeniusMetric(from_triplets(X, T), 2.0))
        .certificate.primal
    )
    problem = FrobeniusMetric(from_triplets(asarray(X.astype(dtype)), T), 2.0)
    result = DualQuasiNewton(tol=1e-4).solve(problem)
    assert result.certificate.primal == pytest.approx(reference, rel=2e-4)
    assert to_numpy(result.primal_point).dtype == dtype
