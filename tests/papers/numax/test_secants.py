"""Secant operator and scans against plain NumPy, on both libraries and in both precisions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist, squareform

from conemetric.core.arrays import to_numpy
from conemetric.papers.numax import secant_tiles
from conemetric.papers.numax.secants import AllSecants, ListedSecants


@pytest.fixture
def data(asarray, dtype):
    rng = np.random.default_rng(0)
    return (
        asarray(rng.normal(size=(23, 5)).astype(dtype)),
        rng.integers(0, 3, 23),
        asarray(rng.normal(size=(5, 2)).astype(dtype)),
    )


def excesses(X, L, y, delta):
    """Distance outside the bounds in units of delta of every pair, as a matrix; -inf on
    and below the diagonal.
    """
    X, L = to_numpy(X).astype(float), to_numpy(L).astype(float)
    squared, embedded = squareform(pdist(X, "sqeuclidean")), squareform(pdist(X @ L, "sqeuclidean"))
    ratio = embedded / np.where(squared > 0, squared, 1)
    low, high = 1 - delta - ratio, ratio - 1 - delta
    excess = np.maximum(low, high) if y is None else np.where(y[:, None] == y, high, low)
    return np.where(np.triu(np.ones_like(excess), 1) > 0, excess / delta, -np.inf)


def test_operator_passes_the_dot_test_and_the_dense_oracle(data, eps):
    X, _, L = data
    secants = AllSecants(X)
    keys = secants.sample(40, np.random.default_rng(1))
    A = secants.operator(keys)
    V = to_numpy(A.V).astype(float)
    assert_allclose(np.linalg.norm(V, axis=1), 1, rtol=eps)
    assert_allclose(to_numpy(A.gram()), (V @ V.T) ** 2, atol=eps)
    values = to_numpy(A.forward_factor(L))
    assert_allclose(to_numpy(A.forward(L @ L.T)), values, rtol=eps, atol=eps)
    u = A.forward_factor(L) - 1
    back = to_numpy(A.adjoint(u))
    assert_allclose(back, V.T @ (to_numpy(u)[:, None] * V), atol=eps * 40)
    assert_allclose((back * to_numpy(L @ L.T)).sum(), values @ to_numpy(u), rtol=eps)


@pytest.mark.parametrize("classes", [False, True])
def test_scan_finds_the_worst_pair_of_every_row(data, dtype, classes, monkeypatch):
    """With a tile of one column block per row, the scan holds every row's worst pair,
    and the worst of all.
    """
    X, y, L = data
    y, delta = y if classes else None, 0.1
    secants = AllSecants(X, y)
    scan = secants.scan(L, delta)
    expected = excesses(X, L, y, delta)
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    assert_allclose(scan.worst, expected.max(), rtol=tolerance)
    a, b = (to_numpy(end) for end in secants.ends(scan.keys))
    assert_allclose(to_numpy(scan.excess), expected[a, b], rtol=tolerance, atol=tolerance)
    assert (np.diff(to_numpy(scan.excess)) <= 0).all()
    violated_rows = np.flatnonzero((expected > 1e-3).any(1))
    assert set(violated_rows) <= set(a)
    # the same pairs when the square is cut into many tiles
    monkeypatch.setattr(secant_tiles, "CPU_TILE", (4, 7))
    monkeypatch.setattr(secant_tiles, "GPU_TILE", (4, 7))
    tiled = secants.scan(L, delta)
    assert_allclose(tiled.worst, scan.worst, rtol=tolerance)
    assert set(to_numpy(scan.keys).tolist()) <= set(to_numpy(tiled.keys).tolist())


def test_scan_of_a_subset_sees_its_pairs_only(data):
    X, _, L = data
    secants = AllSecants(X)
    points = secants.ends(secants.sample(10**6, np.random.default_rng(0)))[1][:1] * 0 + 3
    assert secants.scan(L, 0.1, points=points).worst == 0  # one point has no pair
    chosen = np.array([20, 3, 11])
    scan = secants.scan(L, 1e-6, points=_like(points, chosen))
    a, b = (to_numpy(end) for end in secants.ends(scan.keys))
    assert (a < b).all()
    assert set(np.concatenate([a, b])) == set(chosen)


def _like(points, values):
    return np.asarray(values) if isinstance(points, np.ndarray) else points.new_tensor(values)


def test_near_duplicates_are_counted_and_have_no_secant(asarray):
    X = np.random.default_rng(0).normal(size=(10, 3))
    X[4] = X[2]
    X[7] = X[5] + 1e-9
    secants = AllSecants(asarray(X))
    scan = secants.scan(asarray(np.zeros((3, 1))), 0.5)
    assert scan.n_near_duplicates == 2
    assert len(secants.sample(10**6, np.random.default_rng(0))) == 43
    listed = ListedSecants(asarray(X), [[2, 4], [0, 1], [5, 7]])
    assert (listed.n_pairs, listed.n_near_duplicates) == (1, 2)


def test_listed_scan_matches_the_pairs(asarray):
    rng = np.random.default_rng(0)
    X, L, pairs, similar = (
        rng.normal(size=(9, 4)),
        rng.normal(size=(4, 2)),
        rng.integers(0, 9, (30, 2)),
        rng.random(30) < 0.5,
    )
    pairs[:, 1] = np.where(pairs[:, 1] == pairs[:, 0], (pairs[:, 0] + 1) % 9, pairs[:, 1])
    secants = ListedSecants(asarray(X), pairs, similar)
    d = X[pairs[:, 0]] - X[pairs[:, 1]]
    ratio = ((d @ L) ** 2).sum(1) / (d**2).sum(1)
    expected = np.where(similar, ratio - 1.2, 0.8 - ratio) / 0.2
    scan = secants.scan(asarray(L), 0.2)
    assert_allclose(to_numpy(scan.excess), np.sort(expected[expected > 0])[::-1])
    lower, upper = (to_numpy(bound) for bound in secants.bounds(secants.sample(99, rng), 0.2))
    assert_array_equal(np.isinf(lower), similar)
    assert_array_equal(np.isinf(upper), ~similar)


def test_a_scan_may_stop_when_it_has_enough_and_go_on_later(data, monkeypatch):
    monkeypatch.setattr(secant_tiles, "CPU_TILE", (8, 8))
    monkeypatch.setattr(secant_tiles, "GPU_TILE", (8, 8))
    X, _, L = data
    secants = AllSecants(X)
    everything = secants.scan(L, 1e-3)
    assert everything.next_tile is None
    tile, keys = 0, []
    for _ in range(200):
        part = secants.scan(L, 1e-3, first_tile=tile, enough=(1, 0.0))
        keys.extend(to_numpy(part.keys).tolist())
        tile = part.next_tile
        if tile in (0, None):
            break
    assert set(keys) == set(to_numpy(everything.keys).tolist())
    assert len(part.keys) < len(everything.keys)


def test_all_pairs_are_counted_and_sampled_once():
    secants = AllSecants(np.random.default_rng(0).normal(size=(7, 2)))
    assert secants.n_pairs == 21
    assert len(np.unique(secants.sample(21, np.random.default_rng(0)))) == 21
