"""From a data frame to rows: to learn from, or as in training; notes say what was done."""

import difflib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...core.warn import collected_warnings
from ...core.wording import first_few, listed, plural
from ...storage import LearnedMetric
from ...tables import TableEncoder
from ...tables.columns import positions
from ...tables.dates import COMPACT, DateSpelling
from ...tables.kinds import DateColumn, Kind, NumberColumn, TimeColumn
from ...tables.numerals import NumberSpelling
from ...tables.recognition import recognise
from ...tables.spelling import FEWEST_VALUES, MOST_SLIPS, Spelling
from ...tables.times import TimeSpelling
from . import columns
from .columns import ASKED_FOR, Kinds, Spelled, tell_slips, typed_column
from .csv_files import decimal_mark, first_lines
from .reading import Reading, argument

LISTED = 6  # columns in a line
SMALL = (pl.Float32, pl.Int8, pl.Int16, pl.UInt8, pl.UInt16, pl.Boolean)  # exact in float32
NEW_CATEGORIES = "Categories not seen during fit:"
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
    # how words spelled the values of columns that were read as numbers, dates or times
    kinds: dict[str, Spelling] = field(default_factory=dict)
    file_rows: np.ndarray | None = None  # numbers of the rows in the file; None: all of them
    groups: np.ndarray | None = None  # a number for each row: equal for rows that belong together

    @property
    def row_numbers(self) -> np.ndarray:
        """The numbers of the rows in the file, from 0; rows that were left out count."""
        if self.file_rows is None:
            return np.arange(len(self.X))
        return self.file_rows

    @property
    def row_names(self) -> np.ndarray:
        """The ids, or the numbers in the file."""
        if self.ids is None:
            return self.row_numbers
        return self.ids

    def row_columns(self, rows: np.ndarray) -> dict[str, list]:
        """The columns of an output file that tell which rows these are."""
        return {"row": self.row_names[rows].tolist()}

    def only(self, kept: np.ndarray, note: str) -> "Table":
        """The rows where the mask is true, and a note about the others."""
        rows = np.flatnonzero(kept)

        def of_rows(part):
            return part if part is None else part[rows]

        return replace(
            self,
            X=self.X[rows],
            labels=of_rows(self.labels),
            ids=of_rows(self.ids),
            groups=of_rows(self.groups),
            file_rows=self.row_numbers[rows],
            notes=[*self.notes, note],
        )


def check_columns(path: str | Path, schema: pl.Schema, reading: Reading) -> None:
    """Refuse options that name columns the file does not have."""
    named = _named_columns(reading)
    for option, name in named:
        if name not in schema:
            hint = f"the columns are {listed(schema.names())}."
            # mostly a slip of the pen
            close = difflib.get_close_matches(name, schema.names(), 1)
            if close:
                hint = f"did you mean '{close[0]}'?"
            begins = first_lines(path, reading)
            raise ValueError(f"--{option}: '{path}' has no column '{name}'; {hint}{begins}")
    _check_roles(named)


def _named_columns(reading):
    """The columns that options name: (option, column), once for each."""
    single = {"label": reading.label, "id": reading.id_column, "groups": reading.groups}
    several = {
        "ignore": reading.ignore,
        "categorical": reading.categorical,
        "numeric": reading.numeric,
    }
    named = [(option, name) for option, name in single.items() if name is not None]
    for option, names in several.items():
        for name in names or ():
            named.append((option, name))
    return named


def _check_roles(named):
    """Refuse --categorical or --numeric for a column that another option keeps from being read so."""
    option_of: dict[str, str] = {}
    for option, name in named:
        other = option_of.setdefault(name, option)
        if other != option and option in ("categorical", "numeric"):
            raise ValueError(
                f"--{other} and --{option} both name the column '{name}', which can be only one of "
                "them; leave one out."
            )


# ---- columns to learn from


class Learnable(NamedTuple):
    """The columns to learn from, as typed values, and their kinds by name."""

    frame: pl.DataFrame
    kinds: Kinds

    @property
    def spellings(self) -> dict[str, Spelling]:
        """How words spelled the values of columns, for encoders that read new rows."""
        return {name: kind for name, kind in self.kinds.items() if isinstance(kind, Spelling)}


def learnable(
    path: str | Path, frame: pl.DataFrame, reading: Reading, notes: list[str]
) -> Learnable:
    """Read the columns to learn from; notes tell how each was read, and which are left out."""
    asked = dict.fromkeys(reading.categorical or (), "category")
    asked |= dict.fromkeys(reading.numeric or (), "number")
    decimal = decimal_mark(path, reading)
    chosen: dict[str | int, str | Spelling] = dict(asked.items())
    typed: list[pl.Series] = []
    unusual: list[Spelled] = []
    mixed: dict[str, dict[str, bool]] = {}  # columns that spell truth values in several ways
    for column in frame:
        truths = _truths(column, asked)
        if truths:
            typed.append(columns.as_booleans(column, truths))
            mixed[column.name] = truths
            continue
        values, spelled = _read(column, asked.get(column.name), decimal)
        typed.append(values)
        if spelled is None:
            tell_slips(column, values, notes)
            continue
        told(spelled, notes, columns.as_words(column.name))
        if spelled.spelling != NumberSpelling():
            chosen[column.name] = spelled.spelling
        if not spelled.usual:
            unusual.append(spelled)
    notes += columns.notes_on(unusual)
    own_line = {each.values.name for each in unusual} | set(mixed)  # columns that have been told of
    if mixed:
        first = next(iter(mixed))
        remedy = columns.as_words(first if len(mixed) == 1 else "COLUMN")
        notes.append(columns.note_on_truths(list(mixed), mixed[first], remedy))
    frame = pl.DataFrame(typed)
    encoder = _fitted_encoder(path, frame, chosen, notes)
    shown = {each.name: each.kind for each in encoder.columns_ if each.name not in own_line}
    _tell(shown, len(encoder.columns_), encoder.ignored_, asked, notes)
    kinds: Kinds = {}
    for each in encoder.columns_:
        kind = chosen.get(each.name)
        if kind == "category":
            kinds[each.name] = ASKED_FOR
        elif isinstance(kind, Spelling):
            kinds[each.name] = kind
        else:
            kinds[each.name] = each.kind
    return Learnable(frame, kinds)


def _fitted_encoder(path, frame, chosen, notes):
    """An encoder of the columns, which tells their kinds; its warnings become notes."""
    try:
        with collected_warnings() as collected:
            encoder = TableEncoder(kinds=chosen).fit(frame)
    except ValueError as error:
        remedy = ""
        for name in frame.columns:
            if f"{name!r}: looks like a row number" in str(error):
                remedy = f" --numeric {argument(name)} learns from that column."
        fault = str(error).removeprefix("X ")
        raise ValueError(f"'{path}' {fault}{remedy}") from error
    notes += [f"Note: {warning}" for warning in collected]
    return encoder


def _truths(column, asked):
    """The truth values that a column of text spells in several ways; none of what is asked for."""
    if column.dtype != pl.String or column.name in asked:
        return {}
    return columns.truth_values(column)


def _read(column, asked, decimal):
    """A column of a file as values, and how they were spelled if it held words; None if it is as it was."""
    if asked == "category":
        return column, None
    spelled = None
    if column.dtype == pl.String:
        spelled = columns.read_words(column, decimal, asked)
    elif column.dtype.is_integer() and not asked:
        spelled = columns.read_compact_dates(column)
    elif column.dtype.is_float():
        return typed_column(column, "number"), None
    if spelled is None:
        return column, None
    return spelled.values, spelled


def rows_of(table: Learnable) -> Any:
    """The rows: an array if they are complete numbers that can be squared, else a frame."""
    frame = table.frame.select(
        typed_column(table.frame[name], kind) for name, kind in table.kinds.items()
    )
    if set(table.kinds.values()) == {"number"} and not sum(frame.null_count().row(0)):
        small = all(kind in SMALL for kind in table.frame.select(list(table.kinds)).dtypes)
        numbers = frame.cast(pl.Float32 if small else pl.Float64).to_numpy()
        # so that squared differences can be added up over the columns without overflow
        if np.abs(numbers).max(initial=0) < np.sqrt(np.finfo(numbers.dtype).max / frame.width) / 4:
            return np.ascontiguousarray(numbers)
    return frame


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
    small = all(_number_type(frame[name]) in SMALL for name in columns)
    # half the memory where nothing is lost
    dtype = np.float32 if small else np.float64
    blocks = []
    names = []
    for name in columns:
        column = frame[name]
        if is_vector(column.dtype):
            block = _vectors(column, path)
            names += [f"{name}_{i}" for i in range(block.shape[1])]
        else:
            block = column.cast(pl.Float64).to_numpy()[:, None]
            names.append(name)
        blocks.append(block.astype(dtype, copy=False))
    if len(blocks) == 1:  # without a copy
        return np.ascontiguousarray(blocks[0]), names
    return np.ascontiguousarray(np.hstack(blocks)), names


def _number_type(column):
    """The type of the numbers of a column, or of those in its vectors."""
    kind: Any = column.dtype
    return kind.inner if kind.is_nested() else kind


def _vectors(series, path):
    lengths = series.cast(pl.List(series.dtype.inner)).list.len()
    if series.null_count() or lengths.n_unique() > 1:
        raise ValueError(
            f"'{path}': column '{series.name}' holds vectors of different lengths; all rows need "
            "the same."
        )
    return series.explode().to_numpy().reshape(len(series), -1)


def _tell(kinds, n_columns, ignored, asked, notes):
    """A line each about numbers, words, dates and columns left out."""
    by_kind = defaultdict(list)
    for name, kind in kinds.items():
        if kind in ("boolean", "ordered"):
            kind = "category"
        by_kind[kind].append(name)
    told = {
        "number": "Numbers: {}.",
        "category": "Categories: {}; --numeric COLUMN or --ignore COLUMN changes that.",
        "date": "Dates: {}, as elapsed time, and as position in the day, week or year where they span two of them.",
        "time": "Times of day: {}.",
    }
    for kind, line in told.items():
        only_numbers = kind == "number" and len(by_kind[kind]) == n_columns
        if by_kind[kind] and not only_numbers:
            notes.append(line.format(listed(by_kind[kind], LISTED)))
    reasons = defaultdict(list)
    for name, why in ignored.items():
        reasons[why].append(name)
    for why, names in reasons.items():
        hint = ""
        if why not in ("all missing", "constant") and names[0] not in asked:
            option = "--numeric" if "row number" in why else "--categorical"
            hint = f"; {option} {argument(names[0])} learns from it"
        notes.append(f"Ignored: {listed(names, LISTED)}: {why}{hint}.")


def tell_gaps(X: Any, notes: list[str]) -> None:
    """Note which columns have gaps: those of a frame, since an array of `rows_of` has none."""
    if isinstance(X, np.ndarray):
        return
    gaps = X.null_count().row(0, named=True)
    missing = sorted(filter(gaps.get, gaps), key=gaps.get, reverse=True)
    if missing:
        shares = first_few([f"'{name}' {gaps[name] / len(X):.1%}" for name in missing], LISTED)
        notes.append(
            f"Missing values: {shares}, set to the mean of their column and marked as missing; a "
            "missing category is a category of its own."
        )


# ---- columns as in training


def learned_names(learned: Learned) -> list[str]:
    """The columns that an encoder or a metric was fitted to, as far as it knows their names."""
    if isinstance(learned, TableEncoder):
        return [column.name for column in learned.columns_]
    return list(learned.columns or ())


def rows_as_learned(
    path: Path, frame: pl.DataFrame, learned: Learned, reading: Reading, notes: list[str]
) -> Any:
    """The columns that an encoder or a metric was fitted to: a frame for an encoder, else numbers,
    gaps filled if the metric knows how. Entries that are no numbers where numbers are expected
    are gaps, and notes say so.
    """
    frame = with_entries(frame, path)
    known: dict[str, Kind | None]
    if isinstance(learned, TableEncoder):
        known = {column.name: column for column in learned.columns_}
    else:
        numeric = [name for name, kind in frame.schema.items() if kind.is_numeric()]
        known = dict.fromkeys(learned.columns or numeric)
        check_width(path, len(known), learned.n_features_in_)
    where = ", empty where it is unknown" if isinstance(learned, TableEncoder) else ""
    positions(frame.columns, list(known), f", which training used; add it{where}.", f"'{path}'")
    decimal = decimal_mark(path, reading)
    typed = pl.DataFrame(
        _as_learned(frame[name], column, decimal, notes) for name, column in known.items()
    )
    if isinstance(learned, TableEncoder):
        new = learned.unseen_categories(typed)
        if new and not any(
            note.startswith(NEW_CATEGORIES) for note in notes
        ):  # once for many batches
            notes.append(f"{NEW_CATEGORIES} {new}.")
        return typed
    small = all(frame[name].dtype in SMALL for name in known)
    return learned.fill_missing(typed.to_numpy().astype(np.float32 if small else np.float64))


def _as_learned(column, learned, decimal, notes):
    """New values of a column, as the kind that was learned; None stands for a number."""
    is_text = column.dtype == pl.String
    if isinstance(learned, DateColumn):
        return _dates_as_learned(column, learned, notes)
    if isinstance(learned, TimeColumn) and is_text:
        return told(columns.spelled_values(column, TimeSpelling()), notes)
    if learned is not None and type(learned) is not NumberColumn:
        return typed_column(column, learned.kind)
    if is_text:
        spelling = (learned and learned.spelling) or NumberSpelling(decimal)
        spelled = columns.new_values(column, spelling, decimal)
        if spelled.spelling != spelling:
            notes.append(columns.note_on(spelled))
        return told(spelled, notes)
    values = typed_column(column, "number")
    tell_slips(column, values, notes)
    return values


def told(spelled: Spelled, notes: list[str], remedy: str = ".") -> pl.Series:
    """The values that words spell; a note names those that spell none."""
    kind = spelled.spelling.kind
    tell_slips(spelled.words, spelled.values, notes, kind, spelled.missing, remedy)
    return spelled.values


def _dates_as_learned(column, learned, notes):
    """New dates, still as words, since the encoder knows in which order day and month are; the few words
    that are no dates are missing.
    """
    if column.dtype.is_integer() and set(learned.formats) & set(COMPACT):
        return typed_column(column, DateSpelling(learned.formats))
    if column.dtype != pl.String:
        return column
    distinct = column.drop_nulls().unique().to_list()
    many = len(distinct) >= FEWEST_VALUES
    found = recognise(distinct, MOST_SLIPS, classes=(DateSpelling,)) if many else None
    if found is None or not found.slips:
        return column
    dates = column.set(column.is_in(found.slips), None)
    tell_slips(column, dates, notes, "date")
    return dates


def check_width(path: str | Path, given: int, needed: int) -> None:
    """Refuse more or fewer columns than training used."""
    if given != needed:
        raise ValueError(
            f"'{path}' has {plural(given, 'column')} of numbers; training used {needed:,}."
        )
