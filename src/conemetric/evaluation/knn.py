"""Neighbours in the space of a metric: k-NN classification, their labels, and how many are kept.

Tied votes go to the nearest point, as in the papers: on letter 0.7 percentage points better than
the lowest label, scikit-learn's rule. Points at the same distance are ordered by a hash of their
values before any metric is applied, so that the order of rows and names of classes do not matter.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from ..core.arrays import to_numpy
from ..neighbours.search import nearest
from ..neighbours.ties import labelled_keys


def knn_error(
    metric: Any,
    X_train: Any,
    y_train: Any,
    X_test: Any,
    y_test: Any,
    n_neighbors: int | Sequence[int] = 3,
) -> Any:
    """Error of k-nearest-neighbour classification by the distance of ``metric``.

    Parameters
    ----------
    metric : fitted transformer or None
        None means the Euclidean distance.
    X_train, y_train, X_test, y_test : arrays
    n_neighbors : int, or sequence of ints, default=3

    Returns
    -------
    float between 0 and 1, or a list of them for a sequence of ``n_neighbors``
        Share of the test points that are misclassified. Tied votes go to the nearest point
        among them; points at the same distance are ordered by a hash of their rows in X_train.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.knn import knn_error
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 1, 1])
    >>> knn_error(None, X, y, np.array([[0.2], [0.3]]), np.array([0, 1]), n_neighbors=1)
    0.5
    """
    check_consistent_length(X_train, y_train)
    check_consistent_length(X_test, y_test)
    counts = [int(k) for k in np.atleast_1d(n_neighbors)]
    n_searched = min(max(counts), len(X_train))
    neighbours = _neighbours(metric, X_train, y_train, X_test, n_searched)
    labels = to_numpy(y_train)[neighbours]
    errors = []
    for k in counts:
        is_wrong = majority(labels[:, :k]) != to_numpy(y_test)
        errors.append(float(np.mean(is_wrong)))
    if np.ndim(n_neighbors) == 0:
        return errors[0]
    return errors


def precision_at_k(
    metric: Any, X: Any, y: Any, queries: Any, y_queries: Any, k: Sequence[int] = (5, 10, 15, 20)
) -> np.ndarray:
    """Share of the k nearest points that have the query's label, averaged over the queries.

    Parameters
    ----------
    metric : fitted transformer or None
        None means the Euclidean distance.
    X, y : arrays
        Points searched and their labels.
    queries, y_queries : arrays
        Query points, none of them among X, and their labels.
    k : sequence of ints, default=(5, 10, 15, 20)

    Returns
    -------
    array (len(k),)

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.knn import precision_at_k
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0])
    >>> precision_at_k(None, X, y, np.array([[-1.0]]), np.array([0]), k=[1, 2])
    array([1. , 0.5])
    """
    labels = to_numpy(y)[_neighbours(metric, X, y, queries, max(k))]
    has_label_of_query = labels == to_numpy(y_queries)[:, None]
    return np.array([has_label_of_query[:, :size].mean() for size in k])


def neighbour_recall(metric: Any, X: Any, queries: Any, k: int = 10) -> float:
    """Share of each query's k nearest points of X by Euclidean distance that are still among its k
    nearest by ``metric``, averaged over the queries.

    Parameters
    ----------
    metric : fitted transformer
    X, queries : arrays
        Points searched, and query points, none of them among X.
    k : int, default=10

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from conemetric.evaluation.knn import neighbour_recall
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> neighbour_recall(PCA(3).fit(X), X[10:], X[:10], k=5)
    1.0
    """
    one_label = np.zeros(len(X))
    before = _neighbours(None, X, one_label, queries, k)
    after = _neighbours(metric, X, one_label, queries, k)
    kept = []
    for rows_before, rows_after in zip(before, after, strict=True):
        kept.append(np.isin(rows_after, rows_before).mean())
    return float(np.mean(kept))


def _neighbours(metric: Any, X: Any, y: Any, queries: Any, k: int) -> np.ndarray:
    """Return the row numbers of the k points of X nearest to each query, nearest first."""
    if not 1 <= k <= len(X):
        raise ValueError(f"k={k} must be from 1 to the {len(X)} points searched.")
    # before the metric is applied, so that the same rows come first for every metric
    keys = labelled_keys(X, y)
    if metric is not None:
        X = metric.transform(X)
        queries = metric.transform(queries)
    return to_numpy(nearest(queries, X, k, keys).numbers)


def knn_predict(
    X_train: Any, y_train: Any, X_test: Any, n_neighbors: int = 3, keys: np.ndarray | None = None
) -> np.ndarray:
    """Return the majority label of the nearest rows; ties as in `knn_error`, ``keys`` as in
    `nearest_labels`.
    """
    _, labels = nearest_labels(X_train, y_train, X_test, n_neighbors, keys)
    return majority(labels)


def nearest_labels(
    X_train: Any, y_train: Any, X_test: Any, n_neighbors: int, keys: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distances and labels of the ``n_neighbors`` nearest training rows of each test row (of
    all training rows if there are fewer), nearest first.

    ``keys`` order rows at the same distance: `labelled_keys` of the training rows before
    any metric was applied (default: of X_train).
    """
    if keys is None:
        keys = labelled_keys(X_train, y_train)
    numbers, distances = nearest(X_test, X_train, min(n_neighbors, len(X_train)), keys)
    return to_numpy(distances), to_numpy(y_train)[to_numpy(numbers)]


def majority(labels: np.ndarray) -> np.ndarray:
    """Return the most frequent label of each row; of equally frequent ones the first."""
    votes = np.zeros(labels.shape, np.int32)  # for each entry, how many of its row equal it
    for j in range(labels.shape[1]):
        votes += labels == labels[:, [j]]
    return labels[np.arange(len(labels)), np.argmax(votes, axis=1)]


def evenly_by_class(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the rows reordered so that every class is spread evenly, each in its own order: classes
    0, 0, 0, 0, 1, 1 become 0, 1, 0, 0, 1, 0.
    """
    place = np.empty(len(rows))
    for label in np.unique(labels[rows]):
        members = np.flatnonzero(labels[rows] == label)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return rows[np.argsort(place, kind="stable")]
