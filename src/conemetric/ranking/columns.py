"""Columns of other scores beside those of the embedding: BM25, a cross-encoder, freshness.

A column lists the documents it has scores for, for each query; 0 if not listed. Its normalisation:

    raw       the score itself; columns with negative scores are not learned in it, because a
              document that is not listed counts 0, but a model learned in it ranks by those too
    range     (score - least) / (largest - least) of the query's list
    spread    (score - least) / standard deviation of the query's list

In the last two a document that is not listed is worth as much as the last of the list, the
most that is known of it. Normalised scores are never negative, so that the best documents of a
mix are listed, or among the nearest by the embedding: nothing else has to be ranked.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..core.arrays import to_numpy
from .engines import ENGINES, EVERY, NORMALIZATIONS
from .judgements import Judgements, ListedDocuments, check_shape
from .top_k import Found, Ranking, best_of

AUTO = "auto"  # the best of them on held-out queries
LARGEST = np.finfo(np.float64).max
EMBEDDING = "embedding"  # the name of the embedding's own scores among the weights


@dataclass(frozen=True)
class Columns(ListedDocuments):
    """Scores of the documents listed: ``raw`` (nnz, c) holds one column for each name, NaN if
    that column does not list the document. In a ``target`` engine (`ranking.engines`) every score
    lists ``window`` documents.
    """

    names: tuple[str, ...]
    raw: np.ndarray
    target: str | None = None
    window: int = 0
    _beside = "raw"

    def listed_by(self, target: str | None, window: int | None = None) -> Self:
        """As an engine lists them: the first ``window`` of each column, or as many as the longest has."""
        if target is None:
            return self
        raw = self.raw.copy()
        longest = 1
        for column in raw.T:
            order = np.lexsort((self.document, -column, self.query))  # NaN come last
            is_listed = ~np.isnan(column[order])
            longest = max(longest, int((self.place + 1)[is_listed].max(initial=0)))
            column[order[self.place >= (window or len(raw))]] = np.nan
        kept = ~np.isnan(raw).all(1)
        start = np.searchsorted(self.query[kept], np.arange(self.n_queries + 1))
        return replace(
            self,
            start=start,
            document=self.document[kept],
            raw=raw[kept],
            target=target,
            window=window or longest,
        )

    @property
    def embedding(self) -> str:
        """What the embedding counts (`ranking.engines`)."""
        if self.target is None:
            return EVERY
        return ENGINES[self.target].embedding

    def depth(self, k: int) -> int:
        """How many of the nearest documents decide the first k."""
        if self.embedding == EVERY:
            return k
        return max(k, self.window)

    def tried(self, normalization: str) -> tuple[str, ...]:
        """The one given, or with "auto" all that the target has and that make sense, without raw
        where scores are negative: 0 is no neutral one; an error if the one given does not.
        """
        known: tuple[str, ...] = NORMALIZATIONS
        if self.target is not None:
            known = ENGINES[self.target].normalizations
        if (self.raw < 0).any():
            known = tuple(how for how in known if how != "raw")
        if not known:
            raise ValueError(
                f"target={self.target!r} adds scores as they are, and these columns have negative "
                "ones; add a constant, so that none is."
            )
        if normalization not in (AUTO, *known):
            why = ""
            if normalization in NORMALIZATIONS:
                why = ", which have negative scores"
            raise ValueError(
                f"normalization={normalization!r} does not suit these columns{why}; use "
                f"{', '.join((AUTO, *known))}."
            )
        if normalization == AUTO:
            return known
        return (normalization,)

    def normalized(self, how: str) -> np.ndarray:
        """Scores (nnz, c), 0 for documents that a column does not list."""
        if how == "raw":
            return np.nan_to_num(self.raw)
        values = np.zeros_like(self.raw)
        n = self.n_queries
        for c, column in enumerate(self.raw.T):
            listed = ~np.isnan(column)
            query = self.query[listed]
            score = column[listed]
            if abs(score).max(initial=0.0) > LARGEST / 2:  # differences would overflow
                score = score / 4
            least = np.full(n, np.inf)
            largest = np.full(n, -np.inf)
            np.minimum.at(least, query, score)
            np.maximum.at(largest, query, score)
            score = score - least[query]
            size = largest - least
            score = score / np.where(size > 0, size, 1.0)[query]
            if how == "spread":  # of scores in [0, 1], whose squares are numbers
                count = np.maximum(np.bincount(query, minlength=n), 1)
                mean = np.bincount(query, score, n) / count
                size = (np.bincount(query, (score - mean[query]) ** 2, n) / count) ** 0.5
                score = score / np.where(size > 0, size, 1.0)[query]
            values[listed, c] = score
        return values

    def padded(self, values: np.ndarray, fill: Any) -> np.ndarray:
        """Entries (nnz, ...) as rows, one for each query, with ``fill`` where they end."""
        width = int(self.counts.max(initial=0))
        rows = np.full((self.n_queries, width, *values.shape[1:]), fill, values.dtype)
        rows[self.query, self.place] = values
        return rows

    @cached_property
    def listed(self) -> np.ndarray:
        """The documents of each query (n, L), -1 where they end."""
        return self.padded(self.document, -1)

    @cached_property
    def rows(self) -> Callable[[str], np.ndarray]:
        """The function from a normalisation to scores of `listed` (n, L, c) in it."""
        return cache(lambda how: self.padded(self.normalized(how), 0.0))


@dataclass(frozen=True)
class Pool:
    """What can be among the first of a mix: documents listed (n, L), and the nearest others."""

    columns: Any  # Columns, or None for the embedding alone
    documents: np.ndarray
    scores: np.ndarray
    ties: np.ndarray

    @classmethod
    def of(cls, columns: Columns | None, found: Collection[Found], ties: np.ndarray) -> Self:
        """The pool of what `search` found, in one part or several."""
        near = np.concatenate([to_numpy(part.documents) for part in found])
        scores = np.concatenate([to_numpy(part.scores) for part in found])
        if columns is not None:
            listed = np.concatenate([part.listed for part in found])
            near = np.concatenate([columns.listed, near], axis=1)
            scores = np.concatenate([listed, scores], axis=1)
        return cls(columns, near, scores, ties)

    @cached_property
    def counted(self) -> np.ndarray:
        """What the embedding counts for each document beside columns."""
        columns = self.columns
        if columns is None or columns.embedding == EVERY:
            return self.scores
        ties = self.ties[self.documents]
        counted = as_listed(self.scores, ties, columns.window, columns.embedding)
        unlisted = np.where(self.scores == -np.inf, -np.inf, 0.0)
        unlisted[:, columns.listed.shape[1] :] = -np.inf  # by no column either
        return np.where(np.isnan(counted), unlisted, counted)

    def spreads(self, how: str) -> np.ndarray:
        """By how much each column differs over its list, at least a rounding."""
        listed = self.columns.listed >= 0
        columns = np.moveaxis(self.columns.rows(how), 2, 0)
        spreads = [_spread(column, listed) for column in columns]
        return np.maximum(spreads, np.finfo(float).tiny)

    def sizes(self, how: str) -> np.ndarray:
        """Weights by which the columns differ as much over their lists as the embedding."""
        listed = self.columns.listed >= 0
        return _spread(self.counted[:, : listed.shape[1]], listed) / self.spreads(how)

    def rank(
        self,
        how: str | None,
        weights: Any,
        k: int,
        embedding: float = 1.0,
        excluded: Judgements | None = None,
    ) -> Ranking:
        """(documents, scores), each (n, k), best first, of the sum of ``embedding`` times its
        scores and ``weights`` (c,) or (n, c) times the columns, without the documents that are
        judged in ``excluded``.
        """
        scores = self.scores if how is None else self.counted
        none = (self.documents < 0) | (scores == -np.inf)
        scores = embedding * np.where(none, 0.0, scores)
        if how is not None and self.columns is not None:
            rows = self.columns.rows(how)
            weights = np.broadcast_to(weights, (len(rows), rows.shape[2]))
            bound = np.finfo(scores.dtype).max / 2
            with np.errstate(over="ignore"):  # a score of -1e308 is the last, not missing
                counted = (rows @ weights[..., None])[..., 0]
                scores[:, : rows.shape[1]] += np.clip(counted, -bound, bound)
        if excluded is not None:
            none |= excluded.holds(self.documents)
        return best_of(np.where(none, -np.inf, scores), self.documents, self.ties, k)


def _spread(values, listed):
    """Mean over the queries of the standard deviation over a list."""
    n = np.maximum(listed.sum(1), 1)[:, None]
    least = np.where(listed, values, np.inf).min(1, initial=np.inf, keepdims=True)
    values = np.where(listed, values - np.where(least < np.inf, least, 0.0), 0.0)  # 0 if constant
    size = values.max(initial=0.0) or 1.0  # squares of what is divided by it are numbers
    values /= size
    values = np.where(listed, values - (values / n).sum(1, keepdims=True), 0.0)
    return float(size * np.sqrt((values**2 / n).sum(1)).mean())


def check_scores(scores: Mapping[str, Any], n_queries: int, n_documents: int) -> Columns:
    """Validate columns: sparse (n_queries, n_documents), whose stored entries are the lists."""
    names: list[Any] = []
    if isinstance(scores, Mapping):
        names = list(scores)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TypeError(
            f"scores is {type(scores).__name__} with names {names}; pass a dict of columns by name, "
            "such as {'bm25': sparse matrix}."
        )
    if EMBEDDING in scores:
        raise ValueError(f"scores names a column {EMBEDDING!r}, the embedding's own; rename it.")
    shape = n_queries, n_documents
    columns = [_checked(column, name, shape) for name, column in scores.items()]
    keys = [np.ravel_multi_index(column.tocoo().coords, shape) for column in columns]
    key = np.unique(np.concatenate(keys))
    query, document = np.divmod(key, n_documents)
    raw = np.full((len(key), len(scores)), np.nan)
    for c, column in enumerate(columns):
        raw[np.searchsorted(key, keys[c]), c] = column.data
    start = np.searchsorted(query, np.arange(n_queries + 1))
    return Columns(start, document, n_documents, tuple(scores), raw)


def picked(scores: Any, names: Iterable[str], known: Collection[str]) -> dict[str, Any]:
    """The columns of these names; an error if one is missing, or another is not ``known``."""
    if scores is None:
        scores = {}
    if not isinstance(scores, Mapping):
        raise TypeError(f"scores is {type(scores).__name__}; pass a dict of columns by name.")
    learned = ", ".join(map(repr, known)) or "no columns"
    strange = _quoted(scores, without=known)
    if strange:
        raise ValueError(
            f"scores names {strange}, but the weights were learned for {learned}; rename or drop it, "
            "or learn again with it."
        )
    missing = _quoted(names, without=scores)
    if missing:
        raise ValueError(
            f"scores lacks {missing}, which was given when the weights were learned; pass it here too."
        )
    return {name: scores[name] for name in names}


def _quoted(names, without):
    """Those of the names that are not among the others, for a message."""
    return ", ".join(repr(name) for name in names if name not in without)


def _checked(column, name, shape):
    """A column of finite floats with one entry for each place."""
    if not sparse.issparse(column):
        raise TypeError(
            f"scores[{name!r}] is {type(column).__name__}; pass a scipy.sparse matrix of the best "
            "documents of each query, such as ranking.lexical.engine_scores makes of a function."
        )
    check_shape(column, f"scores[{name!r}]", *shape)
    if column.dtype.kind not in "biuf":
        raise ValueError(f"scores[{name!r}] has dtype {column.dtype}; pass real numbers.")
    column = sparse.csr_array(column, dtype=np.float64)
    # a repeated entry of a sparse matrix means the sum of both
    column.sum_duplicates()
    if not np.isfinite(column.data).all():
        raise ValueError(f"scores[{name!r}] has NaN or infinite entries; drop or replace them.")
    return column


def as_listed(scores: np.ndarray, order: np.ndarray, window: int, how: str) -> np.ndarray:
    """What the embedding counts in an engine: ``scores`` (n, P) of some documents, of which at
    least the ``window`` nearest ones, minus infinity for none; ``order`` decides ties. NaN for
    those that it does not list.
    """
    best = np.lexsort((order, -scores))[:, :window]
    rows = np.arange(len(scores))[:, None]
    listed = np.zeros(scores.shape, bool)
    listed[rows, best] = np.isfinite(scores[rows, best])
    if how == "shifted":
        scores = np.where(scores > 0, scores + 1, 1 / (1 - np.minimum(scores, 0)))
    elif how == "range":
        least = np.where(listed, scores, np.inf).min(1, keepdims=True, initial=np.inf)
        size = np.where(listed, scores, -np.inf).max(1, keepdims=True, initial=-np.inf) - least
        scores = (np.where(listed, scores, least) - least) / np.where(size > 0, size, 1.0)
    return np.where(listed, scores, np.nan)
