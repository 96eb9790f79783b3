"""Rows from CSV, Parquet, npy and npz files, with labels and ids; faults are named first."""

import glob
import gzip
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from ...core.wording import plural
from ...storage import LearnedMetric
from ...tables import TableEncoder
from . import intake
from .csv_files import explain, is_text, scan_text
from .dialects import decoded
from .intake import Learned, Table
from .labels import check_ids, group_numbers, read_labels, with_labels_only
from .reading import DIALECT, Reading, as_given, check_file

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npy", ".npz")
LINES = (".jsonl", ".ndjson")
SHEETS = (".xlsx", ".xls", ".ods")
TEXTS = (".txt", ".dat", ".data", ".tab", "")
# folders of unpacked files: lazy frames read them later; each is removed when this list is
UNPACKED: list[tempfile.TemporaryDirectory[str]] = []


def read_table(path: str | Path, reading: Reading, learned: Learned | None = None) -> Table:
    """Read the rows of a file to learn from, or as an encoder or a metric expects them."""
    given = check_file(path)
    path = unzipped(given)
    with _named_as_given(given, path):
        return _read(path, reading, learned)


def _read(path, reading, learned):
    """Read the rows of a file that is not zipped."""
    if isinstance(learned, LearnedMetric) and learned.encoder is not None:
        learned = learned.encoder
    if isinstance(learned, TableEncoder):
        refuse_dropping(reading)
    if ending_of(path, TABLES + ARRAYS) in ARRAYS:
        table = _read_array(path, reading, learned)
    else:
        table = _read_frame(path, reading, learned)
    if reading.labels is not None:
        table = _with_labels(table, reading)
    if table.ids is not None:
        check_ids(table.ids, path, reading.id_column)
    if learned is None:
        return with_labels_only(table, reading.label)
    if isinstance(learned, LearnedMetric):
        return without_missing(table, path, reading)
    return table


@contextmanager
def _named_as_given(given: Path, path: Path) -> Iterator[None]:
    """Turn errors about an unpacked file into errors about the one that was given."""
    try:
        yield
    except ValueError as error:
        if path == given:
            raise
        raise ValueError(str(error).replace(str(path), str(given))) from error


def refuse_dropping(reading: Reading) -> None:
    """Refuse to leave out rows with gaps where what was learned takes gaps as they are."""
    if reading.drop_missing:
        raise ValueError(
            "--drop-missing leaves out rows with missing values, and what was learned reads them as in "
            "training; leave the option out, or such rows out of the file."
        )


def unzipped(path: Path) -> Path:
    """The file, or what a gzipped one holds, in a folder that is removed when the process ends."""
    if path.suffix.lower() != ".gz":
        return path
    folder = tempfile.TemporaryDirectory()
    UNPACKED.append(folder)
    plain = Path(folder.name) / path.stem
    try:
        with gzip.open(path) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
    except (OSError, EOFError) as error:
        raise ValueError(f"'{path}' cannot be unpacked: {error}") from error
    return plain


def without_missing(table: Table, path: Path, reading: Reading) -> Table:
    """Refuse or drop rows with missing, infinite or huge values that a metric cannot fill."""
    # the squares of numbers up to this can be added
    largest = np.sqrt(np.finfo(table.X.dtype).max / (4 * table.X.shape[1]))
    bad = ~(np.abs(table.X) <= largest)
    rows = bad.any(axis=1)
    if not rows.any():
        return table
    first, column = np.argwhere(bad)[0].tolist()
    if table.names:
        column = table.names[column]
    n_bad = int(rows.sum())
    have = "has" if n_bad == 1 else "have"
    fault = (
        f"{n_bad:,} of {plural(len(rows), 'row')} {have} missing, infinite or huge values (first: row "
        f"{first}, column '{column}')"
    )
    if not reading.drop_missing:
        remedy = reading.remedies(drop_missing="use --drop-missing to leave those rows out")
        raise ValueError(
            f"'{path}': {fault}, and the metric was learned from complete rows; fill them in{remedy}."
        )
    if rows.all():
        raise ValueError(f"'{path}': {fault}; no rows are left without them.")
    return table.only(~rows, f"Dropped: {fault}.")


def ending_of(path: Path, kinds: tuple[str, ...]) -> str:
    """The ending of a file's name, refused unless it is one of these."""
    kind = path.suffix.lower()
    if kind not in kinds:
        remedy = ""
        if kind in SHEETS:
            remedy = ", or save the sheet as CSV"
        elif kind in TEXTS and ".csv" in kinds:
            remedy = ", or rename it to end in .csv if it is text"
        raise ValueError(
            f"'{path}' is not a file this command reads; pass one of {', '.join(kinds)}{remedy}."
        )
    return kind


def scan(
    path: Path, reading: Reading, notes: list[str], wanted: Sequence[str] = ()
) -> pl.LazyFrame:
    """A lazy frame of a CSV, Parquet or JSON lines file; notes say how unusual text was read. By columns
    that are ``wanted`` the header of a CSV file is found.
    """
    if not is_text(path):
        refuse_options_of_csv(path, reading)
    with readable(path, reading):
        if is_text(path):
            frame = scan_text(path, reading, notes, wanted)
        elif path.suffix.lower() in LINES:
            # this function of Polars takes every path for a pattern
            frame = pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=1000)
        else:
            frame = pl.scan_parquet(path, glob=False)
        frame.collect_schema()
    return frame


def refuse_options_of_csv(path: Path, reading: Reading) -> None:
    """Refuse what says how a CSV file is written, where the file is of another kind."""
    if reading.missing:
        raise ValueError(
            f"--missing names an entry of a CSV file; '{path}' is none: leave values out there (null, NaN)."
        )
    for name in DIALECT:
        value = getattr(reading, name)
        if value is not None:
            raise ValueError(
                f"{as_given(name, value)} says how a CSV file is written; '{path}' is none: leave the "
                "option out."
            )


@contextmanager
def readable(path: Path, reading: Reading) -> Iterator[None]:
    """Turn errors of Polars into ones that name the file and, if known, the fault."""
    try:
        yield
    except pl.exceptions.NoDataError:
        raise ValueError(f"'{path}' is empty.") from None
    except pl.exceptions.PolarsError as error:
        if is_text(path):
            explain(path, reading, error)
        kind = "JSON lines" if path.suffix.lower() in LINES else "Parquet"
        raise ValueError(f"'{path}' cannot be read as {kind}: {error}") from error


def read_frame(path: Path, notes: list[str]) -> pl.DataFrame:
    """The data frame of a file beside the data."""
    if path.suffix.lower() == ".npy":
        return pl.DataFrame(np.asarray(load_arrays(path)["X"]))
    with readable(path, Reading()):
        return scan(path, Reading(), notes).collect()


def _read_array(path, reading, learned):
    _refuse_columns_of_arrays(path, reading)
    arrays = load_arrays(path)
    X, labels = _rows_and_labels(path, arrays, reading)
    notes: list[str] = []
    groups = None
    if reading.groups is not None:
        groups = _groups_of_array(path, arrays, reading.groups, len(X), notes)
    if learned is not None:
        intake.check_width(path, X.shape[1], learned.n_features_in_)
    if isinstance(learned, LearnedMetric):
        X = learned.fill_missing(X)
    if learned is None and not np.isfinite(X).all():
        X = np.where(np.isfinite(X), X, np.nan)
        share = np.isnan(X).mean()
        notes.append(
            f"Missing values: {share:.1%} of the entries, set to the mean of their column."
        )
    return Table(np.ascontiguousarray(X), labels=labels, notes=notes, groups=groups)


def _refuse_columns_of_arrays(path, reading):
    """Refuse options that name columns, which arrays do not have."""
    refuse_options_of_csv(path, reading)
    if reading.id_column is not None:
        raise ValueError(f"--id names a column of a CSV or Parquet file; '{path}' has none.")
    for option in ("ignore", "categorical", "numeric"):
        value = getattr(reading, option)
        if value:
            raise ValueError(
                f"{as_given(option, value)} names a column of a CSV or Parquet file; '{path}' has none: "
                "leave the option out."
            )
    if reading.label is not None and path.suffix.lower() == ".npy":
        raise ValueError(
            f"--label names a column, but '{path}' has none; pass the labels with --labels FILE."
        )


def _rows_and_labels(path, arrays, reading):
    """The rows of a file of arrays as floats, and their labels if it has them."""
    known = ", ".join(arrays)
    if "X" in arrays:
        X = arrays["X"]
    else:
        X = next((array for array in arrays.values() if array.ndim == 2), None)
    if X is None:
        raise ValueError(f"'{path}' holds no two-dimensional array (it has {known}); name it X.")
    label = reading.label or None
    if label is not None and label not in arrays:
        raise ValueError(f"'{path}' has no array '{label}' (it has {known}).")
    if label is None and reading.pairs is None and reading.triplets is None:
        label = "y"  # is taken for the labels where nothing else is learned from
    check_numbers(path, X)
    labels = arrays.get(label)
    if labels is not None and labels.shape != (len(X),):
        raise ValueError(
            f"'{path}' has labels of shape {labels.shape} for {len(X)} rows; pass one for each row."
        )
    if X.dtype not in (np.float32, np.float64):
        # whole numbers of two bytes are exact in float32
        dtype = np.float32 if X.dtype.itemsize <= 2 else np.float64
        X = X.astype(dtype)
    return X, labels


def _groups_of_array(path, arrays, name, n, notes):
    """The groups of the rows by an array of the file."""
    if path.suffix.lower() == ".npy":
        raise ValueError(f"--groups names a column or an array of an npz file; '{path}' has none.")
    if name not in arrays:
        raise ValueError(f"--groups: '{path}' has no array '{name}' (it has {', '.join(arrays)}).")
    if arrays[name].shape != (n,):
        raise ValueError(
            f"--groups: array '{name}' of '{path}' has shape {arrays[name].shape}; pass one for each of "
            f"the {n} rows."
        )
    return group_numbers(pl.Series(arrays[name]), notes)


def check_numbers(path: Path, X: np.ndarray) -> None:
    """Refuse an array that does not hold rows of numbers."""
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"'{path}' has shape {X.shape} and dtype {X.dtype}; pass rows of numbers.")


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npy file (as X) or npz file, without unpickling anything."""
    try:
        loaded = np.load(path, allow_pickle=False, mmap_mode="r")  # in memory what is zipped
        if isinstance(loaded, np.ndarray):
            return {"X": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"'{path}' cannot be read as {path.suffix.lower()[1:]}: {error}"
        ) from error


def _read_frame(path, reading, learned):
    notes: list[str] = []
    wanted: Sequence[str] = ()
    if learned is not None:
        wanted = intake.learned_names(learned)
    with readable(path, reading):
        frame = scan(path, reading, notes, wanted).collect(engine="streaming")
    intake.check_columns(path, frame.schema, reading)
    if len(frame) == 0:
        raise ValueError(f"'{path}' has no rows.")
    labels = None
    if reading.label is not None:
        labels = read_labels(frame[reading.label], path, reading, notes)
    ids = None
    if reading.id_column is not None:
        ids = frame[reading.id_column].to_numpy()
    if learned is not None:
        X = intake.rows_as_learned(path, frame, learned, reading, notes)
        names = None
        if isinstance(learned, LearnedMetric) and learned.feature_names is not None:
            names = list(learned.feature_names)
        return Table(X, names, labels, ids, notes)
    groups = None
    if reading.groups is not None:
        groups = group_numbers(frame[reading.groups], notes)
    aside = {reading.label, reading.id_column, reading.groups, *(reading.ignore or ())}
    features = intake.with_entries(frame.drop(aside & set(frame.columns)), path)
    if not features.width:
        raise ValueError(f"'{path}' has no column to learn from besides the label.")
    table = intake.learnable(path, features, reading, notes)
    X = intake.rows_of(table)
    intake.tell_gaps(X, notes)
    return Table(X, list(table.kinds), labels, ids, notes, kinds=table.spellings, groups=groups)


def _with_labels(table, reading):
    """The table with labels from a separate file, whose dialect is its own."""
    path = check_file(reading.labels)
    n = len(table.X)
    if path.suffix.lower() in (*TABLES, ".npy"):
        frame = read_frame(path, table.notes)
        if frame.width != 1:
            raise ValueError(
                f"--labels: '{path}' has {frame.width} columns; pass one, or use --label."
            )
        own = Reading(target=reading.target)
        labels = read_labels(frame.to_series(), path, own, table.notes)
    else:
        labels = np.array(decoded(path).removesuffix("\n").split("\n"))
    if labels.shape != (n,):
        raise ValueError(
            f"--labels: '{path}' has shape {labels.shape}, but there are {plural(n, 'row')}; pass "
            "one label per row."
        )
    return replace(table, labels=np.asarray(labels))
