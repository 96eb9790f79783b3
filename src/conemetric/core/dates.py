"""Dates and durations, which are not numbers: refused by the name of their column."""

from datetime import date, timedelta
from typing import Any

import numpy as np

from .arrays import Rows

DATE_TYPES = (date, timedelta, np.datetime64, np.timedelta64)  # a datetime is a date
# How the names of dtypes of dates and durations begin, in pandas, Polars and Dask.
DATE_DTYPES = ("date", "time", "duration", "period")


def refuse_dates(X: Rows, name: str = "X") -> None:
    """Refuse dates, times and durations in an array, a list of rows or a data frame.

    The error names the first such column. Columns without a dtype of their own are judged by the
    first row.
    """
    columns = _columns_with_dates(X)
    if columns:
        raise ValueError(
            f"{name} holds dates or durations in column {columns[0]!r}; pass numbers instead, such "
            "as the days since the earliest date, or drop the column."
        )


def holds_times(values: np.ndarray) -> bool:
    """Tell whether an array holds dates, times or durations."""
    if values.dtype == object:
        return any(isinstance(value, DATE_TYPES) for value in values.flat)
    return values.dtype.kind in ("m", "M")


def _columns_with_dates(X: Any) -> list[object]:
    """Return the names, or else the numbers, of the columns that hold dates."""
    if hasattr(X, "columns"):
        return _columns_of_frame(X)
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("m", "M"):  # durations or dates throughout
        return [0]
    holds_objects = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and kind == "O")
    if holds_objects and len(X):
        return _columns_of_row(X[0])
    return []


def _columns_of_frame(frame: Any) -> list[object]:
    """Return the names of the columns with dates in a frame of pandas, Polars or Dask."""
    dtypes = [str(dtype).lower() for dtype in frame.dtypes]
    with_dates = []
    for column, dtype in zip(frame.columns, dtypes, strict=True):
        if dtype.startswith(DATE_DTYPES):
            with_dates.append(column)
    if with_dates:
        return with_dates
    # pandas holds Python's own dates as objects; a Dask frame would have to be computed to see them
    in_pandas = hasattr(frame, "iloc") and not hasattr(frame, "npartitions")
    if in_pandas and "object" in dtypes and len(frame):
        first_row = frame.iloc[0].to_numpy()
        return [frame.columns[number] for number in _columns_of_row(first_row)]
    return []


def _columns_of_row(row: object) -> list[object]:
    """Return the numbers of the columns that hold a date in this row."""
    if not isinstance(row, list | tuple | np.ndarray):
        return []
    return [number for number, value in enumerate(row) if isinstance(value, DATE_TYPES)]
