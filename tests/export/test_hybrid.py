"""The exported weights give our ranking when the documented formula of a system is computed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.export import to_hybrid_query
from conemetric.export.hybrid import SYSTEMS
from conemetric.ranking.fusion import Fusion, fuse
from conemetric.storage import LearnedMap

N, M, D = 24, 60, 5


@pytest.fixture(scope="module", params=[0, 1])
def data(request):
    """Queries, documents, judgements, and two columns that list a third of the documents."""
    rng = np.random.default_rng(request.param)
    documents = rng.normal(size=(M, D))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    relevant = rng.integers(M, size=N)
    queries = np.roll(documents[relevant], 1, axis=1) + 0.1 * rng.normal(size=(N, D))
    columns = {}
    for name in ("bm25", "other"):
        scores = rng.gamma(2.0, size=(N, M)) * (rng.random((N, M)) < 0.3)
        scores[np.arange(N), relevant] += rng.gamma(2.0, 2.0, size=N) + 0.1
        columns[name] = sparse.csr_array(scores)
    return queries, documents, np.column_stack([np.arange(N), relevant]), columns


def weights_of(query):
    """Weights in the form of each system, as JSON gives them back."""
    query = json.loads(json.dumps(query))
    if "phase_results_processors" in query:
        (processor,) = query["phase_results_processors"]
        combination = processor["normalization-processor"]["combination"]
        assert processor["normalization-processor"]["normalization"] == {"technique": "min_max"}
        assert combination["technique"] == "arithmetic_mean"
        assert sum(combination["parameters"]["weights"]) == pytest.approx(1.0)
        return combination["parameters"]["weights"]
    if "retriever" in query:
        return [each["weight"] for each in query["retriever"]["linear"]["retrievers"]]
    if "prefetch" in query:
        formula = query["query"]["formula"]["sum"]
        assert [each["mult"][1] for each in formula] == [
            f"$score[{i}]" for i in range(len(query["prefetch"]))
        ]
        assert set(query["query"]["defaults"].values()) == {0.0}
        return [each["mult"][0] for each in formula]
    weights = query.get("weights") or query["retriever_weights"]
    return list(weights.values()) if isinstance(weights, dict) else weights


def scaled(column, how):
    """The documented formulas: as it is, min-max of the list, reciprocal ranks."""
    dense = np.zeros(column.shape)
    for q in range(column.shape[0]):
        row = column[[q]].tocoo()
        listed, score = row.coords[1], row.data
        if how == "range":
            score = (score - score.min()) / (score.max() - score.min())
        elif how == "rank":
            score = 1 / (60 + 1 + np.argsort(np.argsort(-score)))
        dense[q, listed] = score
    return dense


def first(scores, k=10):
    return np.sort(-scores, axis=1)[:, :k] * -1


@pytest.mark.parametrize(
    ("system", "how"),
    [
        (system, how)
        for system, (_, scales, _) in SYSTEMS.items()
        for how in scales
        if system != "pgvector" and how != "spread"
    ],
)
def test_fused_columns_rank_as_the_formula_says(data, system, how):
    _, _, relevance, columns = data
    fusion = fuse(columns, relevance, normalization=how)
    assert fusion.normalization == how
    fusion = Fusion({"bm25": 0.3, "other": 1.7}, how, [])
    weights = weights_of(to_hybrid_query(fusion, system))
    total = sum(w * scaled(S, how) for w, S in zip(weights, columns.values(), strict=True))
    found, ours = fusion.rank(columns, 10)
    # the same order, and the same scores up to a factor
    np.testing.assert_allclose(np.take_along_axis(total, found, 1), first(total), rtol=1e-9)
    ratio = first(total) / ours
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)


@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize(
    ("system", "how"),
    [("elasticsearch", "range"), ("elasticsearch", "raw"), ("qdrant", "raw"), ("milvus", "raw")],
)
def test_an_adapter_and_a_column_rank_as_the_formula_says(data, system, how, similarity):
    queries, documents, relevance, columns = data
    scores = {"bm25": columns["bm25"]}
    adapter = QueryAdapter(1.0, similarity=similarity, random_state=0)
    adapter.fit(queries, documents, relevance, scores=scores)
    weights = {"embedding": 1.0, "bm25": 0.2}
    adapter.model_ = replace(adapter.model_, normalization=how, weights=weights)
    query = to_hybrid_query(adapter, system, window=M)
    if system == "elasticsearch":
        embedding, column = query["retriever"]["linear"]["retrievers"]
        assert embedding["normalizer"] == "none" and "knn" in embedding["retriever"]
        assert column["normalizer"] == ("minmax" if how == "range" else "none")
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    mapped = adapter.transform_queries(unit if similarity == "cosine" else queries)
    weights = weights_of(query)
    total = weights[0] * (mapped @ documents.T) + weights[1] * scaled(columns["bm25"], how)
    found, _ = adapter.rank(queries, documents, scores, 10)
    np.testing.assert_allclose(np.take_along_axis(total, found, 1), first(total), rtol=1e-7)


@pytest.mark.parametrize("how", ["raw", "range", "spread"])
@pytest.mark.parametrize("kind", ["cosine", "euclidean", None])
def test_the_statement_of_pgvector_ranks_as_we_do(data, how, kind):
    duckdb = pytest.importorskip("duckdb")
    queries, documents, relevance, columns = data
    scores = {"bm25": columns["bm25"]}
    if kind is None:
        learned, scores = Fusion({"bm25": 0.4, "other": 2.5}, how, []), columns
        found, ours = learned.rank(columns, 10)
        vectors, points = queries, documents
    else:
        fit = QueryAdapter(1.0, random_state=0) if kind == "cosine" else RelevanceMetric(1.0)
        learned = fit.fit(queries, documents, relevance, scores=scores)
        weights = {"embedding": 1.0, "bm25": 0.3}
        learned.model_ = replace(learned.model_, normalization=how, weights=weights)
        found, ours = learned.rank(queries, documents, scores, 10)
        unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
        vectors = learned.transform_queries(unit if kind == "cosine" else queries)
        points = learned.transform_documents(documents)
    width = points.shape[1]
    with duckdb.connect() as database:
        database.execute(f"CREATE TABLE items (id INTEGER, embedding DOUBLE[{width}])")
        database.executemany("INSERT INTO items VALUES (?, ?)", list(enumerate(points.tolist())))
        database.execute(
            "CREATE MACRO vector_norm(v) AS sqrt(list_sum([x * x for x in v::DOUBLE[]]))"
        )
        for q in range(3):
            text = to_hybrid_query(learned, "pgvector")
            assert text.count("ts_rank_cd") == len(scores)
            for name, column in scores.items():  # DuckDB has no ts_rank_cd: the same lists
                database.execute(f"CREATE OR REPLACE TABLE {name} (id INTEGER, score DOUBLE)")
                row = column[[q]].tocoo()
                rows = list(zip(row.coords[1].tolist(), row.data.tolist(), strict=True))
                database.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
                start = text.index(f'SELECT id, ts_rank_cd("{name}"')
                text = text[:start] + f"SELECT * FROM {name}" + text[text.index("\n", start) :]
            text = text.replace("$1", f"{vectors[q].tolist()}::DOUBLE[{width}]")
            answer = database.execute(text).fetchall()
            kept = found[q] >= 0
            np.testing.assert_allclose([row[1] for row in answer], ours[q][kept], atol=1e-6)
            assert [row[0] for row in answer] == found[q][kept].tolist()


def test_llama_index_itself_ranks_as_we_do(data):
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    columns = data[3]
    fusion = Fusion({"bm25": 0.3, "other": 1.7}, "range", [])
    found, _ = fusion.rank(columns, 10)
    arguments = to_hybrid_query(fusion, "llama-index")

    class Listed(BaseRetriever):
        def __init__(self, column):
            self.column = column
            super().__init__()

        def _retrieve(self, query_bundle):
            row = self.column[[int(query_bundle.query_str)]].tocoo()
            return [
                NodeWithScore(node=TextNode(text=str(document)), score=float(score))
                for document, score in zip(row.coords[1], row.data, strict=True)
            ]

    arguments["retrievers"] = [Listed(columns[name]) for name in arguments["retrievers"]]
    retriever = QueryFusionRetriever(**arguments, llm=MockLLM(), use_async=False)
    for q in range(3):
        assert [int(node.text) for node in retriever.retrieve(str(q))] == found[q].tolist()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("how", ["raw", "range", "spread", "rank"])
@pytest.mark.parametrize("similarity", [None, "cosine", "inner", "euclidean"])
def test_what_a_system_cannot_compute_is_refused_with_a_remedy(system, how, similarity):
    weights = {"bm25": 1.0} if similarity is None else {"embedding": 1.0, "bm25": 1.0}
    learned = {"weights": weights, "normalization": how, "similarity": similarity}
    _, scales, similarities = SYSTEMS[system]
    if how in scales and (similarity is None or similarity in similarities):
        assert to_hybrid_query(learned, system)
    else:
        by = "fuse" if similarity is None or similarity not in similarities else "the estimator"
        remedy = rf"{system} cannot .* by {by}\(.*normalization='{scales[0]}'\)"
        with pytest.raises(ValueError, match=remedy):
            to_hybrid_query(learned, system)


def test_weights_without_columns_and_unknown_things_are_refused(data):
    queries, documents, relevance, columns = data
    adapter = QueryAdapter(1.0, random_state=0).fit(queries, documents, relevance)
    with pytest.raises(ValueError, match="no column has a weight"):
        to_hybrid_query(adapter, "json")
    with pytest.raises(TypeError, match="fusion is list"):
        to_hybrid_query([], "json")
    with pytest.raises(ValueError, match="system='solr'"):
        to_hybrid_query({"weights": {"a": 1.0}, "normalization": "raw"}, "solr")
    many = {"weights": dict.fromkeys("abcdef", 1.0), "normalization": "range"}
    with pytest.raises(ValueError, match="at most 5 clauses"):
        to_hybrid_query(many, "opensearch")
    with pytest.raises(ValueError, match="normalization='middle'"):
        fuse(columns, relevance, normalization="middle")
    some = {"weights": {"a": 1.0}, "normalization": "raw"}
    for options in ({"limit": 0}, {"window": "many"}):
        (name, value), *_ = options.items()
        with pytest.raises(ValueError, match=f"{name}={value!r} must be an integer"):
            to_hybrid_query(some, "qdrant", **options)


@pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
@pytest.mark.parametrize(
    ("system", "scales", "similarities"), [(name, *of[1:]) for name, of in SYSTEMS.items()]
)
def test_an_estimator_learns_in_the_scale_of_the_system(data, kind, system, scales, similarities):
    """The remedy that the error names works; the file of the estimator exports alike."""
    queries, documents, relevance, columns = data
    if "euclidean" not in similarities and (kind is RelevanceMetric or not similarities):
        return
    estimator = kind(1.0, normalization=scales[0], random_state=0)
    estimator.fit(queries, documents, relevance, columns)
    assert estimator.normalization_ == scales[0]
    query = to_hybrid_query(estimator, system)
    assert to_hybrid_query(LearnedMap.from_estimator(estimator), system) == query


def test_json_is_its_own_input(data):
    queries, documents, relevance, columns = data
    adapter = QueryAdapter(1.0, random_state=0).fit(queries, documents, relevance, columns)
    written = to_hybrid_query(adapter, "json")
    assert to_hybrid_query(json.loads(json.dumps(written)), "json") == written
    assert written["weights"].keys() <= {"embedding", "bm25", "other"}
