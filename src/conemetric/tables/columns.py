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
# in seconds
HOUR = 3600.0
MINUTE = 60.0
MICROSECOND = 1e-6


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
    if isinstance(frame, nw.DataFrame):
        return frame
    return None


def column_names(X: Any) -> list[str] | None:
    """The names of a frame's columns, none twice; None of an array, or if they are not all text."""
    columns = list(getattr(X, "columns", ()))
    refuse_repeated_names(columns)
    # scikit-learn, too, takes the names of a frame only if all are text
    if not columns or not all(isinstance(name, str) for name in columns):
        return None
    return columns


def positions(
    given: Sequence[str], wanted: Sequence[str], remedy: str = ".", what: str = "X"
) -> list[int]:
    """Where these columns are among those given; refuses one that is lacking, or there twice."""
    needed = set(wanted)
    # a repeated name among the columns that nobody wants does no harm
    refuse_repeated_names(name for name in given if name in needed)
    place = {name: i for i, name in enumerate(given)}
    lacking = [name for name in wanted if name not in place]
    if lacking:
        others = [name for name in place if name not in needed]
        hint = _hint(lacking[0], others)
        raise ValueError(f"{what} has no column {listed(lacking)}{remedy}{hint}")
    return [place[name] for name in wanted]


def _hint(lacking: str, others: Iterable[Any]) -> str:
    """The question whether another name was meant, if one is alike."""
    texts = [name for name in others if isinstance(name, str)]
    close = difflib.get_close_matches(lacking, texts, 1)
    if not close:
        return ""
    return f" Is the first one '{close[0]}'?"


def table_columns(X: Any, wanted: Iterable[tuple[int, str, bool]]) -> list[Column]:
    """Some columns of a frame or of a validated array: for each its position, its name, and whether
    it is one of words although its values may be numbers.
    """
    frame = frame_of(X)
    columns = []
    for position, name, as_words in wanted:
        if frame is None:
            column = _from_vector(X[:, position], name, as_words)
        else:
            column = _from_series(frame[:, position], name, as_words)
        columns.append(column)
    return columns


def _from_vector(values: np.ndarray, name: str, as_words: bool) -> Column:
    """A column from a vector of NumPy."""
    kind = values.dtype.kind
    if kind in "OUSb" or as_words:
        return _words(values.tolist(), name, category=as_words)
    # divided by a second, dates and durations of any resolution become floats, and NaT becomes NaN
    second = np.timedelta64(1, "s")
    if kind == "M":
        return Column(name, "date", (values - np.datetime64(0, "s")) / second)
    if kind == "m":
        values = values / second
    return Column(name, "number", _finite(values, name))


def _from_series(values: Any, name: str, as_words: bool) -> Column:
    """A column from a series of narwhals."""
    dtype = values.dtype
    if as_words:
        return _words(values.to_list(), name, category=True)
    if dtype.is_numeric():
        return Column(name, "number", _finite(_floats(values), name), dtype.is_integer())
    if dtype == nw.Duration:
        # microseconds, since frames keep durations in different units
        return Column(name, "number", _floats(values.dt.total_microseconds()) / 1e6)
    if dtype == nw.Date:
        values = values.cast(nw.Datetime("us"))
    if dtype in (nw.Datetime, nw.Date):
        return Column(name, "date", _floats(values.dt.timestamp("us")) / 1e6)
    if dtype == nw.Time:
        seconds = map(_since_midnight, values.to_list())
        return Column(name, "time", np.array(list(seconds)))
    if dtype.is_nested():
        raise ValueError(f"column {name!r} holds {dtype}; pass one column per entry, or drop it.")
    order = None
    if isinstance(dtype, nw.Enum):  # the categories of which are in order, unlike a Categorical's
        order = tuple(map(str, dtype.categories))
    return _words(values.to_list(), name, order, category=dtype == nw.Categorical)


def _since_midnight(at: time | None) -> float:
    """Seconds since midnight; NaN for a missing value."""
    if at is None:
        return math.nan
    return at.hour * HOUR + at.minute * MINUTE + at.second + at.microsecond * MICROSECOND


def _floats(series: Any) -> np.ndarray:
    """A series of narwhals as float64, NaN where missing."""
    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def _finite(numbers: np.ndarray, name: str) -> np.ndarray:
    """The numbers as float64; refuses infinite ones."""
    numbers = np.asarray(numbers, np.float64)
    if np.isinf(numbers).any():
        row = int(np.isinf(numbers).argmax())
        raise ValueError(
            f"Input X contains infinity, in column {name!r} at row {row}; pass finite numbers, or "
            "NaN where the value is missing."
        )
    return numbers


# ---- words


def _words(
    values: Sequence[Any], name: str, order: tuple[str, ...] | None = None, category: bool = False
) -> Column:
    """Python objects as words: strings without spaces around them, None for a gap."""
    booleans = True
    words = np.empty(len(values), object)
    for row, value in enumerate(values):
        if isinstance(value, str):
            booleans = False
            words[row] = str(value).strip() or None  # str(), since NumPy's strings are a subclass
        elif not _is_gap(value):
            words[row] = _word(value, name)
            booleans = booleans and isinstance(value, (bool, np.bool_))
    return Column(name, "word", words, booleans=booleans, category=category, order=order)


def _is_gap(value: Any) -> bool:
    """Whether a Python object stands for a missing value."""
    try:
        # NaN and NaT differ from themselves
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false; nor is an array
        return not isinstance(value, Iterable)


def _word(value: Any, name: str) -> str:
    """The word for a Python object that is no string."""
    # before numbers: True is a Real too, and would become the word 1
    if isinstance(value, (bool, np.bool_, np.datetime64)):
        return str(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (Real, Decimal)):
        return _spelled_out(float(value))
    raise TypeError(
        f"argument must be a string or a number: column {name!r} holds a {type(value).__name__}; "
        "pass one value for each row, or drop the column."
    )


def _spelled_out(number: float) -> str:
    """The word for a number: the same for 3 and 3.0."""
    whole = math.isfinite(number) and number == int(number) and abs(number) < LARGEST_WHOLE
    if whole:
        return str(int(number))
    return repr(number)
