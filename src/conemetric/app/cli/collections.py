"""Judged collections from files: judgements as TREC or tables, BEIR's folders, npz files; every
fault is named before work starts.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from ...core.extras import require
from ..datasets import reference_pages
from ..studies.adapting import Collection
from .dialects import NUMBER, SAMPLE, decoded, separator_of
from .files import check_file
from .options import Sources
from .sides import LINES, TEXTS, Side, checked, first_of, read_lines, read_rows
from .tables import ARRAYS, load_arrays
from .wording import listed, plural

DIRECTIONS = 64  # of word counts, for the bundled pages: seconds to learn from
# arrays of an npz file that holds a whole collection
QUERIES, DOCUMENTS, JUDGED = (
    ("queries", "query"),
    ("documents", "docs", "corpus"),
    ("relevance", "qrels"),
)


def read_collection(data: str | None, sources: Sources) -> tuple[Collection, list]:
    """The collection, and notes about it: from a folder in BEIR's layout, an npz file of queries,
    documents and relevance, or the files of ``sources`` (with a folder: instead of those in it);
    without any, scikit-learn's reference pages.
    """
    places = {name: getattr(sources, name) for name in ("queries", "documents", "relevance")}
    if not (data or any(places.values())):
        return _bundled(sources.encode)
    folder = Path(data) if data is not None and Path(data).is_dir() else None
    if data is not None and folder is None:
        if any(places.values()):
            raise ValueError(
                f"got '{data}' and files beside it; give one of them, or a folder in BEIR's layout."
            )
        return _from_npz(check_file(data))
    if folder:
        places = _in_folder(folder, places)
    missing = [f"--{name}" for name, place in places.items() if place is None]
    if missing:
        raise ValueError(
            f"missing {' and '.join(missing)}: give these files, a folder in BEIR's layout, or an "
            "npz file that holds all."
        )
    notes: list[str] = []
    sides = {name: read_rows(places[name], notes) for name in ("queries", "documents")}
    if folder:
        texts = {"queries": folder / "queries.jsonl", "documents": folder / "corpus.jsonl"}
        sides = {name: _named_as(rows, texts[name]) for name, rows in sides.items()}
    sides = {name: _with_vectors(rows, name, sources.encode) for name, rows in sides.items()}
    judged, test = _judgements(places["relevance"], sides, notes)
    return _collection(sides, judged, test), notes


def _collection(sides, relevance, test):
    queries, documents = sides["queries"], sides["documents"]
    if queries.X.shape[1] != documents.X.shape[1]:
        raise ValueError(
            f"'{queries.path}' holds vectors of {queries.X.shape[1]} numbers and "
            f"'{documents.path}' of {documents.X.shape[1]}; embed both with the same encoder."
        )
    names = queries.names, documents.names
    return Collection(
        queries.X, documents.X, relevance, test, *names, queries.texts, documents.texts
    )


# ---- vectors


def _with_vectors(rows, name, encode):
    if rows.X is not None and encode is None:
        return rows
    if rows.texts is None:
        raise ValueError(f"'{rows.path}' has no column of texts to encode ({listed(TEXTS)}).")
    if encode is None:
        raise ValueError(
            f"'{rows.path}' has texts but no vectors; give the vectors as --{name} FILE, or encode "
            "the texts by --encode MODEL."
        )
    model = require("sentence_transformers", "encode").SentenceTransformer(encode)
    X = model.encode(rows.texts, convert_to_numpy=True, show_progress_bar=False)
    return replace(rows, X=np.ascontiguousarray(X, np.float32))


def _bundled(encode):
    """scikit-learn's reference pages, as word counts unless a model encodes them."""
    pages = reference_pages()
    place = Path("reference-pages")
    sides = {
        "queries": Side(place, names=pages.names, texts=pages.queries),
        "documents": Side(place, names=pages.names, texts=pages.documents),
    }
    if encode is None:
        encoder = make_pipeline(
            TfidfVectorizer(sublinear_tf=True, stop_words="english"),
            TruncatedSVD(DIRECTIONS, random_state=0),
        ).fit(pages.documents)
        sides = {
            name: replace(rows, X=encoder.transform(rows.texts)) for name, rows in sides.items()
        }
    sides = {name: _with_vectors(rows, name, encode) for name, rows in sides.items()}
    grades = np.ones(len(pages.relevance), np.int64)
    note = (
        "Without a collection, scikit-learn's reference: the first sentence of a page is a query, "
        "the rest of it the document to be found"
        + (f", as {DIRECTIONS} latent directions of word counts." if encode is None else ".")
    )
    return _collection(sides, np.column_stack([pages.relevance, grades]), None), [note]


# ---- BEIR's folders, and everything in one file


def _in_folder(folder, given):
    """The files of a folder in BEIR's layout; those given as options come first."""
    kinds = (*ARRAYS, ".parquet", *LINES)
    places = {
        "queries": [folder / f"queries{kind}" for kind in kinds],
        "documents": [folder / f"corpus{kind}" for kind in kinds],
        "relevance": [folder / "qrels"],
    }
    found = {
        name: given[name] or next((path for path in paths if path.exists()), None)
        for name, paths in places.items()
    }
    lacking = [name for name, place in found.items() if place is None]
    if lacking:
        raise ValueError(
            f"'{folder}' is not in BEIR's layout: it lacks {', '.join(lacking)}; it should hold "
            "corpus.jsonl, queries.jsonl and a folder qrels."
        )
    return found


def _named_as(rows, lines):
    """Names and texts from JSON lines, for vectors in the same order."""
    if rows.names is not None or not lines.exists() or lines == rows.path:
        return rows
    named = read_rows(lines, [])
    if len(named) != len(rows):
        raise ValueError(
            f"'{rows.path}' holds {len(rows):,} vectors for the {len(named):,} rows of '{lines}'; "
            "give one for each, in the same order, or with ids."
        )
    return replace(rows, names=named.names, texts=named.texts)


def _from_npz(path):
    arrays = load_arrays(path) if path.suffix.lower() == ".npz" else {}
    parts = [first_of(arrays, names) for names in (QUERIES, DOCUMENTS, JUDGED)]
    if any(part is None for part in parts):
        raise ValueError(
            f"'{path}' is neither a folder in BEIR's layout nor an npz file with the arrays "
            f"{QUERIES[0]}, {DOCUMENTS[0]} and {JUDGED[0]}."
        )
    sides = {
        name: checked(Side(path, X))
        for name, X in zip(("queries", "documents"), parts[:2], strict=True)
    }
    test = arrays["split"].astype(str) == "test" if "split" in arrays else None
    return _collection(sides, np.asarray(parts[2]), test), []


# ---- judgements


def _judgements(place, sides, notes):
    """Judgements by row number, and which queries are held out."""
    place = Path(place)
    if not place.is_dir():
        return _by_number(place, sides, notes), None
    files = sorted(path for path in place.iterdir() if path.is_file())
    if not files:
        raise ValueError(f"'{place}' holds no judgements.")
    parts = {path.stem: _by_number(path, sides, notes) for path in files}
    test = None
    if "test" in parts and len(parts) > 1:
        test = np.zeros(len(sides["queries"]), bool)
        test[parts["test"][:, 0]] = True
    return np.concatenate(list(parts.values())), test


def _by_number(path, sides, notes):
    """Rows [query, document, grade] of a file of judgements."""
    frame = read_judgements(path)
    query, document = (
        sides[name].numbers(frame.to_series(column))
        for column, name in enumerate(("queries", "documents"))
    )
    unknown = (query < 0) | (document < 0)
    if unknown.all():
        first = frame.row(0)
        raise ValueError(
            f"'{path}' names no query and document that are in the files (first: {first[0]!r}, "
            f"{first[1]!r})."
        )
    if unknown.any():
        notes.append(
            f"Ignored: {int(unknown.sum()):,} of {plural(len(unknown), 'judgement')} in "
            f"'{path.name}', whose query or document is missing."
        )
    return np.column_stack([query, document, frame.to_series(2).to_numpy()])[~unknown]


def read_judgements(path: Path) -> pl.DataFrame:
    """Columns query, document and grade of a file: TREC's four columns, or a table of two or
    three, with or without a header.
    """
    path = check_file(path)
    kind = path.suffix.lower()
    if kind == ".npy":
        frame = pl.DataFrame(np.asarray(load_arrays(path)["X"]))
    elif kind in LINES:
        frame = read_lines(path)
    elif kind in (".parquet", ".pq"):
        frame = pl.read_parquet(path)
    else:
        frame = _judgement_lines(path)
    if frame.width < 2 or len(frame) == 0:
        raise ValueError(
            f"'{path}' has {plural(len(frame), 'row')} of {plural(frame.width, 'column')}; give "
            "query, document and, optionally, grade."
        )
    grade = (
        pl.lit(1, dtype=pl.Int64) if frame.width == 2 else pl.nth(2).cast(pl.Int64, strict=False)
    )
    frame = frame.select(
        pl.nth(0).alias("query"), pl.nth(1).alias("document"), grade.alias("grade")
    )
    if frame["grade"].null_count():
        raise ValueError(f"'{path}' has grades that are not whole numbers.")
    return frame


def _judgement_lines(path):
    lines = [line for line in decoded(path).splitlines() if line.strip()]
    if not lines:
        return pl.DataFrame()
    separator = separator_of("\n".join(lines[:SAMPLE]), default=None)  # None: spaces, as TREC's
    rows = [[field.strip() for field in line.split(separator)] for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"'{path}', line {number} has {len(row)} fields where the first has {len(rows[0])}."
            )
    if len(rows[0]) == 4:  # TREC: query, iteration, document, grade
        rows = [[row[0], row[2], row[3]] for row in rows]
    words = rows[0][0].lower().startswith(("query", "qid"))
    if words if len(rows[0]) == 2 else len(rows[0]) > 2 and not NUMBER.fullmatch(rows[0][2]):
        rows = rows[1:]  # a header
    return pl.DataFrame(rows, orient="row") if rows else pl.DataFrame()
