"""Learned weights of several scores, as queries of search engines."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.fields import expect
from ..ranking.base import RankingEstimator
from ..ranking.columns import EMBEDDING
from ..ranking.engines import ENGINES, EVERY, SIMILARITIES
from ..ranking.fusion import Fusion
from ..ranking.lexical import LISTED
from ..ranking.model import RankingModel
from ..ranking.top_k import check_depth
from ..storage import LearnedMap
from .postgres import Examples, postgres_file
from .sql import sum_query

MOST_CLAUSES = 5  # of OpenSearch's hybrid query ("Hybrid query")
JSON = "json"
SYSTEMS = (*ENGINES, JSON)
SUMMED = ("weights", "normalization", "similarity", "target", "window")


def score_sum(fusion: Any) -> RankingModel:
    """What a `Fusion`, a fitted estimator or its file, or the dict that "json" returns adds up, as
    a model with the weights above 0 only.
    """
    given = fusion
    query_map = None
    if isinstance(fusion, (RankingEstimator, LearnedMap)):
        learned = LearnedMap.from_estimator(fusion)
        given = learned.scores
        query_map = learned.components
    elif isinstance(fusion, Fusion):
        given = {"weights": fusion.weights, "normalization": fusion.normalization}
    if not _is_a_sum(given):
        raise TypeError(
            f"fusion is {type(given).__name__}; pass what fuse returns, or a QueryAdapter or "
            "RelevanceMetric fitted with scores, or loaded from a file."
        )
    weights = given["weights"]
    state = {name: given.get(name) for name in SUMMED}
    state |= {"query_map": None, "document_map": None}
    if not weights.get(EMBEDDING):
        state["similarity"] = SIMILARITIES[0]  # of no embedding
    known = f"one of {', '.join(SIMILARITIES)}, as the embedding is compared, which has a weight"
    expect(state["similarity"] in SIMILARITIES, "fusion.similarity", state["similarity"], known)
    model = RankingModel.from_state(state | {"weights": {EMBEDDING: 0.0, **weights}}, "fusion")
    used = {name: float(weight) for name, weight in weights.items() if weight > 0}
    if not set(used) - {EMBEDDING} and model.target is None:
        raise ValueError(
            "no column has a weight: there is nothing to add up. Search by the embedding, "
            "with its queries mapped (transform_queries)."
        )
    return replace(model, query_map=query_map, weights=used)


def _is_a_sum(given: Any) -> bool:
    """Whether this is a mapping with weights by column, and how scores are normalised."""
    if not isinstance(given, Mapping) or "normalization" not in given:
        return False
    return isinstance(given.get("weights"), Mapping)


def to_hybrid_query(
    fusion: Any,
    system: str | None = None,
    *,
    limit: int = 10,
    window: int | None = None,
    words: str = "bm25",
    language: str = "english",
    examples: Examples | None = None,
) -> dict[str, Any] | str:
    """The learned sum of scores in the form of a search engine, which then ranks as `rank` does.

    Fields are called as the columns: replace the names and the placeholders in double braces. A
    query vector is one that the adapter has mapped (`transform_queries`), of unit length before
    if the embedding compares by cosine, as documents are; PostgreSQL maps it itself.

    Parameters
    ----------
    fusion : Fusion, QueryAdapter or RelevanceMetric fitted with ``scores``, or one from a file
    system : str, default=None
        The ``target`` that it was learned for, if None.

        - "pgvector": a file for psql that creates the map, the function ``learned_rank(vector,
          words, n)`` and, with ``examples``, the view ``learned_verify``
        - "duckdb", "sqlite": a statement of SQL
        - "qdrant": a formula over prefetches (page "Search Relevance", section Score Boosting); the
          embedding is compared by ``Dot``, words are sparse vectors (`BM25Vectors`)
        - "milvus": searches of a hybrid search and parameters of its reranking function (page
          "Weighted Ranker"), without its arctan; compared by ``IP``
        - "lancedb": arguments of ``LinearCombinationReranker``, and the limit of the hybrid query
        - "elasticsearch": a ``linear`` retriever (page "Linear retriever"), ``none`` or ``minmax``
          for each score; the embedding's field has the similarity ``max_inner_product``
        - "opensearch": a search pipeline (page "Normalization processor"), ``min_max`` and a weighted
          ``arithmetic_mean``, for a hybrid query with a clause for each score in this order
        - "json": weights, normalisation, similarity, target and window
    limit : int, default=10
        Documents to return.
    window : int, default=None
        Documents that each score lists; as many as when the weights were learned, if None and
        known, else 200.
    words : {"bm25", "ts_rank", "ts_rank_cd"}, default="bm25"
        For pgvector: how PostgreSQL scores words, as when the weights were learned
        (`postgres_scores`).
    language : str, default="english"
        For pgvector: its text search configuration.
    examples : Examples, default=None
        For pgvector: rankings to verify the file by.

    Returns
    -------
    dict for JSON or keyword arguments; str of SQL

    Notes
    -----
    What an engine cannot compute as `rank` does is refused: learn with ``target=system``.

    Examples
    --------
    >>> from conemetric.export import to_hybrid_query
    >>> learned = {"weights": {"bm25": 1.0, "dense": 3.0}, "normalization": "range"}
    >>> to_hybrid_query(learned, "opensearch")["description"]
    'Weights of bm25, dense'
    """
    scores = score_sum(fusion)
    if system is None:
        system = scores.target
    if system is None or system not in SYSTEMS:
        raise ValueError(f"system={system!r} is not known; use one of {', '.join(SYSTEMS)}.")
    if window is None:
        window = scores.window or LISTED
    check_depth(limit, "limit")
    check_depth(window, "window")
    if system == JSON:
        values = {name: getattr(scores, name) for name in SUMMED}
        if EMBEDDING not in scores.weights:
            values["similarity"] = None
        return values
    _check_computes(scores, system)
    wanted = Request(limit, window, words, language, examples)
    return WRITERS[system](scores, wanted)


def _check_computes(scores, system):
    """Refuse a sum that an engine computes differently from `rank`."""
    engine = ENGINES[system]
    remedy = f"learn with QueryAdapter(target={system!r})"
    if EMBEDDING not in scores.weights:
        how = engine.normalizations[0]
        remedy = f"learn weights by fuse(scores, relevance, normalization={how!r})"
    if scores.columns and scores.normalization not in engine.normalizations:
        raise ValueError(
            f"{system} cannot scale scores by {scores.normalization!r}, only by "
            f"{' or '.join(map(repr, engine.normalizations))}; {remedy}."
        )
    if EMBEDDING not in scores.weights:
        return
    learned = EVERY
    if scores.target:
        learned = ENGINES[scores.target].embedding
    if scores.similarity not in engine.similarities or learned != engine.embedding:
        what = f"the {scores.similarity} score of the embedding as {scores.target or 'rank'} does"
        raise ValueError(f"{system} cannot reproduce {what}; {remedy}.")
    if scores.query_map is None and engine.maps_queries:
        raise TypeError(f"{system} needs the map of the queries; pass the adapter, or its file.")


# ---- one function for each row of ENGINES


@dataclass(frozen=True)
class Request:
    """What a query is to list, and for pgvector how words are scored; see `to_hybrid_query`."""

    limit: int
    window: int
    words: str
    language: str
    examples: Examples | None


Writer = Callable[[RankingModel, Request], dict[str, Any] | str]
WRITERS: dict[str, Writer] = {}  # by engine


def writes(engine: str) -> Callable[[Writer], Writer]:
    """Make a function the one that writes the query of a row of `ENGINES`."""
    expect(engine in ENGINES, "engine", engine, "a row of ENGINES")

    def register(writer: Writer) -> Writer:
        WRITERS[engine] = writer
        return writer

    return register


@writes("pgvector")
def _pgvector(scores: RankingModel, wanted: Request) -> str:
    return postgres_file(
        scores,
        wanted.limit,
        wanted.window,
        words=wanted.words,
        language=wanted.language,
        examples=wanted.examples,
    )


@writes("duckdb")
def _duckdb(scores: RankingModel, wanted: Request) -> str:
    return sum_query("duckdb", scores, wanted.limit, wanted.window)


@writes("sqlite")
def _sqlite(scores: RankingModel, wanted: Request) -> str:
    return sum_query("sqlite", scores, wanted.limit, wanted.window)


@writes("opensearch")
def _opensearch(scores: RankingModel, wanted: Request) -> dict[str, Any]:
    if len(scores.weights) > MOST_CLAUSES:
        raise ValueError(
            f"{len(scores.weights)} scores have a weight, but a hybrid query of OpenSearch has at "
            f"most {MOST_CLAUSES} clauses; fuse fewer columns."
        )
    total = sum(scores.weights.values())
    shares = [weight / total for weight in scores.weights.values()]
    processor = {
        "normalization": {"technique": "min_max"},
        "combination": {"technique": "arithmetic_mean", "parameters": {"weights": shares}},
    }
    return {
        "description": f"Weights of {', '.join(scores.weights)}",
        "phase_results_processors": [{"normalization-processor": processor}],
    }


@writes("elasticsearch")
def _elasticsearch(scores: RankingModel, wanted: Request) -> dict[str, Any]:
    # elastic.co/docs/reference/elasticsearch/mapping-reference/dense-vector, max_inner_product:
    # _score is product + 1, and 1 / (1 + -1 * product) below 0
    of_columns = "none"
    if scores.normalization == "range":
        of_columns = "minmax"
    nearest = {
        "field": EMBEDDING,
        "query_vector": "{{query_vector}}",
        "k": wanted.window,
        "num_candidates": wanted.window,
    }
    retrievers = []
    for name, weight in scores.weights.items():
        part: dict[str, Any] = {"weight": weight}
        if name in scores.columns:
            part["retriever"] = {"standard": {"query": {"match": {name: "{{query}}"}}}}
            part["normalizer"] = of_columns
        else:
            part["retriever"] = {"knn": nearest}
            part["normalizer"] = "none"
        retrievers.append(part)
    linear = {"retrievers": retrievers, "rank_window_size": wanted.window}
    return {"retriever": {"linear": linear}, "size": wanted.limit}


@writes("qdrant")
def _qdrant(scores: RankingModel, wanted: Request) -> dict[str, Any]:
    lists: dict[str, dict[str, Any]] = {}
    for name in scores.weights:
        placeholder = f"{{{{{name}}}}}"
        lists[name] = {"query": placeholder, "using": name, "limit": wanted.window}
    if EMBEDDING in lists:
        lists[EMBEDDING] = _qdrant_rescoring(lists, wanted)
    terms = []
    defaults = {}
    for number, weight in enumerate(scores.weights.values()):
        place = f"$score[{number}]"
        terms.append({"mult": [weight, place]})
        defaults[place] = 0.0  # of what this search does not list
    query = {"formula": {"sum": terms}, "defaults": defaults}
    return {"prefetch": list(lists.values()), "query": query, "limit": wanted.limit}


def _qdrant_rescoring(lists: dict[str, dict[str, Any]], wanted: Request) -> dict[str, Any]:
    """The search by the embedding, which scores all that any search lists, not only its nearest."""
    near = lists[EMBEDDING] | {"limit": wanted.window + wanted.limit}
    searches = [near]
    for name, of_column in lists.items():
        if name != EMBEDDING:
            searches.append(of_column)
    n_listed = sum(search["limit"] for search in searches)
    return near | {"prefetch": searches, "limit": n_listed}


@writes("milvus")
def _milvus(scores: RankingModel, wanted: Request) -> dict[str, Any]:
    # milvus.io/docs/weighted-ranker.md: weights are from 0 to 1; norm_score, a bool, decides
    # whether scores go through the arctan (rerank/function_score.go; Milvus 2.6)
    largest = max(scores.weights.values())
    weights = [weight / largest for weight in scores.weights.values()]
    return {
        "searches": [{"anns_field": name, "limit": wanted.window} for name in scores.weights],
        "rerank": {"reranker": "weighted", "weights": weights, "norm_score": False},
        "limit": wanted.limit,
    }


@writes("lancedb")
def _lancedb(scores: RankingModel, wanted: Request) -> dict[str, Any]:
    if len(scores.columns) > 1:
        raise ValueError(
            f"LanceDB adds up a vector search and one of words, not {', '.join(scores.weights)}; "
            "learn with one column."
        )
    weight = scores.weights.get(EMBEDDING, 0.0) / sum(scores.weights.values())
    # what a search does not list counts 1 - fill = 0
    return {"reranker": {"weight": weight, "fill": 1.0}, "limit": wanted.window}
