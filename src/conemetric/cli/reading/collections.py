"""Judged collections from files: judgements as TREC or tables, BEIR's folders, npz files."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from ...core.extras import require
from ...core.wording import listed, plural
from ...datasets import reference_pages
from ...studies.adapting import Collection
from .dialects import SAMPLE, decoded
from .intake import column_matrix, is_vector
from .labels import row_numbers
from .layout import NUMBER
from .reading import Sources, check_file
from .separators import separator_of
from .tables import ARRAYS, LINES, TABLES, check_numbers, ending_of, load_arrays, read_frame

DIRECTIONS = 64  # of word counts, for the bundled pages: seconds to learn from
# names of the arrays of an npz file that holds a whole collection
QUERIES = ("queries", "query")
DOCUMENTS = ("documents", "docs", "corpus")
JUDGED = ("relevance", "qrels")
IDS = ("_id", "id", "docid", "doc_id", "document_id", "corpus-id", "qid", "query_id", "query-id")
TEXTS = ("title", "text", "query", "contents")
VECTORS = ("X", "vectors", "vector", "embeddings", "embedding", "emb")


def read_collection(data: str | None, sources: Sources) -> tuple[Collection, list]:
    """The collection, and notes about it: from a folder in BEIR's layout, an npz file of queries,
    documents and relevance, or the files of ``sources`` (with a folder: instead of those in it);
    without any, scikit-learn's reference pages.
    """
    places: dict[str, Any] = {
        "queries": sources.queries,
        "documents": sources.documents,
        "relevance": sources.relevance,
    }
    if not (data or any(places.values())):
        return _bundled(sources.encode)
    folder = None
    if data is not None:
        if not Path(data).is_dir():
            return _from_one_file(data, sources), []
        folder = Path(data)
        places = _in_folder(folder, places)
    missing = [f"--{name}" for name, place in places.items() if place is None]
    if missing:
        raise ValueError(
            f"missing {' and '.join(missing)}: pass these files, a folder in BEIR's layout (corpus.jsonl, "
            "queries.jsonl and a folder qrels), or an npz file that holds all three."
        )
    notes: list[str] = []
    queries = read_rows(places["queries"], notes)
    documents = read_rows(places["documents"], notes)
    if folder is not None:
        # vectors that were computed later have their texts beside them, in the same order
        queries = _named_as(queries, folder / "queries.jsonl")
        documents = _named_as(documents, folder / "corpus.jsonl")
    queries = _with_vectors(queries, "queries", sources.encode)
    documents = _with_vectors(documents, "documents", sources.encode)
    judged, test = _judgements(places["relevance"], queries, documents, notes)
    return _collection(queries, documents, judged, test), notes


def _from_one_file(data, sources):
    """The collection of an npz file, which leaves no use for other files or for a model."""
    if sources.queries or sources.documents or sources.relevance:
        raise ValueError(
            f"got '{data}' and separate files; pass one or the other, or a folder in BEIR's layout."
        )
    path = check_file(data)
    if sources.encode is not None:
        raise ValueError(
            f"--encode {sources.encode} encodes texts, and '{path}' holds vectors only; leave the "
            "option out, or pass files with texts."
        )
    return _from_npz(path)


def _collection(queries, documents, relevance, test):
    if queries.X.shape[1] != documents.X.shape[1]:
        raise ValueError(
            f"'{queries.path}' holds vectors of {queries.X.shape[1]} numbers and "
            f"'{documents.path}' of {documents.X.shape[1]}; embed both with the same encoder."
        )
    if relevance.ndim == 2 and relevance.shape[1] == 2:  # without grades
        relevance = np.column_stack([relevance, np.ones(len(relevance), np.int64)])
    return Collection(
        queries.X,
        documents.X,
        relevance,
        test,
        query_names=queries.names,
        document_names=documents.names,
        query_texts=queries.texts,
        document_texts=documents.texts,
    )


# ---- queries or documents from a file


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
    if ending_of(path, (*TABLES, *LINES, *ARRAYS)) in ARRAYS:
        arrays = load_arrays(path)
        names = _as_texts(_first_of(arrays, ("ids", *IDS)))
        texts = _as_texts(_first_of(arrays, ("texts", *TEXTS)))
        return _checked(Side(path, _first_of(arrays, VECTORS), names, texts))
    frame = read_frame(path, notes)
    ids = _first_of(frame.to_dict(), IDS)
    columns = [name for name in TEXTS if frame.schema.get(name) == pl.String]
    texts = None
    if columns:
        joined = pl.concat_str(columns, separator=" ", ignore_nulls=True)
        texts = frame.select(joined.str.strip_chars()).to_series().to_list()
    names = None
    if ids is not None:
        names = ids.cast(pl.String).to_list()
        frame = frame.drop(ids.name)  # which may be numbers
    vectors = _frame_vectors(frame, path)
    return _checked(Side(path, vectors, names, texts))


def _as_texts(array):
    """The entries of an array as text; None without one."""
    if array is None:
        return None
    return array.astype(str).tolist()


def _first_of(parts, names):
    """The first of these parts that there is; None without any."""
    for name in names:
        if name in parts:
            return parts[name]
    return None


def _frame_vectors(frame, path):
    """The one column of vectors, or all numeric columns; None if there is neither."""
    vectors = [name for name, kind in frame.schema.items() if is_vector(kind)]
    if len(vectors) > 1:
        known = [name for name in vectors if name in VECTORS]
        if len(known) != 1:
            raise ValueError(
                f"'{path}' has several columns of vectors ({listed(vectors)}); keep one, or name "
                f"it {VECTORS[0]}."
            )
        vectors = known
    columns = vectors or [name for name, kind in frame.schema.items() if kind.is_numeric()]
    if not columns:
        return None
    X, _ = column_matrix(frame, columns, path)
    return X


def _checked(rows):
    """Refuse vectors, names and texts that do not fit together, and vectors that are not finite."""
    lengths = {len(part) for part in (rows.X, rows.names, rows.texts) if part is not None}
    if not lengths or lengths == {0}:
        raise ValueError(f"'{rows.path}' has no rows with vectors or texts.")
    if len(lengths) > 1:
        raise ValueError(
            f"'{rows.path}' has vectors, ids and texts of different lengths: {sorted(lengths)}."
        )
    if rows.names is not None and len(set(rows.names)) < len(rows.names):
        [(twice, _)] = Counter(rows.names).most_common(1)
        raise ValueError(f"'{rows.path}' has '{twice}' more than once; ids must be unique.")
    if rows.X is None:
        return rows
    X = rows.X
    check_numbers(rows.path, X)
    dtype = np.float64 if X.dtype == np.float64 else np.float32
    X = np.ascontiguousarray(X, dtype)
    bad = ~np.isfinite(X).all(axis=1)
    if bad.any():
        raise ValueError(
            f"'{rows.path}': missing or infinite values in {plural(int(bad.sum()), 'vector')} "
            f"(first: row {int(np.argmax(bad))})."
        )
    return replace(rows, X=X)


# ---- vectors


def _with_vectors(rows, name, encode):
    if rows.X is not None and encode is None:
        return rows
    if rows.texts is None:
        raise ValueError(f"'{rows.path}' has no column of texts to encode ({listed(TEXTS)}).")
    if encode is None:
        raise ValueError(
            f"'{rows.path}' has texts but no vectors; pass the vectors as --{name} FILE, or encode "
            "the texts with --encode MODEL."
        )
    model = require("sentence_transformers", "encode").SentenceTransformer(encode)
    X = model.encode(rows.texts, convert_to_numpy=True, show_progress_bar=False)
    return replace(rows, X=np.ascontiguousarray(X, np.float32))


def _bundled(encode):
    """scikit-learn's reference pages, as word counts unless a model encodes them."""
    pages = reference_pages()
    place = Path("reference-pages")
    note = (
        "Without a collection, scikit-learn's reference: the first sentence of a page is a query, "
        "the rest of it the document to be found"
    )
    encoder: Any = None
    if encode is None:
        words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        encoder = make_pipeline(words, TruncatedSVD(DIRECTIONS, random_state=0))
        encoder.fit(pages.documents)
        note += f", as {DIRECTIONS} latent directions of word counts"
    sides = []
    for name, texts in (("queries", pages.queries), ("documents", pages.documents)):
        X = None
        if encoder is not None:
            X = encoder.transform(texts)
        sides.append(_with_vectors(Side(place, X, pages.names, texts), name, encode))
    queries, documents = sides
    return _collection(queries, documents, pages.relevance, None), [f"{note}."]


# ---- BEIR's folders, and everything in one file


def _in_folder(folder, given):
    """The files of a folder in BEIR's layout; those given as options come first."""
    kinds = (*ARRAYS, ".parquet", *LINES)

    def first_of(name):
        paths = (folder / f"{name}{kind}" for kind in kinds)  # vectors before texts
        return next((path for path in paths if path.exists()), None)

    qrels = None
    if (folder / "qrels").exists():
        qrels = folder / "qrels"
    return {
        "queries": given["queries"] or first_of("queries"),
        "documents": given["documents"] or first_of("corpus"),
        "relevance": given["relevance"] or qrels,
    }


def _named_as(rows, lines):
    """Names and texts from JSON lines, for vectors in the same order."""
    if rows.names is not None or not lines.exists() or lines == rows.path:
        return rows
    named = read_rows(lines, [])
    if len(named) != len(rows):
        raise ValueError(
            f"'{rows.path}' holds {len(rows):,} vectors for the {len(named):,} rows of '{lines}'; "
            "pass one for each, in the same order, or with ids."
        )
    return replace(rows, names=named.names, texts=named.texts)


def _from_npz(path):
    arrays = load_arrays(path) if path.suffix.lower() == ".npz" else {}
    queries = _first_of(arrays, QUERIES)
    documents = _first_of(arrays, DOCUMENTS)
    judged = _first_of(arrays, JUDGED)
    if queries is None or documents is None or judged is None:
        raise ValueError(
            f"'{path}' is neither a folder in BEIR's layout nor an npz file with the arrays "
            f"{QUERIES[0]}, {DOCUMENTS[0]} and {JUDGED[0]}."
        )
    test = None
    if "split" in arrays:
        test = arrays["split"].astype(str) == "test"
    queries = _checked(Side(path, queries))
    documents = _checked(Side(path, documents))
    return _collection(queries, documents, np.asarray(judged), test)


# ---- judgements


def _judgements(place, queries, documents, notes):
    """Judgements by row number, and which queries are held out."""
    place = Path(place)
    if not place.is_dir():
        return _by_number(place, queries, documents, notes), None
    files = sorted(path for path in place.iterdir() if path.is_file())
    if not files:
        raise ValueError(f"'{place}' holds no judgements.")
    parts = {path.stem: _by_number(path, queries, documents, notes) for path in files}
    test = None
    if "test" in parts and len(parts) > 1:
        # the queries of test.tsv are held out; those of train and dev are learned from
        test = np.zeros(len(queries), bool)
        test[parts["test"][:, 0]] = True
    return np.concatenate(list(parts.values())), test


def _by_number(path, queries, documents, notes):
    """Rows [query, document, grade] of a file of judgements."""
    frame = read_judgements(path)
    query = queries.numbers(frame["query"])
    document = documents.numbers(frame["document"])
    known = known_lines(path, query, document, "judgement", notes)
    return np.column_stack([query, document, frame["grade"].to_numpy()])[known]


def known_lines(
    path: Path, query: np.ndarray, document: np.ndarray, noun: str, notes: list[str]
) -> np.ndarray:
    """Which lines name a known query and document (-1: unknown); a note counts the others."""
    known = (query >= 0) & (document >= 0)
    if not known.any():
        raise ValueError(
            f"'{path}' names no query and document of the collection; check that the ids match."
        )
    if not known.all():
        notes.append(
            f"Ignored: {int((~known).sum()):,} of {plural(len(known), noun)} in '{path.name}', "
            "whose query or document is missing."
        )
    return known


def read_judgements(path: Path) -> pl.DataFrame:
    """Query, document and grade: TREC's four columns, or a table of two or three."""
    path = check_file(path)
    tables = (*LINES, ".parquet", ".pq", ".npy")
    if path.suffix.lower() in tables:
        frame = read_frame(path, [])
    else:
        frame = _judgement_lines(path)
    if frame.width < 2 or len(frame) == 0:
        raise ValueError(
            f"'{path}' has {plural(len(frame), 'row')} of {plural(frame.width, 'column')}; pass "
            "query, document and, optionally, grade."
        )
    if frame.width == 2:  # all are relevant
        frame = frame.with_columns(pl.lit(1).alias("grade"))
    frame = frame[:, :3]
    frame.columns = ["query", "document", "grade"]
    frame = frame.with_columns(pl.col("grade").cast(pl.Int64, strict=False))
    if frame["grade"].null_count():
        raise ValueError(f"'{path}' has grades that are not whole numbers.")
    return frame


def _judgement_lines(path):
    lines = [line for line in decoded(path).splitlines() if line.strip()]
    if not lines:
        return pl.DataFrame()
    separator = separator_of("\n".join(lines[:SAMPLE]), default=None)  # None: spaces, as TREC's
    rows: list[list[str]] = []
    for number, line in enumerate(lines, 1):
        row = [field.strip() for field in line.split(separator)]
        if rows and len(row) != len(rows[0]):
            raise ValueError(
                f"'{path}', line {number} has {len(row)} fields where the first has {len(rows[0])}."
            )
        rows.append(row)
    if len(rows[0]) == 4:  # TREC: query, iteration, document, grade
        rows = [[row[0], row[2], row[3]] for row in rows]
    if _is_header(rows[0]):
        rows = rows[1:]
    if not rows:
        return pl.DataFrame()
    return pl.DataFrame(rows, orient="row")


def _is_header(fields):
    """Whether the first line names the columns: where there are grades, it has none."""
    if len(fields) > 2:
        return not NUMBER.fullmatch(fields[2])
    return len(fields) == 2 and fields[0].lower().startswith(("query", "qid"))
