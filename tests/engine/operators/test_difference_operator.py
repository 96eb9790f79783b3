"""The operator against dense matrices, its adjoint against the dot test, in every
library and precision.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import KINDS, random_triplets, triplet_instance, triplet_matrices
from numpy.testing import assert_allclose
from scipy import sparse

from conemetric.core import threads
from conemetric.core.arrays import to_numpy
from conemetric.engine.operators import MatrixOperator, from_pairs, from_triplets
from conemetric.engine.operators import numpy_pairs as numpy_operator


def symmetric(rng, D, dtype):
    M = rng.normal(size=(D, D))
    return ((M + M.T) / 2).astype(dtype)


def instance(kind, seed, dtype):
    X, T = triplet_instance(kind, seed)
    return X.astype(dtype), T, np.random.default_rng(seed)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_and_adjoint_match_dense_matrices(kind, seed, asarray, dtype, eps):
    X, T, rng = instance(kind, seed, dtype)
    A = triplet_matrices(X.astype(np.float64), T)
    operator = from_triplets(asarray(X), T)
    M, u = symmetric(rng, X.shape[1], dtype), rng.normal(size=len(T)).astype(dtype)
    L = rng.normal(size=(X.shape[1], 3)).astype(dtype)
    size = abs(A).max()
    assert_allclose(
        to_numpy(operator.forward(asarray(M))), np.einsum("mij,ij->m", A, M), atol=eps * size * 10
    )
    assert_allclose(
        to_numpy(operator.adjoint(asarray(u))), np.einsum("mij,m->ij", A, u), atol=eps * size * 10
    )
    assert_allclose(
        to_numpy(operator.forward_factor(asarray(L))),
        np.einsum("mij,ij->m", A, L @ L.T),
        atol=eps * size * 10,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_half_of_a_symmetric_product(kind, seed, dtype, eps, monkeypatch):
    """What is done for many features, done for few: also where points have no multiplier."""
    X, T, rng = instance(kind, seed, dtype)
    operator, A = from_triplets(X, T), triplet_matrices(X.astype(np.float64), T)
    for share in (1.0, 0.2):
        u = (rng.normal(size=len(T)) * (rng.uniform(size=len(T)) < share)).astype(dtype)
        with monkeypatch.context() as patch:
            patch.setattr(numpy_operator, "SYMMETRIC_FROM", 1)
            S = operator.adjoint(u)
        assert_allclose(S, np.einsum("mij,m->ij", A, u), atol=eps * abs(A).max() * 10)
        assert (S == S.T).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(3, 30),
    D=st.integers(1, 9),
    m=st.integers(1, 60),
    shift=st.floats(-1e3, 1e3),
)
def test_dot_test(seed, n, D, m, shift):
    """<A(M), u> = <M, A*(u)>, also far from the origin."""
    rng = np.random.default_rng(seed)
    operator = from_triplets(rng.normal(size=(n, D)) + shift, random_triplets(rng, n, m))
    M, u = symmetric(rng, D, np.float64), rng.normal(size=m)
    left, right = operator.forward(M) @ u, (M * operator.adjoint(u)).sum()
    size = abs(operator.forward(M)) @ abs(u) + 1
    assert abs(left - right) <= 1e-10 * size


@pytest.mark.parametrize("kind", KINDS)
def test_subset_is_the_operator_of_those_constraints(kind, seed, asarray, dtype, eps):
    X, T, rng = instance(kind, seed, dtype)
    operator = from_triplets(asarray(X), T)
    index = rng.choice(len(T), size=len(T) // 2, replace=False)
    part = operator.subset(index)
    M = asarray(symmetric(rng, X.shape[1], dtype))
    assert part.n_constraints == len(index)
    assert part.n_pairs <= operator.n_pairs
    assert_allclose(
        to_numpy(part.forward(M)), to_numpy(operator.forward(M))[index], rtol=eps, atol=100 * eps
    )
    u = rng.normal(size=len(index)).astype(dtype)
    whole = np.zeros(len(T), dtype)
    whole[index] = u
    assert_allclose(
        to_numpy(part.adjoint(asarray(u))),
        to_numpy(operator.adjoint(asarray(whole))),
        atol=200 * eps,
    )


def test_work_is_done_once_per_unordered_pair(asarray):
    X = asarray(np.arange(8.0).reshape(4, 2))
    operator = from_triplets(X, np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 1, 2]]))
    assert operator.n_pairs == 3
    assert to_numpy(operator.a).dtype == np.int32


def test_pairs_with_weights(asarray):
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(9, 4)), np.array([[0, 1], [3, 2], [1, 0], [8, 4]])
    d = X[pairs[:, 0]] - X[pairs[:, 1]]
    M, L = symmetric(rng, 4, np.float64), rng.normal(size=(4, 2))
    q = np.einsum("pi,ij,pj->p", d, M, d)
    assert_allclose(to_numpy(from_pairs(asarray(X), pairs).forward(asarray(M))), q, atol=1e-12)
    scale = rng.uniform(size=4)
    assert_allclose(
        to_numpy(from_pairs(asarray(X), pairs, scale).forward(asarray(M))), scale * q, atol=1e-12
    )
    weights = sparse.csr_array(rng.uniform(size=(6, 4)) * (rng.uniform(size=(6, 4)) < 0.5))
    combined = from_pairs(asarray(X), pairs, weights)
    assert_allclose(to_numpy(combined.forward(asarray(M))), weights @ q, atol=1e-12)
    u = rng.normal(size=6)
    expected = np.einsum("p,pi,pj->ij", weights.T @ u, d, d)
    assert_allclose(to_numpy(combined.adjoint(asarray(u))), expected, atol=1e-12)
    assert_allclose(
        to_numpy(combined.forward_factor(asarray(L))), weights @ ((d @ L) ** 2).sum(1), atol=1e-12
    )


def test_precision_can_be_changed(asarray):
    X, T, _ = instance("random", 0, np.float32)
    operator = from_triplets(asarray(X), T)
    double = operator.astype(operator.xp.float64)
    assert to_numpy(double.X).dtype == np.float64
    assert operator.astype(operator.dtype) is operator


def test_matrix_operator_dense_sparse_and_list_agree(asarray):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 4, 4))
    M, u = symmetric(rng, 4, np.float64), rng.normal(size=5)
    expected = np.einsum("mij,ij->m", A, M)
    adjoint = np.einsum("mij,m->ij", (A + A.swapaxes(1, 2)) / 2, u)
    for operator, give in (
        (MatrixOperator(asarray(A)), asarray),
        (MatrixOperator([sparse.csr_array(a) for a in A]), np.asarray),
    ):
        assert_allclose(to_numpy(operator.forward(give(M))), expected, atol=1e-12)
        assert_allclose(to_numpy(operator.adjoint(give(u))), adjoint, atol=1e-12)


def test_threads_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(400, 33)), random_triplets(rng, 400, 2000)
    operator, L, u = from_triplets(X, T), rng.normal(size=(33, 20)), rng.normal(size=2000)
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    results = []
    for count in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        results.append((operator.forward_factor(L), operator.pair_adjoint(operator.distribute(u))))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_points_without_a_multiplier_add_nothing(share, asarray, dtype, eps):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(60, 5)).astype(dtype), random_triplets(rng, 60, 100)
    u = (rng.normal(size=100) * (rng.uniform(size=100) < share)).astype(dtype)
    expected = np.einsum("mij,m->ij", triplet_matrices(X.astype(np.float64), T), u)
    found = to_numpy(from_triplets(asarray(X), T).adjoint(asarray(u)))
    assert_allclose(found, expected, atol=20 * eps)


def test_asking_for_sizes_changes_nothing(asarray):
    """A triplet of equal pairs: the sizes count both, and no other answer knows of them."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(6, 3)), np.array([[0, 1, 1], [0, 1, 2], [3, 4, 5], [2, 5, 5]])
    operator = from_triplets(asarray(X), T)
    u = asarray(rng.uniform(size=4))
    before = to_numpy(operator.adjoint(u))
    sizes = to_numpy(operator.row_sizes)
    lengths = [((X[T[:, 0]] - X[T[:, k]]) ** 2).sum(1) for k in (1, 2)]
    np.testing.assert_allclose(sizes, sum(lengths))
    for same in (operator, operator.subset(asarray(np.arange(4)))):
        np.testing.assert_allclose(to_numpy(same.adjoint(u)), before)
    single = operator.astype(operator.xp.float32)
    narrow = single.constraint_vector(u)
    np.testing.assert_allclose(to_numpy(single.adjoint(narrow)), before, rtol=1e-4, atol=1e-5)
