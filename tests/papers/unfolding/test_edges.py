"""The edge operator against dense oracles, in every library and precision."""

import numpy as np
import pytest

from conemetric.core.arrays import to_numpy
from conemetric.engine.operators import from_pairs
from conemetric.papers.unfolding.edges import EdgeOperator, ReducedEdges


def random_graph(seed, n=15, m=40):
    rng = np.random.default_rng(seed)
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    return pairs[rng.choice(len(pairs), m, replace=False)], rng


@pytest.fixture(params=["edges", "reduced"])
def operator(request, asarray, dtype):
    edges, rng = random_graph(0)
    full = EdgeOperator(edges, 15, asarray(np.zeros(1, dtype)))
    if request.param == "edges":
        return full
    return ReducedEdges(full, asarray(np.linalg.qr(rng.normal(size=(15, 6)))[0].astype(dtype)))


def dense(operator):
    """The same constraints by the general operator, on the identity or on the basis."""
    full = operator if isinstance(operator, EdgeOperator) else operator.edges
    X = np.eye(15) if operator is full else to_numpy(operator.Q).astype(np.float64)
    return from_pairs(X, full.edges)


def test_adjoint_of_forward(operator, asarray, dtype, eps):
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(operator.n_features, 3)).astype(dtype)
    u = rng.normal(size=operator.n_constraints).astype(dtype)
    left = float(to_numpy(operator.forward(asarray(Y @ Y.T))) @ u)
    right = float((to_numpy(operator.adjoint(asarray(u))) * (Y @ Y.T)).sum())
    assert left == pytest.approx(right, rel=eps, abs=100 * eps)


def test_agrees_with_the_general_operator(operator, asarray, dtype, eps):
    rng = np.random.default_rng(2)
    Y = rng.normal(size=(operator.n_features, 4)).astype(dtype)
    u = rng.normal(size=operator.n_constraints).astype(dtype)
    oracle = dense(operator)
    scale = 10 * eps
    np.testing.assert_allclose(
        to_numpy(operator.forward_factor(asarray(Y))),
        oracle.forward_factor(Y),
        atol=scale,
        rtol=scale,
    )
    np.testing.assert_allclose(
        to_numpy(operator.forward(asarray(Y @ Y.T))),
        oracle.forward_factor(Y),
        atol=5 * scale,
        rtol=scale,
    )
    np.testing.assert_allclose(
        to_numpy(operator.adjoint(asarray(u))), oracle.adjoint(u.astype(float)), atol=scale
    )
    product = oracle.adjoint(u.astype(float)) @ Y
    np.testing.assert_allclose(
        to_numpy(operator.adjoint_product(asarray(u), asarray(Y))), product, atol=5 * scale
    )
    assert operator.adjoint(asarray(u)).dtype == asarray(u).dtype


@pytest.mark.parametrize("operator", ["edges"], indirect=True)
def test_subset_and_astype(operator, asarray):
    Y = np.random.default_rng(3).normal(size=(operator.n_features, 2))
    exact = operator.astype(operator.xp.float64)
    some = exact.subset(np.array([4, 0, 7]))
    np.testing.assert_allclose(
        to_numpy(some.forward_factor(asarray(Y))),
        to_numpy(exact.forward_factor(asarray(Y)))[[4, 0, 7]],
        rtol=1e-12,
    )


def test_sparse_laplacian_is_the_adjoint():
    edges, rng = random_graph(4)
    operator, u = EdgeOperator(edges, 15, np.zeros(1)), rng.normal(size=len(edges))
    np.testing.assert_allclose(
        operator.sparse_adjoint(u).toarray(), operator.adjoint(u), atol=1e-12
    )


@pytest.mark.parametrize("reduced", [False, True])
def test_smoother_is_an_inverse(asarray, reduced):
    edges, rng = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [3, 4]]), np.random.default_rng(0)
    operator = EdgeOperator(edges, 5, asarray(np.zeros(1)))
    if reduced:
        operator = ReducedEdges(operator, asarray(np.linalg.qr(rng.normal(size=(5, 3)))[0]))
    weights, Y = rng.uniform(1, 2, 5), rng.normal(size=(operator.n_features, 2))
    smooth = operator.smoother(asarray(weights), 0.1)
    A = to_numpy(operator.adjoint(asarray(weights)))
    expected = np.linalg.solve(A / A.diagonal().mean() + 0.1 * np.eye(len(A)), Y)
    np.testing.assert_allclose(to_numpy(smooth(asarray(Y))), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("which", [None, slice(3, 20)])
def test_a_move_changes_squared_lengths_to_first_order(asarray, damping, which):
    edges, rng = random_graph(2)
    operator = EdgeOperator(edges, 15, asarray(np.zeros(1, np.float64)))
    L, change = rng.normal(size=(15, 6)), 1e-3 * rng.normal(size=len(edges))
    used = slice(None) if which is None else which
    ends = np.zeros((len(edges), 15))
    ends[np.arange(len(edges)), edges[:, 0]], ends[np.arange(len(edges)), edges[:, 1]] = 1, -1
    ends = ends[used]
    H = 2 * (ends @ ends.T) * (ends @ L @ (ends @ L).T)
    y = np.linalg.solve(H + damping * np.diag(np.diag(H)), change[used])
    found = to_numpy(operator.moved(asarray(L), asarray(change), which, damping))
    np.testing.assert_allclose(found - L, (ends.T * y) @ ends @ L, rtol=1e-5, atol=1e-8)
