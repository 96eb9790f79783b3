"""The relative-comparison program: its rows, its bounds at any feasible point, and its blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import BASES, KINDS, comparison_instance, comparison_rows
from numpy.testing import assert_allclose, assert_array_equal

from conemetric.engine.operators import from_triplets
from conemetric.papers.relative_comparisons import program as relative_comparisons
from conemetric.papers.relative_comparisons.program import ComparisonProgram


def make(X, T, A, C, **options):
    return ComparisonProgram(from_triplets(X @ A, T), C, A.T @ A, **options)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_agree_with_their_definition(kind, basis, seed):
    X, T, A, C = comparison_instance(kind, basis, seed)
    problem = make(X, T, A, C)
    Z = comparison_rows(X, T, A)
    size = abs(Z).max()
    rng = np.random.default_rng(seed)
    w, lam = rng.normal(size=A.shape[1]), rng.normal(size=len(T))
    assert_allclose(problem.block(slice(0, len(T))), Z, atol=1e-12 * size)
    assert_allclose(problem.margins(w), Z @ w, atol=1e-11 * size)
    assert_allclose(problem.combine(lam), lam @ Z, atol=1e-11 * size)
    assert_allclose(problem.L, (A.T @ A) ** 2)
    assert 0.5 * w @ problem.L @ w == pytest.approx(
        0.5 * np.linalg.norm(A @ np.diag(w) @ A.T) ** 2, rel=1e-8
    )


@pytest.mark.parametrize("basis", BASES)
def test_streamed_blocks_are_the_stored_rows(basis, monkeypatch):
    X, T, A, C = comparison_instance("random", basis)
    stored = make(X, T, A, C)
    monkeypatch.setattr(relative_comparisons, "ENTRIES", 7 * A.shape[1])
    streamed = make(X, T, A, C, memory=0)
    assert len(streamed.slices) > 1
    for rows in streamed.slices:
        assert_array_equal(streamed.block(rows), stored.block(rows))
    w, lam = np.ones(A.shape[1]), np.linspace(0, C, len(T))
    assert_allclose(streamed.margins(w), stored.margins(w), rtol=1e-12)
    assert_allclose(streamed.combine(lam), stored.combine(lam), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    basis=st.sampled_from(BASES),
    seed=st.integers(0, 300),
    size=st.floats(1e-3, 1e3),
)
def test_any_two_points_bound_each_other(kind, basis, seed, size):
    """Weak duality: no multipliers and y, repaired to feasibility, exceed the objective
    of any weights.
    """
    X, T, A, C = comparison_instance(kind, basis, seed)
    problem, rng = make(X, T, A, C), np.random.default_rng(seed)
    w, y = size * rng.normal(size=(2, A.shape[1]))
    lam = C * rng.uniform(-0.5, 1.5, len(T))
    bounds = problem.certify(w, (lam, y))
    assert bounds.dual <= bounds.primal + 1e-9 * abs(bounds.primal)
    combined = problem.combine(np.clip(lam, 0, C))
    covered = problem.cover(y, combined)
    rounding = 1e-13 * (problem.L @ (abs(y) + abs(covered)) + abs(combined))
    assert (problem.L @ covered - combined >= -rounding).all()


def test_zero_columns_of_the_basis_are_harmless():
    X, T, A, C = comparison_instance("labels", "random")
    A = np.hstack([A, np.zeros((len(A), 1))])
    problem = make(X, T, A, C)
    bounds = problem.certify(np.ones(A.shape[1]), (np.full(len(T), C), np.zeros(A.shape[1])))
    assert np.isfinite(bounds.dual)
    assert bounds.dual <= bounds.primal
