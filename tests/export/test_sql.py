"""Databases return the learned distances by the exported SQL."""

import re

import numpy as np
import pytest

from conemetric import LearnedMetric
from conemetric.export import to_hybrid_query, to_sql


@pytest.mark.costly
def test_duckdb_stores_and_searches_transformed_vectors(case, tmp_path, fresh):
    duckdb = pytest.importorskip("duckdb")
    n_features = case.X.shape[1]
    with duckdb.connect(str(tmp_path / "items.duckdb")) as database:
        database.execute(to_sql(case.metric, "duckdb"))
        database.execute(f"CREATE TABLE items (id INTEGER, embedding FLOAT[{n_features}])")
        database.executemany("INSERT INTO items VALUES (?, ?)", list(enumerate(case.X.tolist())))
        for statement in re.findall(r"-- (ALTER .*;|UPDATE .*;)", to_sql(case.metric, "duckdb")):
            database.execute(statement)
    mapped, found = fresh(f"""
import duckdb, json
database = duckdb.connect({str(tmp_path / "items.duckdb")!r}, read_only=True)
mapped = database.execute("SELECT learned FROM items ORDER BY id").fetchall()
query = database.execute("SELECT embedding FROM items WHERE id = 7").fetchone()[0]
found = database.execute(
    "SELECT id, array_distance(learned, learned_map($1)) AS distance FROM items"
    " ORDER BY distance LIMIT 5", [query]).fetchall()
print(json.dumps([[row[0] for row in mapped], found]))
""")
    assert (np.abs(mapped - case.Z) <= case.slack).all()
    rows, distances = (np.array(column) for column in zip(*found, strict=True))
    learned = np.linalg.norm(case.Z[rows.astype(int)] - case.Z[7], axis=1)
    slack = np.linalg.norm(case.slack[rows.astype(int)] + case.slack[7], axis=1)
    assert rows[0] == 7 and (np.abs(distances - learned) <= slack + 1e-5 * learned).all()


def test_the_pgvector_function_holds_the_map_in_float32(case):
    text = to_sql(case.metric, "pgvector", name="wine_map")
    assert text.count("CREATE OR REPLACE FUNCTION wine_map(v vector)") == 1
    lines = re.findall(r"inner_product\(v, '\[(.*?)\]'::vector\) \+ (\S+?),?\n", text)
    rows = np.array([[float(part) for part in row.split(", ")] for row, _ in lines], np.float32)
    shift = np.array([float(offset) for _, offset in lines], np.float32)
    np.testing.assert_array_equal(rows, case.learned.components.astype(np.float32))
    np.testing.assert_array_equal(shift, case.learned.offset.astype(np.float32))


def test_names_and_dialects_are_checked(case):
    with pytest.raises(ValueError, match="dialect='mysql'"):
        to_sql(case.metric, "mysql")
    with pytest.raises(ValueError, match="plain SQL name"):
        to_sql(case.metric, "duckdb", name="f(); DROP TABLE items; --")


def test_no_name_ends_a_comment_or_the_body_of_a_function():
    """A metric or weights from a file may hold any text."""
    metric = LearnedMetric(np.eye(2), np.zeros(2), method="FrobMetric\nDROP TABLE items;")
    for dialect in ("pgvector", "duckdb"):
        assert not any(line.startswith("DROP") for line in to_sql(metric, dialect).splitlines())
    for name in ("bm25\nDROP TABLE items; --", "bm25$$; DROP TABLE items; $$", "bm25\u2028"):
        weights = {"weights": {name: 1.0, "title": 2.0}, "normalization": "raw"}
        for system in ("pgvector", "duckdb", "sqlite"):
            with pytest.raises(ValueError, match="is no name for SQL; use printable characters"):
                to_hybrid_query(weights, system)
