"""Quality of nearest neighbours: precision and recall among the first k by labels, and
how many neighbours an embedding keeps.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..neighbours.search import nearest
from ..neighbours.ties import labelled_keys

__all__ = ["neighbour_recall", "precision_at_k", "recall_at_k"]


def _neighbours(metric: Any, X: Any, y: Any, queries: Any, k: int) -> np.ndarray:
    """Row numbers of the k points of X nearest to each query, nearest first."""
    if not 1 <= k <= len(X):
        raise ValueError(f"k={k} must be from 1 to the {len(X)} points searched.")
    keys = labelled_keys(X, y)
    if metric is not None:
        X, queries = metric.transform(X), metric.transform(queries)
    return to_numpy(nearest(queries, X, k, keys)[0])


def _hits(
    metric: Any, X: Any, y: Any, queries: Any, y_queries: Any, k: Sequence[int]
) -> np.ndarray:
    """Whether each of the k nearest points of a query has its label."""
    neighbours = _neighbours(metric, X, y, queries, max(k))
    return np.asarray(y)[neighbours] == np.asarray(y_queries)[:, None]


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
    >>> from conemetric.evaluation.retrieval import precision_at_k
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0])
    >>> precision_at_k(None, X, y, np.array([[-1.0]]), np.array([0]), k=[1, 2])
    array([1. , 0.5])
    """
    hits = _hits(metric, X, y, queries, y_queries, k)
    return np.array([hits[:, :size].mean() for size in k])


def recall_at_k(
    metric: Any, X: Any, y: Any, queries: Any, y_queries: Any, k: Sequence[int] = (1, 10)
) -> np.ndarray:
    """Share of the queries with at least one point of their label among the k nearest.

    Parameters
    ----------
    metric, X, y, queries, y_queries
        As for `precision_at_k`.
    k : sequence of ints, default=(1, 10)

    Returns
    -------
    array (len(k),)

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.retrieval import recall_at_k
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 0])
    >>> recall_at_k(None, X, y, np.array([[-1.0], [-1.0]]), np.array([0, 1]), k=[1, 2])
    array([0.5, 1. ])
    """
    hits = _hits(metric, X, y, queries, y_queries, k)
    return np.array([hits[:, :size].any(axis=1).mean() for size in k])


def neighbour_recall(metric: Any, X: Any, queries: Any, k: int = 10) -> float:
    """Share of each query's k nearest points of X by Euclidean distance that are still
    among its k nearest by ``metric``, averaged over the queries.

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
    >>> from conemetric.evaluation.retrieval import neighbour_recall
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> neighbour_recall(PCA(3).fit(X), X[10:], X[:10], k=5)
    1.0
    """
    one_class = np.zeros(len(X))
    before, after = (_neighbours(each, X, one_class, queries, k) for each in (None, metric))
    kept = [np.isin(found, true).mean() for found, true in zip(after, before, strict=True)]
    return float(np.mean(kept))
