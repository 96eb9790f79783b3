"""Learned weights of several scores, as queries of search systems."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from ..ranking.base import RankingEstimator
from ..ranking.columns import EMBEDDING, NORMALIZATIONS
from ..ranking.fusion import RANK, RANK_SHIFT, Fusion
from ..ranking.top_k import check_depth
from ..storage import LearnedMap

__all__ = ["SYSTEMS", "to_hybrid_query"]

MOST_CLAUSES = 5  # of OpenSearch's hybrid query ("Hybrid query")
PRODUCTS = ("cosine", "inner")


@dataclass(frozen=True)
class ScoreSum:
    """Weights above 0, how the columns are scaled, and how an embedding among them compares
    (None without one). The embedding's own score is never scaled.
    """

    weights: dict[str, float]
    normalization: str
    similarity: str | None

    @classmethod
    def of(cls, fusion: Any) -> Self:
        """From a `Fusion`, a fitted estimator or its file, or the dict that "json" returns."""
        if isinstance(fusion, (RankingEstimator, LearnedMap)):
            fusion = LearnedMap.from_estimator(fusion).scores
        elif isinstance(fusion, Fusion):
            fusion = {"weights": fusion.weights, "normalization": fusion.normalization}
        if not isinstance(fusion, Mapping) or not {"weights", "normalization"} <= set(fusion):
            raise TypeError(
                f"fusion is {type(fusion).__name__}; give what fuse returns, or a QueryAdapter or "
                "RelevanceMetric fitted with scores, or loaded from a file."
            )
        weights = {name: float(weight) for name, weight in fusion["weights"].items() if weight > 0}
        if not set(weights) - {EMBEDDING}:
            raise ValueError(
                "no column has a weight: there is nothing to add up. Search by the embedding, "
                "with its queries mapped (transform_queries)."
            )
        similarity = fusion.get("similarity") if EMBEDDING in weights else None
        return cls(weights, fusion["normalization"], similarity)

    def normalization_of(self, name: str) -> str:
        """How this score is scaled."""
        return NORMALIZATIONS[0] if name == EMBEDDING and self.similarity else self.normalization

    @property
    def shares(self) -> list[float]:
        """The weights, divided by their sum."""
        return [weight / sum(self.weights.values()) for weight in self.weights.values()]


def to_hybrid_query(
    fusion: Any, system: str, *, limit: int = 10, window: int = 200
) -> dict[str, Any] | str:
    """The learned sum of scores in the form of a search system.

    Every query vector is one that the adapter has mapped (`transform_queries`), documents have
    unit length if the embedding compares by cosine, and fields are called as the columns:
    replace the names and the placeholders in double braces.

    Parameters
    ----------
    fusion : Fusion, QueryAdapter or RelevanceMetric fitted with ``scores``, or one from a file
    system : str
        "opensearch"
            A search pipeline (page "Normalization processor"): ``min_max`` and a weighted
            ``arithmetic_mean``, for a hybrid query with a clause for each score in this order.
        "elasticsearch"
            A ``linear`` retriever (page "Linear retriever"), ``none`` or ``minmax`` for each
            score. The embedding's field has the similarity ``max_inner_product``, whose score
            is the product plus 1, or 1 / (1 - product) below 0 (page "Dense vector field type").
        "qdrant"
            A formula over prefetches (page "Search Relevance", section Score Boosting); the
            embedding is compared by ``Dot``.
        "milvus"
            Parameters of a reranking function (page "Weighted Ranker") without its arctan; the
            embedding is compared by ``IP``.
        "pgvector"
            A statement of SQL ("pgvector", section Hybrid Search; $1 the vector, $2 the words).
            ``ts_rank_cd`` is not BM25: learn with the score that you search with.
        "llama-index"
            Arguments of ``QueryFusionRetriever`` (its reference), mode ``relative_score``.
        "langchain"
            Arguments of ``EnsembleRetriever`` (page "EnsembleRetriever"), which adds
            reciprocal ranks.
        "json"
            Weights, normalisation and similarity.
    limit : int, default=10
        Documents to return.
    window : int, default=200
        Documents that each score lists. "range" and "spread" depend on it: list as many as
        when the weights were learned.

    Returns
    -------
    dict for JSON or keyword arguments; str for "pgvector"

    Notes
    -----
    pgvector computes the same ranking as `rank`. Elsewhere, a document that the vector search
    does not list counts nothing for the embedding, where `rank` computes its score: raise
    ``window`` if that matters, above all for Elasticsearch, which adds 1 to the score of every
    document that the vector search lists. OpenSearch gives the last of a list 0.001 instead of 0, and
    where all scores of a list are equal, OpenSearch and LlamaIndex give 1 instead of 0.

    What a system cannot compute is refused: most scale all scores alike or none. Learn weights
    for it with the constructor's ``normalization``, or, where the embedding has to be scaled too,
    by ``fuse(..., normalization=...)`` with the scores of the mapped queries as one more column.

    Examples
    --------
    >>> from conemetric.export import to_hybrid_query
    >>> learned = {"weights": {"bm25": 1.0, "dense": 3.0}, "normalization": "range"}
    >>> to_hybrid_query(learned, "llama-index")["retriever_weights"]
    [0.25, 0.75]
    """
    if system not in SYSTEMS:
        raise ValueError(f"system={system!r} is not known; use one of {', '.join(SYSTEMS)}.")
    scores = ScoreSum.of(fusion)
    write, scales, similarities = SYSTEMS[system]
    for name, number in {"limit": limit, "window": window}.items():
        check_depth(number, name)
    wanted = f"normalization={scales[0]!r}"
    if scores.similarity not in (None, *similarities):
        raise ValueError(
            f"{system} cannot add the embedding's own score ({scores.similarity}) to others as it "
            f"is; learn weights for it by fuse(scores, relevance, {wanted}), with the scores of "
            "mapped queries as one of the columns, or export to pgvector or json."
        )
    if scores.normalization not in scales:
        learner = "fuse(scores, relevance, " if scores.similarity is None else "the estimator("
        raise ValueError(
            f"{system} cannot scale scores by {scores.normalization!r}, only by "
            f"{' or '.join(map(repr, scales))}; learn weights for it by {learner}{wanted}), or "
            "export to pgvector or json."
        )
    return write(scores, limit, window)


def _opensearch(scores, limit, window):
    if len(scores.weights) > MOST_CLAUSES:
        raise ValueError(
            f"{len(scores.weights)} scores have a weight, but a hybrid query of OpenSearch has at "
            f"most {MOST_CLAUSES} clauses; fuse fewer columns."
        )
    combination = {"technique": "arithmetic_mean", "parameters": {"weights": scores.shares}}
    processor = {"normalization": {"technique": "min_max"}, "combination": combination}
    return {
        "description": f"Weights of {', '.join(scores.weights)}",
        "phase_results_processors": [{"normalization-processor": processor}],
    }


def _elasticsearch(scores, limit, window):
    # elastic.co/docs/reference/elasticsearch/mapping-reference/dense-vector, max_inner_product:
    # _score is product + 1, and 1 / (1 + -1 * product) below 0
    vector = {"field": EMBEDDING, "query_vector": "{{query_vector}}", "k": window}
    retrievers = [
        {
            "retriever": {"knn": vector | {"num_candidates": window}}
            if name == EMBEDDING
            else {"standard": {"query": {"match": {name: "{{query}}"}}}},
            "weight": weight,
            "normalizer": "minmax" if scores.normalization_of(name) == "range" else "none",
        }
        for name, weight in scores.weights.items()
    ]
    linear = {"retrievers": retrievers, "rank_window_size": window}
    return {"retriever": {"linear": linear}, "size": limit}


def _qdrant(scores, limit, window):
    prefetch = [
        {"query": f"{{{{{name}}}}}", "using": name, "limit": window} for name in scores.weights
    ]
    places = {f"$score[{i}]": weight for i, weight in enumerate(scores.weights.values())}
    formula = {"sum": [{"mult": [weight, place]} for place, weight in places.items()]}
    query = {"formula": formula, "defaults": dict.fromkeys(places, 0.0)}
    return {"prefetch": prefetch, "query": query, "limit": limit}


def _milvus(scores, limit, window):
    # milvus.io/docs/weighted-ranker.md: weights are from 0 to 1; norm_score, a bool, decides
    # whether scores go through the arctan (rerank/function_score.go; Milvus 2.6)
    largest = max(scores.weights.values())
    weights = [weight / largest for weight in scores.weights.values()]
    return {"reranker": "weighted", "weights": weights, "norm_score": False}


# scores and orders of documents by the embedding: pgvector's operators (github.com/pgvector/pgvector,
# README, "Vector Functions": vector_norm(vector) is the Euclidean norm)
_VECTOR_SQL = {
    "cosine": ("vector_norm($1) * (1 - (embedding <=> $1))", "embedding <=> $1"),
    "inner": ("-(embedding <#> $1)", "embedding <#> $1"),
    "euclidean": ("-power(embedding <-> $1, 2)", "embedding <-> $1"),
}
_SCALED_SQL = {
    "raw": "{0}.score",
    "range": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT max(score) - min(score) FROM {0}), 0)",
    "spread": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT stddev_pop(score) FROM {0}), 0)",
}


def _pgvector(scores, limit, window):
    lists, terms, joins = {}, [], []
    for i, (name, weight) in enumerate(scores.weights.items()):
        if name == EMBEDDING and scores.similarity:
            value, order = _VECTOR_SQL[scores.similarity]
            lists["near"] = f"SELECT id FROM items ORDER BY {order} LIMIT {window}"
            terms.append(f"{weight!r} * ({value})")
            continue
        field, words = '"' + name.replace('"', '""') + '"', "plainto_tsquery($2)"
        lists[f"scores_{i}"] = (
            f"SELECT id, ts_rank_cd({field}, {words}) AS score FROM items "
            f"WHERE {field} @@ {words} ORDER BY score DESC LIMIT {window}"
        )
        scaled = _SCALED_SQL[scores.normalization].format(f"scores_{i}")
        terms.append(f"{weight!r} * COALESCE({scaled}, 0)")
        joins.append(f"LEFT JOIN scores_{i} USING (id)")
    union = " UNION ".join(f"SELECT id FROM {name}" for name in lists)
    tables = ",\n".join(
        f"{name} AS (\n  {of}\n)" for name, of in {**lists, "listed": union}.items()
    )
    return (
        f"-- pgvector: weighted sum of {', '.join(scores.weights)}, by conemetric\n"
        f"WITH {tables}\nSELECT id,\n  " + "\n  + ".join(terms) + " AS score\n"
        f"FROM listed JOIN items USING (id) {' '.join(joins)}\n"
        f"ORDER BY score DESC LIMIT {limit};\n"
    )


def _llama_index(scores, limit, window):
    return {
        "retrievers": list(scores.weights),
        "retriever_weights": scores.shares,
        "mode": "relative_score",
        "num_queries": 1,
        "similarity_top_k": limit,
    }


def _langchain(scores, limit, window):
    return {"retrievers": list(scores.weights), "weights": scores.shares, "c": RANK_SHIFT}


def _json(scores, limit, window):
    return asdict(scores)


# how each is written, the scales it has for columns, and the similarities of which it can add
# the score as it is
SYSTEMS: dict[str, tuple[Callable, tuple[str, ...], tuple[str, ...]]] = {
    "opensearch": (_opensearch, ("range",), ()),
    "elasticsearch": (_elasticsearch, ("range", "raw"), PRODUCTS),
    "qdrant": (_qdrant, ("raw",), PRODUCTS),
    "milvus": (_milvus, ("raw",), PRODUCTS),
    "pgvector": (_pgvector, NORMALIZATIONS, tuple(_VECTOR_SQL)),
    "llama-index": (_llama_index, ("range",), ()),
    "langchain": (_langchain, (RANK,), ()),
    "json": (_json, (*NORMALIZATIONS, RANK), tuple(_VECTOR_SQL)),
}
