"""Triplets and pairs from labels; validation of pairs and triplets."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric.constraints.in_memory import (
    check_pairs,
    check_similar,
    check_triplets,
    find_rows,
    pairs_from_neighbours,
    triplets_from_labels,
)
from conemetric.core.arrays import to_numpy
from conemetric.neighbours.search import neighbours_by_label


def data(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(90, 4)), rng.integers(0, 4, 90)


def test_missing_neighbours_make_no_triplets(asarray):
    X, y = asarray(np.array([[0.0], [1.0], [2.0], [9.0]])), np.array([0, 0, 0, 1])
    assert len(triplets_from_labels(X, y, 3, 2)) == 6


def test_pairs_are_ordered_and_marked(asarray):
    X, y = data(1)
    found = pairs_from_neighbours(*neighbours_by_label(asarray(X), y, 2, 3))
    pairs, similar = map(to_numpy, found)
    assert len(pairs) == 90 * 5
    assert similar.sum() == 90 * 2
    assert_array_equal(y[pairs[:, 0]] == y[pairs[:, 1]], similar)


def test_triplets_put_target_before_impostor(asarray):
    X, y = data(2)
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


def test_masked_constraints_are_refused():
    with pytest.raises(ValueError, match="triplets has 1 masked entries"):
        check_triplets(np.ma.masked_equal([[2, 1, 0]], 1), 3)
    with pytest.raises(ValueError, match="pairs has 1 masked entries"):
        check_pairs(np.ma.masked_equal([[1, 0]], 1), 3)
    with pytest.raises(ValueError, match="similar has 1 masked entries"):
        check_similar(np.ma.masked_equal([1, 0], 1), 2)
    assert_array_equal(check_pairs(np.ma.masked_equal([[1, 0]], 7), 3), [[1, 0]])


@pytest.mark.parametrize("width", [1, 3, 4])
def test_rows_are_found_among_others(width, asarray):
    rng = np.random.default_rng(width)
    rows, among = rng.integers(0, 4, size=(40, width)), rng.integers(0, 4, size=(25, width))
    found = to_numpy(find_rows(asarray(rows), asarray(among)))
    listed = [tuple(row) for row in among.tolist()]
    for row, place in zip(rows.tolist(), found.tolist(), strict=True):
        assert place == (listed.index(tuple(row)) if tuple(row) in listed else -1)
    large = asarray(among * 2**29)  # no product of row numbers overflows
    assert (to_numpy(find_rows(large[3:], large)) >= 0).all()
