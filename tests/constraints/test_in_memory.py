"""Triplets and pairs from labels; validation of pairs and triplets."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric.constraints.in_memory import (
    check_labels,
    check_pairs,
    check_similar,
    check_triplets,
    encode_labels,
    find_rows,
    is_continuous,
    pairs_from_labels,
    triplets_from_labels,
)
from conemetric.core.arrays import to_numpy


def data(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(90, 4)), rng.integers(0, 4, 90)


def test_missing_neighbours_make_no_triplets(asarray):
    X, y = asarray(np.array([[0.0], [1.0], [2.0], [9.0]])), np.array([0, 0, 0, 1])
    assert len(triplets_from_labels(X, y, 3, 2)) == 6


def test_pairs_are_ordered_and_marked(asarray):
    X, y = data(1)
    pairs, similar = (to_numpy(part) for part in pairs_from_labels(asarray(X), y, 2, 3))
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


def test_labels_may_be_strings():
    assert_array_equal(check_labels(np.array(["b", "a", "b", "a"]), 1), [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("y", "codes"),
    [
        ([-1, 0, 1, 1], [-1, 0, 1, 1]),
        ([-1.0, 2.0, 5.0, 2.0], [-1, 0, 1, 0]),
        ([-1, 1, 1, -1], [0, 1, 1, 0]),  # two classes, not one and the unlabelled
        ([-1, 0, 0, -1], [0, 1, 1, 0]),
        ([-2, -1, 0, 1], [0, 1, 2, 3]),
        (["-1", "0", "1", "1"], [0, 1, 2, 2]),
    ],
)
def test_minus_one_beside_two_classes_is_no_label(y, codes):
    assert_array_equal(encode_labels(np.array(y)), codes)


@pytest.mark.parametrize(
    "y",
    [
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"),
        np.array([0.0, np.nan, 1.0]),
        np.array(["a", None, "b"], dtype=object),
        np.array(["a", float("nan"), "b"], dtype=object),
    ],
    ids=["NaT", "NaN", "None", "NaN among words"],
)
def test_missing_labels_are_refused(y):
    with pytest.raises(ValueError, match=r"1 missing labels \(first: row 1\); drop those rows"):
        encode_labels(y)


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


SEEDS = pytest.mark.parametrize("seed", range(3))


@SEEDS
@pytest.mark.parametrize("each", [2, 3, 4])
@pytest.mark.parametrize("numbering", ["from 0", "from 1", "with gaps", "with -1", "floats"])
@pytest.mark.parametrize("n_classes", [2, 10, 77, 300])
def test_few_rows_of_every_class_are_classes(n_classes, numbering, each, seed):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), each))
    if numbering == "with gaps":
        y = rng.permutation(10 * n_classes)[:n_classes][y]
    elif numbering == "with -1":
        y[: len(y) // 2] = -1
    y = {"from 1": y + 1, "floats": y.astype(float)}.get(numbering, y)
    assert not is_continuous(y)


@SEEDS
@pytest.mark.parametrize("n_rows", [40, 100, 1000])
@pytest.mark.parametrize("kind", ["uniform", "normal", "prices", "many zeros"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, np.float64])
def test_whole_numbers_with_many_values_are_a_quantity(dtype, kind, n_rows, seed):
    rng = np.random.default_rng(seed)
    y = {
        "uniform": rng.integers(0, n_rows, n_rows),
        "normal": rng.normal(150, n_rows, n_rows).round(),
        "prices": np.exp(rng.normal(7, 1, n_rows)).round(),
        "many zeros": rng.integers(0, 100 * n_rows, n_rows) * (rng.random(n_rows) < 0.7),
    }[kind].astype(dtype)
    assert is_continuous(y)
    assert not is_continuous(y, "classes")
    assert not is_continuous(y.astype(str))


def test_what_is_said_of_y_is_believed():
    halves = np.repeat([0.5, 1.0, 1.5], 5)
    assert is_continuous(halves)
    assert not is_continuous(halves, "classes")
    assert is_continuous(np.repeat([1, 2], 5), "continuous")
    assert not is_continuous(np.array([True, False]))
    with pytest.raises(ValueError, match="target='numbers' is not known; use 'auto'"):
        is_continuous(halves, "numbers")
    with pytest.raises(ValueError, match="is for numbers, and y holds 'a'"):
        is_continuous(["a", "b"], "continuous")
