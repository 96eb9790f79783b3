import numpy as np
import pytest
from sklearn.decomposition import PCA

from conemetric import FrobMetric
from conemetric.evaluation.knn import (
    evenly_by_class,
    knn_error,
    nearest_labels,
    neighbour_recall,
    precision_at_k,
)


def brute_knn_error(A, a, B, b, k):
    wrong = 0
    for x, label in zip(B, b, strict=True):
        nearest = a[np.argsort(((A - x) ** 2).sum(1), kind="stable")[:k]].tolist()
        most = max(nearest.count(candidate) for candidate in nearest)
        wrong += (
            next(candidate for candidate in nearest if nearest.count(candidate) == most) != label
        )
    return wrong / len(B)


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 5)) + np.eye(5)[y] * 1.5
    return X, y


def test_knn_error_counts_as_brute_force_does(blobs):
    X, y = blobs
    args = (X[:80], y[:80], X[80:], y[80:])
    expected = [brute_knn_error(*args, k) for k in (1, 3, 5)]
    assert knn_error(None, *args, n_neighbors=[1, 3, 5]) == pytest.approx(expected)
    assert knn_error(None, *args) == pytest.approx(expected[1])


def test_ties_go_to_the_nearest():
    A, a = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([2, 1, 0, 1])
    zero = np.zeros((1, 1))
    assert knn_error(None, A, a, zero, np.array([2]), n_neighbors=[1, 2, 3]) == [0.0, 0.0, 0.0]
    assert knn_error(None, A, a, zero, np.array([1]), n_neighbors=4) == 0.0


def test_knn_error_looks_in_the_space_of_the_metric(blobs):
    X, y = blobs
    noise = np.random.default_rng(1).normal(size=(120, 1)) * 100
    wide = np.hstack([X, noise])
    metric = PCA(5).fit(X)  # a rotation

    class Drop:
        def transform(self, Z):
            return metric.transform(Z[:, :5])

    args = (wide[:80], y[:80], wide[80:], y[80:])
    assert knn_error(Drop(), *args) == pytest.approx(
        brute_knn_error(X[:80], y[:80], X[80:], y[80:], 3)
    )
    assert knn_error(Drop(), *args) < knn_error(None, *args)


def test_knn_error_takes_tensors_lists_and_frames(blobs):
    X, y = blobs
    parts = X[:80], y[:80], X[80:], y[80:]
    expected = knn_error(None, *parts)
    assert knn_error(None, *(part.tolist() for part in parts)) == expected
    pd = pytest.importorskip("pandas")
    frames = [(pd.DataFrame if part.ndim == 2 else pd.Series)(part) for part in parts]
    assert knn_error(None, *frames) == expected
    torch = pytest.importorskip("torch")
    tensors = [torch.as_tensor(part) for part in parts]
    assert knn_error(None, *tensors) == expected
    assert knn_error(FrobMetric().fit(*tensors[:2]), *tensors) == knn_error(
        FrobMetric().fit(*parts[:2]), *parts
    )


def test_labels_must_fit_the_rows(blobs):
    X, y = blobs
    for labels, answers in ((y[:79], y[80:]), (y[:80], y[:1])):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            knn_error(None, X[:80], labels, X[80:], answers)


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return (
        rng.normal(size=(60, 4)),
        rng.integers(0, 4, 60),
        rng.normal(size=(20, 4)),
        rng.integers(0, 4, 20),
    )


def test_precision_against_a_loop(points):
    X, y, Q, labels = points
    ranked = [y[np.argsort(((X - q) ** 2).sum(1))] for q in Q]
    for k in (1, 5, 60):
        precision = np.mean(
            [np.mean(r[:k] == label) for r, label in zip(ranked, labels, strict=True)]
        )
        assert precision_at_k(None, X, y, Q, labels, k=[k]) == pytest.approx([precision])


def test_a_metric_changes_the_ranking(points):
    X, y, Q, labels = points
    X, Q = np.column_stack([10.0 * y, X]), np.column_stack([10.0 * labels, Q])
    first = PCA(1).fit(X)
    assert precision_at_k(first, X, y, Q, labels, k=[5]) == pytest.approx([1.0])


def test_neighbour_recall_against_a_loop(points):
    X, _, Q, _ = points
    metric = PCA(2).fit(X)
    kept = []
    for q in Q:
        before = np.argsort(((X - q) ** 2).sum(1))[:8]
        after = np.argsort(((metric.transform(X) - metric.transform(q[None])) ** 2).sum(1))[:8]
        kept.append(len(set(before) & set(after)) / 8)
    assert neighbour_recall(metric, X, Q, k=8) == pytest.approx(np.mean(kept))
    assert neighbour_recall(None, X, Q, k=8) == 1.0


def test_too_many_neighbours(points):
    X, y, Q, labels = points
    with pytest.raises(ValueError, match="k=61 must be from 1 to the 60 points"):
        precision_at_k(None, X, y, Q, labels, k=[61])


def test_ten_neighbours_are_recalled_unless_said_otherwise(points):
    X, queries = np.asarray(points[0]), np.asarray(points[0])[:5]
    metric = PCA(1).fit(X)
    recalls = [neighbour_recall(metric, X, queries, k) for k in (9, 10, 11)]
    assert neighbour_recall(metric, X, queries) == recalls[1] and len(set(recalls)) == 3


def test_rows_at_the_same_distance_come_in_the_order_of_the_keys():
    X, y, keys = np.zeros((6, 1)), np.arange(6), np.array([5, 3, 1, 0, 2, 4], dtype=np.uint64)
    _, labels = nearest_labels(X, y, np.zeros((1, 1)), 6, keys)
    assert labels[0].tolist() == [3, 2, 4, 1, 5, 0]


def test_classes_are_spread_evenly():
    labels = np.array([0, 0, 0, 0, 1, 1])
    assert labels[evenly_by_class(np.arange(6), labels)].tolist() == [0, 1, 0, 0, 1, 0]
