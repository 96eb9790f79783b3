"""Maximum variance unfolding against a conic solver, and the inequality that its
certificate claims.
"""

import mpmath as mp
import numpy as np
import pytest
from oracles import unfolding_optimum
from sklearn.neighbors import kneighbors_graph

from conemetric.papers.unfolding.edges import EdgeOperator, ReducedEdges
from conemetric.papers.unfolding.interior_point import InteriorPoint
from conemetric.papers.unfolding.low_rank_lagrangian import LowRankLagrangian
from conemetric.papers.unfolding.program import UnfoldingProgram

SIGMAS = (0.3, 3.0, 100.0)  # in units of the variance
GRAPHS = ("chain", "neighbours", "line")


def instance(graph="neighbours", sigma=3.0, seed=0):
    """(edges, squared distances, n, sigma).

    The dimension is above the number of neighbours, so that no neighbourhood is rigid
    and the equality form has a dual solution.
    """
    rng = np.random.default_rng([seed, GRAPHS.index(graph)])
    n = int(rng.integers(8, 31))
    X = rng.normal(size=(n, 6)) * rng.uniform(0.2, 2.0, 6)
    if graph == "line":
        X[:, 1:] = 0.0
    edges = {(i, i + 1) for i in range(n - 1)}
    if graph != "chain":
        near = kneighbors_graph(X, 2).tocoo()
        edges |= {
            (min(i, j), max(i, j))
            for i, j in zip(near.row.tolist(), near.col.tolist(), strict=True)
        }
    edges = np.array(sorted(edges))
    b = ((X[edges[:, 0]] - X[edges[:, 1]]) ** 2).sum(1)
    variance = ((X - X.mean(0)) ** 2).sum()
    return edges, b, n, variance * sigma


def solve(edges, b, n, sigma, equality, tol, reference=None, solver=LowRankLagrangian):
    reference = np.zeros(1) if reference is None else reference
    problem = UnfoldingProgram(EdgeOperator(edges, n, reference), b, sigma, equality)
    return problem, solver(tol=tol).solve(problem)


@pytest.mark.parametrize("solver", [LowRankLagrangian, InteriorPoint])
@pytest.mark.parametrize("equality", [False, True], ids=["at_most", "equal"])
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.costly
def test_optimum_agrees_with_a_conic_solver(graph, sigma, seed, equality, solver):
    if graph == "line" and solver is LowRankLagrangian:
        # every triangle is flat: no feasible kernel is definite, the dual has no maximum, and
        # an augmented Lagrangian's multipliers approach it only as fast as mu grows
        pytest.skip("the low-rank method needs a dual optimum, and a line has none")
    edges, b, n, sigma = instance(graph, sigma, seed)
    optimum = unfolding_optimum(edges, b, n, sigma, equality)
    _, result = solve(edges, b, n, sigma, equality, 1e-5, solver=solver)
    certificate = result.certificate
    assert certificate.status == "converged"
    assert certificate.primal == pytest.approx(optimum, rel=1e-4)
    assert certificate.dual <= optimum + 1e-6 * abs(optimum)
    assert certificate.dual == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize("solver", [LowRankLagrangian, InteriorPoint])
@pytest.mark.parametrize("equality", [False, True], ids=["at_most", "equal"])
@pytest.mark.parametrize("graph", ["chain", "neighbours"])
def test_exact_unfolding_agrees_with_a_conic_solver(graph, equality, solver):
    edges, b, n, _ = instance(graph)
    optimum = unfolding_optimum(edges, b, n, np.inf, equality)
    _, result = solve(edges, b, n, np.inf, equality, 2e-4, solver=solver)
    assert result.certificate.status == "converged"
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-3)
    assert result.certificate.dual <= optimum + 1e-6 * abs(optimum)


@pytest.mark.parametrize("sigma", [50.0, np.inf])
@pytest.mark.parametrize("equality", [False, True], ids=["at_most", "equal"])
def test_every_multiplier_gives_a_lower_bound(equality, sigma):
    edges, b, n, _ = instance(seed=1)
    optimum = unfolding_optimum(edges, b, n, sigma, equality)
    problem = UnfoldingProgram(EdgeOperator(edges, n, np.zeros(1)), b, sigma, equality)
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(n, 2))
    for scale in (0.1, 1.0, 10.0):
        u = scale * rng.exponential(size=len(edges)) - (0.05 if equality else 0.0)
        bounds = problem.certify(Y, u)
        assert bounds.dual <= optimum + 1e-6 * abs(optimum)
        assert bounds.violation > 0


@pytest.mark.parametrize("size", [1e6, 1e10, 1e12])
@pytest.mark.parametrize("number", range(8))
def test_bounds_hold_where_multipliers_cancel(number, size):
    """Large multipliers of opposite signs on parallel edges of rows that coincide in pairs."""
    rng = np.random.default_rng(number)
    X = np.repeat(rng.integers(-8, 9, size=(6, 2)) * 2.0**-12, 2, axis=0)
    edges = np.array([(i, j) for i in range(12) for j in range(i + 1, 12) if i // 2 < j // 2])
    b = ((X[edges[:, 0]] - X[edges[:, 1]]) ** 2).sum(1)
    edges, b, sigma = edges[b > 0], b[b > 0], 100.0
    pairs, parallel = np.unique(edges // 2, axis=0, return_inverse=True)
    sign = np.where(edges[:, 0] % 2, 1.0, -1.0)
    u = 0.01 * rng.exponential(size=len(b)) + size * sign * rng.normal(size=len(pairs))[parallel]
    Q = np.linalg.qr(np.column_stack([np.ones(6), rng.normal(size=(6, 5))]))[0][:, 1:]
    operator = ReducedEdges(EdgeOperator(edges, 12, np.zeros(1)), np.repeat(Q, 2, axis=0) / 2**0.5)
    with mp.workdps(50):
        K = mp.matrix(6, 6)
        for i, j in np.ndindex(6, 6):
            K[i, j] = (i == j) - mp.mpf(1) / 3  # -1 for constants, which the positive part ignores
        linear = mp.mpf(0)
        for (i, j), weight, squared in zip(edges // 2, u.tolist(), b.tolist(), strict=True):
            linear -= mp.mpf(weight) * mp.mpf(squared)
            for row, column, way in ((i, i, -1), (j, j, -1), (i, j, 1), (j, i, 1)):
                K[row, column] += way * mp.mpf(weight) / 2
        values = mp.eigsy(K, eigvals_only=True)
        exact = linear - mp.mpf(sigma) / 2 * mp.fsum(value**2 for value in values if value > 0)
        assert UnfoldingProgram(operator, b, sigma, True).bound(u) <= exact


def test_kkt_of_the_regularised_program():
    edges, b, n, sigma = instance()
    problem, result = solve(edges, b, n, sigma, False, 1e-7)
    Y, u = result.primal_point, result.dual_point
    K = Y @ Y.T
    residual = problem.operator.forward(K) - b
    assert (u >= 0).all() and residual.max() <= 1e-6 * b.max()
    assert abs(u @ residual) <= 1e-5 * abs(result.certificate.primal)
    np.testing.assert_allclose(K.sum(0), 0, atol=1e-6 * np.trace(K))
    stationary = problem.evaluate(u)
    np.testing.assert_allclose(stationary.factor @ stationary.factor.T, K, atol=2e-3 * abs(K).max())


def test_array_libraries_agree(asarray):
    edges, b, n, sigma = instance(sigma=100.0)
    _, expected = solve(edges, b, n, sigma, False, 1e-4)
    _, result = solve(edges, asarray(b), n, sigma, False, 1e-4, asarray(np.zeros(1)))
    assert result.certificate.primal == pytest.approx(expected.certificate.primal, rel=2e-4)
    assert type(result.primal_point) is type(asarray(b))
