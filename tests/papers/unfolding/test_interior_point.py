"""The interior-point method: its linear system, its optima against a conic solver, and programs
without an interior.
"""

import numpy as np
import pytest
from oracles import semidefinite_optimum
from sklearn.exceptions import ConvergenceWarning

from conemetric.core.arrays import to_numpy
from conemetric.core.cholesky import cholesky_solver
from conemetric.core.spectral import NearProduct, psd_derivative
from conemetric.engine.operators import MatrixOperator, from_pairs
from conemetric.engine.sdp import SemidefiniteProgram
from conemetric.papers.unfolding.edges import EdgeOperator, ReducedEdges
from conemetric.papers.unfolding.interior_point import InteriorPoint, PathPoint, System
from conemetric.papers.unfolding.program import UnfoldingProgram


def instance(redundant, seed):
    """(C, A, b, sigma, equality) of a feasible program; b comes from a random psd matrix."""
    rng = np.random.default_rng([redundant, seed])
    D, m = int(rng.integers(2, 9)), int(rng.integers(1, 9))
    A = rng.normal(size=(m, D, D))
    A = A + A.swapaxes(1, 2)
    C = rng.normal(size=(D, D))
    F = rng.normal(size=(D, D))
    equality = rng.uniform(size=m) < 0.5
    if m > 2 and redundant:
        A[-1], equality[-1] = A[0] + A[1], True  # one constraint says nothing new
        equality[:2] = True
    b = np.einsum("mij,ij->m", A, F @ F.T) + np.where(equality, 0, rng.exponential(size=m))
    return C + C.T, A, b, 10.0 ** rng.uniform(-1, 2), equality


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("redundant", [False, True])
def test_optimum_agrees_with_a_conic_solver(redundant, seed):
    C, A, b, sigma, equality = instance(redundant, seed)
    expected = semidefinite_optimum(C, A, b, sigma, equality)
    problem = SemidefiniteProgram(MatrixOperator(A), C, b, sigma, equality)
    result = InteriorPoint(tol=1e-7).solve(problem)
    assert result.certificate.status == "converged"
    assert result.certificate.primal == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert np.all(result.history["dual"] <= expected + 1e-5 * (1 + abs(expected)))
    assert result.n_iter <= 30


@pytest.mark.parametrize("start", [None, np.ones((3, 2))])
def test_an_operator_without_a_newton_matrix_is_refused_before_the_first_step(start):
    X = np.random.default_rng(0).normal(size=(6, 3))
    operator = from_pairs(X, np.array([[0, 1], [2, 3]]))
    problem = SemidefiniteProgram(operator, np.eye(3), np.ones(2), 1.0, True)
    with pytest.raises(TypeError, match=r"Newton matrix.*PairOperator has none.*DualQuasiNewton"):
        next(InteriorPoint().steps(problem, start))


def curvature(asarray, n, k, seed=0):
    """A `NearProduct` of an oblique basis B, and Phi such that it is S -> B (Phi o (B'SB)) B'."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, n))
    Phi = np.ones((n, n))
    Phi[:k] = rng.uniform(0.1, 3, (k, n))
    Phi[:k, :k] = Phi[:k, :k] + Phi[:k, :k].T
    Phi[k:, :k] = Phi[:k, k:].T
    change = Phi[:k] * np.where(np.arange(n) < k, 0.5, 1)
    rest = B[:, k:] @ B[:, k:].T
    return NearProduct(*map(asarray, (rest, B, change))), B, Phi


@pytest.mark.parametrize("positive", [0, 1, 3, 5, 7, 8])
def test_derivative_of_the_positive_part(asarray, positive):
    rng = np.random.default_rng(positive)
    Q, _ = np.linalg.qr(rng.normal(size=(8, 8)))
    values = rng.uniform(0.5, 2, 8) * np.where(np.arange(8) < positive, 1, -1)
    S, change = (Q * values) @ Q.T, rng.normal(size=(8, 8))
    derivative = psd_derivative(asarray(S))(asarray(change + change.T))
    larger, smaller = np.maximum(values[:, None], values), np.minimum(values[:, None], values)
    with np.errstate(invalid="ignore", divide="ignore"):
        Phi = np.where(smaller > 0, 1.0, np.where(larger > 0, larger / (larger - smaller), 0.0))
    expected = Q @ (Phi * (Q.T @ (change + change.T) @ Q)) @ Q.T
    np.testing.assert_allclose(to_numpy(derivative), expected, atol=1e-12)


@pytest.mark.parametrize("k", [0, 3, 20])
def test_newton_matrices_agree_with_products(asarray, k):
    n, rng = 20, np.random.default_rng(1)
    edges = np.array([(i, j) for i in range(n) for j in range(i) if rng.uniform() < 0.4])[:, ::-1]
    graph = EdgeOperator(edges, n, asarray(np.zeros(1)))
    basis = asarray(np.linalg.qr(rng.normal(size=(n, 5)))[0])
    A = rng.normal(size=(4, n, n))
    for operator, size in (
        (graph, n),
        (ReducedEdges(graph, basis), 5),
        (MatrixOperator(asarray(A + A.swapaxes(1, 2))), n),
    ):
        W, B, Phi = curvature(asarray, size, min(k, size))
        S = rng.normal(size=(size, size))
        expected = B @ (Phi * (B.T @ (S + S.T) @ B)) @ B.T
        np.testing.assert_allclose(to_numpy(W(asarray(S + S.T))), expected, rtol=1e-9, atol=1e-9)
        H = to_numpy(operator.newton_matrix(W))
        for r in range(len(H)):
            unit = operator.empty_constraint_vector()
            unit[r] = 1
            column = operator.forward(W(operator.adjoint(unit)))
            np.testing.assert_allclose(H[:, r], to_numpy(column), rtol=1e-9, atol=1e-9)
            B, C = (asarray(rng.normal(size=(size, 3))) for _ in range(2))
            apart = operator.forward_product(B, C) + operator.forward_product(C, B)
            together = operator.forward(B @ C.T + C @ B.T)
            np.testing.assert_allclose(to_numpy(apart), to_numpy(together), atol=1e-9)


def test_gauss_newton_matrix_is_the_derivative(asarray):
    n, rng = 7, np.random.default_rng(0)
    edges = EdgeOperator(
        np.array([(i, i + 1) for i in range(n - 1)] + [(0, 3)]), n, asarray(np.zeros(1))
    )
    basis = asarray(np.linalg.qr(rng.normal(size=(n, 4)))[0])
    for operator, size in ((edges, n), (ReducedEdges(edges, basis), 4)):
        L, y = asarray(rng.normal(size=(size, 3))), asarray(rng.normal(size=7))
        h = 1e-6
        forward = [operator.forward_factor(L + t * operator.adjoint_product(y, L)) for t in (h, -h)]
        change = to_numpy(forward[0] - forward[1]) / (2 * h)
        every = asarray(np.ones(7, dtype=bool))
        product = to_numpy(operator.gauss_newton_matrix(L, every)) @ to_numpy(y)
        np.testing.assert_allclose(product, change, atol=1e-7)


def ring(asarray, n, sigma, equality):
    """A closed chain of unit links; unregularised it opens into a regular polygon."""
    edges = np.array([(i, (i + 1) % n) for i in range(n)])
    return UnfoldingProgram(
        EdgeOperator(edges, n, asarray(np.zeros(1))), np.ones(n), sigma, equality
    )


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("sigma", [5.0, np.inf])
def test_a_direction_solves_the_linearised_path(asarray, sigma, equality):
    state = PathPoint.begin(ring(asarray, 8, sigma, equality)).advanced()
    target = 0.1 * float(state.barrier)
    system = System.of(state)
    scaled = system.direction(target)
    dX, dZ, du, ds = (to_numpy(part) for part in system.unscaled(scaled))
    X, Z, u, s = (to_numpy(part) for part in (state.X, state.Z, state.u, state.s))
    p = state.problem
    A = lambda M: to_numpy(p.operator.forward(asarray(M)))  # noqa: E731
    adjoint = lambda v: to_numpy(p.operator.adjoint(asarray(v)))  # noqa: E731
    np.testing.assert_allclose(A(X + dX) + s + ds, to_numpy(p.b), atol=1e-9)
    stationary = (X + dX) / sigma + adjoint(u + du) - to_numpy(p.offset)
    np.testing.assert_allclose(Z + dZ, stationary, atol=1e-9)
    # Nesterov & Todd: dX + W dZ W = mu Z^-1 - X with W Z W = X
    L = np.linalg.cholesky(Z)
    values, vectors = np.linalg.eigh(L.T @ X @ L)
    W = np.linalg.inv(L).T @ (vectors * values**0.5) @ vectors.T @ np.linalg.inv(L)
    # known as well as `LARGE` says; exactly without a norm
    known = 1e-8 if sigma == np.inf else 2e-3 * abs(dX).max()
    np.testing.assert_allclose(dX + W @ dZ @ W, target * np.linalg.inv(Z) - X, atol=known)
    G = to_numpy(system.G)
    dZ_scaled = G.T @ dZ @ G
    np.testing.assert_allclose(dZ_scaled, to_numpy(scaled.Z), atol=known)
    moved = np.vdot(X + 0.3 * dX, Z + 0.3 * dZ) + np.vdot(s + 0.3 * ds, u + 0.3 * du)
    as_found = scaled._replace(Z=asarray(dZ_scaled))
    after = float(system.barrier_after(as_found, 0.3))
    order = len(X) + int(state.bounded.sum())
    assert after == pytest.approx(moved / order, rel=1e-9)
    if not equality:
        np.testing.assert_allclose(s * u + s * du + u * ds, target, atol=1e-9)


@pytest.mark.parametrize("equality", [False, True])
@pytest.mark.parametrize("sigma", [5.0, np.inf])
def test_far_from_the_optimum_a_bound_is_rough_and_below_the_sharp_one(
    asarray, sigma, equality, monkeypatch
):
    problem = ring(asarray, 8, sigma, equality)
    state, found = PathPoint.begin(problem), []
    while state is not None and len(found) < 12:
        point, duals = problem.evaluate(problem.project(state.u)), []
        for far in (-1.0, np.inf):
            monkeypatch.setattr("conemetric.papers.unfolding.interior_point.FAR", far)
            duals.append(state.iterate(point).dual)
        found.append(duals)
        state = state.advanced()
    rough, sharp = zip(*found, strict=True)
    assert all(a <= b or a == pytest.approx(b) for a, b in found)
    assert rough[-1] == pytest.approx(sharp[-1], rel=1e-2)  # where little is missing it is near


@pytest.mark.parametrize("equality", [False, True])
def test_ring_opens_into_a_polygon(asarray, equality):
    n = 16
    result = InteriorPoint(tol=1e-6).solve(ring(asarray, n, np.inf, equality))
    assert result.certificate.status == "converged"
    assert -result.certificate.primal == pytest.approx(n / (2 * np.sin(np.pi / n)) ** 2, rel=2e-6)
    assert type(result.primal_point) is type(asarray(np.zeros(1)))


def test_a_start_near_the_boundary_is_centred_and_leads_to_the_same_optimum(asarray):
    n = 16
    problem = ring(asarray, n, np.inf, True)
    folded = asarray(np.tile([-0.5, 0.5], n // 2)[:, None])  # every link has length 1
    begun = PathPoint.near(problem, folded)
    products = to_numpy(begun.X @ begun.Z)
    np.testing.assert_allclose(products, float(begun.barrier) * np.eye(n), atol=1e-9)
    result = InteriorPoint(tol=1e-6).solve(problem, folded)
    assert result.certificate.status == "converged"
    assert -result.certificate.primal == pytest.approx(n / (2 * np.sin(np.pi / n)) ** 2, rel=2e-6)


def test_infeasible_programs_are_reported():
    identity = np.eye(3)
    problem = SemidefiniteProgram(
        MatrixOperator(np.array([identity, -identity])), np.eye(3), [1.0, -2.0], 1.0, False
    )
    with pytest.warns(ConvergenceWarning):
        result = InteriorPoint().solve(problem)
    assert result.certificate.status != "converged"


def test_cholesky_solver_solves_consistent_singular_systems(asarray):
    rng = np.random.default_rng(0)
    F = rng.normal(size=(6, 3))
    b = F @ rng.normal(size=3)
    x = to_numpy(cholesky_solver(asarray(F @ F.T))(asarray(b)))
    np.testing.assert_allclose(F @ F.T @ x, b, rtol=1e-5)
