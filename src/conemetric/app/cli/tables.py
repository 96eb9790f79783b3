"""Rows from CSV, Parquet, npy and npz files, with labels and ids; every fault is named before
work starts.
"""

import difflib
import itertools
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...constraints.in_memory import encode_labels, is_continuous
from ...storage import LearnedMetric
from .dialects import decoded, explain, place_of, scan_text
from .options import Reading
from .wording import listed, plural

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npy", ".npz")
FEWEST_NUMBERED = 10  # rows; fewer integers may well rise by chance
MOST_VALUES = 50  # of a text column whose values become features; more are names, not categories
# digits of another script, or thousands separators: numbers to a person only
ODD_NUMBER = r"^[+-]?(\d+([.,]\d*)?|\d{1,3}([,. ']\d{3})+([.,]\d+)?)$"
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|index|nr|no|key)$|^id[_ .-])|[a-z](Id|ID)$")


@dataclass(frozen=True)
class Table:
    """Numbers, and what is known about rows and columns."""

    X: np.ndarray  # float32 or float64
    names: list[str] | None = None  # of the columns, if the file has them
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None  # None: rows go by their number
    categories: dict[str, list[str]] | None = None  # text columns: values that became features
    notes: tuple[str, ...] = ()  # what was ignored or dropped, in words

    @property
    def row_names(self) -> np.ndarray:
        """The ids, or numbers from 0."""
        return np.arange(len(self.X)) if self.ids is None else self.ids


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
        raise ValueError(
            f"'{path}' is not a file this command reads; give one of {', '.join(TABLES + ARRAYS)}."
        )
    if reading.labels is not None:
        table = _with_labels(table, reading.labels)
    fills = reading.impute is not None or (metric is not None and metric.fill is not None)
    table = _check_values(table, path, reading, fills)
    return _check_ids(table, path, reading.id_column)


def check_file(path: str | Path) -> Path:
    """The path, if a file is there."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file '{path}'.")
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; give a file.")
    return path


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


def is_text(path: Path) -> bool:
    """Whether a file is CSV, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def _read_array(path, reading):
    label = reading.label
    if reading.id_column is not None:
        raise ValueError(f"--id names a column of a CSV or Parquet file; '{path}' has none.")
    arrays = load_arrays(path)
    if path.suffix.lower() == ".npy":
        X, labels = arrays["X"], None
        if label is not None:
            raise ValueError(
                f"--label names a column, but '{path}' has none; give the labels as a file by "
                "--labels."
            )
    else:
        key = (
            "X"
            if "X" in arrays
            else next((name for name, array in arrays.items() if array.ndim == 2), None)
        )
        if key is None:
            raise ValueError(
                f"'{path}' holds no two-dimensional array (it has {', '.join(arrays)}); name it X."
            )
        X = arrays[key]
        name = label or ("y" if "y" in arrays else None)
        if name is not None and name not in arrays:
            raise ValueError(f"'{path}' has no array '{name}' (it has {', '.join(arrays)}).")
        labels = None if name is None else arrays[name]
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
    return Table(_floating(X), labels=labels)


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


def _floating(X):
    keep = X.dtype in (np.float32, np.float64)
    return np.ascontiguousarray(
        X, X.dtype if keep else np.float32 if X.dtype.itemsize <= 2 else np.float64
    )


def _read_frame(path, reading, metric):
    notes: list[str] = []
    lazy = scan(path, reading, notes)
    if is_text(path):  # all columns: only then is a row of too many fields refused, not cut
        with readable(path, reading):
            lazy = _typed_empty(lazy.collect(engine="streaming")).lazy()
    schema = lazy.collect_schema()
    check_columns(path, schema, reading)
    if lazy.select(pl.len()).collect().item() == 0:
        raise ValueError(f"'{path}' has no rows.")
    aside = set_aside(reading)
    others = [name for name in schema.names() if name not in aside]
    words = [name for name in others if reading.one_hot and schema[name] in WORDS]
    if metric is not None:
        words = list(metric.categories or ())
    columns = feature_columns(
        path, schema, None if metric is None else metric.columns, aside, words
    )
    with readable(path, reading):
        frame = lazy.select([*columns, *aside] if not is_text(path) else pl.all()).collect()
    categories = None if metric is None else metric.categories
    if metric is None:
        if is_text(path):
            _refuse_slips(path, reading, frame.select(others))
        left = [name for name in others if name not in columns]
        if left:
            hint = (
                ""
                if reading.one_hot
                else reading.remedies("; ", one_hot="--one-hot learns from words")
            )
            notes.append(f"Ignored: not numeric: {listed(left)}{hint}.")
        columns, categories = choose_columns(path, frame, columns, words, reading, notes)
    X, names = column_matrix(frame, columns, path, categories)
    X = X if metric is None else in_order(path, X, names, metric)
    labels = None if reading.label is None else class_labels(frame[reading.label])
    ids = None if reading.id_column is None else frame[reading.id_column].to_numpy()
    notes.append(f"Columns used: {listed(columns, 30)}.")
    return Table(X, names, labels, ids, categories or None, tuple(notes))


def _typed_empty(frame):
    """Turn text columns without any value into numeric ones."""
    empty = [
        name
        for name, kind in frame.schema.items()
        if kind == pl.String and frame[name].null_count() == len(frame)
    ]
    return frame.with_columns(pl.col(empty).cast(pl.Float64))


def in_order(
    path: Path, X: np.ndarray, names: list[str] | None, metric: LearnedMetric
) -> np.ndarray:
    """The columns in the metric's order; an error if there are more or fewer."""
    if X.shape[1] != metric.n_features_in_:
        raise ValueError(
            f"'{path}' has {plural(X.shape[1], 'column')} of numbers; the metric was learned from "
            f"{metric.n_features_in_:,}."
        )
    if metric.feature_names is None or names in (None, list(metric.feature_names)):
        return X
    return X[:, [names.index(name) for name in metric.feature_names]]


def set_aside(reading: Reading) -> list[str]:
    """Columns that the options exclude from the features."""
    names = (reading.label, reading.id_column, *(reading.ignore or ()))
    return [name for name in dict.fromkeys(names) if name is not None]


def check_columns(path: str | Path, schema: pl.Schema, reading: Reading) -> None:
    """Refuse options that name columns the file does not have."""
    for name, option in (
        (reading.label, "--label"),
        (reading.id_column, "--id"),
        *((name, "--ignore") for name in reading.ignore or ()),
        *((name, "--keep") for name in reading.keep or ()),
    ):
        if name is not None and name not in schema:
            close = difflib.get_close_matches(name, schema.names(), 1)
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"the columns are {listed(schema.names())}."
            )
            raise ValueError(f"{option}: '{path}' has no column '{name}'; {hint}")


def choose_columns(
    path: str | Path,
    frame: pl.DataFrame,
    columns: list[str],
    words: Sequence[str],
    reading: Reading,
    notes: list[str],
) -> tuple[list[str], dict[str, list[str]]]:
    """Leave out columns without values, columns that number the rows and text columns of too many
    values; return the other columns, and the values of their text columns.
    """
    values = {name: frame[name].cast(pl.String).drop_nulls().unique().sort() for name in words}
    kept = reading.keep or ()
    ignored = {
        "no values": [name for name in columns if frame[name].null_count() == len(frame)],
        f"more than {MOST_VALUES} different values": [
            name for name, found in values.items() if len(found) > MOST_VALUES
        ],
        "looks like a row number": [
            name for name in columns if name not in kept and _numbers_rows(frame[name])
        ],
    }
    for why, names in ignored.items():
        if names:
            hint = (
                reading.remedies("; ", keep=f"--keep {names[0]} learns from it")
                if "row" in why
                else ""
            )
            notes.append(f"Ignored: {why}: {listed(names)}{hint}.")
    out = [name for names in ignored.values() for name in names]
    left = [name for name in columns if name not in out]
    if not left:
        why = "; ".join(f"{why}: {listed(names)}" for why, names in ignored.items() if names)
        raise ValueError(f"'{path}' has no column to learn from ({why}).")
    return left, {name: values[name].to_list() for name in words if name not in out}


def _refuse_slips(path, reading, words):
    """Refuse a column whose entries are numbers except for a few, or for their notation."""
    for column in words.iter_columns():
        if column.dtype != pl.String:
            continue
        given = column.is_not_null()
        slips = given & column.str.strip_chars().cast(pl.Float64, strict=False).is_null()
        odd = column.str.strip_chars().str.contains(ODD_NUMBER) & slips
        if 0 < slips.sum() < 0.5 * given.sum() or odd.sum() > 0.5 * given.sum():
            line, value = place_of(path, reading, int(slips.arg_true()[0]), column.name)
            how_many = f"{slips.sum():,} of {plural(int(given.sum()), 'value')}"
            fault = (
                f"writes numbers as '{value}'; use the digits 0 to 9 without thousands separators"
                if odd.sum() > 0.5 * given.sum()
                else f"holds numbers except for {how_many} (first: '{value}'); correct them"
            )
            raise ValueError(
                f"'{path}', line {line}: column '{column.name}' {fault}"
                + reading.remedies(ignore=f"leave the column out by --ignore {column.name}")
                + "."
            )


def _numbers_rows(column):
    """Whether a column only numbers the rows: distinct integers that have no gaps, rise from row
    to row, or have the name of an id.
    """
    if not column.dtype.is_integer() or column.null_count() or len(column) < FEWEST_NUMBERED:
        return False
    if column.n_unique() < len(column):
        return False
    run = int(column.max()) - int(column.min()) == len(column) - 1
    return run or column.is_sorted() or bool(ID_NAME.search(column.name))


WORDS = (pl.String, pl.Categorical, pl.Enum)


def feature_columns(
    path: str | Path,
    schema: pl.Schema,
    only: Sequence[str] | None = None,
    leave_out: Collection[str] = (),
    words: Collection[str] = (),
) -> list[str]:
    """Feature columns of a table: all numeric ones, vectors and the text columns ``words``, or
    those in ``only``.
    """

    def vector(name):
        kind: Any = schema[name]
        return isinstance(kind, (pl.Array, pl.List)) and kind.inner.is_numeric()

    def feature(name):
        numeric = schema[name].is_numeric() or schema[name] == pl.Boolean or vector(name)
        return numeric or name in words

    columns = [name for name in schema.names() if name not in leave_out and feature(name)]
    if only is not None:
        wanted = set(only)
        columns = [
            name for name in columns if name in wanted or (vector(name) and f"{name}_0" in wanted)
        ]
        missing = [
            name for name in only if name not in columns and name.rpartition("_")[0] not in columns
        ]
        if missing:
            close = difflib.get_close_matches(missing[0], schema.names(), 1)
            hint = f"; is it '{close[0]}'?" if close else ""
            hint = ", which holds no numbers" if missing[0] in schema else hint
            raise ValueError(
                f"'{path}' lacks {plural(len(missing), 'column')} that the metric needs (first: "
                f"'{missing[0]}'{hint})."
            )
    if not columns:
        raise ValueError(
            f"'{path}' has no numeric column beside the label; the columns are "
            f"{listed(schema.names())}."
        )
    return columns


SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32


def column_matrix(
    frame: pl.DataFrame,
    columns: list[str],
    path: str | Path,
    categories: dict[str, list[str]] | None = None,
) -> tuple[np.ndarray, list[str]]:
    """The numbers of a frame as one array, and a name for each of its columns; vectors become one
    column per entry, text one per value.
    """
    if categories:
        frame = frame.with_columns(
            pl.concat_list(
                (pl.col(name).cast(pl.String) == value).fill_null(False) for value in values
            )
            .cast(pl.List(pl.UInt8))
            .alias(name)
            for name, values in categories.items()
        )
    kinds: list[Any] = [frame[name].dtype for name in columns]
    small = all((kind.inner if kind.is_nested() else kind) in SMALL for kind in kinds)
    dtype = pl.Float32 if small else pl.Float64
    blocks, names = [], []
    for nested, group in itertools.groupby(columns, lambda name: frame[name].dtype.is_nested()):
        if not nested:
            plain = list(group)
            blocks.append(frame.select(pl.col(plain).cast(dtype)).to_numpy())
            names += plain
            continue
        for name in group:
            blocks.append(_vectors(frame[name], path, dtype))
            if categories and name in categories:
                names += [f"{name}={value}" for value in categories[name]]
            else:
                names += [f"{name}_{i}" for i in range(blocks[-1].shape[1])]
    return np.ascontiguousarray(blocks[0] if len(blocks) == 1 else np.hstack(blocks)), names


def _vectors(series, path, dtype):
    lengths = (
        series.list.len()
        if isinstance(series.dtype, pl.List)
        else pl.Series([series.dtype.size] * len(series))
    )
    if series.null_count() or lengths.n_unique() > 1:
        raise ValueError(
            f"'{path}': column '{series.name}' holds vectors of different lengths; all rows need "
            "the same."
        )
    return series.explode().cast(dtype).to_numpy().reshape(len(series), -1)


def class_labels(series: pl.Series) -> np.ndarray:
    """Labels as NumPy strings (None if missing) or numbers (floats, with NaN, if any is missing)."""
    if series.dtype.is_float():
        values = series.drop_nulls().drop_nans()
        if not (values == values.round()).all():
            return series.fill_null(np.nan).to_numpy()
        series = series.fill_nan(None).cast(pl.Int64)
    if not series.dtype.is_integer():
        return series.cast(pl.String).to_numpy()
    return series.to_numpy()  # of integers with nulls, Polars makes floats with NaN


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


def _check_values(table, path, reading, fills):
    """Refuse numbers too large to square; refuse missing and infinite values, or drop their rows.
    ``fills``: missing ones are filled in later.
    """
    _refuse_huge(table, path, reading)
    bad = np.isinf(table.X) if fills else ~np.isfinite(table.X)
    no_label = _unlabelled(table.labels, len(bad))
    rows = bad.any(axis=1) | no_label
    if not rows.any():
        return table
    missing = _missing_in_words(table, path, reading, fills, bad, no_label)
    if not reading.drop_missing:
        name = _column_names(table)[int(np.argmax(bad.sum(axis=0)))]
        advice = (
            {} if rows.all() else {"drop_missing": "use --drop-missing to leave those rows out"}
        )
        advice |= {} if fills else {"impute": "use --impute to fill them in"}
        advice |= {"ignore": f"leave the column out by --ignore {name}"} if rows.all() else {}
        raise ValueError(f"'{path}': {missing}; fill them in{reading.remedies(**advice)}.")
    if rows.all():
        raise ValueError(f"'{path}': {missing}; nothing is left when they are dropped.")
    cut = {
        name: None if (values := getattr(table, name)) is None else values[~rows]
        for name in ("X", "labels", "ids")
    }
    labels = cut["labels"]
    if labels is not None and labels.dtype.kind == "f" and (labels == labels.round()).all():
        cut["labels"] = labels.astype(np.int64)
    return replace(table, **cut, notes=(*table.notes, f"Dropped: {missing}."))


def _column_names(table):
    return table.names or [f"column {i}" for i in range(table.X.shape[1])]


def _missing_in_words(table, path, reading, fills, bad, no_label):
    """How many rows lack a value, and in which columns."""
    counts, named = bad.sum(axis=0), _column_names(table)
    most_first = [i for i in np.argsort(-counts, kind="stable") if counts[i]]
    listed = [f"'{named[i]}' in {plural(int(counts[i]), 'row')}" for i in most_first[:3]]
    if no_label.any():
        name = f"the label '{reading.label}'" if reading.label else "the label"
        which = " (-1 says that a row has none)" if table.labels.dtype.kind == "i" else ""
        listed.append(f"{name} in {plural(int(no_label.sum()), 'row')}{which}")
    if len(most_first) > 3:
        listed.append(f"and {plural(len(most_first) - 3, 'more column')}")
    rows = bad.any(axis=1) | no_label
    has = "has" if rows.sum() == 1 else "have"
    kind = "infinite" if fills else "missing or infinite"
    return (
        f"{int(rows.sum()):,} of {plural(len(rows), 'row')} {has} {kind} values: "
        f"{', '.join(listed)}"
    )


def _refuse_huge(table, path, reading):
    """Refuse numbers so large that squared distances would overflow."""
    X = table.X
    most = np.sqrt(np.finfo(X.dtype).max / (4 * X.shape[1]))
    with np.errstate(invalid="ignore"):
        huge = np.isfinite(X) & (np.abs(X) > most)
    if huge.any():
        row, column = (int(i) for i in np.argwhere(huge)[0])
        name = _column_names(table)[column]
        where = f"row {row}"
        if is_text(path) and name in (table.names or ()):
            where = f"line {place_of(path, reading, row, name)[0]}"
        raise ValueError(
            f"'{path}', {where}: column '{name}' has {X[row, column]:g}, too large to square in "
            f"{X.dtype}; correct it, or leave it empty if it stands for a missing value"
            + reading.remedies(ignore=f"leave the column out by --ignore {name}")
            + "."
        )


def _unlabelled(labels, n):
    """Which rows have no label: an empty one, or -1 next to two or more classes."""
    if labels is None:
        return np.zeros(n, bool)
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "i" and not is_continuous(labels):
        return encode_labels(labels) < 0
    return np.array([value is None for value in labels])


def _check_ids(table, path, id_column):
    if table.ids is None:
        return table
    values, counts = np.unique(table.ids.astype(str), return_counts=True)
    if (counts > 1).any():
        first = values[counts > 1][0]
        raise ValueError(
            f"--id: '{path}' has {int((counts > 1).sum()):,} ids more than once in column "
            f"'{id_column}' (first: '{first}', "
            f"{int(counts[counts > 1][0])} times); ids must be unique."
        )
    return table
