"""Dates are refused by the name or the number of their column, whatever holds them."""

from datetime import date, datetime, timedelta

import numpy as np
import pytest

from conemetric import (
    AutoMetric,
    FrobMetric,
    MaximumVarianceUnfolding,
    NuMax,
    RelativeComparisons,
)
from conemetric.core.dates import refuse_dates

pandas = pytest.importorskip("pandas")

DAYS = np.arange("2024-01-01", "2024-01-31", dtype="datetime64[D]")
NUMBERS = np.random.default_rng(0).normal(size=(len(DAYS), 2))
KINDS = {
    "datetime64": list(DAYS),
    "timedelta64": list(DAYS - DAYS[0]),
    "date": [date(2024, 1, 1 + k) for k in range(len(DAYS))],
    "datetime": [datetime(2024, 1, 1 + k) for k in range(len(DAYS))],
    "timedelta": [timedelta(days=k) for k in range(len(DAYS))],
}


def table(kind, position):
    """Columns of numbers and, at this position, one of dates."""
    columns = [*NUMBERS.T.tolist()]
    columns.insert(position, KINDS[kind])
    return columns


def frame(kind, position):
    names = ["height", "width"]
    names.insert(position, "when")
    return pandas.DataFrame(dict(zip(names, table(kind, position), strict=True)))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_frames_name_the_column_and_rows_number_it(kind, position):
    with pytest.raises(
        ValueError, match=r"X holds dates or durations in column 'when'; .* days since"
    ):
        refuse_dates(frame(kind, position))
    rows = [list(row) for row in zip(*table(kind, position), strict=True)]
    for listed in (rows, np.array(rows, dtype=object), tuple(rows)):
        with pytest.raises(ValueError, match=f"in column {position};"):
            refuse_dates(listed)


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "timedelta64[s]"])
def test_arrays_of_dates_only(dtype):
    with pytest.raises(
        ValueError, match=r"^queries holds dates or durations in column 0; .*days since"
    ):
        refuse_dates(np.arange(20).reshape(10, 2).astype(dtype), "queries")


def test_numbers_text_and_nothing_pass():
    for X in (
        NUMBERS,
        NUMBERS.tolist(),
        NUMBERS.astype(object),
        pandas.DataFrame(NUMBERS),
        pandas.DataFrame({"name": ["a", "b"], "timing": [1.0, 2.0]}),
        [],
        pandas.DataFrame(),
        np.array([["a", 1.0]], dtype=object),
    ):
        refuse_dates(X)


@pytest.mark.parametrize("kind", ["datetime64", "date"])
@pytest.mark.parametrize(
    "estimator",
    [FrobMetric(), RelativeComparisons(), NuMax(), MaximumVarianceUnfolding(), AutoMetric()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_estimators_refuse_dates_in_fit_and_transform(estimator, kind):
    y = np.arange(len(DAYS)) % 2
    with pytest.raises(ValueError, match="dates or durations in column 'when'"):
        estimator.fit(frame(kind, 1), y)
    if isinstance(estimator, FrobMetric):
        estimator.fit(np.c_[NUMBERS, NUMBERS[:, 0] ** 2], y)
        with pytest.raises(ValueError, match="dates or durations in column 'when'"):
            estimator.transform(frame(kind, 1))


def test_a_polars_frame_names_its_column():
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="in column 'when'"):
        refuse_dates(polars.DataFrame({"height": [1.0, 2.0], "when": KINDS["date"][:2]}))


def test_a_dask_frame_names_its_column():
    dataframe = pytest.importorskip("dask.dataframe")
    X = dataframe.from_pandas(frame("datetime64", 2), npartitions=2)
    with pytest.raises(ValueError, match="in column 'when'"):
        FrobMetric().fit(X, triplets=[[0, 1, 2]])
