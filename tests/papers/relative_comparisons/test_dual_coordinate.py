"""Coordinate sweeps and Newton steps against an independent solver, and the optimality
conditions.
"""

import numpy as np
import pytest
from cases import pairs_of
from instances import BASES, KINDS, comparison_instance, comparison_rows, random_triplets
from numpy.testing import assert_allclose, assert_array_equal
from oracles import comparison_optimum
from scipy.optimize import lsq_linear
from sklearn.exceptions import ConvergenceWarning

from conemetric.engine.operators import from_triplets
from conemetric.papers.relative_comparisons import dual_coordinate, semismooth_newton
from conemetric.papers.relative_comparisons.dual_coordinate import DualCoordinate, dual_sweep
from conemetric.papers.relative_comparisons.program import ComparisonProgram
from conemetric.papers.relative_comparisons.semismooth_newton import (
    AugmentedLagrangian,
    SemismoothNewton,
    step_length,
)


def make(X, T, A, C, **options):
    identity = A.shape[0] == A.shape[1] and np.array_equal(A, np.eye(len(A)))
    return ComparisonProgram(from_triplets(X @ A, T), C, None if identity else A.T @ A, **options)


@pytest.fixture
def sweeping(monkeypatch):
    """Let small problems be swept too."""
    monkeypatch.setattr(dual_coordinate, "MAX_HESSIAN_WORK", 0)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kind", KINDS)
# what the reference asks of itself
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_optimum_agrees_with_a_conic_solver(kind, basis, seed, sweeping):
    """Every kind of triplets and of basis: well and ill conditioned, singular,
    duplicated and contradictory.
    """
    X, T, A, C = comparison_instance(kind, basis, seed)
    problem = make(X, T, A, C)
    result = DualCoordinate(tol=1e-9).solve(problem)
    assert result.certificate.relative_gap <= 1e-9
    optimum = comparison_optimum(comparison_rows(X, T, A), problem.L, C)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-7)
    assert np.all(result.history["dual"] <= optimum * (1 + 1e-7))
    assert np.all(result.history["primal"] >= optimum * (1 - 1e-7))


def test_condition_numbers_reach_a_hundred_million():
    conditions = [
        np.linalg.cond((A.T @ A) ** 2)
        for _, _, A, _ in (comparison_instance(kind, "near-parallel") for kind in KINDS)
    ]
    assert min(conditions) > 1e2
    assert max(conditions) > 1e7


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4, 1e-6, 0.0])
def test_steps_do_not_grow_with_the_conditioning(epsilon):
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(60, 6)), rng.normal(size=(6, 7))
    A[:, -1] = A[:, 0] + epsilon * rng.normal(size=6)
    T = random_triplets(rng, 60, 300)
    result = DualCoordinate(tol=1e-9).solve(make(X, T, A, 0.01))
    assert result.certificate.relative_gap <= 1e-9
    assert result.history["steps"][-1] <= 60


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_optimality_conditions(kind, basis, seed):
    X, T, A, C = comparison_instance(kind, basis, seed)
    problem = make(X, T, A, C)
    result = DualCoordinate(tol=1e-11).solve(problem)
    w, (lam, _) = result.primal_point, result.dual_point
    margins, gradient = (
        comparison_rows(X, T, A) @ w,
        problem.L @ w - comparison_rows(X, T, A).T @ lam,
    )
    size = abs(problem.L @ w).max() + abs(problem.combine(lam)).max()
    assert w.min() >= 0
    assert lam.min() >= 0
    assert lam.max() <= C
    assert gradient.min() >= -1e-3 * size
    assert np.all(margins[lam < 0.99 * C] >= 1 - 1e-3)
    assert np.all(margins[lam > 0.01 * C] <= 1 + 1e-3)


def test_triplets_without_a_difference_sit_at_the_bound(sweeping):
    """z = 0: the loss is 1 whatever the weights, and the multiplier C."""
    X = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [3.0, 0.0]])
    T = np.array([[0, 1, 2], [0, 1, 3]])
    result = DualCoordinate(tol=1e-9).solve(make(X, T, np.eye(2), 0.5))
    assert result.dual_point[0][0] == 0.5
    # z = (8, -1) of the other: w = (1/8, 0)
    assert result.certificate.primal == pytest.approx(0.5 + 0.5 / 64)


def test_sweeps_alone_reach_the_optimum(sweeping, monkeypatch):
    """Many sweeps with shrinking, no Newton step: the paper's method."""
    monkeypatch.setattr(dual_coordinate, "WORTHWHILE", 1e-9)
    X, T, A, C = comparison_instance("random", "identity")
    problem = make(X, T, A, C)
    result = DualCoordinate(tol=1e-6).solve(problem)
    assert result.history["steps"].max() == 0
    assert result.n_iter > 2
    assert result.certificate.primal == pytest.approx(
        comparison_optimum(comparison_rows(X, T, A), problem.L, C), rel=1e-6
    )


@pytest.mark.parametrize(("C", "sweeps_do"), [(1e-4, True), (1.0, False)])
def test_many_weights_need_no_matrix_of_them(C, sweeps_do):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, dual_coordinate.WIDE + 100))
    T = random_triplets(rng, 12, 30)
    problem = ComparisonProgram(from_triplets(X, T), C)
    result = DualCoordinate(tol=1e-8).solve(problem)
    assert ("L" not in vars(problem)) == sweeps_do
    assert result.certificate.relative_gap <= 1e-8
    identity = np.eye(X.shape[1])
    optimum = comparison_optimum(comparison_rows(X, T, identity), identity, C)
    assert result.certificate.primal == pytest.approx(optimum, rel=1e-6)


def test_same_seed_same_bits(sweeping):
    X, T, A, C = comparison_instance("duplicates", "identity")
    first, second = (DualCoordinate(seed=3).solve(make(X, T, A, C)) for _ in range(2))
    assert_array_equal(first.primal_point, second.primal_point)
    assert_array_equal(first.dual_point[0], second.dual_point[0])


@pytest.mark.parametrize("solver", [DualCoordinate, SemismoothNewton])
def test_starting_at_the_solution_ends_at_once(solver, sweeping):
    X, T, A, C = comparison_instance("collinear", "identity")
    problem = make(X, T, A, C)
    found = solver(tol=1e-9).solve(problem)
    again = solver(tol=1e-6).solve(problem, start=(found.dual_point[0], found.primal_point))
    assert again.n_iter == 0
    assert again.certificate.primal == pytest.approx(found.certificate.primal, rel=1e-6)


def test_streaming_gives_the_same_answer(sweeping):
    X, T, A, C = comparison_instance("random", "random")
    stored, streamed = (
        DualCoordinate(tol=1e-9).solve(make(X, T, A, C, memory=memory)) for memory in (1 << 30, 0)
    )
    assert streamed.certificate.primal == pytest.approx(stored.certificate.primal, rel=1e-9)


def test_tolerance_out_of_reach_warns_and_keeps_the_best():
    X, T, A, C = comparison_instance("duplicates", "near-parallel")
    with pytest.warns(ConvergenceWarning, match="stalled"):
        result = SemismoothNewton(tol=-1e-6, max_iter=10_000).solve(make(X, T, A, C))
    assert abs(result.certificate.relative_gap) < 1e-9


@pairs_of(kind=KINDS, basis=BASES, start=("zero", "dense", "sparse"))
def test_model_minimum_against_bounded_least_squares(kind, basis, start, seed):
    """Among the weights that are positive or would grow, it is the best; its model is that of phi."""
    problem = make(*comparison_instance(kind, basis, seed))
    m, p = problem.operator.n_constraints, len(problem.diagonal)
    rng = np.random.default_rng(seed)
    w = {"zero": np.zeros(p), "dense": rng.uniform(size=p), "sparse": rng.uniform(-1, 1, p)}[start]
    w = np.maximum(w, 0.0)
    phi = AugmentedLagrangian(problem, rng.uniform(size=m) * problem.C, problem.C)
    lam = phi.multipliers(1 - problem.margins(w))
    gradient = problem.weigh(w) - problem.combine(lam)
    v = phi.model_minimum(w, gradient, lam)
    assert v.min() >= 0
    candidates = (w > 0) | (gradient < 0)
    assert_array_equal(v[~candidates], 0)
    if not candidates.any():
        return

    Z_F = problem.block(slice(0, m))[(lam > 0) & (lam < problem.C)]
    H = problem.L + problem.C * Z_F.T @ Z_F

    def model(v):
        return gradient @ (v - w) + 0.5 * (v - w) @ H @ (v - w)

    values, vectors = np.linalg.eigh(H[np.ix_(candidates, candidates)])
    kept = values > 1e-13 * values.max()
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    aim = root @ w[candidates] - (vectors[:, kept] / np.sqrt(values[kept])).T @ gradient[candidates]
    best = np.zeros(p)
    best[candidates] = lsq_linear(root, aim, (0, np.inf), method="bvls").x
    assert model(v) <= 0
    assert model(v) <= model(best) + 1e-7 * abs(model(best))


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_derivatives_of_the_augmented_lagrangian(kind, seed):
    problem = make(*comparison_instance(kind, "random", seed))
    m, p = problem.operator.n_constraints, len(problem.diagonal)
    rng = np.random.default_rng(seed)
    w, d = rng.uniform(size=(2, p)) / np.sqrt(problem.diagonal)
    a, sigma = rng.uniform(size=m) * problem.C, problem.C
    s, ds = 1 - problem.margins(w), -problem.margins(d)
    phi = AugmentedLagrangian(problem, a, sigma)

    def value(t):
        v, margins = w + t * d, s + t * ds
        lam = phi.multipliers(margins)
        return 0.5 * v @ problem.weigh(v) + (lam * margins - (lam - a) ** 2 / (2 * sigma)).sum()

    slope = phi.slope_along(w, d, s, ds)
    for t in (0.0, 0.3, 1.0):
        step = 1e-6
        difference = (value(t + step) - value(t - step)) / (2 * step)
        assert slope(t)[0] == pytest.approx(difference, rel=1e-5, abs=1e-7 * value(0.0))
    # where multipliers begin or cease to move, the derivative of the slope is that of one side
    rise = (slope(0.3 + 1e-9)[0] - slope(0.3)[0]) / 1e-9
    assert slope(0.3)[1] == pytest.approx(rise, rel=1e-3)


@pytest.mark.parametrize(
    ("slope", "least", "most"),
    [
        (lambda t: (t - 0.5, 1.0), 0.5, 0.5),
        (lambda t: (t - 2.0, 1.0), 1.0, 1.0),  # still falls at the end
        (lambda t: (1e3 * t - 1.0, 1e3), 0.7e-3, 1.3e-3),
        (lambda t: (max(-1.0, 50 * (t - 0.9)), 50.0 if t > 0.88 else 0.0), 0.88, 0.906),
        (lambda t: (t + 1.0, 1.0), 0.0, 0.0),  # rises from the start
    ],
)
def test_step_length_is_where_the_slope_is_nearly_zero(slope, least, most):
    with np.errstate(divide="ignore"):
        length = step_length(lambda t: tuple(map(np.float64, slope(t))), slope(0.0)[0])
    assert least <= length <= most


def test_a_model_that_is_not_minimised_is_no_step(monkeypatch):
    """scipy.optimize.nnls raises if it does not end: the multipliers move on without a step."""

    def endless(*args, **options):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(semismooth_newton, "nnls", endless)
    with pytest.warns(ConvergenceWarning, match="stalled"):
        result = SemismoothNewton().solve(make(*comparison_instance("random", "identity")))
    assert result.certificate.primal >= result.certificate.dual


def test_dual_sweep_against_plain_python():
    """The kernel without shrinking is FastQP's update, line by line, with t renewed at
    every step.
    """
    rng = np.random.default_rng(0)
    Z, L, penalties = rng.normal(size=(20, 5)), rng.uniform(0.5, 2, 5), rng.uniform(0.1, 0.5, 20)
    order, lam, expected = rng.permutation(20), np.zeros(20), np.zeros(20)
    u, w = np.zeros(5), np.zeros(5)
    vectors = 1 / L, penalties, u, w, lam, np.ones(20, dtype=bool)
    dual_sweep(Z, order, 1, np.inf, vectors)
    for i in order:
        t = np.maximum(-(Z.T @ expected), 0)
        gradient = Z[i] @ ((Z.T @ expected + t) / L) - 1
        expected[i] = np.clip(expected[i] - gradient / (Z[i] @ (Z[i] / L)), 0, penalties[i])
    assert_allclose(lam, expected, atol=1e-12)
    assert_allclose(u, Z.T @ lam, atol=1e-12)
    assert_allclose(w, np.maximum(u, 0) / L, atol=1e-12)
