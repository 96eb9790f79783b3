"""Columns of other scores for ``conemetric adapt``: BM25 of the texts, and TREC run files."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ...export import postgres_connection, postgres_scores
from ...ranking.engines import ENGINES
from ...ranking.lexical import BM25Vectors
from ...studies.adapting import Collection
from .collections import known_lines
from .dialects import decoded
from .labels import row_numbers
from .reading import Sources, check_file

BM25 = "bm25"
WORDS = "words"  # the column that PostgreSQL scores
RUN_FIELDS = 6  # query, Q0, document, rank, score, tag


def read_scores(
    collection: Collection, chosen: Sources, target: str | None = None
) -> tuple[dict[str, Any] | None, list[str]]:
    """The columns by name, words scored as the target does, None without any; and notes."""
    columns: dict[str, Any] = {}
    notes: list[str] = []
    if chosen.lexical:
        if collection.query_texts is None or collection.document_texts is None:
            raise ValueError(
                "--lexical needs the texts of queries and documents, and the collection has only "
                "vectors; pass files with texts, or BM25 of another system as --scores FILE."
            )
        name, column = _scores_of_words(collection, chosen, target)
        columns[name] = column
    for path in chosen.scores or ():
        name = Path(path).stem
        if name in columns:
            raise ValueError(f"--scores '{path}': there is a column '{name}' already; rename it.")
        columns[name] = read_run(path, collection, notes)
    return columns or None, notes


def _scores_of_words(collection, chosen, target):
    """The name and the column of the scores of words, as the target computes them."""
    queries = collection.query_texts
    documents = collection.document_texts
    if target == "pgvector":
        language = postgres_language(chosen.language)
        with postgres_connection(chosen.server) as connection:
            return WORDS, postgres_scores(queries, documents, connection, language=language)
    if target is None or ENGINES[target].words == "bm25 vectors":
        return BM25, BM25Vectors(documents, chosen.language).listed(queries)
    raise ValueError(
        f"--lexical: {target} scores words in a way of its own; pass what it lists for "
        "every query by --scores FILE (a TREC run)."
    )


def postgres_language(language: str) -> str:
    """The text search configuration of PostgreSQL."""
    return "simple" if language == "none" else language


def read_run(path: Path, collection: Collection, notes: list[str]) -> sparse.csr_array:
    """The scores of a TREC run file: query, Q0, document, rank, score, tag."""
    path = check_file(path)
    rows = [line.split() for line in decoded(path).splitlines() if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != RUN_FIELDS or not _is_finite(row[4]):
            raise ValueError(
                f"'{path}', entry {number} is not of a TREC run; each line holds query, Q0, "
                "document, rank, score and tag."
            )
    shape = (len(collection.queries), len(collection.documents))
    query_names = collection.query_names or map(str, range(shape[0]))
    document_names = collection.document_names or map(str, range(shape[1]))
    query = row_numbers(query_names, (row[0] for row in rows))
    document = row_numbers(document_names, (row[2] for row in rows))
    kept = known_lines(path, query, document, "line", notes)
    query = query[kept]
    document = document[kept]
    # a sparse matrix would add the two up
    if len(np.unique(query * shape[1] + document)) < len(query):
        raise ValueError(f"'{path}' lists a document twice for a query; keep one line of each.")
    values = np.array([float(row[4]) for row in rows])[kept]
    return sparse.csr_array((values, (query, document)), shape)


def _is_finite(text):
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False
