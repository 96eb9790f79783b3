"""The columns of a table: numbers, dates, times of day or words, with missing values, from a data frame
or an array.
"""

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import narwhals as nw
import numpy as np

from ..core.arrays import refuse_repeated_names
from ..core.wording import listed

Family = Literal["number", "date", "time", "word"]
LARGEST_WHOLE = 2.0**53  # floats up to this hold every integer
HOUR, MINUTE, MICROSECOND = 3600.0, 60.0, 1e-6  # in seconds


@dataclass(frozen=True)
class Column:
    """A column: numbers, dates (in seconds since 1970) and times of day (in seconds since midnight) are
    float64 with NaN for a missing value, words are strings with None for one.
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
            return _words(values.tolist(), name, category=as_words)
        if dtype.kind == "M":
            return Column(name, "date", (values - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
        numbers = values / np.timedelta64(1, "s") if dtype.kind == "m" else values
        return Column(name, "number", _finite(numbers, name))
    if as_words:
        return _words(values.to_list(), name, category=True)
    if dtype.is_numeric():
        return Column(name, "number", _finite(_floats(values), name), dtype.is_integer())
    if dtype == nw.Duration:
        return Column(name, "number", _floats(values.dt.total_microseconds()) / 1e6)
    if dtype in (nw.Datetime, nw.Date):
        stamps = values.cast(nw.Datetime("us")) if dtype == nw.Date else values
        return Column(name, "date", _floats(stamps.dt.timestamp("us")) / 1e6)
    if dtype == nw.Time:
        return Column(name, "time", np.array([_since_midnight(each) for each in values.to_list()]))
    if dtype.is_nested():
        raise ValueError(f"column {name!r} holds {dtype}; give one column per entry, or drop it.")
    order = tuple(map(str, dtype.categories)) if isinstance(dtype, nw.Enum) else None
    return _words(values.to_list(), name, order, category=dtype == nw.Categorical)


def _since_midnight(at: time | None) -> float:
    """Seconds since midnight; NaN for a missing value."""
    if at is None:
        return math.nan
    return at.hour * HOUR + at.minute * MINUTE + at.second + at.microsecond * MICROSECOND


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
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (Real, Decimal)):
        number = float(value)  # 3 and 3.0 are the same word
        whole = math.isfinite(number) and number == int(number) and abs(number) < LARGEST_WHOLE
        return str(int(number)) if whole else repr(number)
    raise TypeError(
        f"argument must be a string or a number: column {name!r} holds a {type(value).__name__}; "
        "give one value for each row, or drop the column."
    )
