"""The nearest documents of each query, in blocks: no array of queries x documents is formed."""

from typing import Any

import numpy as np

from ..core.arrays import arange, is_torch, like, namespace, to_index
from ..neighbours.ties import row_keys

__all__ = ["nearest_documents", "unit_rows"]

BLOCK = 1 << 25  # scores held at a time: 256 MB in float64
SIMILARITIES = ("euclidean", "inner", "cosine")


def nearest_documents(
    queries: Any,
    documents: Any,
    k: int,
    similarity: str = "euclidean",
    excluded: tuple[np.ndarray, np.ndarray] | None = None,
) -> Any:
    """The ``k`` nearest documents of every query, nearest first, in the library of the
    queries; ties by `neighbours.ties`, -1 where a query has too few documents left.

    ``excluded = (start, document)`` leaves out ``document[start[i]:start[i + 1]]`` for
    query i (integer arrays on the host).
    """
    xp, k = namespace(queries, documents), min(k, len(documents))
    found = xp.empty((len(queries), k), dtype=xp.int64, device=queries.device)
    order = like(np.argsort(row_keys(documents), kind="stable"), found)
    left, right = _as_products(queries, documents, similarity)
    step = max(1, BLOCK // max(1, len(right)))
    for start in range(0, len(left), step):
        rows = slice(start, min(start + step, len(left)))
        scores = left[rows] @ right.T
        if excluded is not None:
            _exclude(scores, rows, *excluded)
        found[rows] = _top_columns(scores, k, order)
    return found


def _as_products(queries, documents, similarity):
    """Two arrays whose products rank the documents as ``similarity`` does."""
    if similarity == "inner":
        return queries, documents
    if similarity == "cosine":
        return queries, unit_rows(documents)  # a query's own length does not matter
    if similarity != "euclidean":
        raise ValueError(f"similarity={similarity!r} is not known; use {', '.join(SIMILARITIES)}.")
    xp, centre = namespace(documents), documents.mean(0)  # avoids cancellation
    queries, documents = queries - centre, documents - centre
    squares = (documents * documents).sum(1)[:, None]
    ones = xp.ones((len(queries), 1), dtype=queries.dtype, device=queries.device)
    return xp.concat([2 * queries, ones], 1), xp.concat([documents, -squares], 1)


def unit_rows(X: Any) -> Any:
    """Rows divided by their length; zero rows stay zero."""
    length = (X * X).sum(1)[:, None] ** 0.5
    return X / namespace(X).where(length > 0, length, 1)


def _exclude(scores, rows, start, document):
    start = start[rows.start : rows.stop + 1]
    if start[-1] > start[0]:
        row = np.repeat(np.arange(len(start) - 1), np.diff(start))
        index = arange(1, scores)
        scores[like(row, index), like(document[start[0] : start[-1]], index)] = -np.inf


def _top_columns(scores, k, order):
    """Columns of the ``k`` largest entries of each row, largest first, ties by ``order``; -1
    for entries of minus infinity.
    """
    xp = namespace(scores)
    values, columns = (_top_torch if is_torch(scores) else _top_numpy)(scores, k, order)
    # if entries equal to the smallest kept one were dropped, which of them is arbitrary
    crowded = to_index((scores >= values[:, -1:]).sum(1) > k)
    if len(crowded):
        columns[crowded] = order[xp.argsort(-scores[crowded][:, order], stable=True)[:, :k]]
    return xp.where(values > -np.inf, columns, -1)


def _top_numpy(scores, k, order):
    columns = np.argpartition(-scores, min(k, scores.shape[1] - 1), axis=1)[:, :k]
    values = np.take_along_axis(scores, columns, axis=1)
    best = np.lexsort((np.argsort(order)[columns], -values))
    return tuple(np.take_along_axis(array, best, axis=1) for array in (values, columns))


def _top_torch(scores, k, order):
    columns = scores.topk(k, dim=1).indices
    columns = order[order.argsort()[columns].sort(dim=1).values]
    values, best = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, best)
