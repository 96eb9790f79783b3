"""Neighbours by label against a brute-force oracle, ties, units; validation of pairs
and triplets.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist

from conemetric.arrays import to_numpy
from conemetric.constraints import (
    check_labels,
    check_pairs,
    check_similar,
    check_triplets,
    pairs_from_labels,
    triplets_from_labels,
)
from conemetric.neighbours import exact, neighbours_by_label


def oracle(X, y, k, same):
    d = cdist(X.astype(np.float64), X.astype(np.float64))
    d[(y[:, None] == y) != same] = np.inf
    np.fill_diagonal(d, np.inf)
    index = np.argsort(d.round(5), axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(d, index, axis=1) < np.inf, index, -1)


def data(seed, kind, dtype=np.float64, n=90):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    if kind == "grid":
        X = np.round(X)
    if kind == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    if kind == "far":
        # further out, float32 itself rounds neighbours into ties
        X = X + (1000 if dtype == np.float64 else 1)
    return X.astype(dtype), rng.integers(0, 4, n)


@pytest.mark.parametrize("kind", ["plain", "grid", "duplicates", "far"])
def test_neighbours_match_brute_force(kind, asarray, dtype, monkeypatch):
    X, y = data(0, kind, dtype)
    monkeypatch.setattr(exact, "BLOCK", 2000)  # several blocks
    targets, impostors = neighbours_by_label(asarray(X), y, 3, 5)
    assert_array_equal(to_numpy(targets), oracle(X, y, 3, True))
    assert_array_equal(to_numpy(impostors), oracle(X, y, 5, False))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(1e-6, 1e6),
    kind=st.sampled_from(["plain", "grid", "duplicates"]),
)
def test_units_do_not_reorder_neighbours(seed, scale, kind):
    X, y = data(seed, kind, n=40)
    for n_impostors in (3, "auto"):
        lists = (neighbours_by_label(points, y, 3, n_impostors) for points in (X, scale * X))
        for before, after in zip(*lists, strict=True):
            assert_array_equal(before, after)


@pytest.mark.parametrize("spread, expected", [(9.0, 3), (1.0, None), (0.0, 10)])
def test_auto_finds_the_impostors_nearer_than_the_farthest_target(asarray, spread, expected):
    """Enough for two points in three, at least 3, at most 10: apart, overlapping and
    mixed classes.
    """
    rng = np.random.default_rng(0)
    # and one class of a single point, which has no target
    y = np.append(np.repeat(np.arange(6), 30), 6)
    X = rng.normal(size=(181, 5)) + spread * rng.normal(size=(7, 5))[y]
    targets, impostors = neighbours_by_label(asarray(X), y, 3, "auto")
    d = cdist(X, X)
    radius = np.take_along_axis(d, oracle(X, y, 3, True), 1).max(1)
    nearer = np.sort(((d < radius[:, None]) & (y[:, None] != y)).sum(1)[:-1])
    enough = min(max(nearer[-60], 3), 10)
    assert impostors.shape[1] == enough
    assert enough == expected if expected else 3 < enough < 10
    assert_array_equal(to_numpy(impostors), oracle(X, y, enough, False))
    assert_array_equal(to_numpy(targets), oracle(X, y, 3, True))


def test_small_classes_are_padded(asarray):
    X, y = asarray(np.array([[0.0], [1.0], [2.0], [9.0]])), np.array([0, 0, 0, 1])
    targets, impostors = neighbours_by_label(X, y, 3, 2)
    assert_array_equal(to_numpy(targets), [[1, 2, -1], [0, 2, -1], [1, 0, -1], [-1, -1, -1]])
    assert_array_equal(to_numpy(impostors), [[3, -1], [3, -1], [3, -1], [2, 1]])
    assert len(triplets_from_labels(X, y, 3, 2)) == 6


def test_pairs_are_ordered_and_marked(asarray):
    X, y = data(1, "plain")
    pairs, similar = (to_numpy(part) for part in pairs_from_labels(asarray(X), y, 2, 3))
    assert len(pairs) == 90 * 5
    assert similar.sum() == 90 * 2
    assert_array_equal(y[pairs[:, 0]] == y[pairs[:, 1]], similar)


def test_triplets_put_target_before_impostor(asarray):
    X, y = data(2, "plain")
    i, j, k = to_numpy(triplets_from_labels(asarray(X), y, 2, 2)).T
    assert_array_equal(y[i], y[j])
    assert not np.any(y[i] == y[k])


def test_pairs_are_validated():
    assert check_pairs([[0, 1]], 2).dtype == np.int64
    with pytest.raises(ValueError, match="join a point to itself"):
        check_pairs([[1, 1]], 2)
    with pytest.raises(
        ValueError, match=r"pairs\[1\] = \[0, 2\]; use row numbers of X from 0 to 1"
    ):
        check_pairs([[0, 1], [0, 2]], 2)
    with pytest.raises(ValueError, match="one value for each of the 2 pairs"):
        check_similar([True], 2)
    with pytest.raises(ValueError, match="only 0 and 1"):
        check_similar([0, 2], 2)
    assert check_similar([0, 1], 2).dtype == bool
    assert_array_equal(check_triplets([[2.0, 1.0, 0.0]], 3), [[2, 1, 0]])


def test_no_neighbours_asked_for_is_an_error():
    with pytest.raises(ValueError, match="n_targets=0"):
        neighbours_by_label(np.eye(4), np.array([0, 0, 1, 1]), 0, 1)


def test_labels_may_be_strings():
    assert_array_equal(check_labels(np.array(["b", "a", "b", "a"]), 1), [1, 0, 1, 0])
