"""The approximate search: what it promises about recall, seeds and points hard to find."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric.core.arrays import to_numpy
from conemetric.neighbours import LabelledRows, SearchQuery, exact, neighbours_by_label, search
from conemetric.neighbours import cells as approximate

from . import oracle


@pytest.fixture
def exact_queries(monkeypatch):
    """Small pieces; and how many queries each exact search was asked about."""
    monkeypatch.setattr(approximate, "SAMPLE", 50)
    monkeypatch.setattr(approximate, "QUERIES", 64)
    monkeypatch.setattr(exact, "TILE", 20)
    asked, ask = [], exact.search

    def counted(query):
        asked.append(len(query.queries.y))
        return ask(query)

    monkeypatch.setattr(exact, "search", counted)
    return asked


def curved(n, apart=0.0, n_classes=5):
    """Classes on a surface of few dimensions, where cells pay early."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    flat = rng.normal(size=(n, 2)) + apart * rng.normal(size=(n_classes, 2))[y]
    return np.hstack([flat, np.sin(flat), flat**2]).astype(np.float32), y


def among_themselves(X, y, n_same=3, n_other=5):
    points = LabelledRows(X, y)
    return SearchQuery(points, points, n_same, n_other, np.arange(len(y)))


def recall(found, true):
    return np.mean([np.isin(these, those).mean() for these, those in zip(true, found, strict=True)])


@pytest.mark.parametrize("apart", [0.0, 3.0, 50.0])
@pytest.mark.parametrize("alone", [True, False])
def test_nearly_all_neighbours_are_found(exact_queries, apart, alone):
    X, y = curved(3000, apart)
    query = among_themselves(X, y)
    if not alone:
        query = query._replace(queries=LabelledRows(X[:900], y[:900]), own=np.arange(900))
    found, measured = approximate.search(query, np.random.RandomState(0))
    assert exact_queries == [100]  # the sample, and nothing else
    true = exact.search(query)
    shares = (
        recall(found.same.numbers, true.same.numbers),
        recall(found.other.numbers, true.other.numbers),
    )
    assert min(shares) > 0.97
    assert abs(measured - (3 * shares[0] + 5 * shares[1]) / 8) < 0.02


def test_the_seed_decides(exact_queries):
    X, y = curved(1500)
    first, again, other = (
        neighbours_by_label(X, y, 3, "auto", "approximate", seed) for seed in (0, 0, 1)
    )
    assert_array_equal(first.targets, again.targets)
    assert_array_equal(first.impostors, again.impostors)
    assert first.recall == again.recall
    assert exact_queries == [100] * 3
    assert not np.array_equal(first.impostors, other.impostors)


def test_queries_that_found_too_few_are_searched_again(exact_queries, monkeypatch):
    X, y = curved(1500)
    y[::100] = 9  # fifteen points of a class that is everywhere
    monkeypatch.setattr(approximate.Cells, "enough", lambda *args: [1, 1])
    query = among_themselves(X, y)
    found, _ = approximate.search(query, np.random.RandomState(0))
    assert found.n_again > 0
    assert found.same.numbers.min() >= 0
    assert found.other.numbers.min() >= 0
    rare = np.flatnonzero(y == 9)
    lonely = found.same.distances[rare].max(1) > np.median(found.same.distances[:, 2])
    true = oracle.neighbours(X[rare], y[rare], X, y, 3, True, rare)
    assert lonely.any()
    assert recall(found.same.numbers[rare], true) > 0.5  # most had to be searched again, exactly


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_degenerate_points_have_the_neighbours_that_exist(exact_queries, kind, dtype):
    query = among_themselves(*oracle.labelled(kind, 0, dtype, n=400))
    found, measured = approximate.search(query, np.random.RandomState(0))
    true = exact.search(query)
    assert_array_equal(found.same.numbers >= 0, true.same.numbers >= 0)
    assert_array_equal(found.other.numbers >= 0, true.other.numbers >= 0)
    assert measured > 0.9


def test_where_it_costs_no_more_the_answer_is_exact(exact_queries):
    rng = np.random.default_rng(0)
    query = among_themselves(rng.normal(size=(300, 60)), rng.integers(0, 3, 300))
    found, measured = approximate.search(query, np.random.RandomState(0))
    assert exact_queries == [100, 300]
    assert measured == 1.0
    assert_array_equal(found.other.numbers, exact.search(query).other.numbers)


def test_auto_is_exact_while_that_is_quick(asarray, monkeypatch, exact_queries):
    X, y = curved(1500)
    on_device = asarray(X).device != asarray(X[:1]).device or str(asarray(X).device) not in ("cpu",)
    quick = neighbours_by_label(asarray(X), y, 3, 3, "auto")
    assert quick.recall == 1.0
    monkeypatch.setattr(search, "EXACT_WORK", 1500**2)
    slow = neighbours_by_label(asarray(X), y, 3, 3, "auto")
    assert exact_queries == ([] if on_device else [1500, 100])
    assert recall(to_numpy(slow.impostors), to_numpy(quick.impostors)) > 0.97
