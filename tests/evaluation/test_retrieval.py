import numpy as np
import pytest
from sklearn.decomposition import PCA

from conemetric.evaluation.retrieval import neighbour_recall, precision_at_k, recall_at_k


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return (
        rng.normal(size=(60, 4)),
        rng.integers(0, 4, 60),
        rng.normal(size=(20, 4)),
        rng.integers(0, 4, 20),
    )


def test_precision_and_recall_against_a_loop(points):
    X, y, Q, labels = points
    ranked = [y[np.argsort(((X - q) ** 2).sum(1))] for q in Q]
    for k in (1, 5, 60):
        precision = np.mean(
            [np.mean(r[:k] == label) for r, label in zip(ranked, labels, strict=True)]
        )
        recall = np.mean([label in r[:k] for r, label in zip(ranked, labels, strict=True)])
        assert precision_at_k(None, X, y, Q, labels, k=[k]) == pytest.approx([precision])
        assert recall_at_k(None, X, y, Q, labels, k=[k]) == pytest.approx([recall])


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
