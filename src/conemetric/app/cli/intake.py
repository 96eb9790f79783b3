"""From a data frame to what is learned from: numbers, words, dates and gaps recognised, and a line
about each that says what was done.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...constraints.labels import encode_labels, is_continuous
from ...tables import TableEncoder
from .options import Reading
from .wording import listed, plural

FEWEST_NUMBERS = 0.95  # share of numbers in a column whose other entries are slips
FEWEST_VALUES = 20  # different numbers in such a column; of few, the others may be categories
LISTED = 6  # columns in a line


@dataclass(frozen=True)
class Table:
    """Rows and what is known about them. X is an array of numbers if the rows hold nothing else,
    or a frame: words as text, numbers as floats, dates, and gaps.
    """

    X: Any
    names: list[str] | None = None  # of the columns, if the file has them
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None  # None: rows go by their number
    notes: tuple[str, ...] = ()  # what was done with the columns and rows, in words

    @property
    def row_names(self) -> np.ndarray:
        """The ids, or numbers from 0."""
        return np.arange(len(self.X)) if self.ids is None else self.ids


def is_text(path: Path) -> bool:
    """Whether a file is CSV, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def learnable(
    path: Path, frame: pl.DataFrame, reading: Reading, notes: list[str]
) -> tuple[Any, list[str]]:
    """Features of a frame, and their names; notes say which columns are what, and which are left
    out.
    """
    frame = with_entries(frame, path)
    chosen: dict[str | int, str] = dict.fromkeys(reading.words or (), "word")
    chosen |= dict.fromkeys(reading.numbers or (), "number")
    frame = _read_slips(frame, chosen, notes)
    try:
        encoder = TableEncoder(kinds=chosen).fit(frame)
    except ValueError as error:
        raise ValueError(f"'{path}' has no column to learn from: {error}") from error
    kinds = {column.name: column.kind for column in encoder.columns_}
    frame = frame.select(list(kinds))
    gaps = {name: frame[name].null_count() + _n_nan(frame[name]) for name in kinds}
    _tell(kinds, gaps, encoder.ignored_, len(frame), notes)
    if set(kinds.values()) == {"number"} and not any(gaps.values()):
        dtype = pl.Float32 if _is_small(frame) else pl.Float64
        numbers = frame.select(pl.all().cast(dtype)).to_numpy()
        if np.abs(numbers).max(initial=0) < np.sqrt(np.finfo(numbers.dtype).max / frame.width) / 4:
            return np.ascontiguousarray(numbers), list(kinds)
    return frame.with_columns(_typed(frame[name], kind) for name, kind in kinds.items()), list(
        kinds
    )


def with_entries(frame: pl.DataFrame, path: str | Path) -> pl.DataFrame:
    """The frame with a column for each entry of its vectors."""
    parts: list[pl.Series] = []
    for column in frame:
        kind: Any = column.dtype
        if not isinstance(kind, (pl.Array, pl.List)):
            parts.append(column)
            continue
        lengths = column.cast(pl.List(kind.inner)).list.len()
        if column.null_count() or lengths.n_unique() > 1:
            raise ValueError(
                f"'{path}': column '{column.name}' holds vectors of different lengths; all rows "
                "need the same."
            )
        entries = column.explode().to_numpy().reshape(len(column), -1)
        parts += [pl.Series(f"{column.name}_{i}", entry) for i, entry in enumerate(entries.T)]
    return pl.DataFrame(parts)


def _is_small(frame):
    """Whether float32 holds every number."""
    small = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)
    return all(kind in small for kind in frame.schema.values())


def _n_nan(column):
    return int(column.is_nan().sum() or 0) if column.dtype.is_float() else 0


def _typed(column, kind):
    """A column as readers of the frame recognise it: words as text, numbers as floats."""
    if kind == "number":
        numbers = column if column.dtype.is_numeric() else column.cast(pl.String).str.strip_chars()
        return numbers.cast(pl.Float64, strict=False).fill_nan(None).alias(column.name)
    return column if kind == "date" else column.cast(pl.String)


def _read_slips(frame, chosen, notes):
    """Columns of numbers read as such although a few entries are none, or are infinite."""
    read = []
    for column in frame:
        numbers = column
        if column.dtype == pl.String:
            numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
            n_read = int(numbers.is_not_null().sum())
            n_values = numbers.n_unique()
            mostly = n_read >= FEWEST_NUMBERS * (len(column) - column.null_count())
            if chosen.get(column.name) != "number" and not (
                column.name not in chosen and mostly and n_values >= FEWEST_VALUES
            ):
                continue
            slips = column.filter(column.is_not_null() & numbers.is_null())
            if len(slips):
                notes.append(
                    f"Numbers: '{column.name}' has {plural(len(slips), 'entry')} that "
                    f"{'is' if len(slips) == 1 else 'are'} none (first: '{slips[0]}'), taken as "
                    f"missing; --words {column.name} takes all as words."
                )
        elif not column.dtype.is_float():
            continue
        infinite = int(numbers.is_infinite().sum() or 0)
        if infinite:
            notes.append(
                f"Numbers: '{column.name}' has {plural(infinite, 'infinite entry')}, taken as "
                "missing."
            )
        numbers = pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()
        read.append(numbers.alias(column.name))
    return frame.with_columns(read)


def _tell(kinds, gaps, ignored, n, notes):
    """A line each about numbers, words, dates, gaps and columns left out."""
    by_kind = defaultdict(list)
    for name, kind in kinds.items():
        by_kind["word" if kind in ("boolean", "ordered") else kind].append(name)
    told = {
        "number": "Numbers: {}.",
        "word": "Words: {}, as categories; --numbers COLUMN or --ignore COLUMN changes that.",
        "date": "Dates: {}, as time passed and place in day, week and year.",
    }
    for kind, line in told.items():
        if by_kind[kind] and (kind != "number" or len(by_kind) > 1):
            notes.append(line.format(listed(by_kind[kind], LISTED)))
    missing = sorted((name for name in gaps if gaps[name]), key=lambda name: -gaps[name])
    if missing:
        most = [f"'{name}' {gaps[name] / n:.1%}" for name in missing[:LISTED]]
        more = f" and {len(missing) - LISTED} more" if len(missing) > LISTED else ""
        notes.append(
            f"Gaps: {', '.join(most)}{more}, at the centre of their column and marked as missing; a "
            "missing word is a value of its own."
        )
    reasons = defaultdict(list)
    for name, why in ignored.items():
        reasons[why].append(name)
    for why, names in reasons.items():
        kind = "numbers" if "row number" in why else "words"
        hint = (
            ""
            if why in ("no values", "one value only")
            else f"; --{kind} {names[0]} learns from it"
        )
        notes.append(f"Ignored: {listed(names, LISTED)}: {why}{hint}.")


def labelled_rows(
    labels: np.ndarray | None, n: int, name: str | None, notes: list[str]
) -> np.ndarray:
    """Which rows have a label: those with an empty one, or -1 next to two or more classes, are left
    out, and notes say so.
    """
    if labels is None:
        return np.ones(n, bool)
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype.kind == "i" and not is_continuous(labels):
        missing = encode_labels(labels) < 0
    else:
        missing = np.array([value is None for value in labels], bool)
    if missing.all():
        raise ValueError(f"no row has a label{f' in column {name!r}' if name else ''}.")
    if missing.any():
        which = " (-1 says that a row has none)" if labels.dtype.kind == "i" else ""
        notes.append(f"Left out: {plural(int(missing.sum()), 'row')} without a label{which}.")
    return ~missing


def check_ids(table: Table, path: Path, id_column: str | None) -> None:
    """Refuse ids that occur more than once."""
    if table.ids is None:
        return
    values, counts = np.unique(table.ids.astype(str), return_counts=True)
    twice = counts > 1
    if twice.any():
        raise ValueError(
            f"--id: '{path}' has {int(twice.sum()):,} ids more than once in column '{id_column}' "
            f"(first: '{values[twice][0]}', {int(counts[twice][0])} times); ids must be unique."
        )
