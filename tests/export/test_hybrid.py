"""The exported weights give our ranking when the documented formula of a system is computed.
`test_engines` runs them in the engines themselves.
"""

import json

import numpy as np
import pytest
from cases import each
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.export import to_hybrid_query
from conemetric.export.hybrid import SYSTEMS
from conemetric.ranking.engines import ENGINES, EVERY
from conemetric.ranking.fusion import Fusion, fuse
from conemetric.storage import LearnedMap

N, M, D = 24, 60, 5
WINDOW = 20  # the longest list


@pytest.fixture(scope="module", params=[0, 1])
def data(request):
    """Queries, documents, judgements, and two columns that list at most a third of the documents."""
    rng = np.random.default_rng(request.param)
    documents = rng.normal(size=(M, D))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    relevant = rng.integers(M, size=N)
    queries = np.roll(documents[relevant], 1, axis=1) + 0.1 * rng.normal(size=(N, D))
    columns = {}
    for name in ("bm25", "other"):
        scores = rng.gamma(2.0, size=(N, M))
        scores[np.arange(N), relevant] += rng.gamma(2.0, 2.0, size=N) + 0.1
        least = -np.sort(-scores, axis=1)[np.arange(N), rng.integers(5, WINDOW + 1, size=N) - 1]
        least[0] = -np.sort(-scores[0])[WINDOW - 1]
        columns[name] = sparse.csr_array(np.where(scores >= least[:, None], scores, 0.0))
    return queries, documents, np.column_stack([np.arange(N), relevant]), columns


def listed(scores, n):
    """The n best documents and their scores, of those listed (not minus infinity)."""
    best = np.argsort(-scores, kind="stable")[:n]
    best = best[np.isfinite(scores[best])]
    return best, scores[best]


def scaled(how, score):
    if how == "range":
        return (score - score.min()) / (score.max() - score.min() or 1.0)
    return score


def lucene(product):
    """The score of a vector by max_inner_product, as Elasticsearch documents it."""
    return np.where(product < 0, 1 / (1 - np.minimum(product, 0)), product + 1)


def summed(query, lists):
    """Final scores of an exported document for one query, by what the systems document; ``lists``
    are scores of all documents by name, minus infinity if a column does not list one.
    """
    query = json.loads(json.dumps(query))
    total = np.full(M, -np.inf)

    def add(weight, documents, values):
        total[documents] = np.where(np.isinf(total[documents]), 0, total[documents])
        total[documents] += weight * values

    if "retriever" in query:
        linear = query["retriever"]["linear"]
        for each in linear["retrievers"]:
            (kind, of), window = *each["retriever"].items(), linear["rank_window_size"]
            if kind == "knn":
                assert of["k"] == of["num_candidates"] == window and each["normalizer"] == "none"
                found, values = listed(lucene(lists[of["field"]]), of["k"])
            else:
                ((name, _),) = of["query"]["match"].items()
                found, values = listed(lists[name], window)
            how = {"minmax": "range", "none": "raw"}[each["normalizer"]]
            add(each["weight"], found, scaled(how, values))
    elif "phase_results_processors" in query:
        (processor,) = query["phase_results_processors"]
        processor = processor["normalization-processor"]
        assert processor["normalization"] == {"technique": "min_max"}
        assert processor["combination"]["technique"] == "arithmetic_mean"
        weights = processor["combination"]["parameters"]["weights"]
        assert sum(weights) == pytest.approx(1.0)
        for weight, scores in zip(weights, lists.values(), strict=True):
            found, values = listed(scores, WINDOW)
            add(weight, found, scaled("range", values))
    elif "prefetch" in query:
        found_by = [prefetched(each, lists) for each in query["prefetch"]]
        assert set(query["query"]["defaults"].values()) == {0.0}
        for each in query["query"]["formula"]["sum"]:
            weight, place = each["mult"]
            add(weight, *found_by[int(place.removeprefix("$score[").removesuffix("]"))])
    elif "searches" in query:
        assert query["rerank"]["norm_score"] is False
        for each, weight in zip(query["searches"], query["rerank"]["weights"], strict=True):
            add(weight, *listed(lists[each["anns_field"]], each["limit"]))
    elif "reranker" in query:  # LanceDB: one column
        weight = query["reranker"]["weight"]
        for name, scores in lists.items():
            found, values = listed(scores, query["limit"])
            add(weight if name == "embedding" else 1 - weight, found, scaled("range", values))
    else:
        for name, scores in lists.items():
            found, values = listed(scores, WINDOW)
            add(query["weights"][name], found, scaled(query["normalization"], values))
    return total


def prefetched(each, lists):
    """Documents of a prefetch of Qdrant: a nested one is scored again by the query outside."""
    scores = lists[each["using"]]
    if "prefetch" in each:
        known = np.unique(np.concatenate([prefetched(part, lists)[0] for part in each["prefetch"]]))
        scores = np.where(np.isin(np.arange(M), known), scores, -np.inf)
    return listed(scores, each["limit"])


def columns_of(columns, q):
    dense = {name: column.toarray()[q] for name, column in columns.items()}
    return {name: np.where(row > 0, row, -np.inf) for name, row in dense.items()}


def assert_first(total, found, ours):
    """The documents found are the first of ``total``, and their scores are ours up to a factor."""
    first = -np.sort(-total[np.isfinite(total)])[: len(found)]
    np.testing.assert_allclose(total[found], first, rtol=1e-9)
    assert np.ptp(total[found] / ours) < 1e-6 * abs(total[found] / ours).max()


DOCUMENTS = [name for name in SYSTEMS if name not in ("pgvector", "duckdb", "sqlite", "lancedb")]


@pytest.mark.parametrize("system", DOCUMENTS)
@pytest.mark.parametrize("how", ["raw", "range"])
def test_fused_columns_rank_as_the_formula_says(data, system, how):
    relevance, columns = data[2:]
    if system in ENGINES and how not in ENGINES[system].normalizations:
        return
    assert fuse(columns, relevance, normalization=how).normalization == how
    fusion = Fusion({"bm25": 0.3, "other": 1.7}, how, [])
    query = to_hybrid_query(fusion, system)
    found, ours = fusion.rank(columns, 5)
    for q in range(N):
        assert_first(summed(query, columns_of(columns, q)), found[q], ours[q])


@pytest.mark.cases(6)
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
@pytest.mark.parametrize("system", ENGINES)
@pytest.mark.parametrize("n", [1, 2])
def test_an_adapter_learned_for_an_engine_ranks_as_its_formula_says(data, system, similarity, n):
    queries, documents, relevance, columns = data
    columns = dict(list(columns.items())[:n])
    if (system == "lancedb" and n == 2) or similarity not in ENGINES[system].similarities:
        return
    adapter = QueryAdapter(1.0, similarity=similarity, target=system, random_state=0)
    adapter.fit(queries, documents, relevance, scores=columns)
    assert adapter.model_.window == WINDOW
    assert adapter.normalization_ in ENGINES[system].normalizations
    adapter.model_.weights.update({"bm25": 0.7} | ({"other": 0.4} if n == 2 else {}))
    query = to_hybrid_query(adapter)
    assert query == to_hybrid_query(LearnedMap.from_estimator(adapter), system)
    if isinstance(query, str):
        return  # run in the databases
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    scores = adapter.transform_queries(unit if similarity == "cosine" else queries) @ documents.T
    found, ours = adapter.rank(queries, documents, columns, 10)
    for q in range(N):
        lists = {"embedding": scores[q], **columns_of(columns, q)}
        assert_first(summed(query, lists), found[q], ours[q])


@pytest.mark.parametrize("system", [name for name, of in ENGINES.items() if of.embedding != EVERY])
def test_a_longer_list_of_an_engine_does_not_change_what_rank_uses(data, system):
    """Columns are cut at the window of the weights, as the exported query cuts them."""
    queries, documents, relevance, columns = data
    adapter = QueryAdapter(1.0, target=system, random_state=0)
    adapter.fit(queries, documents, relevance, scores={"bm25": columns["bm25"]})
    longer = columns["bm25"].toarray()
    longer[:, :] = np.where(longer > 0, longer, 1e-3 * np.arange(1, M + 1))
    shorter = np.where(longer >= -np.sort(-longer, axis=1)[:, [WINDOW - 1]], longer, 0.0)
    both = [
        adapter.rank(queries, documents, {"bm25": sparse.csr_array(S)}) for S in (longer, shorter)
    ]
    np.testing.assert_array_equal(both[0][0], both[1][0])


@each("system", ENGINES)
@each("how", ["raw", "range", "spread"])
@each("similarity", [None, "cosine", "inner", "euclidean"])
def test_what_an_engine_cannot_compute_is_refused_with_a_remedy(system, how, similarity):
    weights = {"bm25": 1.0} if similarity is None else {"embedding": 1.0, "bm25": 1.0}
    learned = {"weights": weights, "normalization": how, "similarity": similarity}
    engine = ENGINES[system]
    by = "fuse" if similarity is None else "QueryAdapter"
    if how not in engine.normalizations:
        refused = rf"{system} cannot scale scores by '{how}', .*by {by}\("
    elif similarity is not None and (
        similarity not in engine.similarities or engine.embedding != EVERY
    ):
        refused = rf"{system} cannot reproduce .* with QueryAdapter\(target='{system}'\)"
    elif similarity is not None and system in ("pgvector", "duckdb", "sqlite"):
        refused = f"{system} needs the map of the queries"
    else:
        assert to_hybrid_query(learned, system)
        return
    with pytest.raises(
        (TypeError, ValueError), match=refused.replace("by QueryAd", "with QueryAd")
    ):
        to_hybrid_query(learned, system)


def test_what_a_target_cannot_do_is_refused_before_anything_is_learned(data):
    queries, documents, relevance, columns = data
    given = queries, documents, relevance

    def fit(scores=columns, **options):
        QueryAdapter(random_state=0, **options).fit(*given, scores=scores)

    with pytest.raises(ValueError, match=r"sqlite' cannot add the inner score .* pgvector, duckdb"):
        fit(target="sqlite", similarity="inner")
    with pytest.raises(ValueError, match=r"'qdrant' cannot scale scores by 'range'; use .*'raw'"):
        fit(target="qdrant", normalization="range")
    with pytest.raises(ValueError, match=r"'milvus' adds scores as they are, and .* negative"):
        fit({"a": -columns["bm25"]}, target="milvus")
    with pytest.raises(ValueError, match="'target' parameter"):
        fit(target="solr")


def test_weights_without_columns_and_unknown_things_are_refused(data):
    queries, documents, relevance, columns = data
    adapter = QueryAdapter(1.0, random_state=0).fit(queries, documents, relevance)
    with pytest.raises(ValueError, match="no column has a weight"):
        to_hybrid_query(adapter, "json")
    with pytest.raises(TypeError, match="fusion is list"):
        to_hybrid_query([], "json")
    with pytest.raises(ValueError, match="system='solr'"):
        to_hybrid_query({"weights": {"a": 1.0}, "normalization": "raw"}, "solr")
    with pytest.raises(ValueError, match="system=None"):
        to_hybrid_query({"weights": {"a": 1.0}, "normalization": "raw"})
    many = {"weights": dict.fromkeys("abcdef", 1.0), "normalization": "range"}
    with pytest.raises(ValueError, match="at most 5 clauses"):
        to_hybrid_query(many, "opensearch")
    with pytest.raises(ValueError, match="LanceDB adds up"):
        to_hybrid_query(many, "lancedb")
    with pytest.raises(ValueError, match="normalization='middle'"):
        fuse(columns, relevance, normalization="middle")
    some = {"weights": {"a": 1.0}, "normalization": "raw"}
    for options in ({"limit": 0}, {"window": "many"}):
        (name, value), *_ = options.items()
        with pytest.raises(ValueError, match=f"{name}={value!r} must be an integer"):
            to_hybrid_query(some, "qdrant", **options)


@each("system", SYSTEMS)
@each(
    ("changed", "message"),
    [
        (
            {"weights": {"embedding": 1.0, "a": 1.0}},
            r"similarity is None; expected one of cosine, ",
        ),
        ({"weights": [1.0]}, "fusion is dict; pass what fuse returns"),
        ({"weights": {"a": -1.0}}, "weights.a is -1.0; expected a number of at least 0"),
        ({"weights": {"a": "high"}}, "weights.a is 'high'; expected a number"),
        ({"normalization": None}, "normalization is None; expected the scale of"),
        ({"normalization": "rank"}, "normalization is 'rank'; expected one of raw, range, spread"),
        ({"target": "solr"}, "target is 'solr'; expected one of pgvector"),
        ({"window": 0}, "window is 0; expected an integer of at least 1"),
    ],
)
def test_weights_written_by_hand_are_checked(system, changed, message):
    with pytest.raises((TypeError, ValueError), match=message):
        to_hybrid_query({"weights": {"a": 1.0}, "normalization": "raw", **changed}, system)


@pytest.mark.parametrize("system", ENGINES)
def test_where_no_column_helps_the_export_is_that_of_the_embedding(data, system):
    """Learned for an engine, an adapter is exported whatever was chosen."""
    queries, documents, relevance, columns = data
    noise = sparse.csr_array(columns["bm25"][np.random.default_rng(0).permutation(N)])
    adapter = QueryAdapter(1.0, target=system, random_state=0)
    adapter.fit(queries, documents, relevance, scores={"noise": noise})
    adapter.model_.weights["noise"] = 0.0
    assert to_hybrid_query(adapter)


@pytest.mark.parametrize("kind", [QueryAdapter, RelevanceMetric])
def test_json_is_its_own_input(data, kind):
    queries, documents, relevance, columns = data
    adapter = kind(1.0, random_state=0).fit(queries, documents, relevance, columns)
    written = to_hybrid_query(adapter, "json")
    assert to_hybrid_query(json.loads(json.dumps(written)), "json") == written
    assert written["weights"].keys() <= {"embedding", "bm25", "other"}
