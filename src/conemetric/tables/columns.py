"""The columns of a table: numbers, dates or words, with gaps, from a data frame or an array."""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from ..core.arrays import refuse_repeated_names
from ..core.warn import warn_user
from ..core.wording import listed

Family = Literal["number", "date", "word"]
MISSING_NUMBERS = ("?", "na", "n/a", "nan", "null", "none")  # words among numbers that mean a gap
NUMERAL = re.compile(r"[+-]?(0|[1-9]\d*|(?=\.\d))(\.\d*)?([eE][+-]?\d+)?")  # 007 is a code
DAY = 86400.0
LARGEST_WHOLE = 2.0**53  # floats up to this hold every integer
SLASHED = ("%m/%d/%Y", "%d/%m/%Y")
DATE_FORMATS = ("iso", *SLASHED, "%d.%m.%Y", "%Y/%m/%d", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")  # by the number of colons
LIKE_A_DATE = re.compile(r"\d{8}|\d{4}-?W|\s?\d{1,4}[-/.]\s?\d{1,2}[-/.]\s?\d")
MOST_SLIPS = 0.05  # share of a column's different words that may be slips among numbers or dates
FEWEST_VALUES = 20  # different words of such a column; of few, any may be a category


@dataclass(frozen=True)
class Column:
    """A column: numbers and dates, in seconds since 1970, are float64 with NaN for a gap, words are
    strings with None for a gap.
    """

    name: str
    family: Family
    values: np.ndarray
    integers: bool = False  # in the table
    booleans: bool = False  # of words: whether all were truth values
    category: bool = False  # whether the table says that words are categories, even numerals
    order: tuple[str, ...] | None = None  # of an ordered category

    @property
    def gaps(self) -> np.ndarray:
        """Which rows have no value."""
        if self.family == "word":
            return np.array([word is None for word in self.values], bool)
        return np.isnan(self.values)


def frame_of(X: Any) -> nw.DataFrame[Any] | None:
    """X as a frame of narwhals (pandas, polars, pyarrow, ...); None if it is not a frame."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(X: Any) -> list[str] | None:
    """The names of a frame's columns, none twice; None of an array, or if they are not all text."""
    columns = list(getattr(X, "columns", ()))
    refuse_repeated_names(columns)
    return columns if columns and all(isinstance(name, str) for name in columns) else None


def positions(
    given: Sequence[str], wanted: Sequence[str], remedy: str = ".", what: str = "X"
) -> list[int]:
    """Where these columns are among those given; refuses one that is lacking, or there twice."""
    needed, place = set(wanted), {name: i for i, name in enumerate(given)}
    refuse_repeated_names(name for name in given if name in needed)
    lacking = [name for name in wanted if name not in place]
    if lacking:
        others = [name for name in place if isinstance(name, str) and name not in needed]
        close = difflib.get_close_matches(lacking[0], others, 1)
        hint = f" Is the first one '{close[0]}'?" if close else ""
        raise ValueError(f"{what} has no column {listed(lacking)}{remedy}{hint}")
    return [place[name] for name in wanted]


def table_columns(X: Any, wanted: Iterable[tuple[int, str, bool]]) -> list[Column]:
    """Some columns of a frame or of a validated array: for each its position, its name, and whether
    it is one of words although its values may be numbers.
    """
    frame = frame_of(X)
    return [
        _read(X[:, position] if frame is None else frame[:, position], name, as_words)
        for position, name, as_words in wanted
    ]


def _read(values: Any, name: str, as_words: bool) -> Column:
    """A column from a series of narwhals or a vector."""
    dtype = values.dtype
    if isinstance(values, np.ndarray):
        if dtype.kind in "OUSb" or as_words:
            return _words(values.tolist(), name)
        if dtype.kind == "M":
            return Column(name, "date", (values - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
        numbers = values / np.timedelta64(1, "s") if dtype.kind == "m" else values
        return Column(name, "number", _finite(numbers, name))
    if as_words:
        return _words(values.to_list(), name)
    if dtype.is_numeric():
        return Column(name, "number", _finite(_floats(values), name), dtype.is_integer())
    if dtype == nw.Duration:
        return Column(name, "number", _floats(values.dt.total_microseconds()) / 1e6)
    if dtype in (nw.Datetime, nw.Date):
        stamps = values.cast(nw.Datetime("us")) if dtype == nw.Date else values
        return Column(name, "date", _floats(stamps.dt.timestamp("us")) / 1e6)
    if dtype.is_nested():
        raise ValueError(f"column {name!r} holds {dtype}; give one column per entry, or drop it.")
    order = tuple(map(str, dtype.categories)) if isinstance(dtype, nw.Enum) else None
    return _words(values.to_list(), name, order, category=dtype == nw.Categorical)


def _floats(series):
    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def _finite(numbers, name):
    numbers = np.asarray(numbers, np.float64)
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        raise ValueError(
            f"Input X contains infinity, in column {name!r} at row {row}; give finite numbers, or "
            "NaN where the value is missing."
        )
    return numbers


# ---- words


def _words(values, name, order=None, category=False):
    """Python objects as words: strings without spaces around them, None for a gap."""
    booleans, words = True, np.empty(len(values), object)
    for row, value in enumerate(values):
        if isinstance(value, str):
            words[row], booleans = str(value).strip() or None, False
        elif not _is_gap(value):
            words[row] = _word(value, name)
            booleans = booleans and isinstance(value, (bool, np.bool_))
    return Column(name, "word", words, booleans=booleans, category=category, order=order)


def _is_gap(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false; nor is an array
        return not isinstance(value, Iterable)


def _word(value: Any, name: str) -> str:
    if isinstance(value, (bool, np.bool_, np.datetime64)):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, time):
        value = (datetime.combine(date.min, value) - datetime.min).total_seconds()
    if isinstance(value, (Real, Decimal)):
        number = float(value)  # 3 and 3.0 are the same word
        whole = math.isfinite(number) and number == int(number) and abs(number) < LARGEST_WHOLE
        return str(int(number)) if whole else repr(number)
    raise TypeError(
        f"argument must be a string or a number: column {name!r} holds a {type(value).__name__}; "
        "give one value for each row, or drop the column."
    )


def number_of_word(word: str) -> float | None:
    """The number that a word spells; NaN if it stands for a gap, None if it is no number."""
    if word.casefold() in MISSING_NUMBERS:
        return math.nan
    if NUMERAL.fullmatch(word) is None:
        return None
    value = float(word)
    return value if math.isfinite(value) else None


def seconds_of_word(word: str, formats: Iterable[str] = DATE_FORMATS) -> float | None:
    """The seconds since 1970 of a date in one of these formats; NaN for a gap, None for no date."""
    if word.casefold() in MISSING_NUMBERS:
        return math.nan
    if LIKE_A_DATE.match(word) is None:
        return None
    of_day = TIMES[min(2, word.count(":"))]
    for form in formats:
        iso = form == "iso"
        if iso or form[2] in word:  # the separator
            with suppress(ValueError):
                at = datetime.fromisoformat(word) if iso else datetime.strptime(word, form + of_day)
                return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return None


def date_formats(words: Iterable[str], others: float = 0.0) -> tuple[str, ...]:
    """The formats of words that are dates, but for a share of ``others``; one if one reads all."""
    words = [word for word in words if word.casefold() not in MISSING_NUMBERS]
    if not words or sum(not word[:1].isdigit() for word in words) > others * len(words):
        return ()
    read = {f: sum(seconds_of_word(w, [f]) is not None for w in words) for f in DATE_FORMATS}
    best = max(read, key=lambda form: read[form])
    if read[best] == len(words):
        return (best,)
    slashed = max(SLASHED, key=lambda form: read[form])
    mixed = tuple(form for form in DATE_FORMATS if form not in SLASHED or form == slashed)
    missed = sum(seconds_of_word(word, mixed) is None for word in words)
    return mixed if missed <= others * len(words) else ()


def spelled(name: str, words: Collection[str]) -> Family:
    """What a column's words spell; a warning names a slip but for which it would be something else."""
    none = [word for word in words if number_of_word(word) is None]
    if not none and any(number_of_word(word) == number_of_word(word) for word in words):
        return "number"
    if date_formats(words):
        return "date"
    pointed = [number_of_word(word.replace(",", ".")) for word in none]
    commas = none if len(none) >= FEWEST_VALUES and None not in pointed else []
    faults = {
        "is not a number, as nearly all others are; correct it, empty it": slips(words, "number"),
        "is not a date, as nearly all others are; correct it, empty it": slips(words, "date"),
        "has a decimal comma; write points": commas,
    }
    for fault, found in faults.items():
        for word in found[:1]:
            warn_user(
                f"column {name!r} is read as words: {word[:80]!r} {fault}, or declare the "
                "column as words (categorical_features, --words)."
            )
    return "word"


def slips(words: Collection[str], kind: str) -> list[str]:
    """The words that are no numbers, or no dates, if nearly all of many are."""
    formats = date_formats(words, MOST_SLIPS) if kind == "date" else ()
    read = partial(seconds_of_word, formats=formats) if kind == "date" else number_of_word
    found = [word for word in words if read(word) is None]
    return found if len(found) <= MOST_SLIPS * len(words) >= MOST_SLIPS * FEWEST_VALUES else []


def formats_of(name: str, words: Iterable[str], known: Sequence[str] = ()) -> list[str]:
    """The formats to read the dates of a column in: the known ones if they read all, else its own, with
    one order of day and month. If any would do, that is an error beside known ones, else a warning,
    as is an order unlike the known one.
    """
    if known and _are_dates(words, known):
        return list(known)
    formats = list(date_formats(words) or DATE_FORMATS)
    either = formats == [SLASHED[0]] and _are_dates(words, SLASHED[1:])
    of_fit, here = ({*SLASHED} & {*each} for each in (known, formats))
    if either or (of_fit and here and not of_fit & here):
        first = min(word for word in words if seconds_of_word(word, known) is None)
        order = f"are read with the {'month' if SLASHED[0] in here else 'day'} first"
        fault = "were not in fit" if known and either else order + ", unlike in fit" * bool(known)
        fault = f"column {name!r}: dates such as {first!r} {fault}; write them as 2021-12-31."
        if known and either:
            raise ValueError(fault)
        warn_user(fault)
    return formats


def _are_dates(words, formats):
    return all(seconds_of_word(word, formats) is not None for word in words)
