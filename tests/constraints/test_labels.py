"""Labels: which are missing, which mean none, and which are a quantity."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric.blocks.labels import _times_factor
from conemetric.blocks.rows import Partition
from conemetric.constraints.labels import (
    check_labels,
    encode_labels,
    is_continuous,
    refuse_continuous,
)


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
    with pytest.raises(ValueError, match=r"1 missing label \(first: row 1\); drop those rows"):
        encode_labels(y)


@pytest.mark.parametrize("numbering", ["from 0", "from 1", "with gaps", "with -1", "floats"])
def test_few_rows_of_every_class_are_classes(numbering):
    for n_classes, each, seed in product([2, 10, 77, 300], [2, 3, 4], range(3)):
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.repeat(np.arange(n_classes), each))
        if numbering == "with gaps":
            y = rng.permutation(10 * n_classes)[:n_classes][y]
        elif numbering == "with -1":
            y[: len(y) // 2] = -1
        y = {"from 1": y + 1, "floats": y.astype(float)}.get(numbering, y)
        assert not is_continuous(y), (n_classes, each, seed)


@pytest.mark.parametrize("kind", ["uniform", "normal", "prices", "many zeros"])
def test_whole_numbers_with_many_values_are_a_quantity(kind):
    dtypes = [np.int64, np.int32, np.float32, np.float64]
    for dtype, n_rows, seed in product(dtypes, [40, 100, 1000], range(3)):
        rng = np.random.default_rng(seed)
        y = {
            "uniform": rng.integers(0, n_rows, n_rows),
            "normal": rng.normal(150, n_rows, n_rows).round(),
            "prices": np.exp(rng.normal(7, 1, n_rows)).round(),
            "many zeros": rng.integers(0, 100 * n_rows, n_rows) * (rng.random(n_rows) < 0.7),
        }[kind].astype(dtype)
        assert is_continuous(y), (dtype, n_rows, seed)
        assert not is_continuous(y, "classes")
        assert not is_continuous(y.astype(str))


def evenly(n_values, extent):
    """So many whole numbers, spread over the range from 0."""
    return np.linspace(0, extent - 1, n_values).astype(int)


@pytest.mark.parametrize(
    ("n_values", "extent", "repeated", "quantity"),
    [
        (28, 28, 14, False),  # all whole numbers: they may number classes
        (27, 28, 14, False),
        (26, 28, 14, True),  # more than a twentieth of them is missing
        (20, 40, 12, False),  # 20 values
        (21, 40, 12, True),
        (30, 100, 26, True),
        (30, 100, 27, False),  # nine values in ten have two rows
    ],
)
def test_each_threshold_of_a_quantity(n_values, extent, repeated, quantity):
    values = evenly(n_values, extent)
    y = np.concatenate([values, values[:repeated]])
    assert is_continuous(y) == quantity


@pytest.mark.parametrize(
    ("n_alone", "n_twice", "quantity"), [(9, 4, True), (8, 4, False), (9, 0, False)]
)
def test_few_values_are_a_quantity_if_most_rows_have_one_of_their_own(n_alone, n_twice, quantity):
    """Of nine rows it is not said."""
    values = np.arange(n_alone + n_twice)
    y = np.concatenate([values, values[:n_twice]])
    assert is_continuous(3 * y) == quantity
    assert not is_continuous(y)  # numbers of the rows, perhaps


@pytest.mark.parametrize(("n_common", "quantity"), [(14, True), (15, False)])
def test_a_quantity_has_few_rows_of_most_values(n_common, quantity):
    """Three of the others, four to eight of these."""
    counts = np.where(np.arange(30) < n_common, 4 + np.arange(30) % 5 * 7 % 5, 3)
    counts = np.random.default_rng(0).permutation(counts)
    assert is_continuous(evenly(30, 100), counts=counts) == quantity


COLUMNS = {  # as in public tables
    "waiting times": lambda rng: np.append(rng.normal(55, 6, 100), rng.normal(80, 6, 172)),
    "temperatures": lambda rng: rng.normal(77, 9.5, 153),
    "scores": lambda rng: 10 * rng.normal(60, 11, 700).clip(20, 80).round(),
    "visits": lambda rng: rng.poisson(rng.gamma(0.4, 8, 3900)),
    "days": lambda rng: 1 + rng.exponential(9, 1500),
    "ranks": lambda rng: rng.permutation(175)[:156] + 1,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_counts_and_measures_of_public_tables_are_a_quantity(column):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = COLUMNS[column](rng).astype(int)
        assert is_continuous(y), seed
        if column == "ranks":  # nothing can be learned between classes of one row each
            continue
        values, counts = np.unique(y, return_counts=True)
        assert not is_continuous(np.arange(len(values)), counts=rng.permutation(counts)), seed


def test_a_random_part_of_many_people_are_classes():
    """With few pictures of each; of some there is none."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        person = rng.permutation(np.repeat(np.arange(3000), rng.integers(1, 4, 3000)))
        part = person[: int(0.7 * len(person))]
        assert len(np.unique(part)) < 0.95 * 3000
        assert not is_continuous(part), seed


def test_codes_are_classes_whatever_their_numbers():
    """Such as those of products or countries, each with some rows."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = np.sort(rng.choice(1000, 140, replace=False))
        assert not is_continuous(values, counts=rng.integers(4, 60, 140)), seed


def rented_bikes(rng, n):
    """By day: most numbers occur in a few rows."""
    return rng.gamma(1.2, 600, n).astype(int)


def rented_bikes_by_hour(rng, n):
    """Small numbers are common, large ones rare."""
    return rng.gamma(1.1, 18 * (n / 1000) ** 0.5, n).astype(int)


def identities(rng, n):
    """Photographs of people: many of a few, one or two of most."""
    return np.repeat(np.arange(n // 3), rng.zipf(1.8, n // 3).clip(max=200))


def codes(rng, n):
    """Of products: most whole numbers are none, and some are ten times as common as others."""
    sizes = rng.integers(4, 60, n // 30)
    return np.repeat(rng.choice(10_000, len(sizes), replace=False), sizes)


@pytest.mark.parametrize(
    ("kind", "quantity"),
    [(rented_bikes, True), (rented_bikes_by_hour, True), (identities, False), (codes, False)],
)
def test_counts_of_things_are_a_quantity_and_their_names_are_not(kind, quantity):
    for n_rows, seed in product([2000, 9000, 20_000], range(5)):
        y = kind(np.random.default_rng(seed), n_rows)
        assert is_continuous(y) == quantity, (n_rows, seed, len(np.unique(y)))


@pytest.mark.parametrize("kind", ["ages", "percentages", "rings"])
def test_whole_numbers_that_neighbours_share_are_a_quantity(kind):
    for n_rows, seed in product([1000, 8000], range(5)):
        rng = np.random.default_rng(seed)
        y = {
            "ages": np.clip(rng.normal(40, 15, n_rows), 17, 90),
            "percentages": 100 * rng.beta(8, 2, n_rows),
            "rings": rng.gamma(9, 1.1 + n_rows / 20000, n_rows),
        }[kind].astype(int)
        assert is_continuous(y), (n_rows, seed)
        names = rng.permutation(y.max() + 1)[y]  # the same numbers of rows, in any order
        assert not is_continuous(names), (n_rows, seed)


@pytest.mark.parametrize("first", [0, 1])
def test_classes_numbered_by_how_common_they_are_stay_classes(first):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        counts = np.sort(rng.geometric(0.02, 60) + 1)
        for y in (np.repeat(np.arange(60), counts), np.repeat(np.arange(60), counts[::-1])):
            assert not is_continuous(y + first)
            assert not is_continuous(rng.choice(y, len(y) // 2) + first)  # a part of the rows


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [np.arange(40), 9 * np.arange(40)])
def test_one_value_that_is_more_common_than_the_others(values):
    """Without a warning of SciPy: the others do not vary."""
    counts = np.append(90, np.full(39, 2))
    assert not is_continuous(values, counts=counts)
    assert not is_continuous(values, counts=np.append(90, np.full(39, 5)))
    assert is_continuous(values, counts=np.append(90, np.ones(39, int))) == (values[1] > 1)


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


@pytest.mark.parametrize("counts", [None, np.full(40, 3)])
def test_a_refused_quantity_says_in_how_many_rows(counts):
    n = 40 if counts is None else 120
    with pytest.raises(ValueError, match=f"^It learns between.*with 40 values in {n} rows; pass"):
        refuse_continuous(np.arange(40) + 0.5, "auto", "It", counts)


def test_weights_of_rows_times_those_of_classes_are_checked_in_blocks():
    X, y, weights = np.zeros((2, 1), np.float32), np.array([0, 1]), np.ones(2, np.float32)
    partition, classes = Partition(0, X, y, weights), np.array([0, 1])
    assert_array_equal(_times_factor(partition, classes, np.array([0.0, 2.0])).weights, [2.0])
    with pytest.raises(ValueError, match="sample_weight, times class_weight,"):
        _times_factor(partition, classes, np.array([1.0, 1e300]))
