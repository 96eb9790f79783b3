"""Search engines, and what each of them can compute of a weighted sum of scores.

A target (``QueryAdapter(target=...)``) is known before anything is learned: weights are chosen, and
`rank` ranks, as the query that `conemetric.export.to_hybrid_query` writes for that engine does.

Every engine lists ``window`` documents by each column. They differ in what the embedding counts:

    every     its score for every document that is listed, by whatever score
    listed    its score for the ``window`` nearest documents; 0 for all others
    shifted   likewise, of s the score s + 1, or 1 / (1 - s) below 0, as Lucene makes it positive
    range     (s - least) / (largest - least) of the ``window`` nearest; 0 for all others

This table is the only list of engines: the command line offers its keys, and `export.hybrid` has one
function for each row. It imports neither NumPy nor anything else of the library, because the help of
the commands shows it and should come at once.
"""

from dataclasses import dataclass

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
    maps_queries: bool = False  # itself, so that its query holds the map


ENGINES = {
    "pgvector": Engine("bm25 in SQL", NORMALIZATIONS, EVERY, SIMILARITIES, maps_queries=True),
    "duckdb": Engine("bm25 vectors", NORMALIZATIONS, EVERY, SIMILARITIES, maps_queries=True),
    "sqlite": Engine("FTS5", NORMALIZATIONS[:2], EVERY, ("cosine", "euclidean"), maps_queries=True),
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
