"""Numbers, dates and times as people write them: recognised, kept by the column that was learned from
them, and read in the same way in new rows.
"""

import json
import math
from datetime import UTC, datetime, time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from conemetric import FrobMetric, MetricClassifier, TableEncoder, load_decision, save_decision
from conemetric.storage.checked import join_state, split_state
from conemetric.tables import summaries
from conemetric.tables.kinds import KINDS
from conemetric.tables.recognition import recognise
from conemetric.tables.spelling import FEWEST_VALUES

NBSP, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
GAP = math.nan
NUMBERS = {
    "dollars": (
        ["$1,243.56", "$12.00", "-$5", "($1,234.50)", " $-   "],
        [1243.56, 12, -5, -1234.5, 0],
    ),
    "euros behind": (["1.243,56 €", "12,00 €", "-5,10 €"], [1243.56, 12, -5.1]),
    "a code": (["EUR 1,200", "EUR 300", "300 EUR"], [1200, 300, 300]),
    "national": (["US$ 5.2 million", "US$ 1 billion"], [5.2e6, 1e9]),
    "millions": (["-", "$56.7M", "$1B", "$850K", "$300m"], [GAP, 56.7e6, 1e9, 850e3, 300e6]),
    "followers": (["1.2m", "300k", "15", "2M"], [1.2e6, 3e5, 15, 2e6]),
    "installs": (["10,000+", "1,000,000+", "0+"], [10_000, 1e6, 0]),
    "percent": (["51.3%", "0 %", "(2.5%)", "(2.5)%", f"{MINUS}3%"], [51.3, 0, -2.5, -2.5, -3]),
    "thousands": (["1,234", "12,345,678", "999"], [1234, 12345678, 999]),
    "Indian": (["₹1,23,456", "₹99,000"], [123456, 99000]),
    "Swiss": (["CHF 1'234.50", "CHF 12.00"], [1234.5, 12]),
    "spaces": (["1 234,5", f"12{NBSP}345{NBSP}678,25", "3,5"], [1234.5, 12345678.25, 3.5]),
    "decimal commas": (["1,5", "2,25", "0,75", "3"], [1.5, 2.25, 0.75, 3]),
    "kilometres": (["12 km", "5.5km", "1,200 km", "N/A"], [12, 5.5, 1200, GAP]),
    "pounds": (["159lbs", "183lbs", "1 lb"], [159, 183, 1]),
    "metres": (["5 m", "7.5 m", "12m"], [5, 7.5, 12]),
    "months": ([" 36 months", " 60 months"], [36, 60]),
    "degrees": (["23.5°C", "-3 °C"], [23.5, -3]),
    "trailing minus": (["5.20-", "3.10"], [-5.2, 3.1]),
    "footnotes": (["1,234[1]", "5,678 [note]", "99*"], [1234, 5678, 99]),
    "top codes": (["1", "2", "3", "4+"], [1, 2, 3, 4]),
    "ordinals": (["1st", "2nd", "3rd", "11th"], [1, 2, 3, 11]),
    "plain": (["1.5e6", "2E-3", "-4", ".5", "?"], [1.5e6, 2e-3, -4, 0.5, GAP]),
    "stop watch": (["27:15:00", "101:05:09", "95:30"], [98100, 363909, 5730]),
    "counted": (["90 min", "1h 30m", "2h", "1 day 2 hours"], [5400, 5400, 7200, 93600]),
    "timedelta": (["0 days 02:03:00", "1 days 05:00:00.5"], [7380, 104400.5]),
    "feet": (["5'11\"", "6'2", "5 ft 7 in", "5'11.5\""], [71, 74, 67, 71.5]),
}
DATES = {
    "American": (["11/7/14", "8/25/15"], ["2014-11-07", "2015-08-25"]),
    "American, long": (["11/07/2014", "08/25/2015"], ["2014-11-07", "2015-08-25"]),
    "British": (["25/11/14", "07/11/14"], ["2014-11-25", "2014-11-07"]),
    "dashes, month first": (["11-25-2014", "01-02-2014"], ["2014-11-25", "2014-01-02"]),
    "dotted": (["7.11.14", "25.12.13"], ["2014-11-07", "2013-12-25"]),
    "named": (["07-Nov-14", "15-Dec-50", "1-Jan-49"], ["2014-11-07", "1950-12-15", "2049-01-01"]),
    "SAS": (["07NOV2014", "15DEC2013:13:08:00"], ["2014-11-07", "2013-12-15T13:08:00"]),
    "in full": (["November 07, 2014", "May 1, 2015"], ["2014-11-07", "2015-05-01"]),
    "ordinal": (["3rd May 2014", "1st of June 2015"], ["2014-05-03", "2015-06-01"]),
    "weekday": (["Monday, November 7, 2014", "Fri, May 1, 2015"], ["2014-11-07", "2015-05-01"]),
    "month": (["Dec-2011", "January 2012"], ["2011-12-01", "2012-01-01"]),
    "month, short": (["Dec-11", "Jan-12"], ["2011-12-01", "2012-01-01"]),
    "month, numbers": (["2014-11", "2015-02"], ["2014-11-01", "2015-02-01"]),
    "quarter": (["2014Q3", "2015-Q1"], ["2014-07-01", "2015-01-01"]),
    "half days": (
        ["1/13/2014 01:08 PM", "12/25/2013 12:00 AM"],
        ["2014-01-13T13:08", "2013-12-25"],
    ),
    "zones": (
        ["2014-11-07 13:08:00 UTC", "2014-11-07T13:08:00+02:00"],
        ["2014-11-07T13:08", "2014-11-07T11:08"],
    ),
    "short iso": (["2014-1-7", "2014-11-30"], ["2014-01-07", "2014-11-30"]),
}
TIMES = {
    "clock": (["13:08", "0:10", "23:59:30"], ["13:08", "00:10", "23:59:30"]),
    "half days": (
        ["1:08 PM", "11:30 am", "12:00 AM", "1 p.m."],
        ["13:08", "11:30", "00:00", "13:00"],
    ),
}
WORDS = {
    "postcodes": ["02134", "10001"],
    "telephones": ["555-1234", "555-9876"],
    "versions": ["1.2.3", "4.0.13"],
    "addresses": ["10.0.0.1", "192.168.1.1"],
    "doors": ["2", "3", "4", "5more"],
    "ranges": ["18-24", "25-34"],
    "squares": ["37F", "21B", "11B"],
    "scores": ["3-1", "2-2"],
    "incomes": ["<=50K", ">50K"],
    "spans": ["$1,000 - $2,000", "$500"],
    "currencies": ["$5", "€6", "£7", "$8"],
    "units": ["23.4 kmpl", "19.67 kmpl", "26.6 km/kg", "17.3 km/kg"],
    "months": ["January", "February"],
    "days without a year": ["Nov 7", "Dec 25"],
    "seasons": ["2010-11", "2011-12", "2012-13"],
    "impossible": ["2014-02-30", "2014-02-31"],
    "other digits": ["٣", "٤"],
    "only missing": ["-", "N/A"],
}


def seconds(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def since_midnight(text):
    at = time.fromisoformat(text)
    return at.hour * 3600 + at.minute * 60 + at.second


def test_what_words_spell():
    expected = {
        "number": NUMBERS,
        "date": {name: (w, [*map(seconds, v)]) for name, (w, v) in DATES.items()},
        "time": {name: (w, [*map(since_midnight, v)]) for name, (w, v) in TIMES.items()},
    }
    for kind, cases in expected.items():
        for name, (words, values) in cases.items():
            found = recognise(words)
            assert found is not None and found.spelling.kind == kind, name
            np.testing.assert_allclose([*found.values.values()], values, err_msg=name)


def test_words_that_spell_nothing():
    for name, words in WORDS.items():
        assert recognise(words) is None, name


def frame_of(library, words, n=60):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=n).tolist(), "column": [words[i % len(words)] for i in range(n)]}
    return pd.DataFrame(data) if library == "pandas" else pl.DataFrame(data, strict=False)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_column_is_encoded_as_the_values_that_it_spells(library):
    for name, (words, values) in NUMBERS.items():
        encoder = TableEncoder().fit(frame_of(library, words))
        assert encoder.columns_[1].kind == "number", name
        same = TableEncoder().fit(frame_of(library, values))
        Z = encoder.transform(frame_of(library, words))
        np.testing.assert_allclose(
            Z, same.transform(frame_of(library, values)), atol=1e-9, err_msg=name
        )
        # numbers of new rows are numbers, and words are read as before
        np.testing.assert_allclose(encoder.transform(frame_of(library, values)), Z, err_msg=name)


def test_new_words_are_read_as_those_of_fit_also_from_a_file(tmp_path):
    cases = {
        "$5": ("$", ["$1,234.50", "$3"], "$1.5M", 1.5e6),
        "5 €": (",", ["1.234,50 €", "3,10 €"], "2.000 €", 2000.0),
        "5%": ("%", ["51.3%", "2%"], "(3%)", -3.0),
        "5 km": ("km", ["12 km", "3 km"], "7,000 km", 7000.0),
        "2h": ("h", ["2h 50m", "19h"], "1h", 3600.0),
    }
    for name, (_, words, new, value) in cases.items():
        X = frame_of("pandas", words)
        encoder = TableEncoder().fit(X)
        header, arrays = split_state(encoder.state())
        again = TableEncoder.from_state(join_state(json.loads(json.dumps(header)), arrays))
        assert again.columns_[1].spelling == encoder.columns_[1].spelling != None, name  # noqa: E711
        expected = encoder.transform(frame_of("pandas", [value]))
        np.testing.assert_allclose(again.transform(frame_of("pandas", [new])), expected)
        for other in ("many", "3 mi", "£3"):
            with pytest.raises(
                ValueError, match=f"'column' holds '{other}', which is not a number"
            ):
                again.transform(frame_of("pandas", [other]))
    y = np.repeat(["a", "b"], 30)
    classifier = MetricClassifier(metric=None, random_state=0).fit(X, y)
    save_decision(tmp_path / "d.safetensors", classifier)
    loaded = load_decision(tmp_path / "d.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


def test_files_from_before_there_were_spellings():
    X = frame_of("pandas", ["3", "4.5"])
    encoder = TableEncoder().fit(X)
    state = encoder.state()
    for column in state["columns"]:
        column.pop("spelling")
    np.testing.assert_array_equal(TableEncoder.from_state(state).transform(X), encoder.transform(X))


@pytest.mark.parametrize("spelling", [{"name": "klingon"}, {"name": "number"}, 7])
def test_a_spelling_that_is_none_is_refused(spelling):
    state = TableEncoder().fit(frame_of("pandas", ["$3", "$4"])).state()
    state["columns"][1]["spelling"] = spelling
    with pytest.raises(ValueError, match=r"encoder.columns.1.spelling"):
        TableEncoder.from_state(state)


def test_values_that_were_read_already_are_learned_with_their_spelling():
    words, values = NUMBERS["dollars"]
    spelling = recognise(words).spelling
    typed = TableEncoder(kinds={"column": spelling}).fit(frame_of("polars", values))
    text = TableEncoder().fit(frame_of("polars", words))
    X = frame_of("polars", ["$7", "($1,000.00)"])
    np.testing.assert_allclose(typed.transform(X), text.transform(X))
    dates = ["25/11/14", "07/11/14", "13/01/15", "01/02/15"]
    spelling = recognise(dates).spelling
    stamps = [
        datetime.fromtimestamp(s, UTC).replace(tzinfo=None) for s in map(spelling.value_of, dates)
    ]
    typed = TableEncoder(kinds={"column": spelling}).fit(frame_of("polars", stamps))
    either = frame_of("polars", ["02/03/15", "04/05/15"])
    np.testing.assert_allclose(
        typed.transform(either), TableEncoder().fit(frame_of("polars", dates)).transform(either)
    )


def test_decisions_take_kinds():
    X = frame_of("pandas", ["1", "2", "3"])
    y = np.repeat(["a", "b"], 30)
    for kinds, kind in (({"column": "category"}, "category"), (None, "number")):
        classifier = MetricClassifier(metric=None, kinds=kinds, random_state=0).fit(X, y)
        assert classifier.encoder_.columns_[1].kind == kind


def test_times_of_day_are_hours_or_places_on_the_clock():
    shop = [f"{hour}:30" for hour in range(8, 19)]
    night = ["23:50", "0:10", "12:00", "6:00", "18:00"]
    for words, periodic in ((shop, False), (night, True)):
        X = frame_of("pandas", words)
        encoder = TableEncoder().fit(X)
        assert encoder.columns_[1].periodic is periodic
        names = encoder.get_feature_names_out().tolist()[1:]
        assert names == (["column:day_cos", "column:day_sin"] if periodic else ["column"])
    Z = encoder.transform(X)[:, 1:]
    near, far = (np.linalg.norm(Z[0] - Z[i]) for i in (1, 2))
    assert near < 0.1 * far
    typed = pl.DataFrame({"x": X["x"].tolist(), "column": [time(18), time(0, 10), None] * 20})
    objects = pd.DataFrame({"x": X["x"], "column": typed["column"].to_list()})
    np.testing.assert_allclose(encoder.transform(objects), encoder.transform(typed))
    assert TableEncoder(dates="elapsed").fit(X).columns_[1].periodic is False
    assert TableEncoder(kinds={"column": "time"}).fit(typed).columns_[1].kind == "time"
    assert "time" in KINDS


def test_partitions_agree_on_a_spelling():
    dd = pytest.importorskip("dask.dataframe")
    for words in (
        NUMBERS["dollars"][0],
        DATES["American"][0],
        TIMES["clock"][0],
        ["12 km", "3 km"],
    ):
        X = frame_of("pandas", words)
        lazy, whole = TableEncoder().fit(dd.from_pandas(X, npartitions=4)), TableEncoder().fit(X)
        assert lazy.columns_[1].kind == whole.columns_[1].kind != "category"
        np.testing.assert_allclose(lazy.transform(X), whole.transform(X), rtol=1e-6, atol=1e-6)


def test_more_words_than_are_counted_are_read_too(monkeypatch):
    """In memory and in parts, some of which have few."""
    monkeypatch.setattr(summaries, "MAX_WORDS", 50)
    rng = np.random.default_rng(0)
    values = rng.lognormal(8, 1, 300).round(2)
    frame = {"x": rng.normal(size=300), "column": [f"${value:,.2f}" for value in values]}
    X, same = pd.DataFrame(frame), pd.DataFrame({**frame, "column": values})
    expected = TableEncoder().fit(same).transform(same)
    encoder = TableEncoder()
    np.testing.assert_allclose(encoder.fit(X).transform(X), expected)
    for cuts in ([100, 200], [10, 30], [260, 290]):
        parts = [encoder.summarize(part) for part in np.split(X, cuts)]
        whole = encoder.fit_summary(sum(parts[1:], parts[0]))
        np.testing.assert_allclose(whole.transform(X), expected, rtol=1e-9)
    texts = X.assign(column=[f"number {i}" for i in range(300)])
    assert TableEncoder().fit(texts).ignored_ == {"column": "too many different categories"}


def test_words_that_spell_nothing_in_another_part_are_named(monkeypatch):
    monkeypatch.setattr(summaries, "MAX_WORDS", 50)
    encoder = TableEncoder()
    values = [f"${value}.50" for value in range(100)]
    others = {"few": ["cheap", "dear"] * 50, "many": [f"price {i}" for i in range(100)]}
    for words in others.values():
        parts = [encoder.summarize(pd.DataFrame({"column": part})) for part in (values, words)]
        for one, other in (parts, parts[::-1]):
            with pytest.raises(ValueError, match="'column' is one of"):
                one + other


def test_a_slip_or_mixed_units_are_named():
    many = [f"${i}.50" for i in range(FEWEST_VALUES + 5)]
    cases = {
        "'5 pounds' is not a number": [*many, "5 pounds"],
        "its numbers are in '$', '€'; convert": [*many[:15], *(f"€{i}" for i in range(10))],
        "its numbers are in 'kmpl', 'km/kg'": [
            f"{i} {('kmpl', 'km/kg')[i % 3 == 0]}" for i in range(30)
        ],
        "'soon' is not a time of day": [*(f"{i % 24}:{i:02}" for i in range(40)), "soon"],
    }
    for message, words in cases.items():
        with pytest.warns(UserWarning, match=message.replace("$", r"\$")):
            encoder = TableEncoder().fit(frame_of("pandas", words, n=120))
        assert "column" not in [
            column.name for column in encoder.columns_ if column.kind != "category"
        ]


def test_dates_with_dashes_that_could_be_either_are_named():
    with pytest.warns(UserWarning, match="'02-03-2014' are read with the day first"):
        TableEncoder().fit(frame_of("pandas", ["02-03-2014", "04-05-2014"]))


def test_the_empty_date_of_databases_is_missing():
    days = [f"2019-{month:02}-{day:02} 00:00:00" for month in range(1, 13) for day in (3, 17, 28)]
    empty = pd.DataFrame({"at": [*days, "0000-00-00 00:00:00", "0000-00-00"]})
    missing = pd.DataFrame({"at": [*days, None, None]})
    y = [0, 1] * 19
    encoded = [TableEncoder().fit_transform(table, y) for table in (empty, missing)]
    np.testing.assert_array_equal(*encoded)


def test_a_metric_learned_from_words_is_that_of_their_values():
    rng = np.random.default_rng(0)
    prices, y = rng.lognormal(3, 1, 80), np.repeat([0, 1], 40)
    prices[y == 1] *= 20
    words = pd.DataFrame({"x": rng.normal(size=80), "price": [f"${p:,.2f}" for p in prices]})
    numbers = words.assign(price=prices.round(2))
    maps = [
        FrobMetric(tol=1e-8).fit(TableEncoder().fit_transform(X), y).components_
        for X in (words, numbers)
    ]
    np.testing.assert_allclose(*maps, atol=1e-6)
