"""Queries or documents from files: vectors as Parquet, CSV, npy, npz or JSON lines, with names
and texts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .files import check_file
from .intake import column_matrix, is_vector, row_numbers
from .tables import ARRAYS, TABLES, load_arrays, not_readable, read_frame
from .wording import listed, plural

LINES = (".jsonl", ".ndjson")
IDS = ("_id", "id", "docid", "doc_id", "document_id", "corpus-id", "qid", "query_id", "query-id")
TEXTS = ("title", "text", "query", "contents")
VECTORS = ("X", "vectors", "vector", "embeddings", "embedding", "emb")


@dataclass(frozen=True)
class Side:
    """Queries or documents of a file: vectors, names and texts, as far as it has them."""

    path: Path
    X: np.ndarray | None = None
    names: list[str] | None = None
    texts: list[str] | None = None

    def __len__(self):
        return next(len(part) for part in (self.X, self.names, self.texts) if part is not None)

    def numbers(self, given: pl.Series) -> np.ndarray:
        """Row numbers of these names; -1 for unknown ones."""
        if self.names is None:
            numbers = given.cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
            return np.where((numbers >= 0) & (numbers < len(self)), numbers, -1)
        return row_numbers(self.names, given.cast(pl.String))


def read_rows(path: Path, notes: list[str]) -> Side:
    """Read vectors, names and texts of a file."""
    path = check_file(path)
    kind = path.suffix.lower()
    if kind in ARRAYS:
        arrays = load_arrays(path)
        names, texts = (
            None if found is None else found.astype(str).tolist()
            for found in (first_of(arrays, ("ids", *IDS)), first_of(arrays, ("texts", *TEXTS)))
        )
        return checked(Side(path, first_of(arrays, VECTORS), names, texts))
    if kind not in (*TABLES, *LINES):
        raise not_readable(path, (*TABLES, *LINES, *ARRAYS))
    frame = read_lines(path) if kind in LINES else read_frame(path, notes)
    ids = first_of(frame.to_dict(), IDS)
    columns = [name for name in TEXTS if frame.schema.get(name) == pl.String]
    texts = None
    if columns:
        joined = pl.concat_str(columns, separator=" ", ignore_nulls=True)
        texts = frame.select(joined.str.strip_chars()).to_series().to_list()
    names = None if ids is None else ids.cast(pl.String).to_list()
    vectors = _frame_vectors(frame.drop([] if ids is None else ids.name), path)
    return checked(Side(path, vectors, names, texts))


def first_of(parts: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The first of these parts that there is; None without any."""
    return next((parts[name] for name in names if name in parts), None)


def read_lines(path: Path) -> pl.DataFrame:
    """The data frame of JSON lines."""
    try:
        return pl.read_ndjson(path, infer_schema_length=1000)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"'{path}' cannot be read as JSON lines: {error}") from error


def _frame_vectors(frame, path):
    """The one column of vectors, or all numeric columns; None if there is neither."""
    vectors = [name for name, kind in frame.schema.items() if is_vector(kind)]
    if len(vectors) > 1:
        known = [name for name in vectors if name in VECTORS]
        if len(known) != 1:
            raise ValueError(
                f"'{path}' has several columns of vectors ({listed(vectors)}); leave one, or call "
                f"it {VECTORS[0]}."
            )
        vectors = known
    columns = vectors or [name for name, kind in frame.schema.items() if kind.is_numeric()]
    return column_matrix(frame, columns, path)[0] if columns else None


def checked(rows: Side) -> Side:
    """Refuse vectors, names and texts that do not fit together, and vectors that are not finite."""
    lengths = {len(part) for part in (rows.X, rows.names, rows.texts) if part is not None}
    if not lengths or lengths == {0}:
        raise ValueError(f"'{rows.path}' has no rows with vectors or texts.")
    if len(lengths) > 1:
        raise ValueError(f"'{rows.path}' holds parts of different lengths, {sorted(lengths)}.")
    if rows.names is not None and len(set(rows.names)) < len(rows.names):
        twice = Counter(rows.names).most_common(1)[0][0]
        raise ValueError(f"'{rows.path}' has '{twice}' more than once; ids must be unique.")
    if rows.X is None:
        return rows
    X = rows.X
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(
            f"'{rows.path}' has shape {X.shape} and dtype {X.dtype}; give rows of numbers."
        )
    X = np.ascontiguousarray(X, X.dtype if X.dtype == np.float64 else np.float32)
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        raise ValueError(
            f"'{rows.path}': missing or infinite values in {plural(int(bad.sum()), 'vector')} "
            f"(first: row {int(np.argmax(bad))})."
        )
    return replace(rows, X=X)
