"""Labels of rows, their groups and their names."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from ...constraints.labels import first_means_none, is_continuous
from ...core.wording import plural
from . import columns
from .csv_files import decimal_mark
from .intake import Table, told
from .reading import Reading


def read_labels(series: pl.Series, path: Path, reading: Reading, notes: list[str]) -> np.ndarray:
    """Labels as `class_labels` gives them, or, where words spell a quantity such as money, as numbers."""
    if series.dtype == pl.String:
        truths = columns.truth_values(series)
        if truths:
            notes.append(columns.note_on_truths([series.name], truths))
            return class_labels(columns.in_one_spelling(series, truths))
    if series.dtype != pl.String or reading.target == "classes":
        return class_labels(series)
    spelled = columns.read_words(series, decimal_mark(path, reading))
    if spelled is None or spelled.spelling.kind != "number":
        return class_labels(series)
    numbers = class_labels(spelled.values)
    known = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
    if not (len(known) and is_continuous(known, reading.target)):
        return class_labels(series)  # the words of a few classes say more than their numbers
    told(spelled, notes, "; --target classes takes each entry as a class.")
    if not spelled.usual:
        notes.append(columns.note_on(spelled))
    return numbers


def class_labels(series: pl.Series) -> np.ndarray:
    """Labels as booleans, NumPy strings (None: missing) or numbers (floats if any is missing)."""
    if series.dtype.is_float():
        values = series.drop_nulls().drop_nans()
        if not (values == values.round()).all():
            return series.fill_null(np.nan).to_numpy()
        series = series.fill_nan(None).cast(pl.Int64)
    if series.dtype == pl.Boolean and not series.null_count():
        return series.to_numpy()
    if not series.dtype.is_integer():
        return series.cast(pl.String).to_numpy()
    return series.to_numpy()  # of integers with nulls, Polars makes floats with NaN


def group_numbers(series: pl.Series, notes: list[str]) -> np.ndarray:
    """A number for each row, equal where the values are; a row without a value is a group of its own."""
    numbers = series.rank("dense").cast(pl.Int64)
    n_missing = numbers.null_count()
    if n_missing:
        notes.append(f"Groups: {plural(n_missing, 'row')} without one, each a group of its own.")
    # negative, since the ranks of real groups begin at 1
    own = -1 - pl.int_range(len(series), dtype=pl.Int64, eager=True)
    return pl.select(pl.coalesce(numbers, own)).to_series().to_numpy()


def row_numbers(names: Iterable[str], wanted: Iterable[str]) -> np.ndarray:
    """The numbers of the rows with these names; -1 for unknown ones."""
    known = {name: number for number, name in enumerate(names)}
    return np.array([known.get(name, -1) for name in wanted], np.int64)


def with_labels_only(table: Table, column: str | None) -> Table:
    """Leave out rows with an empty label, or with -1 next to two or more classes."""
    labels = table.labels
    if labels is None:
        return table
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "i" and not is_continuous(labels):
        missing = (labels == -1) & first_means_none(np.unique(labels))
    else:
        missing = np.array([value is None for value in labels], bool)
    if missing.all():
        raise ValueError(f"no row has a label{f' in column {column!r}' if column else ''}.")
    if not missing.any():
        return table
    which = " (-1 means none; rename it if it is a class)" if labels.dtype.kind == "i" else ""
    left_out = plural(int(missing.sum()), "row")
    table = table.only(~missing, f"Left out: {left_out} without a label{which}.")
    labels = labels[~missing]
    # whole numbers were floats only for the sake of those that were missing
    whole = labels.dtype.kind == "f" and (labels == labels.round()).all()
    return replace(table, labels=labels.astype(np.int64)) if whole else table


def check_ids(ids: np.ndarray, path: Path, id_column: str | None) -> None:
    """Refuse ids that occur more than once."""
    values, counts = np.unique(ids.astype(str), return_counts=True)
    twice = counts > 1
    if twice.any():
        raise ValueError(
            f"--id: '{path}' has {int(twice.sum()):,} duplicate ids in column '{id_column}' "
            f"(first: '{values[twice][0]}', {int(counts[twice][0])} times); ids must be unique."
        )
