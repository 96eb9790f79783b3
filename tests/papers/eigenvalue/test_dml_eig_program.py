"""DML-eig's optimum and bounds against an independent conic solver, in the coordinates
of the paper's program (3).
"""

import numpy as np
import pytest
from oracles import dml_eig_optimum

from conemetric import DMLEig
from conemetric.core.arrays import to_numpy
from conemetric.engine.operators import from_pairs
from conemetric.engine.operators.whitening import similar_scatter, whiten
from conemetric.engine.proximal_point import ProximalPoint
from conemetric.papers.eigenvalue.program import DMLEigProgram

KINDS = ("plain", "duplicates", "wide", "repeated", "close")


def pair_instance(kind, seed=0):
    """(X, pairs, similar, ridge); "wide" has a singular X_S, "close" a dissimilar pair
    almost at distance zero.
    """
    rng = np.random.default_rng(len(KINDS) * seed + KINDS.index(kind))
    D, n = (9, 6) if kind == "wide" else (int(rng.integers(1, 9)), int(rng.integers(12, 25)))
    X = rng.normal(size=(n, D)) * rng.uniform(0.3, 3.0, D) + 5
    if kind == "duplicates":
        X[1::3] = X[: len(X[1::3])] + 0.0
    m = int(rng.integers(10, 50))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    similar = rng.uniform(size=m) < 0.5
    similar[:2] = True, False
    if kind == "repeated":
        pairs, similar = np.vstack([pairs, pairs[:5, ::-1]]), np.concatenate([similar, similar[:5]])
    if kind == "close":
        a, b = pairs[~similar][0]
        X[a] = X[b] + 1e-2 * rng.normal(size=D)
    coincide = (X[pairs[:, 0]] == X[pairs[:, 1]]).all(1)
    keep = similar | ~coincide
    d = (X[pairs[:, 0]] - X[pairs[:, 1]])[similar]
    singular = np.linalg.matrix_rank(d) < D  # the conic solver needs a larger ridge then
    return X, pairs[keep], similar[keep], 1e-4 if singular else 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_optimum_and_bounds_agree_with_a_conic_solver(kind, seed):
    X, pairs, similar, ridge = pair_instance(kind, seed)
    metric = DMLEig(tol=1e-5, ridge=ridge).fit(X, pairs=pairs, similar=similar)
    scatter = similar_scatter(X, pairs[similar], ridge)
    optimum = dml_eig_optimum(X, pairs, similar, scatter)
    slack = 1e-6 * optimum
    assert metric.objective_ == pytest.approx(optimum, rel=1.1e-5)
    assert metric.certificate_.relative_gap <= 1e-5
    assert -metric.certificate_.dual >= optimum - slack
    assert np.all(-metric.history_["primal"] <= optimum + slack)
    assert np.all(-metric.history_["dual"] >= optimum - slack)
    M, d = metric.get_mahalanobis_matrix(), X[pairs[:, 0]] - X[pairs[:, 1]]
    assert np.trace(scatter @ M) == pytest.approx(1, rel=1e-6)
    assert np.einsum("ri,ij,rj->r", d, M, d)[~similar].min() == pytest.approx(
        metric.objective_, rel=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_any_points_certify(kind, seed, asarray, dtype):
    X, pairs, similar, ridge = pair_instance(kind, seed)
    X = X.astype(dtype)
    rng = np.random.default_rng(seed)
    scatter = similar_scatter(X, pairs[similar], ridge)
    optimum = dml_eig_optimum(X.astype(float), pairs, similar, scatter)
    operator = from_pairs(whiten(asarray(X), pairs[similar], ridge).points, pairs[~similar])
    problem = DMLEigProgram(operator, asarray(X).dtype)
    L = asarray(rng.normal(size=(operator.n_features, 3)).astype(dtype))
    u = asarray(rng.uniform(size=(~similar).sum()).astype(dtype))
    bounds = problem.certify(problem.scaled(L), u)
    assert -bounds.primal <= optimum * (1 + 1e-6) <= -bounds.dual * (1 + 2e-6)


@pytest.mark.filterwarnings("ignore:DMLEig is meant for given pairs")
@pytest.mark.parametrize("seed", (2, 87, 357))
def test_single_precision_keeps_the_closest_pair(seed, asarray):
    """Its squared length is below the rounding of the squares of the points."""
    rng = np.random.default_rng(seed)
    y, X = rng.permutation(np.arange(22) % 3), rng.normal(size=(22, 1)).astype(np.float32)
    settings = {"n_impostors": 1, "n_targets": 2, "tol": 1e-2}
    exact = DMLEig(**settings).fit(X.astype(np.float64), y)
    metric = DMLEig(**settings).fit(asarray(X), y)
    assert metric.certificate_.status == "converged"
    assert metric.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    assert metric.components_.dtype == asarray(X).dtype


def test_optimality_conditions():
    """Complementarity: only closest dissimilar pairs carry weight, and S lives on the
    leading eigenspace of sum u_r X_r.
    """
    X, pairs, similar, ridge = pair_instance("duplicates")
    whitened = whiten(X, pairs[similar], ridge)
    problem = DMLEigProgram(from_pairs(whitened.points, pairs[~similar]))
    result = ProximalPoint(tol=1e-8).solve(problem)
    margins = problem.operator.forward_factor(result.primal_point)
    u = result.dual_point / result.dual_point.sum()
    assert np.all(margins[u > 1e-3] <= margins.min() * (1 + 1e-3))
    K, L = problem.operator.adjoint(u), result.primal_point
    np.testing.assert_allclose(
        K @ L, np.linalg.eigvalsh(K)[-1] * L, atol=1e-4 * np.linalg.norm(K @ L)
    )


def test_units_of_the_features_do_not_matter():
    X, pairs, similar, ridge = pair_instance("wide")
    units = 10.0 ** np.random.default_rng(0).integers(-3, 4, X.shape[1])
    fits = [
        DMLEig(ridge=ridge, tol=1e-6).fit(scaled, pairs=pairs, similar=similar)
        for scaled in (X, X * units)
    ]
    assert fits[0].objective_ == pytest.approx(fits[1].objective_, rel=1e-5)


@pytest.mark.parametrize("n", [6, 9, 30])
def test_whitened_scatter_is_the_identity_and_the_way_back_keeps_distances(n, asarray, dtype):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 9)).astype(dtype) * 10.0 ** rng.integers(-2, 3, 9)
    X[:, 4] = 1.0
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(20)])
    whitened = whiten(asarray(X.astype(dtype)), pairs, 1e-3)
    r = whitened.points.shape[1]
    B = to_numpy(whitened.lift(asarray(np.eye(r))))
    scatter = similar_scatter(X.astype(dtype), pairs, 1e-3)
    np.testing.assert_allclose(B.T @ scatter @ B, np.eye(r), atol=1e-9)
    points, mapped = to_numpy(whitened.points), X.astype(dtype).astype(float) @ B
    np.testing.assert_allclose(points - points[0], mapped - mapped[0], atol=1e-6)
