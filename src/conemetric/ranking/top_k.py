"""The documents nearest to each query, in blocks: no array of queries x documents is formed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.arrays import arange, is_torch, like, namespace, to_index
from ..neighbours.ties import row_keys

BLOCK = 1 << 25  # scores held at a time
SIMILARITIES = ("euclidean", "inner", "cosine")


def nearest_documents(queries, documents, k, similarity="euclidean", excluded=None) -> Any:
    """The ``k`` nearest documents of every query, nearest first; of equal scores by the
    keys of the documents (see `ties`).

    Parameters
    ----------
    queries : array (n_queries, D), float32 or float64, NumPy or PyTorch
    documents : array (n_documents, D)
    k : int
    similarity : {"euclidean", "inner", "cosine"}
        Nearest by Euclidean distance, or by the largest inner product or cosine.
    excluded : (start, document), default=None
        Documents to pass over: those of query i are
        ``document[start[i]:start[i + 1]]``, integer arrays on the host.

    Returns
    -------
    integer array (n_queries, min(k, n_documents))
        In the library of the queries; -1 where a query has too few documents left.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.ranking.top_k import nearest_documents
    >>> documents = np.array([[0.0], [1.0], [3.0]])
    >>> nearest_documents(np.array([[0.9], [4.0]]), documents, k=2)
    array([[1, 0],
           [2, 1]])
    """
    xp, k = namespace(queries, documents), min(k, len(documents))
    found = xp.empty((len(queries), k), dtype=xp.int64, device=queries.device)
    order = like(np.argsort(row_keys(documents), kind="stable"), found)
    for rows, scores in score_blocks(queries, documents, similarity):
        if excluded is not None:
            _pass_over(scores, rows, excluded)
        found[rows] = top_columns(scores, k, order)
    return found


def score_blocks(queries, documents, similarity="euclidean") -> Iterator[tuple[slice, Any]]:
    """Yield (rows, scores): a range of queries and how near each document is to them,
    larger is nearer.
    """
    left, right = _as_products(queries, documents, similarity)
    step = max(1, BLOCK // max(1, len(right)))
    for start in range(0, len(left), step):
        rows = slice(start, min(start + step, len(left)))
        yield rows, left[rows] @ right.T


def _as_products(queries, documents, similarity):
    """Two arrays whose products rank the documents as ``similarity`` does."""
    if similarity == "inner":
        return queries, documents
    if similarity == "cosine":
        return queries, unit_rows(documents)  # the length of a query ranks nothing
    if similarity != "euclidean":
        raise ValueError(f"similarity={similarity!r} is not known; use {', '.join(SIMILARITIES)}.")
    xp, centre = namespace(documents), documents.mean(0)  # keeps every digit of the distances
    queries, documents = queries - centre, documents - centre
    squares = (documents * documents).sum(1)[:, None]
    ones = xp.ones((len(queries), 1), dtype=queries.dtype, device=queries.device)
    return xp.concat([2 * queries, ones], 1), xp.concat([documents, -squares], 1)


def unit_rows(X):
    """Rows divided by their length; a zero row stays."""
    length = (X * X).sum(1)[:, None] ** 0.5
    return X / namespace(X).where(length > 0, length, 1)


def _pass_over(scores, rows, excluded):
    start, document = excluded
    first, last = start[rows.start], start[rows.stop]
    if last > first:
        row = np.repeat(
            np.arange(rows.stop - rows.start), np.diff(start[rows.start : rows.stop + 1])
        )
        index = arange(1, scores)
        scores[like(row, index), like(document[first:last], index)] = -np.inf


def top_columns(scores, k, order) -> Any:
    """Columns of the ``k`` largest entries of each row, largest first, ties as they come in
    ``order``; -1 in place of entries of minus infinity.
    """
    xp = namespace(scores)
    values, columns = (_top_torch if is_torch(scores) else _top_numpy)(scores, k, order)
    # where the least entry kept has equals that were not, which of them came is chance
    crowded = to_index((scores >= values[:, -1:]).sum(1) > k)
    if len(crowded):
        columns[crowded] = order[xp.argsort(-scores[crowded][:, order], stable=True)[:, :k]]
    return xp.where(values > -np.inf, columns, -1)


def _top_numpy(scores, k, order):
    columns = np.argpartition(-scores, min(k, scores.shape[1] - 1), axis=1)[:, :k]
    values = np.take_along_axis(scores, columns, axis=1)
    best = np.lexsort((np.argsort(order)[columns], -values))
    return tuple(np.take_along_axis(part, best, axis=1) for part in (values, columns))


def _top_torch(scores, k, order):
    columns = scores.topk(k, dim=1).indices
    columns = order[order.argsort()[columns].sort(dim=1).values]
    values, best = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, best)
