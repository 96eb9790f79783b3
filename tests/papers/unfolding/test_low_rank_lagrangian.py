"""The augmented Lagrangian's line search and rank, and agreement with ascent on the dual."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from conemetric.engine.curvature_memory import two_loop
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.papers.unfolding.edges import EdgeOperator
from conemetric.papers.unfolding.low_rank_lagrangian import MEMORY, Line, LowRankLagrangian, Memory
from conemetric.papers.unfolding.program import UnfoldingProgram


def ring(n, sigma, equality=False):
    """A closed chain of unit links: the widest embedding is a regular polygon, rank 2,
    each point at 1 / (2 sin(pi / n)).
    """
    edges = np.array([(i, (i + 1) % n) for i in range(n)])
    return UnfoldingProgram(EdgeOperator(edges, n, np.zeros(1)), np.ones(n), sigma, equality)


def value(problem, Y, u, mu):
    margins = problem.operator.forward_factor(Y)
    multipliers = problem.project(u + mu * (margins - problem.b))
    return (
        (problem.cost_product(Y) * Y).sum()
        + ((Y.T @ Y) ** 2).sum() / (2 * problem.sigma)
        + ((multipliers**2 - u**2).sum()) / (2 * mu)
    )


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("sigma", [5.0, np.inf])
def test_gradient_and_line_search(equality, sigma):
    rng = np.random.default_rng(0)
    problem, u, mu = ring(12, sigma, equality), rng.uniform(0, 1, 12), 3.0
    Y, Z = rng.normal(size=(12, 3)), rng.normal(size=(12, 3))
    line = Line(problem, Y, u, mu)
    g = line.gradient()
    h = 1e-6
    slope = (value(problem, Y + h * Z, u, mu) - value(problem, Y - h * Z, u, mu)) / (2 * h)
    assert (g * Z).sum() == pytest.approx(slope, rel=1e-6)
    before = value(problem, Y, u, mu)
    step = line.search(-g, g)
    assert step > 0 and value(problem, line.Y, u, mu) < before
    assert abs((line.gradient() * g).sum()) <= 0.11 * (g * g).sum()
    np.testing.assert_allclose(
        line.margins, problem.operator.forward_factor(line.Y), rtol=1e-9, atol=1e-9
    )
    assert Line(problem, Y, u, mu).search(g, g) is None


@pytest.mark.parametrize("equality", [False, True])
def test_ring_opens_into_a_polygon(equality):
    n = 16
    result = LowRankLagrangian(tol=1e-5).solve(ring(n, np.inf, equality))
    assert -result.certificate.primal == pytest.approx(n / (2 * np.sin(np.pi / n)) ** 2, rel=1e-4)
    assert result.certificate.status == "converged"


def test_rank_grows_from_a_start_that_is_too_thin():
    n = 16
    flat = np.cos(2 * np.pi * np.arange(n) / n)[:, None]
    result = LowRankLagrangian(tol=1e-4).solve(ring(n, 1e4), start=flat)
    assert result.certificate.status == "converged"
    assert np.linalg.matrix_rank(result.primal_point, tol=1e-2) == 2


def test_agrees_with_ascent_on_the_dual():
    problem = ring(10, 4.0)
    low_rank = LowRankLagrangian(tol=1e-6).solve(problem).certificate
    dual = DualQuasiNewton(tol=1e-6).solve(problem).certificate
    assert low_rank.primal == pytest.approx(dual.primal, rel=1e-5)


def test_stopping_early_warns_and_certifies():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        result = LowRankLagrangian(tol=1e-8, max_iter=1).solve(ring(30, np.inf))
    assert result.certificate.status == "max_iter"
    assert result.certificate.dual <= (1 - 1e-12) * -30 / (2 * np.sin(np.pi / 30)) ** 2


def test_the_memory_holds_the_last_steps():
    """Its direction is that of the two loops over these, in the inner product of the smoother."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    smoother = root @ root.T + np.eye(9)
    hessian = np.diag(rng.uniform(1, 3, 9))
    memory, pairs = Memory(np.zeros(9)), []
    for _ in range(MEMORY + 7):
        g, step = rng.normal(size=9), rng.normal(size=9)
        if pairs:
            steps, changes = zip(*pairs[-MEMORY:], strict=True)
            rows = np.vstack([*steps, *changes, smoother @ g])
            gram = rows @ np.linalg.solve(smoother, rows.T)
            expected = two_loop(gram, len(steps)) @ rows
            np.testing.assert_allclose(memory.direction(smoother @ g, g), expected, rtol=1e-8)
        else:
            np.testing.assert_array_equal(memory.direction(smoother @ g, g), smoother @ g)
        change = hessian @ step
        memory.append(step, smoother @ change, change)
        pairs.append((step, smoother @ change))
