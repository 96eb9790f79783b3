"""The query adapter's program: optimum and bounds against an independent conic solver."""

import numpy as np
import pytest
from cases import pairs_of
from instances import JUDGED_KINDS, judged_instance
from oracles import bilinear_optimum

from conemetric.core.arrays import to_numpy
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.losses import LOSSES
from conemetric.ranking.bilinear_operator import from_comparisons
from conemetric.ranking.bilinear_program import BilinearProgram

PRIORS = ("none", "identity", "any")
OPTIONS = {"prior": PRIORS, "weighted": (False, True)}


def varied_instance(kind, prior, weighted, seed=0, dtype=np.float64):
    """Judged instances with C that bites, a prior and weights (or none)."""
    Q, D, comparisons = judged_instance(kind, seed, dtype)
    rng = np.random.default_rng([seed, JUDGED_KINDS.index(kind)])
    size = np.linalg.norm(Q, axis=1).max() * np.linalg.norm(D - D[0], axis=1).max()
    size = float(size) or 1.0  # nothing to learn from
    n = Q.shape[1]
    priors = {"none": np.zeros((n, n)), "identity": np.eye(n), "any": rng.normal(size=(n, n))}
    weights = rng.uniform(0.1, 3, len(comparisons))
    C = 10.0 ** rng.uniform(-2, 1.5) / size**2
    return Q, D, comparisons, C, priors[prior] / size, weights if weighted else None


@pairs_of(kind=JUDGED_KINDS, **OPTIONS)
def test_optimum_and_bounds_agree_with_a_conic_solver(kind, prior, weighted, seed):
    Q, D, comparisons, C, prior, weights = varied_instance(kind, prior, weighted, seed)
    optimum = bilinear_optimum(Q, D, comparisons, C, prior, weights=weights)
    slack = 1e-7 * abs(optimum)
    problem = BilinearProgram(from_comparisons(Q, D, comparisons), C, "hinge", prior, weights)
    result = DualQuasiNewton(tol=1e-6, max_iter=20000).solve(problem)
    assert result.certificate.meets(1e-6)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack
    assert np.all(result.history["dual"] <= optimum + slack)
    assert np.all(result.history["primal"] >= optimum - slack)


@pairs_of(kind=JUDGED_KINDS, asarray=True, dtype=True, **OPTIONS)
def test_optimum_in_every_library_and_precision(kind, prior, weighted, seed, asarray, dtype):
    Q, D, comparisons, C, prior, weights = varied_instance(kind, prior, weighted, seed, dtype)
    optimum = bilinear_optimum(
        Q.astype(float), D.astype(float), comparisons, C, prior, weights=weights
    )
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    tol = 1e-5 if dtype == np.float64 else 1e-3
    problem = BilinearProgram(operator, C, "hinge", asarray(prior), weights)
    result = DualQuasiNewton(tol=tol, max_iter=5000).solve(problem)
    slack = (1e-7 if dtype == np.float64 else 1e-5) * abs(optimum)
    assert result.certificate.meets(tol)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack
    assert to_numpy(result.primal_point).dtype == dtype


@pairs_of(kind=JUDGED_KINDS, loss=LOSSES, asarray=True, dtype=True, **OPTIONS)
def test_any_point_certifies_any_loss(kind, prior, weighted, loss, seed, asarray, dtype):
    Q, D, comparisons, C, prior, weights = varied_instance(kind, prior, weighted, seed, dtype)
    optimum = bilinear_optimum(
        Q.astype(float), D.astype(float), comparisons, C, prior, loss, weights
    )
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    problem = BilinearProgram(operator, C, loss, asarray(prior), weights)
    rng = np.random.default_rng(seed)
    u = asarray((rng.uniform(size=len(comparisons)) * C / len(comparisons)).astype(dtype))
    W = asarray((prior + abs(prior).max() * rng.normal(size=prior.shape)).astype(dtype))
    bounds = problem.certify(W, u)
    slack = 1e-5 * abs(optimum)
    assert bounds.dual <= optimum + slack <= bounds.primal + 2 * slack


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_is_the_derivative_of_the_dual(loss):
    Q, D, comparisons, C, prior, weights = varied_instance("coincident", "identity", True, 1)
    problem = BilinearProgram(from_comparisons(Q, D, comparisons), C, loss, prior, weights)
    rng = np.random.default_rng(0)
    u = problem.unit * rng.uniform(0.2, 0.8, len(comparisons))
    direction = problem.unit * rng.normal(size=len(comparisons))
    h = 1e-6
    before, after = (problem.evaluate(u + t * h * direction).dual for t in (-1, 1))
    slope = (after - before) / (2 * h)
    assert slope == pytest.approx(problem.evaluate(u).gradient @ direction, rel=1e-5)


def test_optimality_conditions():
    """W(u) by construction; complementarity of multipliers and margins."""
    Q, D, comparisons, C, prior, _ = varied_instance("plain", "identity", False, 2)
    problem = BilinearProgram(from_comparisons(Q, D, comparisons), C, prior=prior)
    result = DualQuasiNewton(tol=1e-10, max_iter=5000).solve(problem)
    u, margins = result.dual_point, problem.operator.forward(result.primal_point)
    assert u.min() >= 0
    assert u.max() <= problem.upper
    assert np.all(margins[u < 0.999 * problem.upper] >= 1 - 1e-3)
    assert np.all(margins[u > 1e-3 * problem.upper] <= 1 + 1e-3)


def test_without_a_loss_the_prior_is_returned():
    Q, D, comparisons, _, prior, _ = varied_instance("plain", "any", False, 1)
    problem = BilinearProgram(from_comparisons(Q, D, comparisons), 1e-12, prior=prior)
    result = DualQuasiNewton().solve(problem)
    np.testing.assert_allclose(result.primal_point, prior, atol=1e-9)
