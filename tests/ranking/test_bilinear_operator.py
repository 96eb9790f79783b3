"""The bilinear operator against dense sums, its adjoint against the dot test, in every
library and precision.
"""

import numpy as np
import pytest
from instances import JUDGED_KINDS, judged_instance
from numpy.testing import assert_allclose, assert_array_equal

from conemetric.core import threads
from conemetric.core.arrays import to_numpy
from conemetric.ranking.bilinear_operator import from_comparisons


def dense(Q, D, comparisons):
    """A_r = q (b - w)' of every comparison."""
    i, j, k = comparisons.T
    return np.einsum("mi,mj->mij", Q[i], D[j] - D[k])


@pytest.mark.parametrize("kind", JUDGED_KINDS)
def test_forward_and_adjoint_match_dense_matrices(kind, seed, asarray, dtype, eps):
    Q, D, comparisons = judged_instance(kind, seed, dtype)
    A = dense(Q.astype(float), D.astype(float), comparisons)
    rng = np.random.default_rng(seed)
    W = rng.normal(size=A.shape[1:]).astype(dtype)
    u = rng.normal(size=len(comparisons)).astype(dtype)
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    tolerance = 10 * eps * float(max(abs(A).max(), abs(Q).max() * abs(D).max()))
    forward, adjoint = operator.forward(asarray(W)), operator.adjoint(asarray(u))
    assert_allclose(to_numpy(forward), np.einsum("mij,ij->m", A, W), atol=tolerance)
    assert_allclose(to_numpy(adjoint), np.einsum("mij,m->ij", A, u), atol=tolerance)
    left, right = float(to_numpy(forward) @ u), float((W * to_numpy(adjoint)).sum())
    assert left == pytest.approx(right, abs=tolerance * len(u))


def test_subset_and_precision(asarray):
    Q, D, comparisons = judged_instance("one direction", 0, np.float32)
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    double = operator.astype(operator.xp.float64)
    assert to_numpy(double.queries).dtype == to_numpy(double.documents).dtype == np.float64
    assert double.astype(operator.xp.float64) is double
    index = np.array([4, 1, 7])
    part, W = double.subset(index), asarray(np.random.default_rng(0).normal(size=(Q.shape[1],) * 2))
    assert part.n_constraints == 3
    assert part.n_pairs <= double.n_pairs
    expected = to_numpy(double.forward(W))[index]
    assert_allclose(to_numpy(part.forward(W)), expected, atol=1e-6)


def test_work_is_done_once_per_pair_and_on_what_is_compared_only(asarray):
    Q, D = np.eye(4), np.arange(40.0).reshape(10, 4) ** 0.5
    comparisons = np.array([[2, 1, 7], [2, 3, 7], [0, 1, 7], [2, 1, 3]])
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    assert operator.n_pairs == 5
    assert tuple(operator.queries.shape) == (2, 4)
    assert tuple(operator.documents.shape) == (3, 4)


def test_far_documents_lose_no_digits(asarray):
    """Only differences of documents count, so a common shift may not cost precision."""
    Q, D, comparisons = judged_instance("plain", 0, np.float64)
    shifted = from_comparisons(asarray(Q), asarray(D + 1e6), comparisons)
    W = asarray(np.random.default_rng(0).normal(size=(Q.shape[1],) * 2))
    expected = from_comparisons(asarray(Q), asarray(D), comparisons).forward(W)
    assert_allclose(to_numpy(shifted.forward(W)), to_numpy(expected), atol=1e-7)


def test_blocks_and_threads_give_the_same_bits(asarray, monkeypatch):
    rng = np.random.default_rng(0)
    Q, D = rng.normal(size=(60, 17)), rng.normal(size=(80, 17))
    comparisons = np.column_stack([rng.integers(0, 60, 900), rng.integers(0, 80, (900, 2))])
    W, u = asarray(rng.normal(size=(17, 17))), asarray(rng.normal(size=900))

    def both():
        operator = from_comparisons(asarray(Q), asarray(D), comparisons)
        return to_numpy(operator.forward(W)), to_numpy(operator.adjoint(u))

    expected = both()
    monkeypatch.setattr(threads, "MIN_PARALLEL_WORK", 0)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    if pytest.importorskip("torch"):
        monkeypatch.setattr("conemetric.core.slices.MAX_HELD", 100)
    for first, second in zip(expected, both(), strict=True):
        assert_array_equal(first, second)
