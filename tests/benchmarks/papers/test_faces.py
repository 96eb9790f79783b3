import numpy as np
import pytest

from benchmarks.papers.faces import marginalised_knn_score


def test_marginalised_knn_is_the_double_sum():
    rng = np.random.default_rng(1)
    X_train, y_train = rng.normal(size=(40, 3)), rng.integers(3, 8, 40)
    X, pairs, k = rng.normal(size=(15, 3)), rng.integers(0, 15, (12, 2)), 7
    near = [np.argsort(((X_train - x) ** 2).sum(1))[:k] for x in X]
    expected = [np.mean(y_train[near[a]][:, None] == y_train[near[b]]) for a, b in pairs]
    np.testing.assert_allclose(
        marginalised_knn_score(None, X_train, y_train, X, pairs, k), expected
    )


def test_more_neighbours_than_training_points():
    with pytest.raises(ValueError, match="n_neighbors=4"):
        marginalised_knn_score(None, np.eye(3), [0, 1, 2], np.eye(3), [[0, 1]], 4)
