"""FAISS: the map as a ``LinearTransform``."""

from typing import Any

import numpy as np

from ..core.extras import require
from ..storage import LearnedMetric


def to_faiss(metric: Any, index: Any = None) -> Any:
    """The learned map as a FAISS transform, alone or in front of an index.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
    index : faiss.Index, default=None
        An L2 index of the transformed vectors, with as many dimensions as they have.

    Returns
    -------
    faiss.LinearTransform or faiss.IndexPreTransform
        Without ``index`` the transform, for ``faiss.write_VectorTransform``. With it an
        index that takes untransformed vectors and returns the *squares* of the learned
        distances; for ``faiss.write_index``.

    Examples
    --------
    >>> import faiss, numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from conemetric.export import to_faiss
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = FrobMetric().fit(X, y)
    >>> index = to_faiss(metric, faiss.IndexFlatL2(len(metric.components_)))
    >>> index.add(X.astype(np.float32))
    >>> squared, found = index.search(X[:1].astype(np.float32), 2)
    >>> learned = metric.pair_distance(X[[[0, found[0, 1]]]])
    >>> bool(abs(squared[0, 1] - learned[0] ** 2) < 1e-4)
    True
    """
    faiss = require("faiss", "ann")
    metric = LearnedMetric.from_estimator(metric).for_vectors("FAISS")
    rank, n_features = metric.components.shape
    if index is not None and index.d != rank:
        raise ValueError(
            f"index takes vectors of {index.d} dimensions; the metric maps to {rank}: "
            f"pass an index of {rank}."
        )
    if index is not None and index.metric_type != faiss.METRIC_L2:
        raise ValueError(
            f"index compares by metric_type {index.metric_type}; the learned distance is the "
            "Euclidean one of transformed vectors: pass an index that compares by L2."
        )
    transform = faiss.LinearTransform(n_features, rank, True)
    matrix = np.ascontiguousarray(metric.components, np.float32)
    faiss.copy_array_to_vector(matrix.ravel(), transform.A)
    faiss.copy_array_to_vector(np.ascontiguousarray(metric.offset, np.float32), transform.b)
    transform.set_is_orthonormal()  # computed from A; allows the reverse map if it is exact
    transform.is_trained = True
    if index is None:
        return transform
    return faiss.IndexPreTransform(transform, index)
