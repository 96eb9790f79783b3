"""A learned sum of scores: the columns it needs, and the documents it ranks first."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .columns import EMBEDDING, Columns, Pool, check_scores
from .top_k import search, tie_ranks

__all__ = ["picked", "rank_by_sum", "weighted_columns"]


def picked(scores: Any, names: Iterable[str], known: Iterable[str]) -> dict[str, Any]:
    """The columns of these names; an error if one is missing, or another is not ``known``."""
    scores = {} if scores is None else scores
    if not isinstance(scores, Mapping):
        raise TypeError(f"scores is {type(scores).__name__}; give a dict of columns by name.")
    known = list(known)
    strange = [name for name in scores if name not in known]
    if strange:
        learned = ", ".join(map(repr, known)) or "no columns"
        raise ValueError(
            f"scores names {', '.join(map(repr, strange))}, but the weights were learned for "
            f"{learned}; rename or drop it, or learn again with it."
        )
    missing = [name for name in names if name not in scores]
    if missing:
        raise ValueError(
            f"scores lacks {', '.join(map(repr, missing))}, which was given when the weights were "
            "learned; give it here too."
        )
    return {name: scores[name] for name in names}


def weighted_columns(
    scores: Any,
    weights: Mapping[str, float],
    normalization: str | None,
    shape: tuple[int, int],
    nearest: Callable[[int], Any] | None = None,
) -> Columns | None:
    """The columns that have a weight, checked; None if none has."""
    known = [name for name in weights if name != EMBEDDING]
    used = picked(scores, [name for name in known if weights[name]], known)
    if not used or normalization is None:
        return None
    columns = check_scores(used, *shape, nearest)
    columns.tried(normalization)  # refuses columns that it does not suit
    return columns


def rank_by_sum(
    queries: Any,
    documents: Any,
    similarity: str,
    columns: Columns | None,
    weights: Mapping[str, float],
    normalization: str | None,
    k: int,
    ties: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(documents, scores) of the first ``k`` for mapped queries and documents, on the host."""
    ties = tie_ranks(documents) if ties is None else ties
    listed, names = (columns.listed, columns.names) if columns else (None, ())
    found = search(queries, documents, k, similarity, listed=listed, ties=ties)
    of_columns = np.array([weights[name] for name in names])
    pool = Pool.of(columns, found, ties)
    return pool.rank(normalization, of_columns, min(k, len(documents)), weights[EMBEDDING])
