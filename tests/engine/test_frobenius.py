"""FrobMetric's optimum and bounds against an independent conic solver."""

import numpy as np
import pytest
from cases import pairs_of
from instances import KINDS, triplet_instance
from oracles import frobenius_optimum

from conemetric.core.arrays import to_numpy
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.losses import LOSSES
from conemetric.engine.operators import from_triplets


@pytest.mark.cases(6)
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_and_bounds_agree_with_a_conic_solver(kind, C, seed):
    X, T = triplet_instance(kind, seed)
    optimum = frobenius_optimum(X, T, C)
    slack = 1e-7 * abs(optimum)
    problem = FrobeniusProgram(from_triplets(X, T), C)
    result = DualQuasiNewton(tol=5e-7, max_iter=20000).solve(problem)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)
    assert np.all(result.history["dual"] <= optimum + slack)
    assert np.all(result.history["primal"] >= optimum - slack)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack


@pytest.mark.parametrize("kind", KINDS)
def test_optimality_conditions(kind, seed):
    """Stationarity by construction; feasibility of both points; complementarity of
    multipliers and margins.
    """
    X, T = triplet_instance(kind, seed)
    problem = FrobeniusProgram(from_triplets(X, T), C=1.0)
    result = DualQuasiNewton(tol=1e-9, max_iter=5000).solve(problem)
    u, L = result.dual_point, result.primal_point
    margins = problem.operator.forward_factor(L)
    scale = max(1.0, abs(margins).max())
    assert u.min() >= 0
    assert u.max() <= problem.upper
    slack_side = problem.upper - u > 1e-3 * problem.upper
    assert np.all(margins[slack_side] >= 1 - 1e-3 * scale)
    assert np.all(margins[u > 1e-3 * problem.upper] <= 1 + 1e-3 * scale)


@pairs_of(kind=KINDS, loss=LOSSES, asarray=True, dtype=True)
def test_the_start_is_the_best_of_the_equal_multipliers(kind, seed, loss, asarray, dtype, eps):
    X, T = triplet_instance(kind, seed)
    program = FrobeniusProgram(from_triplets(asarray(X.astype(dtype)), T), 3.0, loss)
    point = program.start()
    again = program.evaluate(point.u)
    assert point.dual == pytest.approx(again.dual, rel=eps)
    np.testing.assert_allclose(to_numpy(point.margins), to_numpy(again.margins), rtol=eps, atol=eps)
    assert again.bound == pytest.approx(again.dual, rel=eps)
    for multiple in (0.9, 1.1):
        other = program.evaluate(program.project(point.u * multiple))
        assert other.dual <= point.dual * (1 + eps)


@pytest.mark.parametrize("loss", LOSSES)
def test_where_no_metric_helps(loss, asarray, dtype):
    """Zero is the optimum: A*(u) is negative for all multipliers."""
    X = asarray(np.array([[0.0], [3.0], [1.0]], dtype))
    program = FrobeniusProgram(from_triplets(X, [[0, 1, 2]]), 1.0, loss)
    certificate = DualQuasiNewton(tol=1e-5).solve(program).certificate
    assert certificate.status == "converged"
    assert certificate.primal == pytest.approx(float(LOSSES[loss].value(np.zeros(1))[0]))


def test_gradient_is_the_derivative_of_the_dual():
    X, T = triplet_instance("labels")
    problem = FrobeniusProgram(from_triplets(X, T), 3.0)
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
    X, T = triplet_instance("labels", 1)
    reference = (
        DualQuasiNewton(tol=1e-6)
        .solve(FrobeniusProgram(from_triplets(X, T), 2.0))
        .certificate.primal
    )
    problem = FrobeniusProgram(from_triplets(asarray(X.astype(dtype)), T), 2.0)
    result = DualQuasiNewton(tol=1e-4).solve(problem)
    assert result.certificate.primal == pytest.approx(reference, rel=2e-4)
    assert to_numpy(result.primal_point).dtype == dtype


PRIORS = ("none", "low rank", "identity")
OPTIONS = {"prior": PRIORS, "weighted": (False, True)}


def varied_instance(kind, prior, weighted, seed=0):
    """As `triplet_instance`, with C, a prior (or none) and weights (or none)."""
    X, T = triplet_instance(kind, seed)
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    C, D = 10.0 ** rng.uniform(-2, 1.5), X.shape[1]
    L = rng.normal(size=(D, max(1, D // 2)))
    weights = rng.uniform(0.1, 3, len(T))
    priors = {"none": None, "low rank": 0.3 * L @ L.T, "identity": 0.5 * np.eye(D)}
    return X, T, C, priors[prior], weights if weighted else None


@pairs_of(kind=KINDS, loss=LOSSES, **OPTIONS)
def test_optimum_with_prior_and_weights(kind, prior, weighted, loss, seed):
    X, T, C, prior, weights = varied_instance(kind, prior, weighted, seed)
    optimum = frobenius_optimum(X, T, C, loss, prior, weights)
    problem = FrobeniusProgram(from_triplets(X, T), C, loss, prior, weights)
    most = 200 if loss == "logistic" else 20000
    certificate = DualQuasiNewton(tol=1e-5, max_iter=most).solve(problem).certificate
    slack = 1e-7 * abs(optimum)
    assert certificate.meets(1e-5)
    assert certificate.dual <= optimum + slack <= certificate.primal + 2 * slack


@pairs_of(kind=KINDS, asarray=True, dtype=True, **OPTIONS)
def test_optimum_in_every_library_and_precision(kind, prior, weighted, seed, asarray, dtype):
    X, T, C, prior, weights = varied_instance(kind, prior, weighted, seed)
    X = X.astype(dtype)
    optimum = frobenius_optimum(X.astype(float), T, C, "hinge", prior, weights)
    prior = None if prior is None else asarray(prior)
    problem = FrobeniusProgram(from_triplets(asarray(X), T), C, "hinge", prior, weights)
    tol = 1e-4 if dtype == np.float64 else 1e-3  # 1e-5 in the test before
    result = DualQuasiNewton(tol=tol, max_iter=20000).solve(problem)
    slack = (1e-7 if dtype == np.float64 else 1e-5) * abs(optimum)
    # in single precision the solver may stop a thousandth short of what double precision says
    assert result.certificate.meets(tol if dtype == np.float64 else 1.01 * tol)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack
    assert to_numpy(result.primal_point).dtype == dtype


@pairs_of(loss=LOSSES, asarray=True, **OPTIONS)
def test_hessian_is_the_derivative_of_the_gradient(prior, weighted, loss, asarray):
    X, T, C, prior, weights = varied_instance("random", prior, weighted, 1)
    prior = None if prior is None else asarray(prior)
    problem = FrobeniusProgram(from_triplets(asarray(X), T), C, loss, prior, weights)
    rng = np.random.default_rng(0)
    size = float(np.max(to_numpy(problem.unit)))
    u = asarray(rng.uniform(0.2, 0.8, len(T))) * problem.unit
    direction = asarray(rng.normal(size=len(T)))
    ahead, behind = (problem.evaluate(u + t * 1e-6 * size * direction) for t in (1, -1))
    change = to_numpy(behind.gradient - ahead.gradient) / (2e-6 * size)
    product = to_numpy(problem.hessian(problem.evaluate(u))[0](direction))
    np.testing.assert_allclose(product, change, rtol=1e-4, atol=1e-4 * abs(change).max())


@pairs_of(kind=KINDS, loss=LOSSES, asarray=True, dtype=True, **OPTIONS)
def test_any_point_certifies_any_loss(kind, prior, weighted, loss, seed, asarray, dtype):
    X, T, C, prior, weights = varied_instance(kind, prior, weighted, seed)
    rng = np.random.default_rng(seed)
    optimum = frobenius_optimum(X.astype(dtype).astype(float), T, C, loss, prior, weights)
    operator = from_triplets(asarray(X.astype(dtype)), T)
    prior = None if prior is None else asarray(prior)
    problem = FrobeniusProgram(operator, C, loss, prior, weights)
    slack = 1e-6 * abs(optimum)
    for size in (0.0, 0.3, 1.0):
        u = asarray((rng.uniform(size=len(T)) * C / len(T)).astype(dtype))
        L = asarray(size * rng.normal(size=(X.shape[1], 2)).astype(dtype))
        bounds = problem.certify(L, u)
        assert bounds.dual <= optimum + slack <= bounds.primal + 2 * slack


@pairs_of(loss=LOSSES, **OPTIONS)
def test_gradient_and_bend_of_every_loss(loss, prior, weighted):
    X, T, C, prior, weights = varied_instance("random", prior, weighted, 1)
    problem = FrobeniusProgram(from_triplets(X, T), C, loss, prior, weights)
    rng = np.random.default_rng(0)
    u, direction = problem.unit * rng.uniform(0.2, 0.8, len(T)), rng.normal(size=len(T))
    h = 1e-6 * float(np.max(problem.unit))
    points = [problem.evaluate(u + t * h * direction) for t in (-1, 0, 1)]
    slope = (points[2].dual - points[0].dual) / (2 * h)
    assert slope == pytest.approx(points[1].gradient @ direction, rel=1e-5)
    curvature = problem.gain_curvature(u)
    change = (problem.gain_slope(u + h * direction) - problem.gain_slope(u)) / h
    np.testing.assert_allclose(
        change, 0.0 if curvature is None else -curvature * direction, rtol=1e-3
    )


def test_a_weight_of_two_is_a_constraint_twice():
    X, T = triplet_instance("labels", 1)
    weights = np.where(np.arange(len(T)) < 5, 2.0, 1.0)
    twice = FrobeniusProgram(from_triplets(X, np.vstack([T, T[:5]])), 2.0)
    weighted = FrobeniusProgram(from_triplets(X, T), 2.0, weights=weights)
    values = [DualQuasiNewton(tol=1e-7).solve(p).certificate.primal for p in (twice, weighted)]
    assert values[0] == pytest.approx(values[1], rel=2e-7)


def test_without_a_loss_the_prior_is_returned():
    X, T = triplet_instance("collinear")
    prior = 0.5 * np.eye(X.shape[1])
    result = DualQuasiNewton().solve(FrobeniusProgram(from_triplets(X, T), 1e-9, prior=prior))
    np.testing.assert_allclose(result.primal_point @ result.primal_point.T, prior, atol=1e-8)
    assert result.n_iter == 0
