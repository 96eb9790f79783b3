"""From a data frame to rows: to learn from, or as in training; notes say what was done."""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs

from ...constraints.labels import first_means_none, is_continuous
from ...storage import LearnedMetric
from ...tables import TableEncoder
from ...tables.columns import FEWEST_VALUES, MOST_SLIPS, positions, slips
from ..options import Reading
from ..wording import first_few, listed, plural
from .csv_files import is_text, refuse_other_marks

LISTED = 6  # columns in a line
SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32
LARGEST = float(np.finfo(np.float64).max ** 0.5)  # of numbers that can be squared
NEW_WORDS = "Words that were not learned:"
ASKED_FOR = "words asked for"  # a kind of column whose type says so: it may spell numbers or dates
Kinds = dict[str, str]  # of columns, by name
Learned = TableEncoder | LearnedMetric  # what rows are read for, if not to learn from them


@dataclass(frozen=True)
class Table:
    """Rows and what is known about them. X is an array of numbers if the rows hold nothing else,
    or a frame: words as text, numbers as floats, dates, and gaps.
    """

    X: Any
    names: list[str] | None = None  # of the columns, if the file has them
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None  # None: rows go by their number
    notes: list[str] = field(default_factory=list)  # what was done with columns and rows
    file_rows: np.ndarray | None = None  # numbers of the rows in the file; None: all of them
    groups: np.ndarray | None = None  # a number for each row: equal for rows that belong together

    @property
    def row_numbers(self) -> np.ndarray:
        """The numbers of the rows in the file, from 0; rows that were left out count."""
        return np.arange(len(self.X)) if self.file_rows is None else self.file_rows

    @property
    def row_names(self) -> np.ndarray:
        """The ids, or the numbers in the file."""
        return self.row_numbers if self.ids is None else self.ids

    def row_columns(self, rows: np.ndarray) -> dict[str, list]:
        """The columns of an output file that tell which rows these are."""
        return {"row": self.row_names[rows].tolist()}

    def only(self, kept: np.ndarray, note: str) -> "Table":
        """The rows where the mask is true, and a note about the others."""
        rows = np.flatnonzero(kept)
        labels, ids, groups = (
            None if part is None else part[rows] for part in (self.labels, self.ids, self.groups)
        )
        return replace(
            self,
            X=self.X[rows],
            labels=labels,
            ids=ids,
            groups=groups,
            file_rows=self.row_numbers[rows],
            notes=[*self.notes, note],
        )


def check_columns(path: str | Path, schema: pl.Schema, reading: Reading) -> None:
    """Refuse options that name columns the file does not have."""
    several = {"ignore": reading.ignore, "words": reading.words, "numbers": reading.numbers}
    named = [("label", reading.label), ("id", reading.id_column), ("groups", reading.groups)]
    named += [(option, name) for option, names in several.items() for name in names or ()]
    for option, name in named:
        if name is not None and name not in schema:
            close = difflib.get_close_matches(name, schema.names(), 1)
            columns = f"the columns are {listed(schema.names())}."
            hint = f"did you mean '{close[0]}'?" if close else columns
            raise ValueError(f"--{option}: '{path}' has no column '{name}'; {hint}")


# ---- columns to learn from


def learnable(path: str | Path, frame: pl.DataFrame, reading: Reading, notes: list[str]) -> Kinds:
    """The kinds of the columns to learn from, by name; notes tell these and those left out."""
    chosen: dict[str | int, str] = dict.fromkeys(reading.words or (), "word")
    chosen |= dict.fromkeys(reading.numbers or (), "number")
    frame = frame.with_columns(_without_slips(frame, chosen, notes))
    try:
        encoder = TableEncoder(kinds=chosen).fit(frame)
    except ValueError as error:
        raise ValueError(f"'{path}' has no column to learn from: {error}") from error
    kinds = {column.name: column.kind for column in encoder.columns_}
    _tell(kinds, encoder.ignored_, notes)
    return {n: ASKED_FOR if chosen.get(n) == "word" else kind for n, kind in kinds.items()}


def rows_of(frame: pl.DataFrame, kinds: Kinds) -> Any:
    """These columns: an array if they are complete numbers that can be squared, else a frame."""
    typed = frame.select(typed_column(frame[name], kind) for name, kind in kinds.items())
    if set(kinds.values()) == {"number"} and not sum(typed.null_count().row(0)):
        small = all(kind in SMALL for kind in frame.select(list(kinds)).dtypes)
        numbers = typed.cast(pl.Float32 if small else pl.Float64).to_numpy()
        if np.abs(numbers).max(initial=0) < np.sqrt(np.finfo(numbers.dtype).max / frame.width) / 4:
            return np.ascontiguousarray(numbers)
    return typed


def with_entries(frame: pl.DataFrame, path: str | Path) -> pl.DataFrame:
    """The frame with a column for each entry of its vectors."""
    parts: list[pl.Series] = []
    for column in frame:
        if not is_vector(column.dtype):
            parts.append(column)
            continue
        entries = _vectors(column, path)
        parts += [pl.Series(f"{column.name}_{i}", entry) for i, entry in enumerate(entries.T)]
    return pl.DataFrame(parts)


def is_vector(kind: Any) -> bool:
    """Whether a column holds vectors of numbers."""
    return isinstance(kind, (pl.Array, pl.List)) and kind.inner.is_numeric()


def column_matrix(
    frame: pl.DataFrame, columns: Sequence[str], path: str | Path
) -> tuple[np.ndarray, list[str]]:
    """Columns of numbers and vectors as one array, and a name for each of its columns."""
    kinds: list[Any] = [frame[name].dtype for name in columns]
    small = all((kind.inner if kind.is_nested() else kind) in SMALL for kind in kinds)
    blocks, names = [], []
    for name, kind in zip(columns, kinds, strict=True):
        vectors = is_vector(kind)
        numbers = frame[name] if vectors else frame[name].cast(pl.Float64)
        block = _vectors(numbers, path) if vectors else numbers.to_numpy()[:, None]
        names += [f"{name}_{i}" for i in range(block.shape[1])] if vectors else [name]
        blocks.append(block.astype(np.float32 if small else np.float64, copy=False))
    return np.ascontiguousarray(blocks[0] if len(blocks) == 1 else np.hstack(blocks)), names


def _vectors(series, path):
    lengths = series.cast(pl.List(series.dtype.inner)).list.len()
    if series.null_count() or lengths.n_unique() > 1:
        raise ValueError(
            f"'{path}': column '{series.name}' holds vectors of different lengths; all rows need "
            "the same."
        )
    return series.explode().to_numpy().reshape(len(series), -1)


def typed_column(column: pl.Series, kind: str) -> pl.Series:
    """A column as readers of the frame recognise it: numbers as floats that can be squared."""
    if kind == "number":
        if column.dtype in (pl.Duration, pl.Time):
            column = column.cast(pl.Duration("us")).dt.total_microseconds() / 1e6
        text = not (column.dtype.is_numeric() or column.dtype == pl.Boolean)
        numbers = column.cast(pl.String).str.strip_chars() if text else column
        numbers = numbers.cast(pl.Float64, strict=False)
        return numbers.set(numbers.abs() >= LARGEST, None)  # as is NaN
    if kind == "date" and column.dtype == pl.String:
        return column.set(column.is_in(slips(column.drop_nulls().unique(), kind)), None)
    if kind != ASKED_FOR:
        return column  # the encoder reads all types alike: 3 and 3.0 are one word
    words = column.cast(pl.String)
    if column.dtype.is_float():
        words = words.str.strip_suffix(".0")
    return words.cast(pl.Categorical)


def _without_slips(frame, chosen, notes):
    """Columns of numbers and dates without the few entries that are none, or are too large."""
    for column in frame:
        typed, remedy = typed_column(column, "number"), "."
        if column.dtype == pl.String:
            mostly = len(typed.drop_nulls()) >= (1 - MOST_SLIPS) * len(column.drop_nulls())
            several = mostly and typed.n_unique() >= FEWEST_VALUES
            typed = typed_column(column, chosen.get(column.name, "number" if several else "date"))
            remedy = f"; --words {column.name} takes all as words."
        elif not column.dtype.is_float():
            continue
        tell_slips(column, typed, notes, remedy)
        yield typed


def tell_slips(column: pl.Series, typed: pl.Series, notes: list[str], remedy: str = ".") -> None:
    """Note the entries that are no numbers or dates, or are too large, if any."""
    given = column.fill_nan(None) if column.dtype.is_float() else column
    found = given.filter(given.is_not_null() & typed.is_null())
    if len(found):
        entries = f"{plural(len(found), 'entry')} that {'is' if len(found) == 1 else 'are'} not"
        kinds, kind = ("Numbers", "numeric") if typed.dtype.is_numeric() else ("Dates", "a date")
        first = f"{kind} (first: '{found[0]}'), taken as missing"
        notes.append(f"{kinds}: '{column.name}' has {entries} {first}{remedy}")


def _tell(kinds, ignored, notes):
    """A line each about numbers, words, dates and columns left out."""
    by_kind = defaultdict(list)
    for name, kind in kinds.items():
        by_kind["word" if kind in ("boolean", "ordered") else kind].append(name)
    told = {
        "number": "Numbers: {}.",
        "word": "Words: {}, as categories; --numbers COLUMN or --ignore COLUMN changes that.",
        "date": "Dates: {}, as elapsed time and position in the day, week and year.",
    }
    for kind, line in told.items():
        if by_kind[kind] and (kind != "number" or len(by_kind) > 1):
            notes.append(line.format(listed(by_kind[kind], LISTED)))
    reasons = defaultdict(list)
    for name, why in ignored.items():
        reasons[why].append(name)
    for why, names in reasons.items():
        kind = "numbers" if "row number" in why else "words"
        useful = why not in ("no values", "one value only")
        hint = f"; --{kind} {names[0]} learns from it" if useful else ""
        notes.append(f"Ignored: {listed(names, LISTED)}: {why}{hint}.")


def tell_gaps(X: Any, notes: list[str]) -> None:
    """Note which columns have gaps: those of a frame, since an array of `rows_of` has none."""
    gaps = {} if isinstance(X, np.ndarray) else X.null_count().row(0, named=True)
    missing = sorted((name for name in gaps if gaps[name]), key=lambda name: -gaps[name])
    if missing:
        shares = first_few([f"'{name}' {gaps[name] / len(X):.1%}" for name in missing], LISTED)
        notes.append(
            f"Gaps: {shares}, set to the centre of their column and marked as missing; a missing "
            "word is a category of its own."
        )


# ---- columns as in training


def rows_as_learned(
    path: Path, frame: pl.DataFrame, learned: Learned, reading: Reading, notes: list[str]
) -> Any:
    """The columns that an encoder or a metric was fitted to: a frame for an encoder, else numbers,
    gaps filled if the metric knows how. Entries that are no numbers where numbers are expected
    are gaps, and notes say so.
    """
    frame = with_entries(frame, path)
    if isinstance(learned, TableEncoder):
        kinds = {column.name: column.kind for column in learned.columns_}
    else:
        numeric = [name for name, kind in frame.schema.items() if kind.is_numeric()]
        kinds = dict.fromkeys(learned.columns or numeric, "number")
        check_width(path, len(kinds), learned.n_features_in_)
    where = ", empty where it is unknown" if isinstance(learned, TableEncoder) else ""
    positions(frame.columns, list(kinds), f", which training used; add it{where}.", f"'{path}'")
    texts = frame.select(n for n in kinds if kinds[n] == "number").select(cs.string())
    if texts.width and is_text(path):
        refuse_other_marks(path, reading, texts.lazy())
    typed = pl.DataFrame(typed_column(frame[name], kind) for name, kind in kinds.items())
    for name, kind in kinds.items():
        if kind in ("number", "date"):
            tell_slips(frame[name], typed[name], notes)
    if isinstance(learned, TableEncoder):
        new = learned.unseen_words(typed)
        if new and not any(note.startswith(NEW_WORDS) for note in notes):  # once for many batches
            notes.append(f"{NEW_WORDS} {new}.")
        return typed
    small = all(frame[name].dtype in SMALL for name in kinds)
    return learned.fill_missing(typed.to_numpy().astype(np.float32 if small else np.float64))


def check_width(path: str | Path, given: int, needed: int) -> None:
    """Refuse more or fewer columns than training used."""
    if given != needed:
        raise ValueError(
            f"'{path}' has {plural(given, 'column')} of numbers; training used {needed:,}."
        )


# ---- labels and names of rows


def class_labels(series: pl.Series) -> np.ndarray:
    """Labels as truth values, NumPy strings (None: missing) or numbers (floats if any is missing)."""
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
