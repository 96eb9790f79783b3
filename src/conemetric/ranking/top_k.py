"""The nearest documents of each query, in blocks: no array of queries x documents is formed."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import (
    float64,
    is_torch,
    like,
    namespace,
    on_device,
    to_index,
    to_numpy,
    zeros,
)
from ..core.compiled import jit
from ..core.slices import slices
from ..core.threads import threaded
from ..neighbours.ties import row_keys
from .engines import SIMILARITIES

AT_ONCE_ON_DEVICE = 1 << 27  # scores held there: all documents are read again for each part
# documents whose mean is this many times as far from the origin as they spread are centred before
# they are multiplied: products would lose a decimal digit or more. Nearer ones are not, which saves
# a copy of them.
FAR = 10.0
SAMPLED_FOR_CENTRE = 1 << 16  # documents, evenly spaced, from which mean and spread are estimated
Ranking = tuple[np.ndarray, np.ndarray]  # documents (n, k), best first, and their scores


class Found(NamedTuple):
    """Nearest documents (n, k), -1 for none, with their scores, and the scores of those listed."""

    documents: Any
    scores: Any
    listed: np.ndarray


def search(  # noqa: PLR0913
    queries: Any,
    documents: Any,
    k: int,
    similarity: str = "euclidean",
    *,
    excluded: tuple[np.ndarray, np.ndarray] | None = None,
    listed: np.ndarray | None = None,
    ties: np.ndarray | None = None,
    centre: Any = None,
) -> Found:
    """The ``k`` nearest documents of every query, nearest first, in the library of the queries,
    and their scores: products, or minus squared distances. Ties are decided by `neighbours.ties`.

    ``excluded = (start, document)`` leaves out ``document[start[i]:start[i + 1]]`` for query i
    (integer arrays on the host). ``listed`` (n, L; -1 for none) are documents of which the scores
    are wanted and which are not searched; ``ties`` are `tie_ranks` computed before.

    Where documents lie far from the origin, products are those of centred documents, and the
    scores are in float64: the order does not depend on where the origin of the documents lies.
    ``centre`` is what a caller has subtracted from all documents already.
    """
    xp = namespace(queries, documents)
    shape = (len(queries), min(k, len(documents)))
    if similarity == "inner" and centre is None:
        documents, centre = centred_if_far(documents)
    left, right, shift = _as_products(queries, documents, similarity)
    if centre is not None:
        shift = shift + float64(queries) @ float64(centre)
    found = xp.empty(shape, dtype=xp.int64, device=queries.device)
    values = xp.empty(shape, dtype=shift.dtype, device=queries.device)
    if ties is None:
        ties = tie_ranks(documents)
    ties = like(ties, found)
    order = ties.argsort() if is_torch(found) else None  # the host compares ranks
    if listed is None:
        listed = np.full((len(queries), 0), -1)
    scored = np.full(listed.shape, -np.inf)
    at_once = AT_ONCE_ON_DEVICE if on_device(left) else None
    for rows in slices(len(left), len(right), at_once):
        scores = left[rows] @ right.T
        if listed.size:
            scored[rows] = _taken_out(scores, shift[rows], listed[rows])
        if excluded is not None:
            query, document = _excluded_in(rows, *excluded)
            scores[like(query, found), like(document, found)] = -np.inf
        found[rows], values[rows] = _top_columns(scores, shape[1], ties, order)
        values[rows] += shift[rows, None]
    return Found(found, values, scored)


def _taken_out(scores, shift, listed):
    """The scores of the documents listed, minus infinity where there is none; they are not found again."""
    taken = np.full(listed.shape, -np.inf)
    row, column = np.nonzero(listed >= 0)
    query = like(row, scores, namespace(scores).int64)
    document = like(listed[row, column], scores, namespace(scores).int64)
    taken[row, column] = to_numpy(scores[query, document] + shift[query])
    scores[query, document] = -np.inf
    return taken


def _excluded_in(rows, start, document):
    """Queries, counted from the first of these rows, and the documents that they leave out."""
    start = start[rows.start : rows.stop + 1]
    query = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return query, document[start[0] : start[-1]]


def check_depth(k: Any, name: str = "k") -> None:
    """Refuse a number of documents that is no integer of at least 1."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"{name}={k!r} must be an integer of at least 1.")


def tie_ranks(documents: Any) -> np.ndarray:
    """The place of each document among those with equal scores."""
    ranks = np.empty(len(documents), np.int64)
    ranks[np.argsort(row_keys(documents), kind="stable")] = np.arange(len(documents))
    return ranks


def _as_products(queries, documents, similarity):
    """Two arrays whose products plus a number per query are the scores of documents."""
    shift = zeros(len(queries), queries)
    if similarity == "inner":
        return queries, documents, shift
    if similarity == "cosine":
        return queries, unit_rows(documents), shift  # a query's own length does not matter
    if similarity != "euclidean":
        raise ValueError(f"similarity={similarity!r} is not known; use {', '.join(SIMILARITIES)}.")
    xp = namespace(documents)
    centre = centre_of(documents)  # avoids cancellation
    queries = queries - centre
    documents = documents - centre
    squares = (documents * documents).sum(1)[:, None]
    ones = xp.ones((len(queries), 1), dtype=queries.dtype, device=queries.device)
    left = xp.concat([2 * queries, ones], 1)
    right = xp.concat([documents, -squares], 1)
    return left, right, -(queries * queries).sum(1)


def centre_of(X: Any) -> Any:
    """The mean of the rows, summed in float64: far from the origin a sum in float32 is off by more
    than the rows spread, and they would not be centred. Rows less it lose nothing by rounding.
    """
    return like(X.mean(0, dtype=namespace(X).float64), X)


def centred_if_far(documents: Any) -> tuple[Any, Any]:
    """The documents less a point near their mean, and that point, if their mean is far from the
    origin (`FAR`); else the documents as they are, and None.

    The point is a multiple of a power of two below the spread, so that subtracting it is exact and
    scores that were equal stay equal.
    """
    sample = documents[:: -(-len(documents) // SAMPLED_FOR_CENTRE)]
    mean = float64(centre_of(sample))
    spread = float(((sample - like(mean, sample)) ** 2).sum(1).mean()) ** 0.5
    length = float((mean**2).sum()) ** 0.5
    if not 0 < FAR * spread < length:
        return documents, None
    step = 2.0 ** np.floor(np.log2(spread / len(mean) ** 0.5))
    centre = like((mean / step).round() * step, documents)
    return documents - centre, centre


def unit_rows(X: Any) -> Any:
    """Rows divided by their length; zero rows stay zero."""
    length = (X * X).sum(1)[:, None] ** 0.5
    return X / namespace(X).where(length > 0, length, 1)


def _top_columns(scores, k, ties, order):
    """(columns, values) of the ``k`` largest of each row, ties by rank; -1 for minus infinity."""
    if not is_torch(scores):
        return best_of(scores, np.broadcast_to(np.arange(scores.shape[1]), scores.shape), ties, k)
    columns = scores.topk(k, dim=1).indices
    # in the order of ties first, which the stable sort by score then keeps
    columns = order[ties[columns].sort(dim=1).values]
    values, best = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    columns = columns.gather(1, best)
    # if entries equal to the smallest kept one were dropped, which of them is arbitrary
    crowded = to_index((scores >= values[:, -1:]).sum(1) > k)
    if len(crowded):
        columns[crowded] = order[(-scores[crowded][:, order]).argsort(stable=True)[:, :k]]
    columns[values == -np.inf] = -1
    return columns, values


def best_of(scores: Any, documents: Any, ties: Any, k: int) -> Ranking:
    """(documents, scores) of the ``k`` largest scores (n, P) of each row, largest first, ties by
    rank; -1 for scores of minus infinity. On the host.
    """
    found = np.full((len(scores), k), -1)
    values = np.full((len(scores), k), -np.inf, scores.dtype)
    threaded(_best_of, len(scores), scores.size, scores, documents, ties, found, values)
    return found, values


@jit
def _best_of(start, stop, scores, documents, ties, found, values):
    """Insert each entry where it belongs among the best so far, for rows start:stop."""
    k = found.shape[1]
    for i in range(start, stop):
        for j in range(scores.shape[1]):
            value = scores[i, j]
            if not value > -np.inf or value < values[i, k - 1]:
                continue
            document = documents[i, j]
            place = k
            while place > 0 and (
                value > values[i, place - 1]
                or (value == values[i, place - 1] and ties[document] < ties[found[i, place - 1]])
            ):
                place -= 1
            for later in range(k - 1, place, -1):
                values[i, later] = values[i, later - 1]
                found[i, later] = found[i, later - 1]
            if place < k:
                values[i, place] = value
                found[i, place] = document
