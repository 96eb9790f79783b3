"""Spectral operations against full decompositions, on every path, library and precision."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse.linalg import aslinearoperator

from conemetric.core import spectral
from conemetric.core.arrays import to_numpy


def symmetric(n, positive, seed=0):
    """A matrix with ``positive`` positive eigenvalues, the rest negative, all of
    modulus at least 0.1.
    """
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.concatenate([rng.uniform(0.1, 3, positive), -rng.uniform(0.1, 3, n - positive)])
    return (Q * values) @ Q.T


def positive_part(S):
    values, vectors = np.linalg.eigh(S)
    return (vectors * np.clip(values, 0, None)) @ vectors.T


@pytest.mark.parametrize("positive", [0, 1, 7, 20])
def test_positive_part(positive, asarray, dtype, eps):
    S = symmetric(20, positive).astype(dtype)
    part = spectral.psd_split(asarray(S))
    P = positive_part(S.astype(np.float64))
    assert part.rank == positive
    assert_allclose(to_numpy(part.matrix()), P, atol=10 * eps)
    assert_allclose(part.squared_norm, (P**2).sum(), rtol=10 * eps)
    assert np.all(np.diff(to_numpy(part.values)) <= 0)
    assert_allclose(to_numpy(part.times(3.0).matrix()), 3 * P, atol=30 * eps)
    assert_allclose(to_numpy(part.times(3.0).tail), 3 * to_numpy(part.tail))
    alone = spectral.positive_values(asarray(S))
    assert alone.rank == positive
    assert_allclose(alone.squared_norm, part.squared_norm, rtol=10 * eps)
    assert_allclose((to_numpy(alone.tail) ** 2).sum(), (to_numpy(part.tail) ** 2).sum(), rtol=eps)


@pytest.mark.parametrize("guess", [1, 5, 12])
def test_the_partial_path_gives_the_same_part(guess, asarray, monkeypatch):
    """Also when the guess is too low, and when it is so high that the full path takes over."""
    monkeypatch.setattr(spectral, "PARTIAL_FROM", 50)
    S = symmetric(120, 5)
    part = spectral.psd_split(asarray(S), rank_guess=guess)
    assert part.rank == 5
    assert_allclose(to_numpy(part.matrix()), positive_part(S), atol=1e-6)


@pytest.mark.parametrize("n", [12, 400])
def test_leading_eigenpair(n, asarray, dtype):
    S = symmetric(n, 3).astype(dtype)
    value, vector = spectral.leading_eigenpair(asarray(S))
    vector = to_numpy(vector)
    assert value == pytest.approx(np.linalg.eigvalsh(S.astype(np.float64))[-1], rel=1e-4)
    assert np.linalg.norm(vector) == pytest.approx(1, rel=1e-4)
    assert np.linalg.norm(S @ vector - value * vector) < 3e-2 * abs(value)


def test_leading_eigenpairs_of_a_linear_operator_and_from_a_start():
    S = symmetric(80, 6)
    values = np.linalg.eigvalsh(S)[::-1]
    assert_allclose(spectral.leading_eigenpairs(aslinearoperator(S), 3)[0], values[:3])
    _, start = spectral.leading_eigenpair(S)
    assert spectral.leading_eigenpair(aslinearoperator(S), start)[0] == pytest.approx(values[0])


def test_factor_reveals_rank_and_fixes_signs(asarray, dtype, eps):
    rng = np.random.default_rng(1)
    F = rng.normal(size=(9, 4)).astype(dtype)
    L = to_numpy(spectral.factor(asarray(F @ F.T)))
    assert L.shape == (9, 4)
    assert_allclose(L @ L.T, F @ F.T, atol=100 * eps)
    other = to_numpy(spectral.canonical_factor(asarray(np.hstack([F, np.zeros((9, 1), dtype)]))))
    assert_allclose(other, L, atol=1000 * eps)
    assert np.all(L[abs(L).argmax(axis=0), range(4)] > 0)
    assert np.all(np.diff((L**2).sum(axis=0)) <= 0)


def test_the_zero_matrix_has_rank_zero(asarray):
    assert spectral.factor(asarray(np.zeros((3, 3)))).shape == (3, 0)
    assert spectral.psd_split(asarray(np.zeros((3, 3)))).rank == 0


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_a_factor_of_any_size_keeps_its_rank(asarray, size):
    L = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    factor = (
        to_numpy(spectral.canonical_factor(asarray(L * np.float32(size)))).astype(np.float64) / size
    )
    assert_allclose(factor @ factor.T, L.astype(np.float64) @ L.T, atol=1e-5)


@pytest.mark.parametrize("positive", [0, 1, 7, 19, 20])
@pytest.mark.parametrize("spread", [1.0, 1e-1, 1e-3])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-6), ("float64", 2e-10)])
def test_the_sign_gives_the_same_part(positive, spread, dtype, error):
    """Of eigenvalues over six decades, and of a matrix that is only positive or negative."""
    torch = pytest.importorskip("torch")
    S = symmetric(20, positive)
    scale = np.geomspace(1, spread, 20)
    S = torch.as_tensor(scale[:, None] * S * scale, dtype=getattr(torch, dtype))
    part = spectral.by_sign(S)
    P = positive_part(S.double().numpy())
    size = np.linalg.norm(S)
    assert part.factor.dtype == S.dtype
    assert_allclose(part.matrix(), P, atol=error * size)
    assert_allclose(part.squared_norm, (P**2).sum(), rtol=1e-10, atol=1e-13 * size**2)


def test_where_the_sign_is_in_doubt_eigenvalues_decide():
    torch = pytest.importorskip("torch")
    S = torch.diag(torch.tensor([1.0, -1.0, 1.001 * 2**0.5 * spectral.NEGATIVE_RTOL[4]]))
    assert spectral.by_sign(S) is None
    assert spectral.by_sign(torch.zeros(3, 3)) is None


def test_the_host_decomposes_what_a_device_cannot(monkeypatch):
    torch = pytest.importorskip("torch")
    S = torch.as_tensor(symmetric(5, 2))
    expected = spectral.eigh(S)

    def fails(S):
        raise torch.linalg.LinAlgError

    monkeypatch.setattr(torch.linalg, "eigh", fails)
    for part, wanted in zip(spectral.eigh(S), expected, strict=True):
        assert_allclose(abs(part.numpy()), abs(wanted.numpy()), atol=1e-12)


@pytest.mark.parametrize("D", [8, 520])
def test_all_eigenpairs_in_the_precision_asked_for(D, dtype, eps):
    rng = np.random.default_rng(0)
    S = rng.normal(size=(D, D)).astype(dtype)
    S = S + S.T
    values, vectors = spectral.eigh(S)
    assert values.dtype == vectors.dtype == dtype
    assert (np.diff(values) <= 0).all()
    size = abs(values).max()
    assert_allclose(vectors * values @ vectors.T, S, atol=10 * D**0.5 * eps * size)
    assert_allclose(vectors.T @ vectors, np.eye(D), atol=10 * D**0.5 * eps)
