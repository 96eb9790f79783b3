"""How good the nearest neighbours are: precision and recall among the first k, and
neighbours kept by an embedding.
"""

import numpy as np

from ..core.arrays import to_numpy
from ..neighbours import labelled_keys, nearest


def _neighbours(metric, X, y, Q, k):
    if not 1 <= k <= len(X):
        raise ValueError(f"k={k} must be from 1 to the {len(X)} points searched.")
    keys = labelled_keys(X, y)
    if metric is not None:
        X, Q = metric.transform(X), metric.transform(Q)
    return to_numpy(nearest(Q, X, k, keys)[0])


def precision_at_k(metric, X, y, queries, y_queries, k=(5, 10, 15, 20)):
    """Share of the k nearest points that have the query's label, averaged over the
    queries; an array, one per k.

    Parameters
    ----------
    metric : fitted transformer or None
        None means the Euclidean distance.
    X, y : arrays
        Points searched and their labels.
    queries, y_queries : arrays
        Points asked about, none of them among X, and their labels.
    k : sequence of ints

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


def recall_at_k(metric, X, y, queries, y_queries, k=(1, 10)):
    """Share of the queries with at least one point of their label among the k nearest;
    an array, one per k.

    Arguments as for `precision_at_k`.

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


def _hits(metric, X, y, queries, y_queries, k):
    neighbours = _neighbours(metric, X, y, queries, max(k))
    return np.asarray(y)[neighbours] == np.asarray(y_queries)[:, None]


def neighbour_recall(metric, X, queries, k=10):
    """Share of each query's k nearest points of X by Euclidean distance that are still
    among its k nearest after ``metric``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from conemetric.evaluation.retrieval import neighbour_recall
    >>> X = np.random.default_rng(0).normal(size=(30, 3))
    >>> neighbour_recall(PCA(3).fit(X), X[10:], X[:10], k=5)
    1.0
    """
    alike = np.zeros(len(X))
    before, after = (_neighbours(map_, X, alike, queries, k) for map_ in (None, metric))
    return float(
        np.mean([np.isin(kept, true).mean() for kept, true in zip(after, before, strict=True)])
    )
