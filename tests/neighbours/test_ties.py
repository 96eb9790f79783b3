"""Ties: neither the order of rows nor the names of classes decide anything."""

import numpy as np
import pytest
from cases import case, pairs_of
from learners import check_complete
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig, RelativeComparisons
from conemetric.constraints.in_memory import triplets_from_values
from conemetric.core.arrays import to_numpy
from conemetric.core.sparse_rows import SparseRows
from conemetric.evaluation.knn import knn_error, precision_at_k
from conemetric.evaluation.manifold import neighbourhood_quality
from conemetric.neighbours import host
from conemetric.neighbours.precomputed import precomputed_neighbours
from conemetric.neighbours.search import nearest, neighbours_by_label
from conemetric.neighbours.ties import (
    canonical_order,
    labelled_keys,
    numbers_on_demand,
    row_keys,
    tie_numbers,
)
from conemetric.papers.unfolding.neighbour_graph import neighbour_edges
from conemetric.ranking import top_k

KINDS = ["one-hot", "binary", "rounded", "duplicated", "other labels", "continuous"]
ORDERS = ["sorted", "reversed", "shuffled"]


def tensor(X):
    return pytest.importorskip("torch").as_tensor(X)


LIBRARIES = {
    "numpy": lambda X: X,
    "sparse": lambda X: SparseRows(csr_array(X)),
    "torch": tensor,
}


def points(kind, seed, n=120):
    """Rows with many ties (but for the continuous), and labels in no order."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    if kind == "one-hot":
        X = np.eye(3)[rng.integers(0, 3, (n, 5))].reshape(n, -1)
    elif kind == "binary":
        X = rng.integers(0, 2, (n, 8)).astype(float)
    elif kind == "rounded":
        X = np.round(rng.normal(size=(n, 3)) + y[:, None], 1)
    else:
        X = rng.normal(size=(n, 4))
    if kind == "duplicated":
        X, y = (part[rng.integers(0, n // 4, n)] for part in (X, y))
    elif kind == "other labels":
        X = X[rng.integers(0, n // 4, n)]
    return X, y


def permutation(order, y, seed):
    if order == "shuffled":
        return np.random.default_rng([seed, 1]).permutation(len(y))
    rows = np.argsort(y, kind="stable")
    return rows if order == "sorted" else rows[::-1]


each_kind = pytest.mark.parametrize("kind", KINDS)
each_order = pytest.mark.parametrize("order", ORDERS)


def same_rows(X, found, found_again, rows):
    """Neighbours have the same values before and after the rows were permuted."""
    again = to_numpy(found_again)
    again = np.where(again >= 0, rows[again], -1)
    before = to_numpy(found)[rows]
    assert_array_equal(again < 0, before < 0)
    assert_array_equal(X[again], X[before])


@pairs_of(kind=KINDS, order=ORDERS, library=LIBRARIES, dtype=True)
def test_targets_and_impostors(kind, order, seed, dtype, library):
    X, y = points(kind, seed)
    X, make, rows = X.astype(dtype), LIBRARIES[library], permutation(order, y, seed)
    found = neighbours_by_label(make(X), y, 3, 4)
    # the classes are numbered in another order as well
    again = neighbours_by_label(make(X[rows]), (2 - y)[rows], 3, 4)
    same_rows(X, found.targets, again.targets, rows)
    same_rows(X, found.impostors, again.impostors, rows)
    assert_array_equal(to_numpy(found.impostors), neighbours_by_label(X, y, 3, 4).impostors)


@each_kind
def test_without_ties_the_nearest_are_found(kind, seed):
    """And with ties, as near ones as there are."""
    X, _ = points(kind, seed)
    distances = np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(distances, np.inf)
    numbers, found = nearest(X, None, 5)
    assert_allclose(found, np.sort(distances, 1)[:, :5], atol=1e-12)
    assert_allclose(found, np.take_along_axis(distances, numbers, 1), atol=1e-12)


@pairs_of(library=("numpy", "torch"), in_numpy=(False, True), value=(1e3, -1e7))
def test_a_column_of_one_value_makes_no_ties(library, in_numpy, value, seed, monkeypatch):
    """Its rounding in single precision is larger than the distances, but moves none of them."""
    if not in_numpy:
        monkeypatch.setattr(host, "MAX_WORK_IN_NUMPY", 0)
    X, y = points("continuous", seed)
    X = X.astype(np.float32)
    wider = np.column_stack([X, np.full(len(X), value, np.float32)])
    found = neighbours_by_label(LIBRARIES[library](wider), y, 3, 4)
    for one, other in zip(found, neighbours_by_label(X, y, 3, 4), strict=True):
        assert_array_equal(to_numpy(one), other)


@pairs_of(kind=KINDS, order=ORDERS, asarray=True, dtype=True)
def test_judges(kind, order, seed, dtype, asarray):
    X, y = points(kind, seed)
    X, (train, test) = X.astype(dtype), np.split(np.arange(len(y)), [80])
    rows = train[permutation(order, y[train], seed)]
    names = np.array(["b", "a", "c"])
    ks = [1, 2, 3, 5]
    first = knn_error(None, asarray(X[train]), y[train], asarray(X[test]), y[test], ks)
    renamed = names[y]
    again = knn_error(None, asarray(X[rows]), renamed[rows], asarray(X[test]), renamed[test], ks)
    assert first == again
    precision = (
        precision_at_k(None, asarray(X[part]), y[part], asarray(X[test]), y[test], ks)
        for part in (train, rows)
    )
    assert_array_equal(*precision)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_file_sorted_by_class_is_judged_as_fairly_as_a_shuffled_one(scaled):
    """A coin tossed at every tie: about half are wrong where the classes say nothing."""
    rng = np.random.default_rng(0)
    X, y = np.eye(4)[rng.integers(0, 4, (400, 2))].reshape(400, -1), np.repeat([0, 1], 200)
    train, test = np.arange(0, 400, 2), np.arange(1, 400, 2)
    X = (X - X.mean(0)) / X.std(0) if scaled else X
    assert 0.35 < knn_error(None, X[train], y[train], X[test], y[test], 1) < 0.65


FROM_NEIGHBOURS = (
    FrobMetric(),
    BoostMetric(),
    DMLEig(),
    LMNNEig(),
    RelativeComparisons(random_state=0),
)
check_complete(FROM_NEIGHBOURS, "neighbors")


@pytest.mark.cases(6)
@pairs_of(kind=KINDS, order=ORDERS, estimator=FROM_NEIGHBOURS)
@pytest.mark.filterwarnings("ignore")
def test_estimators_learn_the_same(kind, order, estimator):
    X, y = points(kind, 0, n=60)
    rows = permutation(order, y, 0)
    first = estimator.set_params(max_iter=5).fit(X, y).get_mahalanobis_matrix()
    again = estimator.fit(X[rows], y[rows]).get_mahalanobis_matrix()
    assert_allclose(again, first, rtol=1e-6, atol=1e-6 * abs(first).max())


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", ["one-hot", "other labels"])
@each_order
@pytest.mark.parametrize("n_blocks", [2, 5])
@pytest.mark.filterwarnings("ignore")
def test_blocks_find_the_same(kind, order, n_blocks):
    array = pytest.importorskip("dask.array")
    X, y = points(kind, 0, n=60)
    rows, estimator = permutation(order, y, 0), FrobMetric(max_iter=5)
    first = estimator.fit(X, y).get_mahalanobis_matrix()
    blocks = (array.from_array(part[rows], chunks=60 // n_blocks) for part in (X, y))
    again = estimator.fit(*blocks).get_mahalanobis_matrix()
    assert_allclose(again, first, rtol=1e-6, atol=1e-6 * abs(first).max())


@each_kind
def test_triplets_from_values(kind, seed):
    X, _ = points(kind, seed)
    y = np.random.default_rng([seed, 2]).normal(size=len(X))
    first = np.unique(triplets_from_values(X, y), axis=0)
    for order in ORDERS:
        with case(order=order):
            rows = permutation(order, y, seed)
            again = rows[triplets_from_values(X[rows], y[rows])]
            assert_array_equal(first, np.unique(again, axis=0))


@pairs_of(kind=KINDS, order=ORDERS, similarity=("euclidean", "inner"), asarray=True)
def test_documents(kind, order, similarity, asarray):
    documents, y = points(kind, 0)
    documents = np.round(4 * documents)  # products without rounding
    rows, queries = permutation(order, y, 0), documents[:10]
    found, again = (
        to_numpy(top_k.search(asarray(queries), asarray(part), 7, similarity).documents)
        for part in (documents, documents[rows])
    )
    assert_array_equal(documents[found], documents[rows][again])


@each_kind
def test_given_graphs(kind):
    X, y = points(kind, 0)
    graph = csr_array(np.round(1 + np.linalg.norm(X[:, None] - X, axis=2), 6))
    found = precomputed_neighbours(graph, X, y, 3, 3)
    for order in ORDERS:
        with case(order=order):
            rows = permutation(order, y, 0)
            again = precomputed_neighbours(graph[rows][:, rows], X[rows], y[rows], 3, 3)
            same_rows(X, found.targets, again.targets, rows)
            same_rows(X, found.impostors, again.impostors, rows)


@each_kind
@each_order
def test_embeddings(kind, order):
    """Copies of a point are told apart by their place alone, and are left out."""
    X = np.random.default_rng(1).permutation(np.unique(points(kind, 0)[0], axis=0))
    rows = permutation(order, X[:, 0], 0)
    embedding = X[:, :2] + X[:, 1:3]
    parts = slice(None), rows
    assert_allclose(
        *(neighbourhood_quality(X[part], embedding[part]).Q_nx for part in parts), atol=1e-12
    )
    edges, again = neighbour_edges(X, 6)[0], np.sort(rows[neighbour_edges(X[rows], 6)[0]])
    assert_array_equal(edges, np.unique(again, axis=0))


@each_kind
def test_keys_are_the_same_in_every_library_unit_and_origin(kind, seed):
    X, _ = points(kind, seed)
    keys = row_keys(X)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    for other in (1000 * X, X + 100, (X - X.mean(0)) / np.maximum(X.std(0), 1e-9)):
        assert_array_equal(row_keys(other), keys)


@each_kind
def test_constant_columns_and_the_order_of_columns_change_no_key_of_labelled_rows(kind, seed):
    X, y = points(kind, seed)
    X[0] += np.arange(X.shape[1]) / 7  # columns of different means
    keys, order = labelled_keys(X, y), canonical_order(X, y)
    for place in (0, 1, X.shape[1]):
        more = np.insert(X, place, 3.7, axis=1)
        assert_array_equal(row_keys(more), row_keys(X))
        assert_array_equal(labelled_keys(more, y), keys)
    turned = X[:, np.random.default_rng(seed).permutation(X.shape[1])]
    assert_array_equal(labelled_keys(turned, y), keys)
    assert_array_equal(canonical_order(turned, y), order)
    assert_array_equal(labelled_keys(tensor(turned), y), keys)


def test_of_equal_rows_the_commonest_class_comes_first(seed):
    """Whatever the order of the rows and the names of the classes."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (300, 3)) + 0.0
    y = (X.sum(1).astype(int) + (rng.random(300) < 0.4) * rng.integers(0, 4, 300)) % 4
    keys = labelled_keys(X, y)
    for row in np.unique(X, axis=0):
        same = np.flatnonzero((row == X).all(1))
        labels, counts = np.unique(y[same], return_counts=True)
        first = y[same[np.argsort(keys[same], kind="stable")]]
        place = {label: np.flatnonzero(first == label) for label in labels}
        assert all(len(where) == np.ptp(where) + 1 for where in place.values())
        in_turn = counts[np.argsort([where[0] for where in place.values()])]
        assert (np.diff(in_turn) <= 0).all()
    order = rng.permutation(300)
    assert_array_equal(labelled_keys(X[order], 10 - y[order]), keys[order])


@pairs_of(kind=KINDS, library=LIBRARIES, scale=(1.0, 1e307))
def test_numbers_on_demand_are_those_of_all_rows(kind, seed, library, scale):
    """Also if the range of a column exceeds the largest number of float64."""
    X, _ = points(kind, seed)
    X = scale * X / abs(X).max() * 17
    X[0], X[1] = X.min(), -X.min()
    made = LIBRARIES[library](X if library != "sparse" else X / scale)
    keys = row_keys(made)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    rows = np.random.default_rng(seed).permutation(len(X))[:30]
    assert_array_equal(numbers_on_demand(made)(rows), tie_numbers(keys, np.arange(120), 120)[rows])
