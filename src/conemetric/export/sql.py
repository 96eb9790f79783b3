"""SQL: the map as a function of pgvector or DuckDB, and a learned sum of scores as a statement."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ranking.columns import EMBEDDING
from ..ranking.model import RankingModel
from ..storage import LearnedMetric

# what creates the function, and one of its numbers
DIALECTS = {
    "pgvector": (
        """\
-- pgvector: {method!r}, {n} features to {rank} dimensions, by conemetric
CREATE OR REPLACE FUNCTION {name}(v vector) RETURNS vector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ARRAY[
{rows}
]::real[]::vector;

-- ALTER TABLE items ADD COLUMN learned vector({rank})
--   GENERATED ALWAYS AS ({name}(embedding)) STORED;
-- CREATE INDEX ON items USING hnsw (learned vector_l2_ops);
-- SELECT id, learned <-> {name}($1) AS distance FROM items ORDER BY distance LIMIT 10;
""",
        "  inner_product(v, '[{row}]'::vector) + {shift}",
    ),
    "duckdb": (
        """\
-- DuckDB: {method!r}, {n} features to {rank} dimensions, by conemetric
CREATE OR REPLACE MACRO {name}(v) AS [
{rows}
]::FLOAT[{rank}];

-- ALTER TABLE items ADD COLUMN learned FLOAT[{rank}];
-- UPDATE items SET learned = {name}(embedding);
-- SELECT id, array_distance(learned, {name}($1)) AS distance FROM items ORDER BY distance LIMIT 10;
""",
        "  array_inner_product(v::FLOAT[{n}], [{row}]::FLOAT[{n}]) + {shift}",
    ),
}
SCALED = {
    "raw": "{0}.score",
    "range": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT max(score) - min(score) FROM {0}), 0)",
    "spread": "({0}.score - (SELECT min(score) FROM {0}))"
    " / NULLIF((SELECT stddev_pop(score) FROM {0}), 0)",
}

# what a statement of a sum says first, the embedding's score by its similarity, a column's list
ENGINE_SQL = {
    "duckdb": (
        "DuckDB: $1 a mapped query, $2 its words (a list); items (id, embedding FLOAT[{d}]); of "
        "BM25Vectors (word, id, score): {columns}",
        {
            "cosine": "sqrt(array_inner_product($1::FLOAT[{d}], $1::FLOAT[{d}]))"
            " * array_cosine_similarity(embedding, $1::FLOAT[{d}])",
            "inner": "array_inner_product(embedding, $1::FLOAT[{d}])",
            "euclidean": "-power(array_distance(embedding, $1::FLOAT[{d}]), 2)",
        },
        "SELECT id, sum(score) AS score FROM {table} JOIN (SELECT unnest($2) AS word) USING (word) "
        "GROUP BY id ORDER BY score DESC, id LIMIT {window}",
    ),
    "sqlite": (  # with sqlite-vec and FTS5
        'SQLite: ?1 a mapped query (float32), ?2 its words, \'"one" OR "two"\'; items (id INTEGER '
        "PRIMARY KEY, embedding), {columns}: fts5 tables",
        {
            "cosine": "vec_distance_L2(?1, zeroblob({bytes}))"
            " * (1 - vec_distance_cosine(embedding, ?1))",
            "euclidean": "-vec_distance_L2(embedding, ?1) * vec_distance_L2(embedding, ?1)",
        },
        "SELECT rowid AS id, -rank AS score FROM {table} WHERE {table} MATCH ?2 "
        "ORDER BY score DESC, id LIMIT {window}",
    ),
}


def to_sql(metric: Any, dialect: str, *, name: str = "learned_map") -> str:
    """SQL that defines the learned map as a database function.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
    dialect : {"pgvector", "duckdb"}
    name : str, default="learned_map"
        Name of the function.

    Returns
    -------
    str
        A statement that creates the function. Comments show how to keep a column of
        transformed vectors, whose L2 distance is the learned one, and how to search it.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import LearnedMetric
    >>> from conemetric.export import to_sql
    >>> metric = LearnedMetric(np.array([[2.0, 0.5]]), np.array([1.0]))
    >>> print(to_sql(metric, "duckdb").split("\\n\\n")[0])
    -- DuckDB: 'LearnedMetric', 2 features to 1 dimensions, by conemetric
    CREATE OR REPLACE MACRO learned_map(v) AS [
      array_inner_product(v::FLOAT[2], [2.0, 0.5]::FLOAT[2]) + 1.0
    ]::FLOAT[1];
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect={dialect!r} is not known; use 'pgvector' or 'duckdb'.")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise ValueError(f"name={name!r} is not a plain SQL name; use letters, digits and _.")
    metric = LearnedMetric.from_estimator(metric).for_vectors("SQL")
    template, product = DIALECTS[dialect]
    rank, n = metric.components.shape
    rows = []
    for row, shift in zip(metric.components, metric.offset, strict=True):
        rows.append(product.format(row=numbers(row), shift=numbers([shift]), n=n))
    of_metric = {"method": metric.method, "n": n, "rank": rank, "rows": ",\n".join(rows)}
    return template.format(name=name, **of_metric)


def numbers(values: Iterable[float]) -> str:
    """The shortest digits that give the same float32."""
    return ", ".join(str(value) for value in np.asarray(values, np.float32))


def quoted(name: str) -> str:
    """A name in SQL, which neither ends a comment nor the body of a function."""
    if "$$" in name or not name.isprintable():
        raise ValueError(f"{name!r} is no name for SQL; use printable characters, and no $$.")
    return '"' + name.replace('"', '""') + '"'


def described(scores: RankingModel) -> str:
    """What was learned, in a line."""
    terms = []
    for name, weight in scores.weights.items():
        score = f"{scores.normalization}({name})"
        if name == EMBEDDING:
            score = f"{scores.similarity} of the mapped query"
        terms.append(f"{weight:.4g} {score}")
    return f"{' + '.join(terms)}, learned by conemetric"


def width(scores: RankingModel) -> int | None:
    """Dimensions of the documents' vectors."""
    if scores.query_map is None:
        return None
    return len(scores.query_map)


def sum_statement(
    scores: RankingModel, lists: dict[str, str], value: str, near: str, limit: Any
) -> str:
    """The sum: ``lists`` of the columns by name, the embedding's ``value`` and ``near`` list."""
    tables = {}
    terms = []
    joins = []
    for i, (name, weight) in enumerate(scores.weights.items()):
        if name == EMBEDDING:
            tables["near"] = near
            terms.append(f"{weight!r} * ({value})")
            continue
        tables[f"scores_{i}"] = lists[name]
        scaled = SCALED[scores.normalization or "raw"].format(f"scores_{i}")
        terms.append(f"{weight!r} * COALESCE({scaled}, 0)")
        joins.append(f"LEFT JOIN scores_{i} USING (id)")
    # what any of the lists holds is scored by all
    tables["listed"] = " UNION ".join(f"SELECT id FROM {name}" for name in tables)
    made = ",\n".join(f"{name} AS (\n  {of}\n)" for name, of in tables.items())
    total = "\n  + ".join(terms)
    return (
        f"WITH {made}\n"
        f"SELECT id,\n  {total} AS score\n"
        f"FROM listed JOIN items USING (id) {' '.join(joins)}\n"
        f"ORDER BY score DESC, id LIMIT {limit}"
    )


def sum_query(engine: str, scores: RankingModel, limit: int, window: int) -> str:
    """A statement of DuckDB or SQLite."""
    header, values, listed = ENGINE_SQL[engine]
    columns = scores.columns
    d = width(scores) or 0
    value = values[scores.similarity].format(d=d, bytes=4 * d)
    lists = {name: listed.format(table=quoted(name), window=window) for name in columns}
    near = f"SELECT id FROM items ORDER BY {value} DESC, id LIMIT {window + limit}"
    statement = sum_statement(scores, lists, value, near, limit)
    header = header.format(d=d, columns=", ".join(columns))
    return f"-- {described(scores)}\n-- {header}\n{statement};\n"
