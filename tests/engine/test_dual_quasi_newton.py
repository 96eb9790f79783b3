"""Directions and units of the dual ascent; its optima are tested with the programs."""

import numpy as np
import pytest
from instances import KINDS, triplet_instance

from conemetric.core.arrays import to_numpy
from conemetric.engine.curvature_memory import Box, CurvatureMemory, two_loop
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.newton_direction import ACCURACY, newton_direction
from conemetric.engine.operators import from_triplets


def dense_hessian(problem, point, m, asarray):
    product, _ = problem.hessian(point)
    return np.stack([to_numpy(product(asarray(row))) for row in np.eye(m)])


@pytest.mark.parametrize("kind", KINDS)
def test_newton_direction_solves_the_system_of_the_free_multipliers(kind, seed, asarray):
    X, T = triplet_instance(kind, seed)
    rng = np.random.default_rng(seed)
    problem = FrobeniusProgram(from_triplets(asarray(X), T), 1.0, "logistic")
    point = problem.evaluate(asarray(rng.uniform(0.2, 0.8, len(T))) * problem.unit)
    free = rng.integers(0, 2, len(T)).astype(float)
    direction, steps = newton_direction(problem, point, asarray(free))
    direction = to_numpy(direction)
    H = dense_hessian(problem, point, len(T), asarray)
    g = to_numpy(point.gradient) * free
    diagonal = problem.sigma * to_numpy(problem.sizes) ** 2 + to_numpy(
        problem.gain_curvature(point.u)
    )
    residual = g - free * (H @ direction)
    assert np.all(direction[free == 0] == 0)
    assert residual @ (residual / diagonal) <= 1.01 * ACCURACY**2 * (g @ (g / diagonal))
    assert 0 < steps <= len(T)


def test_no_direction_where_nothing_curves(asarray):
    """Two points that coincide: a constraint without a matrix, and a linear gain."""
    X = np.array([[0.0], [0.0], [1.0], [3.0]])
    problem = FrobeniusProgram(from_triplets(asarray(X), [[0, 1, 1], [0, 2, 3]]), 1.0)
    point = problem.start()
    direction, steps = newton_direction(problem, point, asarray(np.array([1.0, 0.0])))
    assert direction is None
    assert steps == 0


@pytest.mark.parametrize("loss, power", [("hinge", 0.7), ("squared_hinge", 0.3), ("logistic", 0.3)])
def test_units_follow_the_sizes_of_the_constraints(loss, power, asarray):
    X, T = triplet_instance("collinear")
    problem = FrobeniusProgram(from_triplets(asarray(X), T), 1.0, loss)
    box = Box.of(problem)
    differences = X[T[:, 0]] - X[T[:, 1]], X[T[:, 0]] - X[T[:, 2]]
    sizes = sum((each**2).sum(1) for each in differences)
    sizes = np.maximum(sizes, 0.1 * sizes.mean())
    expected = problem.unit / (sizes / sizes.max()) ** power
    np.testing.assert_allclose(to_numpy(box.unit), expected)
    np.testing.assert_allclose(to_numpy(box.relative), expected / expected.max())


def test_a_step_far_too_long_is_short_enough_after_few_trials(asarray):
    """Of a direction that is ten thousand times the best multiple of the gradient."""
    X, T = triplet_instance("random")
    problem, solver = FrobeniusProgram(from_triplets(asarray(X), T), 1e6), DualQuasiNewton()
    point = problem.start()
    best = float((point.gradient**2).sum()) / problem.curvature(point.gradient, point.u)
    memory = CurvatureMemory(Box.of(problem), 5)
    after, _, tried = solver._search(problem, point, point.gradient * (1e4 * best), memory)
    assert after.dual > point.dual
    assert tried <= 6  # by halving 10


def test_a_pair_that_hides_its_curvature_is_left_out():
    s, y, g = np.random.default_rng(0).normal(size=(3, 2, 9))[:, 0]
    y = s + 0.3 * y
    hidden = y - (y @ s) / (s @ s) * s + 1e-4 * s
    both, one = np.stack([s, s, y, hidden, g]), np.stack([s, y, g])
    found, expected = two_loop(both @ both.T, 2), two_loop(one @ one.T, 1)
    np.testing.assert_allclose(found @ both, expected @ one)
    assert two_loop(both[[1, 3, 4]] @ both[[1, 3, 4]].T, 1) is None


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_rows_of_very_different_sizes(loss, asarray):
    """One row a thousand times as far out as all others."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(21, 2)), np.arange(21) % 2
    X[0] *= 1e3
    T = [(i, j, k) for i in range(21) for j in (i + 2, i + 4) for k in (i + 1, i + 3)]
    T = np.array(T) % 21
    T = T[(y[T[:, 0]] == y[T[:, 1]]) & (y[T[:, 0]] != y[T[:, 2]])]
    problem = FrobeniusProgram(from_triplets(asarray(X), T), 142.0, loss)
    assert DualQuasiNewton(tol=1e-4, max_iter=1000).solve(problem).status == "converged"
