"""The operator on sparse rows against the same rows, dense."""

import numpy as np
import pytest
from instances import random_triplets
from numpy.testing import assert_allclose
from scipy import sparse

from conemetric.core import slices
from conemetric.core.sparse_rows import SparseRows
from conemetric.engine.operators import from_pairs, from_triplets
from conemetric.engine.operators.span import in_span


def rows(n, D, dtype=np.float64, seed=0):
    """About a fifth of the entries, with an empty row, an empty and two full columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.uniform(size=(n, D)) < 0.2)
    X[1] = 0
    X[:, 2] = 0
    X[:, 3] = 7 + rng.normal(size=n)
    X[:, 4] = 3
    return X.astype(dtype)


@pytest.fixture(params=[(30, 12), (9, 40)], ids=["tall", "wide"])
def instance(request, dtype):
    X = rows(*request.param, dtype)
    rng = np.random.default_rng(1)
    return X, random_triplets(rng, len(X), 60), rng


@pytest.mark.parametrize("mapped", [False, True])
def test_forward_and_adjoint_match_the_dense_operator(instance, mapped, dtype, eps, monkeypatch):
    monkeypatch.setattr(slices, "MAX_HELD", 50)  # one column of a factor at a time
    X, T, rng = instance
    points, dense = SparseRows(sparse.csr_array(X)), X
    if mapped:
        B = rng.normal(size=(X.shape[1], 7)).astype(dtype)
        points, dense = SparseRows(points.matrix, B), X @ B
    ours, oracle = from_triplets(points, T), from_triplets(dense, T)
    r = dense.shape[1]
    M = rng.normal(size=(r, r)).astype(dtype)
    L, u = rng.normal(size=(r, 3)).astype(dtype), rng.normal(size=len(T)).astype(dtype)
    for ask in (
        lambda A: A.forward(M + M.T),
        lambda A: A.forward_factor(L),
        lambda A: A.adjoint(u),
        lambda A: A.subset(np.array([5, 2, 40])).forward_factor(L),
        lambda A: A.pair_lengths,
    ):
        expected = ask(oracle)
        assert ask(ours).dtype == dtype
        assert_allclose(ask(ours), expected, atol=10 * eps * abs(expected).max())
    assert ours.astype(np.float64).forward_factor(L.astype(np.float64)).dtype == np.float64


def test_no_multiplier_no_matrix(instance):
    X, T, _ = instance
    A = from_triplets(SparseRows(sparse.csr_array(X)), T)
    assert not A.adjoint(A.empty_constraint_vector()).any()


def test_features_that_are_never_zero_keep_their_digits():
    X = rows(20, 10)
    X[:, 3] = 1e8 + np.random.default_rng(0).normal(size=20)
    pairs = np.array([[0, 1], [5, 9], [3, 19]])
    points = SparseRows(sparse.csr_array(X))
    expected = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(1)
    assert_allclose(from_pairs(points, pairs).forward_factor(np.eye(10)), expected, rtol=1e-7)
    assert_allclose(points.variances(), X.var(0), rtol=1e-7, atol=1e-12)
    wide = rows(6, 30)
    wide[:, 3] = 1e8 + np.arange(6)
    span = in_span(SparseRows(sparse.csr_array(wide)))
    differences = span.points[:, None] - span.points
    assert_allclose(
        (differences**2).sum(2), ((wide[:, None] - wide) ** 2).sum(2), rtol=1e-7, atol=1e-10
    )


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_any_sparse_container(container):
    X = rows(8, 12)
    assert_allclose(SparseRows(container(X)) @ np.eye(12), X)
    assert_allclose(SparseRows(container(X))[[3, 0]].toarray(), X[[3, 0]])


def test_repeated_entries_and_explicit_zeros():
    once = sparse.csr_array(([3.0, 0.0, 1.0], [2, 0, 1], [0, 1, 3]), (2, 3))
    twice = sparse.csr_array(([1.0, 2.0, 0.0, 1.0], [2, 2, 0, 1], [0, 2, 4]), (2, 3))
    kept = twice.copy()
    for matrix in (once, twice):
        points = SparseRows(matrix)
        assert_allclose(points.gram(), [[9, 0], [0, 1]])
        assert_allclose(points.squared_distances(np.array([0]), np.array([1])), [10])
        assert_allclose(points.variances(), np.var([[0, 0, 3], [0, 1, 0]], axis=0))
    assert_allclose(twice.data, kept.data)  # the caller's matrix is as it was


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_indices_of_either_width(index):
    X = sparse.csr_array(rows(9, 40))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    T = random_triplets(np.random.default_rng(0), 9, 20)
    A = from_triplets(SparseRows(X), T)
    u = np.ones(20)
    assert_allclose(A.adjoint(u), from_triplets(X.toarray(), T).adjoint(u), atol=1e-12)
    assert_allclose(A.pair_lengths, from_triplets(X.toarray(), T).pair_lengths)


def test_span_of_sparse_rows(dtype, eps):
    X = rows(9, 40, dtype)
    X[7] = X[5]
    span = in_span(SparseRows(sparse.csr_array(X)))
    assert span.points.dtype == np.float64
    assert span.points.shape == (9, 7)
    Q = span.lift(np.eye(7))
    assert_allclose(Q.T @ Q, np.eye(7), atol=1e-10)
    assert_allclose((span.points - span.points[0]) @ Q.T, X - X[0], atol=10 * eps)


def test_more_rows_than_features_stay_sparse():
    points = SparseRows(sparse.csr_array(rows(30, 12)))
    assert in_span(points).points is points
