"""The exact searches against brute force in float64, on plain and degenerate inputs."""

from functools import cache

import numpy as np
import pytest
from cases import pairs_of
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
    return device.search(converted(query, lambda X: torch.as_tensor(X, device=place)))


def among_sparse(query, monkeypatch):
    monkeypatch.setattr(slices, "MAX_HELD", 2000)
    monkeypatch.setattr(sparse, "SPARE_CANDIDATES", 2)
    return sparse.search(converted(query, lambda X: SparseRows(csr_array(X))))


def converted(query, convert):
    """The query with its points in another form."""
    queries = LabelledRows(convert(query.queries.X), query.queries.y)
    references = queries
    if not query.among_themselves:
        references = LabelledRows(convert(query.references.X), query.references.y)
    return query._replace(queries=queries, references=references)


SEARCHES = [among_few, on_host, on_device, among_sparse]


@pairs_of(search=SEARCHES, kind=oracle.KINDS, dtype=True)
@pytest.mark.costly
def test_points_among_themselves(search, kind, dtype, monkeypatch):
    for seed in range(20):
        assert_found_among_themselves(search, kind, seed, dtype, monkeypatch)


def assert_found_among_themselves(search, kind, seed, dtype, monkeypatch):
    X, y = oracle.labelled(kind, seed, dtype, n=70)
    points = LabelledRows(X, y)
    found = search(SearchQuery(points, points, 3, 5, np.arange(len(X))), monkeypatch)
    for same, k, nearest in ((True, 3, found.same), (False, 5, found.other)):
        numbers, distances = expected_among_themselves(kind, seed, dtype, k, same)
        assert_array_equal(to_numpy(nearest.numbers), numbers, err_msg=f"seed {seed}")
        assert_allclose(to_numpy(nearest.distances), distances, rtol=1e-14)


@cache
def expected_among_themselves(kind, seed, dtype, k, same):
    """Numbers and distances, once for all searches."""
    X, y = oracle.labelled(kind, seed, dtype, n=70)
    numbers = oracle.neighbours(X, y, X, y, k=k, same=same, own=np.arange(len(X)))
    X = X.astype(np.float64)
    distances = np.sqrt(((X[:, None] - X[numbers]) ** 2).sum(2))
    return numbers, np.where(numbers >= 0, distances, np.inf)


@pytest.mark.cases(6)
@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("kind", ["plain", "grid", "offset", "classes of two"])
def test_queries_against_references(search, kind, dtype, monkeypatch):
    X, y = oracle.labelled(kind, 0, dtype)
    queries = LabelledRows(X[:40], y[:40])
    references = LabelledRows(X[20:], y[20:])
    own = np.where(np.arange(40) >= 20, np.arange(40) - 20, -1)
    found = search(SearchQuery(queries, references, 4, 2, own), monkeypatch)
    for same, k, nearest in ((True, 4, found.same), (False, 2, found.other)):
        expected = oracle.neighbours(*queries, *references, k=k, same=same, own=own)
        assert_array_equal(to_numpy(nearest.numbers), expected)


@pytest.mark.parametrize("search", SEARCHES)
def test_either_kind_alone(search, monkeypatch):
    X, y = oracle.labelled("plain", 0, np.float64)
    points = LabelledRows(X, y)
    own = np.arange(len(X))
    both = search(SearchQuery(points, points, 3, 2, own), monkeypatch)
    targets = search(SearchQuery(points, points, 3, 0, own), monkeypatch)
    impostors = search(SearchQuery(points, points, 0, 2, own), monkeypatch)
    assert_array_equal(to_numpy(targets.same.numbers), to_numpy(both.same.numbers))
    assert_array_equal(to_numpy(impostors.other.numbers), to_numpy(both.other.numbers))
    assert targets.other.numbers.shape == impostors.same.numbers.shape == (90, 0)


@pytest.mark.parametrize("kind", oracle.KINDS)
def test_merged_results_are_those_of_one_search(kind, seed, dtype):
    X, y = oracle.labelled(kind, seed, dtype)
    queries = LabelledRows(X, y)
    own = np.arange(len(X))
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
