"""Dates and durations, which are not numbers: refused by the name of their column."""

from datetime import date, timedelta
from typing import Any

import numpy as np

from .arrays import Rows

TIMES = (date, timedelta, np.datetime64, np.timedelta64)  # a datetime is a date


def refuse_dates(X: Rows, name: str = "X") -> None:
    """Refuse dates, times and durations in an array, a list of rows or a data frame."""
    found: list[object] = []
    if hasattr(X, "columns"):
        found = _columns_of_frame(X)
    elif getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
        found = [0]
    elif isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.dtype == object):
        found = _columns_of_row(X[0]) if len(X) else []
    if found:
        raise ValueError(
            f"{name} holds dates or durations in column {found[0]!r}; give numbers instead, such "
            "as the days since the earliest date, or drop the column."
        )


def holds_times(values: np.ndarray) -> bool:
    """Whether an array holds dates, times or durations."""
    if values.dtype == object:
        return any(isinstance(value, TIMES) for value in values.flat)
    return values.dtype.kind in "mM"


def _columns_of_frame(frame: Any) -> list[object]:
    """Names of the columns with dates in a frame of pandas, Polars or Dask."""
    kinds = [str(dtype).lower() for dtype in frame.dtypes]
    times = [kind.startswith(("date", "time", "duration", "period")) for kind in kinds]
    named = [name for name, is_time in zip(frame.columns, times, strict=True) if is_time]
    in_pandas = hasattr(frame, "iloc") and not hasattr(frame, "npartitions")
    if named or "object" not in kinds or not in_pandas or not len(frame):
        return named
    return [frame.columns[number] for number in _columns_of_row(frame.iloc[0].to_numpy())]


def _columns_of_row(row: object) -> list[object]:
    values = row if isinstance(row, list | tuple | np.ndarray) else ()
    return [number for number, value in enumerate(values) if isinstance(value, TIMES)]
