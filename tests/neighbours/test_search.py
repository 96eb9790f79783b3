"""Neighbours by label: units, numbers found, who answers for which library."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.spatial.distance import cdist

from conemetric.core.arrays import is_torch, to_numpy
from conemetric.neighbours.ranks import LabelledRows, SearchQuery
from conemetric.neighbours.search import exact_search, neighbours_by_label, sample_classes

from . import oracle


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.floats(1e-6, 1e6),
    kind=st.sampled_from(["plain", "grid", "duplicates"]),
)
def test_units_do_not_reorder_neighbours(seed, scale, kind):
    X, y = oracle.labelled(kind, seed, np.float64, n=40)
    for n_impostors in (3, "auto"):
        before = neighbours_by_label(X, y, 3, n_impostors)
        after = neighbours_by_label(scale * X, y, 3, n_impostors)
        assert_array_equal(after.targets, before.targets)
        assert_array_equal(after.impostors, before.impostors)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_may_leave_the_range_of_float32(asarray, scale):
    X, y = oracle.labelled("plain", 0, np.float32)
    unscaled = neighbours_by_label(asarray(X), y, 3, 5)
    scaled = neighbours_by_label(asarray((X * scale).astype(np.float32)), y, 3, 5)
    assert_array_equal(to_numpy(scaled.targets), to_numpy(unscaled.targets))
    assert_array_equal(to_numpy(scaled.impostors), to_numpy(unscaled.impostors))


@pytest.mark.parametrize("spread, expected", [(9.0, 3), (1.0, None), (0.0, 10)])
def test_auto_finds_the_impostors_nearer_than_the_farthest_target(asarray, spread, expected):
    """Enough for two points in three, at least 3, at most 10: apart, overlapping and
    mixed classes.
    """
    rng = np.random.default_rng(0)
    # and one class of a single point, which has no target
    y = np.append(np.repeat(np.arange(6), 30), 6)
    X = rng.normal(size=(181, 5)) + spread * rng.normal(size=(7, 5))[y]
    found = neighbours_by_label(asarray(X), y, 3, "auto")
    d = cdist(X, X)
    own = np.arange(len(X))
    targets = oracle.neighbours(X, y, X, y, k=3, same=True, own=own)
    radius = np.take_along_axis(d, targets, 1).max(1)
    nearer = np.sort(((d < radius[:, None]) & (y[:, None] != y)).sum(1)[:-1])
    enough = min(max(nearer[-60], 3), 10)
    assert found.impostors.shape[1] == enough
    assert enough == expected if expected else 3 < enough < 10
    impostors = oracle.neighbours(X, y, X, y, k=enough, same=False, own=own)
    assert_array_equal(to_numpy(found.impostors), impostors)
    assert_array_equal(to_numpy(found.targets), targets)


def test_small_classes_are_padded(asarray):
    X, y = asarray(np.array([[0.0], [1.0], [2.0], [9.0]])), np.array([0, 0, 0, 1])
    found = neighbours_by_label(X, y, 3, 2)
    assert_array_equal(to_numpy(found.targets), [[1, 2, -1], [0, 2, -1], [1, 0, -1], [-1] * 3])
    assert_array_equal(to_numpy(found.impostors), [[3, -1], [3, -1], [3, -1], [2, 1]])


def test_the_answer_is_where_the_points_are(asarray):
    X, y = oracle.labelled("plain", 0, np.float32)
    here, there = LabelledRows(asarray(X[:30]), y[:30]), LabelledRows(asarray(X[30:]), y[30:])
    found = exact_search(SearchQuery(here, there, 2, 2, np.full(30, -1)))
    for part in (*found.same, *found.other):
        assert is_torch(part) == is_torch(here.X)
        assert part.device == here.X.device
    assert_array_equal(
        to_numpy(found.same.numbers),
        oracle.neighbours(X[:30], y[:30], X[30:], y[30:], k=2, same=True, own=[-1] * 30),
    )


def test_no_neighbours_asked_for_is_an_error():
    with pytest.raises(ValueError, match="n_targets=0"):
        neighbours_by_label(np.eye(4), np.array([0, 0, 1, 1]), 0, 1)


def test_a_sample_has_the_classes_in_proportion_and_enough_of_each():
    chosen = sample_classes([1000, 100, 2], 110, 3, random_state=0)
    assert [len(numbers) for numbers in chosen] == [100, 10, 2]
    assert all((np.diff(numbers) > 0).all() for numbers in chosen)
