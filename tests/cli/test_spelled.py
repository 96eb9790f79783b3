"""What Polars reads of a column is what Python reads word by word."""

import math
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from conemetric.cli.reading import columns
from conemetric.cli.reading.columns import LARGEST, spelled_values
from conemetric.tables.dates import DATE_FORMATS, DateSpelling
from conemetric.tables.numerals import NumberSpelling
from conemetric.tables.times import DurationSpelling, HeightSpelling, TimeSpelling

SPELLINGS = [
    NumberSpelling(),
    NumberSpelling(","),
    NumberSpelling(currency="$"),
    NumberSpelling(",", currency="€"),
    NumberSpelling(currency="US$"),
    NumberSpelling(unit="%"),
    NumberSpelling(unit="km"),
    NumberSpelling(unit="m"),
    NumberSpelling(unit="th"),
    NumberSpelling(scales=True),
    NumberSpelling(currency="Rs."),
]
PIECES = ["-", "\N{MINUS SIGN}", "+", "(", ")", "$", "US$", "€", "Rs.", " ", "\N{NO-BREAK SPACE}"]
PIECES += [*"0123456789", "12", "345", "678", "000", ",", ".", "'", ",234", ".567", "e5", "E-3"]
PIECES += [
    "K",
    "k",
    "M",
    "m",
    "B",
    "bn",
    " million",
    "%",
    "km",
    " KM",
    "kms",
    "st",
    "th",
    "[1]",
    "*",
]
PIECES += ["+", "NA", "?", "\N{ARABIC-INDIC DIGIT THREE}", "x", "inf", "1e400", "9" * 200]


def read_by_python(spelling, words):
    values = [spelling.value_of(word) for word in words]
    return [None if v is None or math.isnan(v) or abs(v) >= LARGEST else v for v in values]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
@pytest.mark.costly
def test_numbers(spelling, seed):
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(PIECES, rng.integers(1, 6))) for _ in range(3000)]
    words += [
        "$1,243.56",
        "($5)",
        "$ -",
        "51.3%",
        "(2.5)%",
        "5-",
        "1.234,5 €",
        "12 km",
        "5m",
        "1,23,456",
    ]
    found = spelled_values(pl.Series("x", words), spelling)
    expected = read_by_python(spelling, words)
    assert sum(value is not None for value in expected) > 50
    for word, one, other in zip(words, found.values.to_list(), expected, strict=True):
        if spelling.is_plain and re.match(r"[+-]?0[0-9]", word.strip()):
            continue  # a code in a frame, a number among those of a file, which has no types
        assert (one is None) == (other is None), word
        assert one is None or one == pytest.approx(other, rel=1e-15), word
    unread = {word for word in words if spelling.value_of(word) is None}
    codes = {word for word in unread if spelling.is_plain and word.strip(" +-")[:1] == "0"}
    assert unread - codes <= set(found.slips) and not unread & set(found.missing)


@pytest.mark.parametrize("form", DATE_FORMATS)
def test_dates(form, seed):
    rng = np.random.default_rng(seed)
    start = datetime(1955, 1, 1, tzinfo=UTC)
    layouts = {"iso": "%Y-%m-%d", "%b %d %y": "%b %d, %y", "%Y Q%q": "%Y-Q1", "Q%q %Y": "Q3 %Y"}
    layout = layouts.get(form, form)
    for tail in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %H:%M:%S.%f", " %I:%M %p"):
        days = [start + timedelta(seconds=int(s)) for s in rng.integers(0, 3e9, 30)]
        words = [day.strftime(layout + tail) for day in days]
        words += [
            "",
            " ",
            "no",
            "1/2/3",
            "2/30/2014",
            "30/2/2014",
            "2014-02-30",
            "11/7/14",
            "-",
            "?",
        ]
        words += [f" {words[0]} ", words[0].replace("0", "O"), f"{words[1]}Z", words[0].lower()]
        spelling = DateSpelling((form,))
        found = spelled_values(pl.Series("x", words), spelling).values
        seconds = (found.dt.timestamp("us") / 1e6).to_list()
        expected = read_by_python(spelling, words)
        assert sum(value is not None for value in expected) >= 30, (form, tail)
        for word, one, other in zip(words, seconds, expected, strict=True):
            assert one == other, (form, tail, word)


@pytest.mark.parametrize(
    "spelling", [TimeSpelling(), DurationSpelling(), HeightSpelling()], ids=str
)
def test_times(spelling):
    words = ["13:08", "0:10", "1:08 PM", "95:30", "2h 50m", "5'11\"", "no", "-", "25:61", ""]
    found = spelled_values(pl.Series("x", words), spelling)
    physical = found.values.to_physical().to_list()
    unit = columns.NANOSECONDS if spelling.kind == "time" else 1
    assert [v if v is None else v / unit for v in physical] == read_by_python(spelling, words)
