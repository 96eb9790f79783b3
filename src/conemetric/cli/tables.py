"""Rows from files: CSV, Parquet, npy and npz in, with labels, ids, pairs and triplets;
every fault named before work starts.
"""

import csv
import difflib
import re
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from ..constraints import encode_labels, is_continuous

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npy", ".npz")
MISSING = ["", "NA", "NaN", "nan", "null", "?"]
FEWEST_NUMBERED = 10  # rows below which integers that rise may do so by chance
MOST_VALUES = 50  # of a column of words, to be features of their own
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|index|nr|no|key)$|^id[_ .-])|[a-z](Id|ID)$")


@dataclass(frozen=True)
class Table:
    """Numbers, and what is known about rows and columns.

    Attributes
    ----------
    X : array (n, n_features), float32 or float64
    names : list of str or None
        Columns, where the file names them.
    labels : array (n,) or None
    ids : array (n,) or None
        None where rows go by their number.
    categories : dict or None
        Columns of words, and the values that are features of their own.
    notes : tuple of str
        What was left out, in words.
    """

    X: np.ndarray
    names: list[str] | None = None
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None
    categories: dict[str, list[str]] | None = None
    notes: tuple[str, ...] = ()


def read_table(
    path,
    *,
    label=None,
    labels_file=None,
    id_column=None,
    ignore=(),
    keep=(),
    drop_missing=False,
    allow_missing=False,
    one_hot=False,
    metric=None,
) -> Table:
    """Read the rows of a file.

    Parameters
    ----------
    path : path
    label : str, default=None
        Column of a CSV or Parquet file (array of an npz file) that holds the classes.
    labels_file : path, default=None
        npy, CSV or text file with one label per row, instead of ``label``.
    id_column : str, default=None
        Column that names the rows.
    ignore : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns to read although they look like row numbers.
    drop_missing : bool or None
        Drop rows with missing or infinite values instead of refusing them; None where
        the command cannot.
    allow_missing : bool
        Let missing values pass, as NaN.
    one_hot : bool
        Turn columns of words into one feature for each of their values.
    metric : LearnedMetric, default=None
        Read the columns this metric needs, as it needs them; None means all numeric
        ones.

    Returns
    -------
    Table
    """
    path = check_file(path)
    if path.suffix.lower() in ARRAYS:
        table = _read_array(path, label, id_column)
    elif path.suffix.lower() in TABLES:
        try:
            table = _read_frame(path, label, id_column, ignore, keep, one_hot, metric)
        except pl.exceptions.PolarsError as error:
            raise ValueError(
                f"'{path}' cannot be read as {path.suffix.lower()[1:]}: {error}"
            ) from error
    else:
        raise ValueError(
            f"'{path}' is not a file this command reads; give one of {', '.join(TABLES + ARRAYS)}."
        )
    if labels_file is not None:
        table = replace(table, labels=_read_labels(labels_file, len(table.X)))
    allow_missing = allow_missing or (metric is not None and metric.fill is not None)
    table = _check_values(table, path, drop_missing, allow_missing, label)
    return _check_ids(table, path, id_column)


def check_file(path):
    """The path, if a file is there."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file '{path}'.")
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; give a file.")
    return path


def scan(path):
    """A lazy frame of a CSV or Parquet file."""
    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pl.scan_parquet(path)
        else:
            frame = pl.scan_csv(
                path, separator=_separator(path), infer_schema_length=10_000, null_values=MISSING
            )
        frame.collect_schema()
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"'{path}' cannot be read as {path.suffix.lower()[1:]}: {error}"
        ) from error
    return frame


def _read_array(path, label, id_column):
    if id_column is not None:
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


def load_arrays(path):
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


def _read_frame(path, label, id_column, ignore, keep, one_hot, metric):
    lazy = scan(path)
    schema = lazy.collect_schema()
    check_columns(path, schema, label, id_column, ignore, keep)
    if lazy.select(pl.len()).collect().item() == 0:
        raise ValueError(f"'{path}' has no rows.")
    aside = [name for name in dict.fromkeys((label, id_column, *ignore)) if name is not None]
    others = [name for name in schema.names() if name not in aside]
    words = [name for name in others if one_hot and schema[name] in WORDS]
    if metric is not None:
        words = list(metric.categories or ())
    columns = feature_columns(
        path, schema, None if metric is None else metric.columns, aside, words
    )
    frame = _collect(lazy, path, None if _is_text(path) else [*columns, *aside])
    notes: list[str] = []
    if metric is not None:
        categories = metric.categories
    else:
        if _is_text(path):
            _refuse_slips(path, frame.select(others))
        left = [name for name in others if name not in columns]
        if left:
            hint = "" if one_hot else "; --one-hot learns from words"
            notes.append(f"Left out, not numeric: {listed(left)}{hint}.")
        columns, categories = choose_columns(path, frame, columns, words, keep, notes)
    X, names = column_matrix(frame, columns, path, categories)
    if metric is not None and metric.feature_names is not None and names != metric.feature_names:
        X = X[:, [names.index(name) for name in metric.feature_names]]
    labels = None if label is None else class_labels(frame[label])
    ids = None if id_column is None else frame[id_column].to_numpy()
    notes.append(f"Columns used: {listed(columns, 30)}.")
    return Table(X, names, labels, ids, categories or None, tuple(notes))


def check_columns(path, schema, label, id_column, ignore, keep):
    """Refuse options that name columns a file has not."""
    for name, option in (
        (label, "--label"),
        (id_column, "--id"),
        *((name, "--ignore") for name in ignore),
        *((name, "--keep") for name in keep),
    ):
        if name is not None and name not in schema:
            close = difflib.get_close_matches(name, schema.names(), 1)
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"the columns are {listed(schema.names())}."
            )
            raise ValueError(f"{option}: '{path}' has no column '{name}'; {hint}")


def choose_columns(path, frame, columns, words, keep, notes):
    """Leave out columns that number the rows and columns of too many words; the values of
    the other words.
    """
    values = {name: frame[name].cast(pl.String).drop_nulls().unique().sort() for name in words}
    varied = [name for name, found in values.items() if len(found) > MOST_VALUES]
    numbers = [name for name in columns if name not in keep and _numbers_rows(frame[name])]
    if varied:
        notes.append(f"Left out, more than {MOST_VALUES} different words: {listed(varied)}.")
    if numbers:
        notes.append(
            f"Left out, numbers of the rows by the look of it: {listed(numbers)}; --keep "
            f"{numbers[0]} learns from it."
        )
    left = [name for name in columns if name not in (*varied, *numbers)]
    if not left:
        raise ValueError(
            f"'{path}' has no column to learn from but {listed([*numbers, *varied])}, which "
            "number or name the rows."
        )
    return left, {name: values[name].to_list() for name in words if name not in varied}


def _is_text(path):
    return path.suffix.lower() in (".csv", ".tsv")


def _separator(path):
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _collect(lazy, path, columns):
    """The frame; of text always all columns, because only then is a row of too many
    fields refused instead of cut.
    """
    try:
        return (lazy if columns is None else lazy.select(columns)).collect(engine="streaming")
    except pl.exceptions.ComputeError:
        if _is_text(path):
            _refuse_ragged(path)
        raise


def _refuse_ragged(path):
    """Name the first row with more fields than the header."""
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(file, delimiter=_separator(path))
        header = next(rows)
        for row in rows:
            if len(row) > len(header):
                raise ValueError(
                    f"'{path}', line {rows.line_num}: {len(row)} fields in a table of "
                    f"{len(header)} columns ({_separator(path).join(row)[:60]}); mend the line, "
                    "or quote fields that hold the separator."
                )


def _refuse_slips(path, words):
    """Refuse a column that would hold numbers but for a few entries."""
    for column in words.iter_columns():
        if column.dtype != pl.String:
            continue
        given = column.is_not_null()
        slips = given & column.str.strip_chars().cast(pl.Float64, strict=False).is_null()
        if 0 < slips.sum() < 0.5 * given.sum():
            first = slips.arg_true()[0]
            raise ValueError(
                f"'{path}': column '{column.name}' holds numbers but for {slips.sum()} of "
                f"{given.sum():,} entries (first: '{column[first]}' in data row {first + 1}); mend "
                f"them, or leave the column out by --ignore {column.name}."
            )


def _numbers_rows(column):
    """Whether a column only counts or names the rows: integers, all different, that are
    a run without gaps, rise from row to row, or are called an id.
    """
    if not column.dtype.is_integer() or column.null_count() or len(column) < FEWEST_NUMBERED:
        return False
    if column.n_unique() < len(column):
        return False
    run = int(column.max()) - int(column.min()) == len(column) - 1
    return run or column.is_sorted() or bool(ID_NAME.search(column.name))


WORDS = (pl.String, pl.Categorical, pl.Enum)


def feature_columns(path, schema, only=None, leave_out=(), words=()):
    """Columns of a table that hold features: all numeric ones, vectors and ``words``, or
    those that ``only`` names.
    """

    def vector(name):
        return isinstance(schema[name], (pl.Array, pl.List)) and schema[name].inner.is_numeric()

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
            hint = f", which holds {schema[missing[0]]}" if missing[0] in schema else hint
            raise ValueError(
                f"'{path}' lacks {len(missing)} columns that the metric needs (first: "
                f"'{missing[0]}'{hint})."
            )
    if not columns:
        raise ValueError(
            f"'{path}' has no numeric column beside the label; the columns are "
            f"{listed(schema.names())}."
        )
    return columns


SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32


def column_matrix(frame, columns, path, categories=None):
    """The numbers of a frame as one array, and a name for each of its columns; vectors
    give one per entry, words one per value.
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
    kinds = [frame[name].dtype for name in columns]
    small = all((kind.inner if kind.is_nested() else kind) in SMALL for kind in kinds)
    dtype = pl.Float32 if small else pl.Float64
    blocks, names, plain = [], [], []
    for name, kind in [*zip(columns, kinds, strict=True), (None, None)]:
        if kind is not None and not kind.is_nested():
            plain.append(name)
            continue
        if plain:
            blocks.append(frame.select(pl.col(plain).cast(dtype)).to_numpy())
            names += plain
            plain = []
        if name is not None:
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


def class_labels(series):
    """Labels as NumPy strings or integers, None for a missing one; fractions as floats, NaN."""
    if series.dtype.is_float():
        values = series.drop_nulls().drop_nans()
        if not (values == values.round()).all():
            return series.fill_null(np.nan).to_numpy()
        series = series.fill_nan(None).cast(pl.Int64)
    if series.null_count() or not series.dtype.is_integer():
        return series.cast(pl.String).to_numpy()
    return series.to_numpy()


def _read_labels(path, n):
    path = check_file(path)
    if path.suffix.lower() == ".npy":
        labels = load_arrays(path)["X"]
    elif path.suffix.lower() in TABLES:
        frame = scan(path).collect()
        if frame.width != 1:
            raise ValueError(
                f"--labels: '{path}' has {frame.width} columns; give one, or use --label."
            )
        labels = class_labels(frame.to_series())
    else:
        labels = np.array(path.read_text(encoding="utf-8").split("\n"))
        labels = labels[:-1] if len(labels) and labels[-1] == "" else labels
    if labels.shape != (n,):
        raise ValueError(
            f"--labels: '{path}' has shape {labels.shape}, but there are {n:,} rows; give one "
            "label per row."
        )
    return np.asarray(labels)


def _check_values(table, path, drop_missing, allow_missing, label):
    """Refuse missing and infinite values by column and number of rows, or drop their rows."""
    bad = np.isinf(table.X) if allow_missing else ~np.isfinite(table.X)
    no_label = _unlabelled(table.labels, len(bad))
    rows = bad.any(axis=1) | no_label
    if not rows.any():
        return table
    counts = bad.sum(axis=0)
    named = table.names or [f"column {i}" for i in range(len(counts))]
    listed = [
        f"'{named[i]}' in {counts[i]:,} rows"
        for i in np.argsort(-counts, kind="stable")[:3]
        if counts[i]
    ]
    if no_label.any():
        name = f"the label '{label}'" if label else "the label"
        which = " (-1 says that a row has none)" if table.labels.dtype.kind == "i" else ""
        listed.append(f"{name} in {int(no_label.sum()):,} rows{which}")
    kind = "infinite" if allow_missing else "missing or infinite"
    missing = f"{int(rows.sum()):,} of {len(rows):,} rows have {kind} values: {', '.join(listed)}"
    if int((counts > 0).sum()) > 3:
        missing += f", and {int((counts > 0).sum()) - 3} more columns"
    if not drop_missing:
        remedy = "" if drop_missing is None else ", or use --drop-missing to leave those rows out"
        remedy += "" if drop_missing is None or allow_missing else ", or --impute to fill them in"
        raise ValueError(f"'{path}': {missing}; fill them in{remedy}.")
    if rows.all():
        raise ValueError(f"'{path}': {missing}; nothing is left when they are dropped.")
    cut = {
        name: None if (values := getattr(table, name)) is None else values[~rows]
        for name in ("X", "labels", "ids")
    }
    return replace(table, **cut, notes=(*table.notes, f"Dropped: {missing}."))


def _unlabelled(labels, n):
    """Which rows have no label: an empty one, or -1 beside two or more classes."""
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


def listed(names, most=8):
    """The first few names, in quotes."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
