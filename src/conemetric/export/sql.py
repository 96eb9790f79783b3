"""SQL: the map as a database function, for pgvector and DuckDB."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..storage import LearnedMetric
from .base import complete_rows_map

__all__ = ["to_sql"]

_POSTGRES = """\
-- pgvector: {method}, {n_features} features to {rank} dimensions, by conemetric
CREATE OR REPLACE FUNCTION {name}(v vector) RETURNS vector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ARRAY[
{rows}
]::real[]::vector;

-- ALTER TABLE items ADD COLUMN learned vector({rank})
--   GENERATED ALWAYS AS ({name}(embedding)) STORED;
-- CREATE INDEX ON items USING hnsw (learned vector_l2_ops);
-- SELECT id, learned <-> {name}($1) AS distance FROM items ORDER BY distance LIMIT 10;
"""
_DUCKDB = """\
-- DuckDB: {method}, {n_features} features to {rank} dimensions, by conemetric
CREATE OR REPLACE MACRO {name}(v) AS [
{rows}
]::FLOAT[{rank}];

-- ALTER TABLE items ADD COLUMN learned FLOAT[{rank}];
-- UPDATE items SET learned = {name}(embedding);
-- SELECT id, array_distance(learned, {name}($1)) AS distance FROM items ORDER BY distance LIMIT 10;
"""


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
    -- DuckDB: LearnedMetric, 2 features to 1 dimensions, by conemetric
    CREATE OR REPLACE MACRO learned_map(v) AS [
      array_inner_product(v::FLOAT[2], [2.0, 0.5]::FLOAT[2]) + 1.0
    ]::FLOAT[1];
    """
    if dialect not in ("pgvector", "duckdb"):
        raise ValueError(f"dialect={dialect!r} is not known; use 'pgvector' or 'duckdb'.")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", name):
        raise ValueError(f"name={name!r} is not a plain SQL name; use letters, digits and _.")
    metric = complete_rows_map(metric, "SQL", LearnedMetric)
    rank, n_features = metric.components.shape
    if dialect == "pgvector":
        template, product = _POSTGRES, "inner_product(v, '[{row}]'::vector)"
    else:
        template = _DUCKDB
        product = f"array_inner_product(v::FLOAT[{n_features}], [{{row}}]::FLOAT[{n_features}])"
    rows = ",\n".join(
        f"  {product.format(row=_numbers(row))} + {_numbers([shift])}"
        for row, shift in zip(metric.components, metric.offset, strict=True)
    )
    return template.format(
        method=metric.method, n_features=n_features, rank=rank, name=name, rows=rows
    )


def _numbers(values: Iterable[float]) -> str:
    """The shortest digits that give the same float32."""
    return ", ".join(str(value) for value in np.asarray(values, np.float32))
