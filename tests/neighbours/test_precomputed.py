"""Neighbours found elsewhere: index arrays, graphs, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.neighbors import KNeighborsTransformer, kneighbors_graph

from conemetric.core.arrays import to_numpy
from conemetric.core.warn import collected_warnings
from conemetric.neighbours.precomputed import precomputed_neighbours
from conemetric.neighbours.search import neighbours_by_label

from . import oracle


@pytest.mark.parametrize("n_impostors", [4, "auto"])
@pytest.mark.parametrize("kind", ["csr_matrix", "coo_array"])
def test_a_graph_of_all_distances_is_an_exact_search(asarray, kind, n_impostors):
    X, y = oracle.labelled("plain", 0, np.float64)
    graph = getattr(sparse, kind)(kneighbors_graph(X, len(X) - 1, mode="distance"))
    found = precomputed_neighbours(graph, asarray(X), y, 3, n_impostors)
    true = neighbours_by_label(asarray(X), y, 3, n_impostors)
    assert_array_equal(to_numpy(found.targets), to_numpy(true.targets))
    assert_array_equal(to_numpy(found.impostors), to_numpy(true.impostors))
    assert found.targets.device == asarray(X).device


@pytest.mark.parametrize("n_impostors", [3, "auto"])
def test_rows_without_a_label_have_and_are_no_neighbours(asarray, n_impostors):
    X, y = oracle.labelled("plain", 0, np.float64)
    given = neighbours_by_label(asarray(X), y, 3, 3)[:2]
    y = np.where(np.arange(len(y)) % 5 == 0, -1, y)
    rows = np.flatnonzero(y >= 0)
    found = neighbours_by_label(asarray(X), y, 3, n_impostors)
    alone = neighbours_by_label(asarray(X[rows]), y[rows], 3, n_impostors)
    for near, expected in zip(found[:2], alone[:2], strict=True):
        near, expected = to_numpy(near), to_numpy(expected)
        assert (near[y < 0] == -1).all()
        assert_array_equal(near[rows], np.where(expected >= 0, rows[expected], -1))
    graph = kneighbors_graph(X, len(X) - 1, mode="distance")
    by_graph = precomputed_neighbours(graph, asarray(X), y, 3, n_impostors)
    assert_array_equal(to_numpy(by_graph.targets), to_numpy(found.targets))
    assert_array_equal(to_numpy(by_graph.impostors), to_numpy(found.impostors))
    for before, kept in zip(
        given, precomputed_neighbours(given, asarray(X), y, 3, 3)[:2], strict=True
    ):
        before, kept = to_numpy(before), to_numpy(kept)
        labelled = (y[:, None] >= 0) & (y[before] >= 0)
        assert_array_equal(kept, np.where(labelled, before, -1))
        assert labelled.any()


def test_what_a_graph_lacks_is_missing():
    X, y = oracle.labelled("plain", 0, np.float64)
    graph = KNeighborsTransformer(n_neighbors=8).fit_transform(X)  # with each point itself
    found = precomputed_neighbours(graph, X, y, 3, 3)
    true = neighbours_by_label(X, y, 3, 3)
    assert 0 < (found.targets >= 0).mean() < 1
    for part, whole in ((found.targets, true.targets), (found.impostors, true.impostors)):
        there = part >= 0
        assert_array_equal(part[there], whole[there])
        assert not (~there[:, :-1] & there[:, 1:]).any()  # the nearest are first


def test_a_graph_of_too_few_neighbours_warns():
    X, y = oracle.labelled("plain", 0, np.float64)
    with pytest.warns(UserWarning, match="build it with more neighbours"):
        precomputed_neighbours(kneighbors_graph(X, 3, mode="distance"), X, y, 3, 3)
    with collected_warnings() as collected:
        precomputed_neighbours(kneighbors_graph(X, 3, mode="distance"), X, y, 3, 3)
    assert len(collected) == 1


def test_index_arrays_are_taken_as_they_are(asarray):
    X, y = oracle.labelled("plain", 0, np.float32)
    true = neighbours_by_label(X, y, 2, 6)
    impostors = true.impostors.copy()
    impostors[5] = -1
    found = precomputed_neighbours((true.targets, asarray(impostors)), asarray(X), y, 9, 9)
    assert_array_equal(to_numpy(found.targets), true.targets)
    assert_array_equal(to_numpy(found.impostors), impostors)


def faulty():
    X, y = oracle.labelled("plain", 0, np.float64)
    targets, impostors = neighbours_by_label(X, y, 3, 3)

    def with_entry(array, value):
        array = array.copy()
        array[7, 1] = value
        return array

    other, alike = int(impostors[7, 0]), int(targets[7, 0])
    return {
        "neighbors is tuple; .*two index arrays": (targets,),
        r"targets has shape \(10, 3\)": (targets[:10], impostors),
        r"impostors has shape \(90, 3\) and dtype float64": (targets, impostors.astype(float)),
        r"targets\[7, 1\] = 90 is neither a row": (with_entry(targets, 90), impostors),
        r"targets\[7, 1\] = 7 is the point itself": (with_entry(targets, 7), impostors),
        f"= {other} has another label": (with_entry(targets, other), impostors),
        f"= {alike} has the same label": (targets, with_entry(impostors, alike)),
        "no target for any point; .*more neighbours": (np.full((90, 2), -1), impostors),
        r"graph of shape \(3, 90\)": sparse.csr_array(np.ones((3, 90))),
        "negative": sparse.csr_array(-np.ones((90, 90))),
    }


@pytest.mark.parametrize("message", faulty())
def test_faults_are_named(message):
    X, y = oracle.labelled("plain", 0, np.float64)
    with pytest.raises(ValueError, match=message):
        precomputed_neighbours(faulty()[message], X, y, 3, 3)
