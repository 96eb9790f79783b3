"""The columns of a table: which are features, and their numbers as one array."""

import difflib
import itertools
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...storage import LearnedMetric
from .options import Reading
from .wording import listed, plural

SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32


def check_columns(path: str | Path, schema: pl.Schema, reading: Reading) -> None:
    """Refuse options that name columns the file does not have."""
    options = {
        "--label": [reading.label],
        "--id": [reading.id_column],
        "--ignore": reading.ignore or (),
        "--words": reading.words or (),
        "--numbers": reading.numbers or (),
    }
    for option, names in options.items():
        for name in names:
            if name is not None and name not in schema:
                close = difflib.get_close_matches(name, schema.names(), 1)
                columns = f"the columns are {listed(schema.names())}."
                hint = f"did you mean '{close[0]}'?" if close else columns
                raise ValueError(f"{option}: '{path}' has no column '{name}'; {hint}")


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
        vectors = {column for column in columns if is_vector(schema[column])}
        check_lacking(
            path,
            schema,
            [
                name
                for name in only
                if name not in columns and name.rpartition("_")[0] not in vectors
            ],
            known=columns,
        )
    if not columns:
        raise ValueError(
            f"'{path}' has no numeric column beside the label; the columns are "
            f"{listed(schema.names())}."
        )
    return columns


def check_lacking(
    path: str | Path, schema: Any, needed: Sequence[str], known: Collection[str] | None = None
) -> None:
    """Refuse a table that lacks columns used in training."""
    missing = [name for name in needed if name not in (schema if known is None else known)]
    if not missing:
        return
    others = [name for name in schema if name not in needed]
    close = difflib.get_close_matches(missing[0], others, 1)
    hint = f"; is the first '{close[0]}'?" if close else "."
    hint = "; the first holds no numbers." if missing[0] in schema else hint
    raise ValueError(
        f"'{path}' lacks {plural(len(missing), 'column')} used in training: {listed(missing)}{hint}"
    )


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
