"""Descent on a low-rank factor: its gradient, its bounds, and the eigenvectors that let
the rank grow.
"""

import numpy as np
import pytest

from conemetric.papers.eigenvalue.factored_descent import FactoredDescent, _augmented
from conemetric.papers.eigenvalue.program import MMMFProgram


def program(gamma=1.0, shape=(12, 9), rank=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    rows, columns = np.nonzero(rng.uniform(size=shape) < 0.7)
    return MMMFProgram(
        (rows, columns, (X[rows, columns] > 0).astype(int)), shape, np.zeros(1), gamma
    )


def test_gradient_is_the_derivative():
    problem, rng = program(), np.random.default_rng(1)
    shape = (problem.operator.n_features, 4)
    L, direction, h = rng.normal(size=shape).ravel(), rng.normal(size=shape).ravel(), 1e-6
    u = rng.uniform(size=problem.operator.n_constraints)
    slope = (
        _augmented(L + h * direction, problem, u, shape)[0]
        - _augmented(L - h * direction, problem, u, shape)[0]
    ) / (2 * h)
    assert slope == pytest.approx(_augmented(L, problem, u, shape)[1] @ direction, rel=1e-5)


def test_the_rank_grows_until_the_bounds_meet(monkeypatch):
    """One new column at a time suffices."""
    monkeypatch.setattr("conemetric.papers.eigenvalue.factored_descent.ESCAPES", 1)
    result = FactoredDescent(tol=1e-3).solve(program())
    assert result.history["rank"][1] == 1
    assert result.history["rank"].max() > 2
    assert result.certificate.relative_gap <= 1e-3


def test_bounds_of_every_iterate_are_ordered():
    history = FactoredDescent(tol=1e-4).solve(program()).history
    assert history["dual"].max() <= history["primal"].min()


def test_a_large_gamma_ends_at_zero_without_a_descent():
    problem = program(gamma=1e3)
    result = FactoredDescent().solve(problem)
    assert result.n_iter == 0
    assert result.certificate.primal == result.certificate.dual == problem.operator.n_constraints
