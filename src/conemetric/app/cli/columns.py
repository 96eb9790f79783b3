"""The columns of a table: which are features, and their numbers as one array."""

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...storage import LearnedMetric
from .options import Reading
from .wording import listed, plural

FEWEST_NUMBERED = 10  # rows; fewer integers may well rise by chance
MOST_VALUES = 50  # of a text column whose values become features; more are names, not categories
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|index|nr|no|key)$|^id[_ .-])|[a-z](Id|ID)$")
NOT_NUMERIC, ROW_NUMBER = "not numeric", "looks like a row number"  # why a column is ignored
WORDS = (pl.String, pl.Categorical, pl.Enum)
SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32


def check_columns(path: str | Path, schema: pl.Schema, reading: Reading) -> None:
    """Refuse options that name columns the file does not have."""
    options = {
        "--label": [reading.label],
        "--id": [reading.id_column],
        "--ignore": reading.ignore or (),
        "--keep": reading.keep or (),
    }
    for option, names in options.items():
        for name in names:
            if name is not None and name not in schema:
                close = difflib.get_close_matches(name, schema.names(), 1)
                columns = f"the columns are {listed(schema.names())}."
                hint = f"did you mean '{close[0]}'?" if close else columns
                raise ValueError(f"{option}: '{path}' has no column '{name}'; {hint}")


def choose_columns(
    path: str | Path, lazy: pl.LazyFrame, reading: Reading, notes: list[str]
) -> tuple[pl.DataFrame, list[str], dict[str, list[str]]]:
    """What to learn from: the columns that are features or that options name, read; the features
    among them; and the values of text columns that become features. Columns without values,
    columns that number the rows and text columns of too many values are left out.
    """
    schema = lazy.collect_schema()
    named = (reading.label, reading.id_column, *(reading.ignore or ()))
    aside = [name for name in dict.fromkeys(named) if name is not None]
    others = [name for name in schema.names() if name not in aside]
    words = [name for name in others if reading.one_hot and schema[name] in WORDS]
    columns = feature_columns(path, schema, leave_out=aside, words=words)
    frame = lazy.select([*columns, *aside]).collect()
    values = {name: frame[name].cast(pl.String).drop_nulls().unique().sort() for name in words}
    kept = reading.keep or ()
    ignored = {
        NOT_NUMERIC: [name for name in others if name not in columns],
        "no values": [name for name in columns if frame[name].null_count() == len(frame)],
        f"more than {MOST_VALUES} different values": [
            name for name, found in values.items() if len(found) > MOST_VALUES
        ],
        ROW_NUMBER: [name for name in columns if name not in kept and _numbers_rows(frame[name])],
    }
    hints = {ROW_NUMBER: {"keep": "--keep {} learns from it"}}
    if not reading.one_hot:
        hints[NOT_NUMERIC] = {"one_hot": "--one-hot learns from words"}
    ignored = {why: names for why, names in ignored.items() if names}
    reasons = [f"{why}: {listed(names)}" for why, names in ignored.items()]
    for reason, (why, names) in zip(reasons, ignored.items(), strict=True):
        hint = reading.remedies("; ", **hints.get(why, {})).format(names[0])
        notes.append(f"Ignored: {reason}{hint}.")
    out = set(itertools.chain(*ignored.values()))
    left = [name for name in columns if name not in out]
    if not left:
        raise ValueError(f"'{path}' has no column to learn from ({'; '.join(reasons)}).")
    notes.append(f"Columns used: {listed(left, 30)}.")
    return frame, left, {name: values[name].to_list() for name in words if name in left}


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


def is_vector(kind: Any) -> bool:
    """Whether a column holds vectors of numbers."""
    return isinstance(kind, (pl.Array, pl.List)) and kind.inner.is_numeric()


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
    columns = [
        name
        for name, kind in schema.items()
        if name not in leave_out
        and (kind.is_numeric() or kind == pl.Boolean or is_vector(kind) or name in words)
    ]
    if only is not None:
        columns = [
            name
            for name in columns
            if name in only or (is_vector(schema[name]) and f"{name}_0" in only)
        ]
        missing = [
            name for name in only if name not in columns and name.rpartition("_")[0] not in columns
        ]
        if missing:
            close = difflib.get_close_matches(missing[0], schema.names(), 1)
            hint = f"; is it '{close[0]}'?" if close else ""
            hint = ", which holds no numbers" if missing[0] in schema else hint
            raise ValueError(
                f"'{path}' lacks {plural(len(missing), 'column')} used in training (first: "
                f"'{missing[0]}'{hint})."
            )
    if not columns:
        raise ValueError(
            f"'{path}' has no numeric column beside the label; the columns are "
            f"{listed(schema.names())}."
        )
    return columns


def column_matrix(
    frame: pl.DataFrame,
    columns: list[str],
    path: str | Path,
    categories: dict[str, list[str]] | None = None,
) -> tuple[np.ndarray, list[str]]:
    """The numbers of a frame as one array, and a name for each of its columns; vectors become one
    column per entry, text one per value.
    """
    categories = categories or {}
    frame = frame.with_columns(
        pl.concat_list((pl.col(name).cast(pl.String) == value).fill_null(False) for value in values)
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
            entries = categories.get(name)
            numbered = [f"{name}_{i}" for i in range(blocks[-1].shape[1])]
            names += numbered if entries is None else [f"{name}={value}" for value in entries]
    return np.ascontiguousarray(blocks[0] if len(blocks) == 1 else np.hstack(blocks)), names


def _vectors(series, path, dtype):
    lengths = series.cast(pl.List(series.dtype.inner)).list.len()
    if series.null_count() or lengths.n_unique() > 1:
        raise ValueError(
            f"'{path}': column '{series.name}' holds vectors of different lengths; all rows need "
            "the same."
        )
    return series.explode().cast(dtype).to_numpy().reshape(len(series), -1)


def in_order(
    path: Path, X: np.ndarray, names: list[str] | None, metric: LearnedMetric
) -> np.ndarray:
    """The columns in the metric's order; an error if there are more or fewer."""
    if X.shape[1] != metric.n_features_in_:
        raise ValueError(
            f"'{path}' has {plural(X.shape[1], 'column')} of numbers; training used "
            f"{metric.n_features_in_:,}."
        )
    if metric.feature_names is None or names in (None, list(metric.feature_names)):
        return X
    return X[:, [names.index(name) for name in metric.feature_names]]


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


def row_numbers(names: Iterable[str], wanted: Iterable[str]) -> np.ndarray:
    """The numbers of the rows with these names; -1 for unknown ones."""
    known = {name: number for number, name in enumerate(names)}
    return np.array([known.get(name, -1) for name in wanted], np.int64)
