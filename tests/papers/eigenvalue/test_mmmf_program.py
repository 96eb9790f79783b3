"""Maximum-margin matrix factorisation against an independent conic solver, in the form
without the bordered matrix.
"""

import numpy as np
import pytest
from oracles import mmmf_optimum
from scipy import sparse

from conemetric import MaxMarginMatrixFactorization
from conemetric.papers.eigenvalue.entries import EntryOperator
from conemetric.papers.eigenvalue.factored_descent import FactoredDescent
from conemetric.papers.eigenvalue.program import MMMFProgram

LEVELS = pytest.mark.parametrize("n_levels", [2, 3, 4])


def instance(n_levels, seed):
    """(rows, columns, values, shape, gamma): some rows and columns
    never seen, some gammas above the norm.
    """
    rng = np.random.default_rng([n_levels, seed])
    shape = tuple(int(side) for side in rng.integers(2, 9, 2))
    X = rng.normal(size=(shape[0], 2)) @ rng.normal(size=(2, shape[1]))
    seen = rng.uniform(size=shape) < rng.uniform(0.3, 1.0)
    seen[0, :2] = True
    rows, columns = np.nonzero(seen)
    values = np.digitize(X[rows, columns], np.linspace(-1, 1, n_levels + 1)[1:-1]).astype(float)
    values[:2] = 0, 1
    return (
        rows,
        columns,
        (2 * values - 1 if n_levels == 2 else values),
        shape,
        10.0 ** rng.uniform(-1.5, 0.7),
    )


@LEVELS
def test_optimum_and_bounds_agree_with_a_conic_solver(n_levels, seed):
    rows, columns, values, shape, gamma = instance(n_levels, seed)
    Y = sparse.coo_array((values, (rows, columns)), shape=shape)
    model = MaxMarginMatrixFactorization(gamma).fit(Y)
    level = np.searchsorted(model.levels_, values)
    optimum = mmmf_optimum(rows, columns, level, shape, model.thresholds_, gamma)
    slack = 1e-6 * (1 + optimum)
    assert model.certificate_.relative_gap <= 1e-3
    assert model.objective_ == pytest.approx(optimum, rel=1.1e-3, abs=1e-6)
    assert np.all(model.history_["dual"] <= optimum + slack)
    assert np.all(model.history_["primal"] >= optimum - slack)
    # the factors are worth what the certificate says
    X = model.row_factors_ @ model.column_factors_.T
    margins = np.where(level[:, None] > np.arange(len(model.thresholds_)), 1, -1) * (
        X[rows, columns][:, None] - model.thresholds_
    )
    value = np.clip(1 - margins, 0, None).sum() + gamma * np.linalg.norm(X, "nuc")
    assert optimum - slack <= value == pytest.approx(model.objective_, rel=1e-9, abs=1e-9)


def test_both_methods_find_the_optimum(monkeypatch):
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((11, 12)) < 0.4, np.nan, rng.integers(1, 4, size=(11, 12)))
    small = MaxMarginMatrixFactorization(2.0, tol=1e-5).fit(Y)
    monkeypatch.setattr("conemetric.papers.eigenvalue.entries.MOST_DENSE", 0)
    large = MaxMarginMatrixFactorization(2.0, tol=1e-5).fit(Y)
    assert "sigma" in small.history_ and "sigma" not in large.history_
    assert small.objective_ == pytest.approx(large.objective_, rel=1e-5)


@LEVELS
def test_any_points_certify(n_levels, seed):
    rows, columns, values, shape, gamma = instance(n_levels, seed)
    levels, level = np.unique(values, return_inverse=True)
    thresholds = np.arange(len(levels) - 1.0)
    optimum = mmmf_optimum(rows, columns, level, shape, thresholds, gamma)
    problem = MMMFProgram((rows, columns, level), shape, thresholds, gamma)
    rng = np.random.default_rng(seed)
    bounds = problem.certify(
        rng.normal(size=(sum(shape), 3)), rng.uniform(size=problem.operator.n_constraints)
    )
    assert bounds.dual <= optimum + 1e-6
    assert bounds.primal >= optimum - 1e-6


@pytest.mark.parametrize("most_dense", [0, 7])
def test_operator_against_dense_matrices(most_dense, monkeypatch):
    """Dot test and dense oracle, with an entry constrained twice."""
    rng = np.random.default_rng(0)
    rows, columns, signs = (
        np.array([0, 2, 0, 1, 0]),
        np.array([1, 0, 1, 3, 0]),
        np.array([1, -1, -1, 1, 1.0]),
    )
    monkeypatch.setattr("conemetric.papers.eigenvalue.entries.MOST_DENSE", most_dense)
    operator = EntryOperator(rows, columns, signs, (3, 4))
    L, u = rng.normal(size=(7, 2)), rng.normal(size=5)
    M = L @ L.T
    np.testing.assert_allclose(operator.forward(M), signs * M[rows, 3 + columns])
    np.testing.assert_allclose(operator.forward_factor(L), operator.forward(M))
    adjoint = operator.adjoint(u)
    assert sparse.issparse(adjoint) == (not operator.is_dense) == (most_dense == 0)
    adjoint = adjoint if operator.is_dense else adjoint.toarray()
    np.testing.assert_allclose(np.sum(adjoint * M), operator.forward(M) @ u)
    np.testing.assert_allclose(adjoint, adjoint.T)


def test_a_large_matrix_stays_sparse_and_low_rank():
    """Lanczos on the bordered matrix (its order is above the dense limit) gives the
    same bounds as a dense decomposition.
    """
    rng = np.random.default_rng(0)
    shape, rank = (250, 200), 2
    X = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1]))
    chosen = rng.choice(X.size, 5000, replace=False)
    rows, columns = chosen // shape[1], chosen % shape[1]
    problem = MMMFProgram(
        (rows, columns, (X[rows, columns] > 0).astype(int)), shape, np.zeros(1), 8.0
    )
    result = FactoredDescent(tol=5e-3).solve(problem)
    norm = 2 * np.linalg.eigvalsh(problem.operator.adjoint(result.dual_point).toarray())[-1]
    exact = result.dual_point.sum() * min(1 / result.dual_point.max(), 8.0 / norm)
    assert result.certificate.dual == pytest.approx(exact, rel=1e-8)
    assert result.certificate.relative_gap <= 5e-3
    assert result.primal_point.shape[1] < 60
