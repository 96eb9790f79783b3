"""Columns of a file as values: words that spell numbers, dates or times are read once, by Polars where it
can; notes say how each column was read.
"""

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from ...core.wording import listed, plural
from ...tables.dates import (
    PATTERNS,
    DateSpelling,
    compact_format,
    is_ambiguous,
    order_of,
)
from ...tables.numerals import GROUPING, IS_NEGATIVE, SCALES, NumberSpelling
from ...tables.recognition import NUMBER_CLASSES, recognise
from ...tables.spelling import FEWEST_VALUES, MOST_SLIPS, Spelling
from .reading import argument

LARGEST = float(np.finfo(np.float64).max ** 0.5)  # of numbers that can be squared
ASKED_FOR = "words asked for"  # a kind of column whose type says so: it may spell numbers or dates
SAMPLED = 1000  # different words that show whether a column is worth reading in full
SAMPLE_SLACK = 0.05  # more slips than are allowed: that many in the sample are no chance
MICROSECONDS = 1_000_000  # in a second
NANOSECONDS = 1_000_000_000
# formats of digits as Polars knows them, but for years of two digits, which it completes in another way
OF_DIGITS = {
    "iso": "%Y-%m-%d",
    **{
        form: form
        for form in ("%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y", "%d.%m.%Y")
    },
}
# what may follow a date in these formats, and the pattern that it has
TIMES_OF_DAY = {
    "": "",
    " %H:%M": r" \d{1,2}:\d{2}",
    " %H:%M:%S": r" \d{1,2}:\d{2}:[0-5]\d",
    "T%H:%M:%S": r"T\d{2}:\d{2}:[0-5]\d",
    " %H:%M:%S%.f": r" \d{2}:\d{2}:[0-5]\d\.\d{1,6}",
    "T%H:%M:%S%.f": r"T\d{2}:\d{2}:[0-5]\d\.\d{1,6}",
}
COMPACT_DATES = 1_01_1900, 31_12_2100  # whole numbers beyond these are no dates such as 11072014
FEWEST_COMPACT_DATES = 5  # different ones; that many other whole numbers are no dates by chance
LONGEST_SHOWN = 40  # characters of a word in a note
# words for true and for false that a column may mix, in any case; t and y would be codes
TRUTHS = (
    ({"yes", "y"}, {"no", "n"}),
    ({"true", "t"}, {"false", "f"}),
    ({"yes", "true"}, {"no", "false"}),
)
TRUTH_WORDS = frozenset().union(*itertools.chain(*TRUTHS))
LARGEST_IN_DIGITS = 1e15  # whole numbers in a note
FEWEST_IN_ONE_NOTE = 4  # columns
MOST_NAMED = 6  # columns in a note
MOST_MISSING_SHOWN = 4  # words that mean a missing value, in a note

ColumnKind = str | Spelling  # the name of a kind, or how the words of the column spell its values
Kinds = dict[str, ColumnKind]  # of columns, by name
# Digits of a code with a leading zero, such as a postal code or a telephone number. Four, six and eight
# digits may be times (0930) or dates (01052018), fewer may be padded numbers (007).
CODE = r"^0(\d{4}|\d{6}|\d{8,})$"


@dataclass(frozen=True)
class Spelled:
    """A column as its words were read: typed values, null where they are missing or spell none."""

    words: pl.Series
    values: pl.Series
    spelling: Spelling
    slips: list[str] = field(default_factory=list)  # different words that spell nothing
    missing: list[str] = field(default_factory=list)  # different words that mean a missing value
    usual: bool = False  # whether all are plain numbers, or dates such as 2021-12-31


# ---- recognising


def read_words(column: pl.Series, decimal: str, asked: str | None = None) -> Spelled | None:
    """A column of text as the values that it spells, but for a few slips among many different words; None
    if it has words. If numbers are ``asked`` for, all other words are slips.
    """
    distinct = column.drop_nulls().unique(maintain_order=True)
    n_distinct = len(distinct)
    if not n_distinct:
        return None
    sample = distinct.gather_every(-(-n_distinct // SAMPLED)).to_list()
    if asked == "number":
        # what is asked for is read however many words are slips: a share of 1 is allowed
        found = recognise(sample, 1.0, decimal, NUMBER_CLASSES)
        if found is None:
            return spelled_values(column, NumberSpelling())
        return spelled_values(column, found.spelling)
    others = 0.0  # of few words every one has to spell a value
    slack = 0.0
    if n_distinct >= FEWEST_VALUES:
        others = MOST_SLIPS
        slack = SAMPLE_SLACK
    found = recognise(sample, others + slack, decimal)
    if found is not None:
        spelled = spelled_values(column, found.spelling)
        if len(spelled.slips) <= others * n_distinct:
            return spelled
        # the other words may show the decimal mark, or dates in further formats
        found = recognise(distinct.to_list(), others, decimal)
        if found is not None:
            return spelled_values(column, found.spelling)
    return _mostly_numbers(column, n_distinct)


def _mostly_numbers(column, n_distinct):
    """Plain numbers with many different slips in few rows; None of other words."""
    if n_distinct < FEWEST_VALUES or column.str.contains(CODE).any():
        return None
    numbers = _plain_numbers(column)
    mostly = len(numbers.drop_nulls()) >= (1 - MOST_SLIPS) * len(column.drop_nulls())
    if not mostly or numbers.n_unique() < FEWEST_VALUES:
        return None
    return spelled_values(column, NumberSpelling())


def read_compact_dates(column: pl.Series) -> Spelled | None:
    """Whole numbers as the dates that they are, such as 20141107 or 11072014, if all of many are; else
    None.
    """
    low: Any = column.min()
    high: Any = column.max()
    if low is None or low < COMPACT_DATES[0] or high > COMPACT_DATES[1]:
        return None
    distinct = column.drop_nulls().unique(maintain_order=True)
    if len(distinct) < FEWEST_COMPACT_DATES:
        return None
    form = compact_format(distinct.to_list())
    if form is None:
        return None
    return spelled_values(_eight_digits(column), DateSpelling((form,)))


def _eight_digits(column):
    """Whole numbers that are dates as text: 1052018 is 01052018."""
    return column.cast(pl.String).str.zfill(8)


def truth_values(column: pl.Series) -> dict[str, bool]:
    """The truth value of each word of a column that spells them in more than two ways, such as Yes, yes and
    N; none of other columns.
    """
    present = column.drop_nulls()
    # most columns end here, before their words are told apart
    if not len(present) or _folded(present[0]) not in TRUTH_WORDS:
        return {}
    words = present.unique(maintain_order=True).to_list()
    folded = {_folded(word) for word in words}
    for true, false in TRUTHS:
        both = folded & true and folded & false
        if len(words) > 2 and both and folded <= true | false:
            return {word: _folded(word) in true for word in words}
    return {}


def _folded(word):
    return word.strip().casefold()


def as_booleans(column: pl.Series, truths: dict[str, bool]) -> pl.Series:
    """The column as booleans."""
    return column.replace_strict(list(truths), list(truths.values()), return_dtype=pl.Boolean)


def in_one_spelling(column: pl.Series, truths: dict[str, bool]) -> pl.Series:
    """The column with the most common word for each boolean."""
    common: dict[bool, str] = {}
    for word, _ in Counter(column.drop_nulls().to_list()).most_common():
        common.setdefault(truths[word], word.strip())
    return column.replace_strict({word: common[value] for word, value in truths.items()})


def note_on_truths(names: Sequence[str], truths: dict[str, bool], remedy: str = ".") -> str:
    """How columns, with these words or others, were read as booleans."""
    true = [word for word, value in truths.items() if value]
    false = [word for word, value in truths.items() if not value]
    words = f"{listed(true, MOST_MISSING_SHOWN)} against {listed(false, MOST_MISSING_SHOWN)}"
    return f"Booleans: {listed(names, MOST_NAMED)} ({words}){remedy}"


# ---- reading


def spelled_values(column: pl.Series, spelling: Spelling) -> Spelled:
    """The values that a column of text spells."""
    # Polars reads most columns in whole, Python only the different words that are left: 300,000
    # time stamps take a fifth of the time
    numbers = _by_polars(column, spelling)
    for_python = column
    if numbers is not None:
        for_python = column.filter(numbers.is_null())
    words = for_python.drop_nulls().unique(maintain_order=True).to_list()
    values = {word: spelling.value_of(word) for word in words}
    known = {word: value for word, value in values.items() if _is_number(value)}
    if known or numbers is None:
        by_python = column.replace_strict(
            list(known), list(known.values()), default=None, return_dtype=pl.Float64
        )
        if numbers is None:
            numbers = by_python
        else:
            numbers = numbers.fill_null(by_python)
    typed = _typed(numbers, spelling.kind)
    unread = [word for word, value in values.items() if value is None]
    if spelling.kind == "number":
        too_large = numbers.is_not_null() & typed.is_null()  # to be squared
        unread += column.filter(too_large).unique().to_list()
    missing = [word for word, value in values.items() if value is not None and math.isnan(value)]
    plain = isinstance(spelling, NumberSpelling) and spelling.is_plain and not known
    usual = not missing and (plain or spelling == DateSpelling(("iso",)))
    return Spelled(column, typed, spelling, unread, missing, usual)


def _is_number(value):
    return value is not None and not math.isnan(value)


def _by_polars(column, spelling):
    """The numbers of a column that Polars can read by itself, null for other words; None if it cannot."""
    if isinstance(spelling, DateSpelling):
        return _dates_by_polars(column, spelling)
    if not isinstance(spelling, NumberSpelling):
        return None
    if spelling.is_plain:
        return _plain_numbers(column)
    parts = pl.col("words").str.strip_chars().str.extract_groups(spelling.pattern).struct
    digits = parts.field("2").str.replace_all(f"[{GROUPING[spelling.decimal]}]", "")
    number = digits.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    scale = parts.field("3").str.to_lowercase().replace_strict(SCALES, default=1.0)
    sign = pl.when(parts.field("1").str.contains(IS_NEGATIVE)).then(-1.0).otherwise(1.0)
    found = column.rename("words").to_frame().select(sign * number * scale)
    return found.to_series().rename(column.name)


def _dates_by_polars(column, spelling):
    """Seconds since 1970 where all dates have one format, of digits, and look like the first one."""
    present = column.drop_nulls()
    form = spelling.formats[0]
    if len(spelling.formats) > 1 or form not in OF_DIGITS or not len(present):
        return None
    for of_day, pattern in TIMES_OF_DAY.items():
        pattern = f"^{PATTERNS[form]}{pattern}$"
        if not re.match(pattern, present[0]):
            continue
        alike = column.set(~column.str.contains(pattern), None)
        dates = alike.str.to_datetime(OF_DIGITS[form] + of_day, strict=False, time_unit="us")
        return dates.dt.timestamp("us") / MICROSECONDS
    return None


def _plain_numbers(column):
    return column.str.strip_chars().cast(pl.Float64, strict=False)


def _typed(numbers, kind):
    """Numbers as the values of a kind of column."""
    if kind == "number":
        return numbers.set(numbers.abs() >= LARGEST, None)  # as is NaN
    if kind == "date":
        return (numbers * MICROSECONDS).round().cast(pl.Int64).cast(pl.Datetime("us"))
    return (numbers * NANOSECONDS).round().cast(pl.Int64).cast(pl.Time)


def typed_column(column: pl.Series, kind: ColumnKind) -> pl.Series:
    """A column as readers of the frame recognise it: numbers as floats that can be squared, and what words
    spell as its values.
    """
    if isinstance(kind, Spelling):
        if column.dtype == pl.String:
            return spelled_values(column, kind).values
        if kind.kind == "date" and column.dtype.is_integer():
            return spelled_values(_eight_digits(column), kind).values
        return typed_column(column, kind.kind)
    if kind == "number":
        if column.dtype in (pl.Duration, pl.Time):
            column = column.cast(pl.Duration("us")).dt.total_microseconds() / MICROSECONDS
        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            return _typed(column.cast(pl.Float64), kind)
        return _typed(_plain_numbers(column.cast(pl.String)), kind)
    if kind not in (ASKED_FOR, "indicator"):
        return _categories(column, kind)
    words = column.cast(pl.String)
    if column.dtype.is_float():
        words = words.str.strip_suffix(".0")
    if kind == ASKED_FOR:
        return words.cast(pl.Categorical)
    return words


def _categories(column, kind):
    """A column as it is, since the encoder reads all types alike (3 and 3.0 are one word), but for truth
    values in words.
    """
    if kind != "boolean" or column.dtype != pl.String:
        return column
    truths = truth_values(column)
    return as_booleans(column, truths) if truths else column


def new_values(column: pl.Series, spelling: Spelling, decimal: str) -> Spelled:
    """New words of a column that was learned with a spelling: read in that, or, if it does not fit, in one
    of their own with the same currency or unit.
    """
    spelled = spelled_values(column, spelling)
    if not isinstance(spelling, NumberSpelling) or not spelled.slips:
        return spelled
    own = read_words(column, decimal)
    if own is None or not isinstance(own.spelling, NumberSpelling):
        return spelled
    # kilometres are not taken for the miles of training; a bare number has the currency of training
    same_unit = own.spelling.unit == spelling.unit
    same_currency = own.spelling.currency in ("", spelling.currency) or not spelling.currency
    if same_unit and same_currency:
        return own
    return spelled


# ---- notes


def note_on(spelled: Spelled, remedy: str = ".", names: Sequence[str] = ()) -> str:
    """How a column was read, or those of these names, which were read alike."""
    spelling = spelled.spelling
    named = listed(names or [spelled.values.name], MOST_NAMED)
    facts = _example(spelled)
    if spelled.missing:
        facts += f"; {listed(spelled.missing, MOST_MISSING_SHOWN)} as missing"
    note = f"{spelling.title}: {named} ({facts})"
    if isinstance(spelling, DateSpelling):
        note += ", as elapsed time, and as position in the day, week or year where they span two of them"
        if is_ambiguous(_distinct(spelled), spelling.formats):
            first = order_of(spelling.formats)
            note += f"; day and month cannot be told apart, and the {first} is taken to be first"
            remedy = remedy.replace(";", "; write them as 2021-12-31, or", 1)
    return f"{note}{remedy}"


def notes_on(columns: Sequence[Spelled]) -> list[str]:
    """How columns were read: a note on each, or one on many that spell numbers alike."""
    alike = defaultdict(list)
    for spelled in columns:
        alike[spelled.spelling, tuple(spelled.missing)].append(spelled)
    notes = []
    for (spelling, _), group in alike.items():
        if len(group) < FEWEST_IN_ONE_NOTE or spelling.kind != "number":
            notes += [note_on(each, as_words(each.values.name)) for each in group]
            continue
        names = [each.values.name for each in group]
        notes.append(note_on(group[0], as_words("COLUMN"), names))
    return notes


def _distinct(spelled):
    return spelled.words.filter(spelled.values.is_not_null()).unique().to_list()


def _example(spelled):
    """One of the longer words, which show more, and its value."""
    known = spelled.values.is_not_null()
    words = spelled.words.filter(known).head(SAMPLED)
    place = int(words.str.len_chars().arg_max() or 0)
    word = words[place].strip()
    value = spelled.values.filter(known)[place]
    return f"'{word[:LONGEST_SHOWN]}' is {shown(value)}"


def shown(value: object) -> str:
    """A value as a person would write it."""
    if isinstance(value, float):
        is_whole = value.is_integer() and abs(value) < LARGEST_IN_DIGITS
        return f"{value:,.0f}" if is_whole else f"{value:,.10g}"
    if isinstance(value, datetime):
        if value.time() == datetime.min.time():
            return value.date().isoformat()
        return value.isoformat(" ", "seconds")
    return str(value)


TITLES = {
    "number": ("Numbers", "numeric"),
    "date": ("Dates", "a date"),
    "time": ("Times of day", "a time of day"),
}  # by kind: what a column has, and what an entry is


def tell_slips(
    column: pl.Series,
    typed: pl.Series,
    notes: list[str],
    kind: str = "number",
    missing: Sequence[str] = (),
    remedy: str = ".",
) -> None:
    """Note the entries that are no numbers (dates, times), or are too large, if any; ``missing`` are words
    that mean a missing value.
    """
    given = column
    if column.dtype.is_float():
        given = column.fill_nan(None)
    found = given.filter(given.is_not_null() & typed.is_null())
    if missing:
        found = found.filter(~found.is_in(missing))
    if not len(found):
        return
    title, what = TITLES[kind]
    entries = f"{plural(len(found), 'entry')} that {'is' if len(found) == 1 else 'are'} not"
    first = f"{what} (first: '{found[0]}'), taken as missing"
    notes.append(f"{title}: '{column.name}' has {entries} {first}{remedy}")


def as_words(name: str) -> str:
    """The remedy for a column that was not meant to be read."""
    return f"; --categorical {argument(name)} takes all as categories."
