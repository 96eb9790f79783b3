"""LMNN-eig's optimum and bounds against an independent conic solver, in the coordinates
of the paper's program (7).
"""

import numpy as np
import pytest
from cases import pairs_of
from instances import KINDS, triplet_instance, triplet_matrices
from oracles import lmnn_eig_optimum

from conemetric import LMNNEig
from conemetric.engine.operators import from_triplets
from conemetric.engine.operators.whitening import similar_scatter, whiten
from conemetric.papers.eigenvalue.program import LMNNEigProgram

RIDGES = {"wide": 1e-4, "collinear": 1e-4}  # the conic solver needs a larger one there


@pytest.mark.cases(6)
@pytest.mark.parametrize("gamma", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_and_bounds_agree_with_a_conic_solver(kind, gamma, seed):
    X, T = triplet_instance(kind, seed)
    ridge = RIDGES.get(kind, 1e-8)
    metric = LMNNEig(gamma, tol=1e-5, ridge=ridge).fit(X, triplets=T)
    scatter = similar_scatter(X, np.unique(T[:, :2], axis=0), ridge)
    optimum = lmnn_eig_optimum(X, T, gamma, scatter)
    slack = 1e-6 * optimum
    assert metric.objective_ == pytest.approx(optimum, rel=1.1e-5)
    assert metric.certificate_.relative_gap <= 1e-5
    assert np.all(metric.history_["dual"] <= optimum + slack)
    assert np.all(metric.history_["primal"] >= optimum - slack)
    M = metric.get_mahalanobis_matrix()
    margins = np.einsum("rij,ij->r", triplet_matrices(X, T), M)
    value = (1 - gamma) * np.clip(1 - margins, 0, None).sum() + gamma * np.trace(scatter @ M)
    assert value == pytest.approx(metric.objective_, rel=1e-6)


@pairs_of(kind=KINDS, gamma=(0.05, 0.5, 0.95), asarray=True, dtype=True)
def test_any_points_certify(kind, gamma, seed, asarray, dtype):
    X, T = triplet_instance(kind, seed)
    X, ridge = X.astype(dtype), RIDGES.get(kind, 1e-8)
    rng = np.random.default_rng(seed)
    similar = np.unique(T[:, :2], axis=0)
    optimum = lmnn_eig_optimum(X.astype(float), T, gamma, similar_scatter(X, similar, ridge))
    operator = from_triplets(whiten(asarray(X), similar, ridge).points, T)
    problem = LMNNEigProgram(operator, gamma, asarray(X).dtype)
    L = asarray((0.3 * rng.normal(size=(operator.n_features, 3))).astype(dtype))
    u = asarray(rng.normal(size=len(T)).astype(dtype))  # negative entries count as zero
    bounds = problem.certify(L, u)
    assert bounds.dual <= optimum * (1 + 1e-6) <= bounds.primal * (1 + 2e-6)
