"""Rows from CSV, Parquet, npy and npz files, with labels and ids; every fault is named before
work starts.
"""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from ...storage import LearnedMetric
from .columns import (
    check_columns,
    choose_columns,
    class_labels,
    column_matrix,
    feature_columns,
    in_order,
)
from .csv_files import explain, place_of, scan_text
from .dialects import decoded
from .files import check_file
from .options import Reading
from .rows import Table, check_ids, is_text, refuse_huge, without_missing
from .wording import listed, plural

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npy", ".npz")
# digits of another script, or thousands separators: numbers to a person only
ODD_NUMBER = r"^[+-]?(\d+([.,]\d*)?|\d{1,3}([,. ']\d{3})+([.,]\d+)?)$"


def read_table(path: str | Path, reading: Reading, metric: LearnedMetric | None = None) -> Table:
    """Read the rows of a file: the columns that ``metric`` needs, or else all numeric ones."""
    path = check_file(path)
    if path.suffix.lower() in ARRAYS:
        table = _read_array(path, reading)
        if metric is not None:
            in_order(path, table.X, None, metric)
    elif path.suffix.lower() in TABLES:
        table = _read_frame(path, reading, metric)
    else:
        raise not_readable(path, TABLES + ARRAYS)
    if reading.labels is not None:
        table = _with_labels(table, reading.labels)
    fills = reading.impute is not None or (metric is not None and metric.fill is not None)
    refuse_huge(table, path, reading)
    table = without_missing(table, path, reading, fills)
    check_ids(table, path, reading.id_column)
    return table


def not_readable(path: Path, kinds: tuple[str, ...]) -> ValueError:
    """The error for a file of another kind."""
    return ValueError(f"'{path}' is not a file this command reads; give one of {', '.join(kinds)}.")


def scan(path: Path, reading: Reading, notes: list[str]) -> pl.LazyFrame:
    """A lazy frame of a CSV or Parquet file; notes say how unusual text was read."""
    with readable(path, reading):
        frame = scan_text(path, reading, notes) if is_text(path) else pl.scan_parquet(path)
        frame.collect_schema()
    return frame


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
        raise ValueError(f"'{path}' cannot be read as Parquet: {error}") from error


def read_frame(path: Path, notes: list[str]) -> pl.DataFrame:
    """The data frame of a CSV or Parquet file beside the data."""
    with readable(path, Reading()):
        return scan(path, Reading(), notes).collect()


def _read_array(path, reading):
    if reading.id_column is not None:
        raise ValueError(f"--id names a column of a CSV or Parquet file; '{path}' has none.")
    if reading.label is not None and path.suffix.lower() == ".npy":
        raise ValueError(
            f"--label names a column, but '{path}' has none; give the labels as a file by --labels."
        )
    arrays = load_arrays(path)
    tables = (name for name, array in arrays.items() if array.ndim == 2)
    key = "X" if "X" in arrays else next(tables, None)
    label = reading.label or ("y" if "y" in arrays else None)
    if key is None:
        raise ValueError(
            f"'{path}' holds no two-dimensional array (it has {', '.join(arrays)}); name it X."
        )
    if label is not None and label not in arrays:
        raise ValueError(f"'{path}' has no array '{label}' (it has {', '.join(arrays)}).")
    X, labels = arrays[key], None if label is None else arrays[label]
    if X.ndim != 2:
        raise ValueError(
            f"'{path}' has shape {X.shape}; give a two-dimensional array, rows by features."
        )
    if X.dtype.kind not in "fiub":
        raise ValueError(f"'{path}' has dtype {X.dtype}; give numbers.")
    if labels is not None and labels.shape != (len(X),):
        raise ValueError(
            f"'{path}' has labels of shape {labels.shape} for {len(X)} rows; give one for each row."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    return Table(np.ascontiguousarray(X), labels=labels)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npy file (as X) or npz file, without unpickling anything."""
    try:
        loaded = np.load(
            path, allow_pickle=False, mmap_mode="r" if path.suffix.lower() == ".npy" else None
        )
        if isinstance(loaded, np.ndarray):
            return {"X": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"'{path}' cannot be read as {path.suffix.lower()[1:]}: {error}"
        ) from error


def _read_frame(path, reading, metric):
    notes: list[str] = []
    lazy = scan(path, reading, notes)
    with readable(path, reading):
        if is_text(path):  # all columns: only then is a row of too many fields refused, not cut
            lazy = _typed_empty(lazy.collect(engine="streaming")).lazy()
        check_columns(path, lazy.collect_schema(), reading)
        if lazy.select(pl.len()).collect().item() == 0:
            raise ValueError(f"'{path}' has no rows.")
        if metric is None:
            if is_text(path):
                _refuse_slips(path, reading, lazy)
            frame, columns, categories = choose_columns(path, lazy, reading, notes)
        else:
            categories = metric.categories or {}
            beside = [name for name in (reading.label, reading.id_column) if name is not None]
            schema = lazy.collect_schema()
            columns = feature_columns(path, schema, metric.columns, beside, categories)
            frame = lazy.select([*columns, *beside]).collect()
            notes.append(f"Columns used: {listed(columns, 30)}.")
    X, names = column_matrix(frame, columns, path, categories)
    X = X if metric is None else in_order(path, X, names, metric)
    labels = None if reading.label is None else class_labels(frame[reading.label])
    ids = None if reading.id_column is None else frame[reading.id_column].to_numpy()
    return Table(X, names, labels, ids, categories or None, tuple(notes))


def _typed_empty(frame):
    """Turn text columns without any value into numeric ones."""
    empty = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.String and frame[name].null_count() == len(frame)
    ]
    return frame.with_columns(pl.col(empty).cast(pl.Float64))


def _refuse_slips(path, reading, lazy):
    """Refuse a column whose entries are numbers except for a few, or for their notation."""
    aside = {reading.label, reading.id_column, *(reading.ignore or ())}
    for column in lazy.collect().iter_columns():
        if column.dtype != pl.String or column.name in aside:
            continue
        given = column.is_not_null()
        slips = given & column.str.strip_chars().cast(pl.Float64, strict=False).is_null()
        odd = column.str.strip_chars().str.contains(ODD_NUMBER) & slips
        if not (0 < slips.sum() < 0.5 * given.sum() or odd.sum() > 0.5 * given.sum()):
            continue
        line, value = place_of(path, reading, int(slips.arg_true()[0]), column.name)
        how_many = f"{slips.sum():,} of {plural(int(given.sum()), 'value')}"
        fault = (
            f"writes numbers as '{value}'; use the digits 0 to 9 without thousands separators"
            if odd.sum() > 0.5 * given.sum()
            else f"holds numbers except for {how_many} (first: '{value}'); correct them"
        )
        remedy = reading.remedies(ignore=f"leave the column out by --ignore {column.name}")
        raise ValueError(f"'{path}', line {line}: column '{column.name}' {fault}{remedy}.")


def _with_labels(table, path):
    """The table with labels from a separate file."""
    path, n, notes = check_file(path), len(table.X), list(table.notes)
    if path.suffix.lower() == ".npy":
        labels = load_arrays(path)["X"]
    elif path.suffix.lower() in TABLES:
        frame = read_frame(path, notes)
        if frame.width != 1:
            raise ValueError(
                f"--labels: '{path}' has {frame.width} columns; give one, or use --label."
            )
        labels = class_labels(frame.to_series())
    else:
        labels = np.array(decoded(path).split("\n"))
        labels = labels[:-1] if len(labels) and labels[-1] == "" else labels
    if labels.shape != (n,):
        raise ValueError(
            f"--labels: '{path}' has shape {labels.shape}, but there are {plural(n, 'row')}; give "
            "one label per row."
        )
    return replace(table, labels=np.asarray(labels), notes=tuple(notes))
