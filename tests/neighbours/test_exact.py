"""The exact searches against brute force in float64, on plain and degenerate inputs."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from conemetric.core import slices
from conemetric.core.arrays import to_numpy
from conemetric.core.sparse_rows import SparseRows
from conemetric.neighbours import host, sparse
from conemetric.neighbours.ranks import LabelledRows, SearchQuery, merge

from . import oracle


def among_few(query, monkeypatch):
    monkeypatch.setattr(host, "SPARE_CANDIDATES", 2)
    return host.search(query)


def on_host(query, monkeypatch):
    monkeypatch.setattr(host, "MAX_WORK_IN_NUMPY", 0)
    monkeypatch.setattr(host, "TILE", 32)  # several tiles
    monkeypatch.setattr(slices, "MAX_HELD", 2000)
    return host.search(query)


def on_device(query, monkeypatch):
    """The code for devices, on the GPU where there is one and else on the CPU."""
    torch = pytest.importorskip("torch")
    from conemetric.neighbours import gpu as device

    monkeypatch.setattr(device, "MAX_DISTANCES", 2000)
    monkeypatch.setattr(device, "MAX_COORDINATES", 2000)
    monkeypatch.setattr(device, "CHUNK", 4)
    monkeypatch.setattr(device, "SPARE_CANDIDATES", 3)
    place = "cuda" if torch.cuda.is_available() else "cpu"
    moved = [LabelledRows(torch.as_tensor(X, device=place), y) for X, y in query[:2]]
    if query.references is query.queries:
        moved[1] = moved[0]
    return device.search(SearchQuery(*moved, *query[2:]))


def among_sparse(query, monkeypatch):
    monkeypatch.setattr(slices, "MAX_HELD", 2000)
    monkeypatch.setattr(sparse, "SPARE_CANDIDATES", 2)
    rows = [LabelledRows(SparseRows(csr_array(X)), y) for X, y in query[:2]]
    if query.references is query.queries:
        rows[1] = rows[0]
    return sparse.search(SearchQuery(*rows, *query[2:]))


SEARCHES = [among_few, on_host, on_device, among_sparse]


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", oracle.KINDS)
def test_points_among_themselves(search, kind, dtype, monkeypatch):
    for seed in range(20):
        assert_found_among_themselves(search, kind, seed, dtype, monkeypatch)


def assert_found_among_themselves(search, kind, seed, dtype, monkeypatch):
    X, y = oracle.labelled(kind, seed, dtype, n=70)
    points, own = LabelledRows(X, y), np.arange(len(X))
    found = search(SearchQuery(points, points, 3, 5, own), monkeypatch)
    for same, near in ((True, found.same), (False, found.other)):
        numbers, distances = map(to_numpy, near)
        expected, lengths = expected_among_themselves(kind, seed, dtype, numbers.shape[1], same)
        assert_array_equal(numbers, expected, err_msg=f"seed {seed}")
        assert_allclose(distances, lengths, rtol=1e-14)


@cache
def expected_among_themselves(kind, seed, dtype, k, same):
    """Numbers and distances, once for all searches."""
    X, y = oracle.labelled(kind, seed, dtype, n=70)
    expected = oracle.neighbours(X, y, X, y, k, same, np.arange(len(X)))
    gaps = X[:, None].astype(np.float64) - X[expected].astype(np.float64)
    return expected, np.where(expected >= 0, np.sqrt((gaps**2).sum(2)), np.inf)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", ["plain", "grid", "offset", "classes of two"])
def test_queries_against_references(search, kind, dtype, monkeypatch):
    X, y = oracle.labelled(kind, 0, dtype)
    queries, references = LabelledRows(X[:40], y[:40]), LabelledRows(X[20:], y[20:])
    own = np.where(np.arange(40) >= 20, np.arange(40) - 20, -1)
    found = search(SearchQuery(queries, references, 4, 2, own), monkeypatch)
    for same, near in ((True, found.same), (False, found.other)):
        numbers = to_numpy(near.numbers)
        expected = oracle.neighbours(*queries, *references, numbers.shape[1], same, own)
        assert_array_equal(numbers, expected)


@pytest.mark.parametrize("search", SEARCHES)
def test_either_kind_alone(search, monkeypatch):
    X, y = oracle.labelled("plain", 0, np.float64)
    points, own = LabelledRows(X, y), np.arange(len(X))
    both = search(SearchQuery(points, points, 3, 2, own), monkeypatch)
    targets = search(SearchQuery(points, points, 3, 0, own), monkeypatch)
    impostors = search(SearchQuery(points, points, 0, 2, own), monkeypatch)
    assert_array_equal(to_numpy(targets.same.numbers), to_numpy(both.same.numbers))
    assert_array_equal(to_numpy(impostors.other.numbers), to_numpy(both.other.numbers))
    assert targets.other.numbers.shape == impostors.same.numbers.shape == (90, 0)


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_merged_results_are_those_of_one_search(kind, seed, dtype):
    X, y = oracle.labelled(kind, seed, dtype)
    queries, own = LabelledRows(X, y), np.arange(len(X))
    parts = []
    for rows in np.array_split(np.random.default_rng(seed).permutation(len(X)), 3):
        inside = np.argmax(own[:, None] == rows, axis=1)
        itself = np.where(np.isin(own, rows), inside, -1)
        references = LabelledRows(X[rows], y[rows])
        query = SearchQuery(queries, references, 3, 5, itself, rows.__getitem__)
        parts.append(host.search(query))
    merged = merge(X, merge(X, parts[0], parts[1]), parts[2])
    whole = host.search(SearchQuery(queries, queries, 3, 5, own))
    for found, expected in zip(merged[:2], whole[:2], strict=True):
        assert_array_equal(found.numbers, expected.numbers)
        assert_allclose(found.distances, expected.distances, rtol=1e-14)
