"""Search engines, and what each of them can compute of a weighted sum of scores.

A target (``QueryAdapter(target=...)``) is known before anything is learned: weights are chosen, and
`rank` ranks, as the query that `conemetric.export.to_hybrid_query` writes for that engine does.

Every engine lists ``window`` documents by each column. They differ in what the embedding counts:

    every     its score for every document that is listed, by whatever score
    listed    its score for the ``window`` nearest documents; 0 for all others
    shifted   likewise, of s the score s + 1, or 1 / (1 - s) below 0, as Lucene makes it positive
    range     (s - least) / (largest - least) of the ``window`` nearest; 0 for all others
"""

from dataclasses import dataclass

import numpy as np

PRODUCTS = ("cosine", "inner")
SIMILARITIES = (*PRODUCTS, "euclidean")
NORMALIZATIONS = ("raw", "range", "spread")  # simplest first
EVERY = "every"  # `rank` without a target


@dataclass(frozen=True)
class Engine:
    """One row of the table."""

    words: str  # the lexical score
    normalizations: tuple[str, ...]  # of columns
    embedding: str  # see the module docstring
    similarities: tuple[str, ...]


ENGINES = {
    "pgvector": Engine("bm25 in SQL", NORMALIZATIONS, EVERY, SIMILARITIES),
    "duckdb": Engine("bm25 vectors", NORMALIZATIONS, EVERY, SIMILARITIES),
    "sqlite": Engine("FTS5", NORMALIZATIONS[:2], EVERY, ("cosine", "euclidean")),
    "qdrant": Engine("bm25 vectors", ("raw",), EVERY, PRODUCTS),
    "milvus": Engine("bm25 vectors", ("raw",), "listed", PRODUCTS),
    "lancedb": Engine("its own", ("range",), "range", PRODUCTS),
    "elasticsearch": Engine("its own", NORMALIZATIONS[:2], "shifted", PRODUCTS),
    "opensearch": Engine("its own", ("range",), "range", SIMILARITIES),
}


def check_target(target: str, normalization: str, similarity: str) -> None:
    """Refuse what an engine cannot compute, before anything is learned for it."""
    engine = ENGINES[target]
    if similarity not in engine.similarities:
        able = (name for name, of in ENGINES.items() if similarity in of.similarities)
        raise ValueError(
            f"target={target!r} cannot add the {similarity} score of an embedding to other scores; "
            f"use similarity={engine.similarities[0]!r}, or another target: {', '.join(able)}."
        )
    if normalization not in ("auto", *engine.normalizations):
        raise ValueError(
            f"target={target!r} cannot scale scores by {normalization!r}; use normalization='auto' "
            f"or {' or '.join(map(repr, engine.normalizations))}."
        )


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
