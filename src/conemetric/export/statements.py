"""A learned sum of scores as SQL: a file that makes PostgreSQL rank by it, and statements for
DuckDB and SQLite.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ranking.columns import EMBEDDING

__all__ = ["WORDS", "Examples", "duckdb_statement", "postgres_file", "sqlite_statement"]

MOST_SEARCHED = 1000  # of hnsw.ef_search (github.com/pgvector/pgvector, README, "Query Options")

SCALED = {
    "raw": "{0}.score",
    "range": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT max(score) - min(score) FROM {0}), 0)",
    "spread": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT stddev_pop(score) FROM {0}), 0)",
}

# how PostgreSQL scores words, by name: what the file creates first, and the list of a query ($2).
# Any word of a query may match (OR): to_tsvector drops stop words and stems.
_ANY_WORD = (
    "(SELECT string_agg(quote_literal(word), ' | ')::tsquery "
    "FROM unnest(tsvector_to_array(to_tsvector('{language}', $2))) AS word)"
)
_TS_RANK = (
    "SELECT id, {function}({field}, query) AS score FROM {items}, "
    f"(SELECT {_ANY_WORD} AS query) AS words "
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


def words_sql(
    words: str, field: str, language: str, window: int, *, items: str = "items", temporary=False
) -> tuple[str, str]:
    """What to create for a lexical score in PostgreSQL, and the statement of its list."""
    names = {
        "field": quoted(field),
        "items": items,
        "view": quoted(f"{items}_{field}"),
        "index": quoted(f"{items}_{field}_lexeme"),
        "kind": "TEMPORARY TABLE" if temporary else "MATERIALIZED VIEW",
        "language": language,
        "window": window,
    }
    create, listed = WORDS[words]
    return create.format(**names), listed.format(**names)


@dataclass(frozen=True)
class Examples:
    """Queries whose rankings are stored with an export, so that it can be verified: their
    vectors as the encoder gives them (n, n_features), words, and the ids of the first documents.
    """

    vectors: Any
    words: Sequence[str]
    documents: Sequence[Sequence[Any]]


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _statement(scores, lists, value, near, limit):
    """The sum: ``lists`` of the columns by name, the embedding's ``value`` and ``near`` list."""
    tables, terms, joins = {}, [], []
    for i, (name, weight) in enumerate(scores.weights.items()):
        if name == EMBEDDING and scores.similarity:
            tables["near"] = near
            terms.append(f"{weight!r} * ({value})")
            continue
        tables[f"scores_{i}"] = lists[name]
        scaled = SCALED[scores.normalization].format(f"scores_{i}")
        terms.append(f"{weight!r} * COALESCE({scaled}, 0)")
        joins.append(f"LEFT JOIN scores_{i} USING (id)")
    tables["listed"] = " UNION ".join(f"SELECT id FROM {name}" for name in tables)
    made = ",\n".join(f"{name} AS (\n  {of}\n)" for name, of in tables.items())
    return (
        f"WITH {made}\nSELECT id,\n  " + "\n  + ".join(terms) + " AS score\n"
        f"FROM listed JOIN items USING (id) {' '.join(joins)}\n"
        f"ORDER BY score DESC, id LIMIT {limit}"
    )


def duckdb_statement(scores: Any, limit: int, window: int) -> str:
    """DuckDB: ``$1`` the mapped vector, ``$2`` the words of the query (a list)."""
    q = f"$1::FLOAT[{scores.width}]"
    value = {
        "cosine": f"sqrt(array_inner_product({q}, {q})) * array_cosine_similarity(embedding, {q})",
        "inner": f"array_inner_product(embedding, {q})",
        "euclidean": f"-power(array_distance(embedding, {q}), 2)",
        None: "",
    }[scores.similarity]
    lists = {
        name: f"SELECT id, sum(score) AS score FROM {quoted(name)} "
        "JOIN (SELECT unnest($2) AS word) USING (word) "
        f"GROUP BY id ORDER BY score DESC, id LIMIT {window}"
        for name in scores.columns
    }
    near = f"SELECT id FROM items ORDER BY {value} DESC, id LIMIT {window + limit}"
    fields = "".join(f"; {name} (word, id, score) of BM25Vectors" for name in scores.columns)
    return (
        f"-- {scores.described}\n-- DuckDB: $1 a mapped query, $2 its words; "
        f"items (id, embedding FLOAT[{scores.width}]){fields}\n"
        + _statement(scores, lists, value, near, limit)
        + ";\n"
    )


def sqlite_statement(scores: Any, limit: int, window: int) -> str:
    """SQLite with sqlite-vec and FTS5: ``?1`` the mapped vector, ``?2`` the words, by OR."""
    norm = f"vec_distance_L2(?1, zeroblob({4 * (scores.width or 0)}))"
    value = {
        "cosine": f"{norm} * (1 - vec_distance_cosine(embedding, ?1))",
        "euclidean": "-vec_distance_L2(embedding, ?1) * vec_distance_L2(embedding, ?1)",
        None: "",
    }[scores.similarity]
    lists = {
        name: f"SELECT rowid AS id, -rank AS score FROM {quoted(name)} "
        f"WHERE {quoted(name)} MATCH ?2 ORDER BY score DESC, id LIMIT {window}"
        for name in scores.columns
    }
    near = f"SELECT id FROM items ORDER BY {value} DESC, id LIMIT {window + limit}"
    return (
        f"-- {scores.described}\n-- SQLite: ?1 a mapped query (float32), ?2 its words, "
        '\'"one" OR "two"\'; items (id INTEGER PRIMARY KEY, embedding), '
        f"{', '.join(scores.columns)}: fts5 tables\n"
        + _statement(scores, lists, value, near, limit)
        + ";\n"
    )


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


def postgres_file(
    scores: Any,
    limit: int,
    window: int,
    *,
    words: str = "bm25",
    language: str = "english",
    examples: Examples | None = None,
) -> str:
    """A file for psql: the map, the function ``learned_rank`` and ``learned_verify``."""
    lists, created = {}, []
    for name in scores.columns:
        create, lists[name] = words_sql(words, name, language, window)
        created.append(create)
    value, operator = _VECTOR.get(scores.similarity, ("", ""))
    near = f"SELECT id FROM items ORDER BY embedding {operator} {_QUERY} LIMIT {window} + $3"
    parts = [_header(scores, window, words, language, examples is not None)]
    if scores.similarity:
        rows = (f"({i}, '{_vector(row)}')" for i, row in enumerate(scores.query_map))
        query = "l2_normalize($1)" if scores.similarity == "cosine" else "$1"
        parts.append(_MAP.format(rows=",\n".join(rows), query=query))
    parts += [part for part in created if part]
    statement = _statement(scores, lists, value, near, "$3")
    searched = min(window + limit, MOST_SEARCHED)
    parts.append(_RANK.format(limit=limit, searched=searched, statement=statement))
    verified = []
    if examples is not None:
        rows = (
            f"({i}, '{_vector(vector)}', {_literal(text)}, "
            f"ARRAY[{', '.join(_literal(str(each)) for each in ids)}])"
            for i, (vector, text, ids) in enumerate(
                zip(examples.vectors, examples.words, examples.documents, strict=True)
            )
        )
        parts.append(_VERIFY.format(rows=",\n".join(rows)))
        verified.append(_VERIFIED)
    return "\n".join([*parts, "COMMIT;\n", *verified])


def _header(scores, window, words, language, verified):
    fields = "".join(f", {quoted(name)} tsvector" for name in scores.columns)
    lines = [
        scores.described,
        f"PostgreSQL with pgvector, for items (id, embedding vector({scores.width}){fields}).",
        f"Words: {words} of to_tsvector('{language}', ...), any word of the query; lists of {window}.",
        "Run this file by psql -f; then: SELECT * FROM learned_rank($1, $2, 10);",
        "$1 the query as the encoder gives it, $2 its words.",
        "An hnsw index is searched with the ef_search set below; for ivfflat set ivfflat.probes.",
    ]
    if words == "bm25" and scores.columns:
        views = ", ".join(quoted(f"items_{name}") for name in scores.columns)
        lines.append(f"After changes of items: REFRESH MATERIALIZED VIEW {views};")
    if verified:
        lines.append("Whether stored rankings come back: SELECT * FROM learned_verify;")
    return (
        "".join(f"-- {line}\n" for line in lines)
        + "BEGIN;\nCREATE EXTENSION IF NOT EXISTS vector;\n"
    )


def _vector(values):
    return json.dumps([float(str(value)) for value in np.asarray(values, np.float32)])
