"""Tables as people have them: each a sensible result or an error that names the column, from a CSV
file read by polars, from pandas, and from polars.
"""

import io
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from conemetric import TableEncoder
from conemetric.core.warn import collected_warnings

N = 40
RNG = np.random.default_rng(0)
GOOD = {"x": RNG.normal(size=N).round(3).tolist(), "w": RNG.choice(["a", "b", "c"], N).tolist()}


def from_csv(data):
    text = pd.DataFrame(data).to_csv(index=False)
    return pl.read_csv(io.StringIO(text), infer_schema_length=None)


def from_polars(data):
    return pl.DataFrame(data, strict=False)


LIBRARIES = {"csv": from_csv, "pandas": pd.DataFrame, "polars": from_polars}


@pytest.fixture(params=LIBRARIES)
def table(request):
    return LIBRARIES[request.param]


def column(table, values, **settings):
    """The blocks of a column beside good ones, why it is ignored, and the encoder."""
    X = table({**GOOD, "column": values})
    encoder = TableEncoder(**settings).fit(X)
    Z = encoder.transform(X)
    assert np.isfinite(Z).all()
    blocks = [block for block in encoder.blocks_ if block.column == "column"]
    return [block.kind for block in blocks], encoder.ignored_.get("column"), encoder


@pytest.mark.parametrize("value", [3, 2.5, "a", True, "2024-01-01"])
def test_one_value(table, value):
    assert column(table, [value] * N)[:2] == ([], "constant")


def test_all_missing(table):
    assert column(table, [None] * N)[:2] == ([], "all missing")


def test_one_value_or_none(table):
    kinds, _, encoder = column(table, [None if i % 3 else 1.5 for i in range(N)])
    assert kinds == ["number", "missing"]
    assert encoder.get_feature_names_out()[-1] == "column=(missing)"
    kinds, _, _ = column(table, [None if i % 3 else "a" for i in range(N)])
    assert kinds == ["category"]


def test_ten_thousand_words(table):
    n = 20_000
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in rng.integers(0, 10_000, n)]
    X = table({"column": words, "x": rng.normal(size=n)})
    encoder = TableEncoder(kinds={"column": "category"})
    with pytest.raises(ValueError, match="every value is rare"):
        encoder.fit(X.drop("x", axis=1) if hasattr(X, "iloc") else X.drop("x"))
    assert encoder.fit(X).ignored_ == {"column": "every value is rare"}
    frequent = ["often" if i % 3 else word for i, word in enumerate(words)]
    X = table({"column": frequent, "x": rng.normal(size=n)})
    names = TableEncoder().fit(X).get_feature_names_out().tolist()
    assert names == ["column=(rare)", "x"]  # beside "often"


def test_words_that_are_all_different(table):
    assert column(table, [f"name {i}" for i in range(N)])[:2] == ([], "all values are different")
    text = [f"the quick brown fox number {i} jumps" for i in range(N)]
    assert column(table, text)[:2] == ([], "free text")


def test_row_numbers(table):
    assert column(table, list(range(7, 7 + N)))[:2] == ([], "looks like a row number")
    assert column(table, list(range(0, 2 * N, 2)))[0] == ["number"]
    X = table({**GOOD, "patient_id": np.random.default_rng(0).permutation(1000)[:N].tolist()})
    assert TableEncoder().fit(X).ignored_ == {"patient_id": "looks like a row number"}


def test_mixed_types(table):
    values = [(1, "a", 2.5, True, None)[i % 5] for i in range(N)]
    kinds, _, encoder = column(table, values)
    assert kinds == ["category"]
    assert len([name for name in encoder.get_feature_names_out() if "column" in name]) == 5


def test_five_more_is_a_word_and_numerals_are_numbers(table):
    doors = [("2", "3", "4", "5more")[i % 4] for i in range(N)]
    assert column(table, doors)[0] == ["category"]
    numerals = [("2", "3.5", "-4e1")[i % 3] for i in range(N)]
    assert column(table, numerals)[0] == ["number"]
    assert column(table, [("2", "3.5", "?")[i % 3] for i in range(N)])[0] == ["number", "missing"]
    if table is not from_csv:  # which reads codes as numbers before we see them
        assert column(table, [("007", "010", "003")[i % 3] for i in range(N)])[0] == ["category"]


@pytest.mark.parametrize("pair", [("yes", "no"), ("T", "F"), ("true", "false"), (True, False)])
def test_booleans_as_words(table, pair):
    kinds, _, encoder = column(table, [pair[i % 3 == 0] for i in range(N)])
    assert kinds in (["category"], ["boolean"])
    assert sum("column" in name for name in encoder.get_feature_names_out()) == 1


def test_booleans_are_read_from_words_at_transform(table):
    X = table({**GOOD, "column": [i % 3 == 0 for i in range(N)]})
    encoder = TableEncoder().fit(X)
    words = table({**GOOD, "column": [("no", "yes")[i % 3 == 0] for i in range(N)]})
    np.testing.assert_array_equal(encoder.transform(words), encoder.transform(X))


FORMS = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M"]
DAYS = pd.date_range("2023-01-01", periods=N, freq="41h")


@pytest.mark.parametrize("form", FORMS)
def test_dates_in_one_format(table, form):
    kinds, _, encoder = column(table, DAYS.strftime(form).tolist())
    assert kinds == ["date"]
    elapsed = encoder.transform(table({**GOOD, "column": DAYS.strftime(form).tolist()}))
    at = encoder.get_feature_names_out().tolist().index("column")
    assert (np.diff(elapsed[:, at]) > 0).all()


def test_dates_in_three_formats_in_one_column(table):
    days = pd.date_range("2023-01-13", periods=N, freq="D")
    mixed = [
        day.strftime(("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y")[i % 3]) for i, day in enumerate(days)
    ]
    kinds, _, encoder = column(table, mixed)
    assert kinds == ["date"]
    same = encoder.transform(table({**GOOD, "column": days.strftime("%Y-%m-%d").tolist()}))
    np.testing.assert_allclose(encoder.transform(table({**GOOD, "column": mixed})), same)
    with pytest.raises(ValueError, match="'column' holds 'soon', which is not a date"):
        encoder.transform(table({**GOOD, "column": ["soon"] * N}))


@pytest.mark.parametrize("new", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y"])
@pytest.mark.parametrize("learned", FORMS[:4])
def test_dates_of_a_column_are_read_in_one_order_of_day_and_month(table, learned, new):
    """In that of training, unless the column itself tells another."""
    _, _, encoder = column(table, DAYS.strftime(learned).tolist())
    same, other = (table({**GOOD, "column": DAYS.strftime(f).tolist()}) for f in (learned, new))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        np.testing.assert_allclose(encoder.transform(other), encoder.transform(same))
    turned = {learned, new} == {"%d/%m/%Y", "%m/%d/%Y"}
    first = "month" if new == "%m/%d/%Y" else "day"
    fault = f"are read with the {first} first, unlike during fit; write them as 2021-12-31."
    assert [fault in str(warning.message) for warning in found] == [True] * turned


def test_one_date_of_another_order_turns_the_others_with_a_warning(table):
    _, _, encoder = column(table, DAYS.strftime("%d/%m/%Y").tolist())
    dates = ["02/03/2023", "05/04/2023"] * (N // 2)
    dates[3] = "12/25/2023"
    with pytest.warns(UserWarning, match=r"dates such as '12/25/2023' are read with the month fir"):
        encoder.transform(table({**GOOD, "column": dates}))


@pytest.mark.parametrize("place", [0, 3, N - 1])
@pytest.mark.parametrize(
    ("form", "slip", "kind"),
    [
        ("%d.%m.%Y", "31.02.2023", "date"),
        ("%d/%m/%Y", "02/28/2023", "date"),  # a date, in another order
        ("%Y-%m-%d", "tomorrow", "date"),
        ("%y.%j", "3,14", "number"),
    ],
)
def test_a_slip_that_turns_a_column_into_words_is_named(table, form, slip, kind, place):
    values = DAYS.strftime(form).tolist()
    values[place] = slip
    with pytest.warns(
        UserWarning, match=f"is read as categories: '{slip}' is not a {kind}, as nearly"
    ):
        column(table, values)


def test_numbers_with_decimal_commas_are_numbers(table):
    points = [i + 0.5 if i % 3 else i for i in range(N)]
    values = [str(each).replace(".", ",") for each in points]
    kinds, _, encoder = column(table, values)
    assert kinds == ["number"]
    same = column(table, points)[2].transform(table({**GOOD, "column": points}))
    np.testing.assert_allclose(encoder.transform(table({**GOOD, "column": values})), same)


@pytest.mark.parametrize("values", [["1", "2", "3", "more"], ["1.2.2023", "2.2.2023", "soon"]])
def test_few_values_or_many_slips_are_words_without_a_warning(table, values, recwarn):
    assert column(table, (values * N)[:N])[0] == ["category"]
    column(table, [*DAYS.strftime("%d.%m.%Y").tolist()[: N // 2], *map(str, range(N // 2))])
    assert not recwarn.list


def test_days_and_months_that_cannot_be_told_apart(table):
    either = ["02/03/2023", "05/04/2023"] * (N // 2)
    with pytest.warns(
        UserWarning, match=r"'02/03/2023' are read with the month first; write them as 2021-"
    ):
        column(table, either)
    _, _, iso = column(table, DAYS.strftime("%Y-%m-%d").tolist())
    with pytest.raises(ValueError, match=r"column 'column': dates such as '02/03/2023' were not"):
        iso.transform(table({**GOOD, "column": either}))
    _, _, day_first = column(table, DAYS.strftime("%d/%m/%Y").tolist())
    dotted = [date.replace("/", ".") for date in either]
    first, second = (
        day_first.transform(table({**GOOD, "column": each})) for each in (either, dotted)
    )
    np.testing.assert_allclose(first, second)


def test_truth_values_are_words_in_any_case(table):
    """Which of them a library reads as truth values differs."""
    for spelling in (("false", "true"), ("False", "True"), ("FALSE", "TRUE")):
        words = [spelling[i % 3 == 0] for i in range(N)]
        X = table({**GOOD, "column": words})
        encoder = TableEncoder(kinds={"column": "category"}).fit(X)
        read = table({**GOOD, "column": [i % 3 == 0 for i in range(N)]})
        np.testing.assert_array_equal(encoder.transform(read), encoder.transform(X))


@pytest.mark.parametrize("value", [1e70, -1e200, 1e307])
def test_values_far_beyond_those_in_fit_are_named(table, value):
    _, _, encoder = column(table, RNG.normal(size=N).tolist())
    far = table({**GOOD, "column": [0.5, value, *[1.5] * (N - 2)]})
    with pytest.raises(ValueError, match=re.escape(f"column 'column' holds {value:g}, far bey")):
        encoder.transform(far)


def test_one_row_of_a_category(table):
    kinds, _, encoder = column(table, ["often", "twice"] * 10 + ["common"] * 19 + ["once"])
    assert kinds == ["category"]  # pooled with no other word, it keeps its name
    assert "column=once" in encoder.get_feature_names_out()


def test_unseen_categories_are_at_the_centre(table):
    _, _, encoder = column(table, ["a", "b", "c", "d"] * 10)
    new = table({**GOOD, "column": ["never seen", "nor this"] * (N // 2)})
    with pytest.warns(
        UserWarning, match=r"not seen during fit: 'never seen', 'nor this' \(column 'column'\)"
    ):
        Z = encoder.transform(new)
    assert not Z[:, encoder.blocks_[-1].features].any()


def test_few_new_words_beside_rare_ones_are_expected(table):
    words = ["a"] * 24 + [f"rare {i}" for i in range(16)]
    encoder = column(table, words)[2]
    for n_new, told in ((16, 0), (17, 1)):
        X = table({**GOOD, "column": ["new"] * n_new + ["a"] * (N - n_new)})
        with collected_warnings() as collected:
            encoder.transform(X)
        assert len(collected) == told
        assert bool(encoder.unseen_categories(X)) == told
    with pytest.raises(NotFittedError):
        TableEncoder().unseen_categories(X)


def test_ranks_that_fit_did_not_have():
    sizes = pl.Series("size", ["S", "M", "L"] * 10, pl.Enum(["S", "M", "L"]))
    encoder = TableEncoder().fit(pl.DataFrame([sizes, pl.Series("x", range(0, 60, 2))]))
    new = pl.DataFrame({"size": ["XL", "S", None], "x": [1, 2, 3]})
    with pytest.warns(UserWarning, match="not seen during fit: 'XL' "):
        assert encoder.transform(new)[0, 0] == 0


def test_missing_columns_at_transform(table):
    encoder = column(table, ["a", "b"] * 20)[2]
    with pytest.raises(
        ValueError, match=r"no column 'column', which was present during fit; add it .* missing"
    ):
        encoder.transform(table(dict(reversed(GOOD.items()))))
    with pytest.raises(ValueError, match=r"it is unknown\. Is the first one 'Column'\?"):
        encoder.transform(table({**GOOD, "Column": ["a", "b"] * 20}))
    complete = encoder.set_params(missing="error")
    with pytest.raises(ValueError, match=r"fit had; add it under this name\.$"):
        complete.transform(table(GOOD))


def test_numbers_where_words_were_and_words_where_numbers_were(table):
    encoder = column(table, [1.0, 2.0] * 20)[2]
    with pytest.raises(ValueError, match="'column' holds 'x', which is not a number"):
        encoder.transform(table({**GOOD, "column": ["x"] * N}))
    codes = column(table, ["1", "2"] * 20, kinds={"column": "category"})[2]
    Z = codes.transform(table({**GOOD, "column": [1, 2] * 20}))
    assert len(np.unique(Z[:, -1])) == 2


def test_copies_of_names():
    X = pd.concat([pd.DataFrame(GOOD), pd.DataFrame(GOOD)[["x"]]], axis=1)
    with pytest.raises(ValueError, match="more than one column 'x'"):
        TableEncoder().fit(X)
    encoder = TableEncoder().fit(pd.DataFrame(GOOD))
    with pytest.raises(ValueError, match="more than one column 'x'; rename them, or drop the cop"):
        encoder.transform(X)
    unused = pd.DataFrame(np.zeros((N, 2)), columns=["more", "more"])
    with pytest.raises(ValueError, match="more than one column 'more'"):
        encoder.transform(pd.concat([pd.DataFrame(GOOD), unused], axis=1))


def test_nothing_left(table):
    with pytest.raises(ValueError, match=r"no column to learn from \('a': constant; 'b': all"):
        TableEncoder().fit(table({"a": [1] * N, "b": [None] * N}))


def test_cells_that_are_no_values():
    for X in (pd.DataFrame({"c": [{"a": 1}] * N}), pl.DataFrame({"c": [[1, 2]] * N})):
        with pytest.raises((TypeError, ValueError), match="column 'c' holds"):
            TableEncoder().fit(X)


def test_infinite_numbers(table):
    with pytest.raises(ValueError, match="infinity, in column 'column' at row 3"):
        column(table, [1.0, 2.0, 3.0, np.inf] * 10)


def test_categories_that_spell_numbers_or_dates_are_words():
    numerals, days = ["3", "4", "5", "3"] * 10, ["2024-01-01", "2024-01-02"] * 20
    pandas_ = pd.DataFrame({"a": pd.Categorical([3, 4, 5, 3] * 10), "b": pd.Categorical(days)})
    polars_ = pl.DataFrame({"a": numerals, "b": days}, schema=dict.fromkeys("ab", pl.Categorical))
    encoded = []
    for X in (pandas_, polars_):
        encoder = TableEncoder().fit(X)
        assert [block.kind for block in encoder.blocks_] == ["category", "category"]
        encoded.append(encoder.transform(X))
    np.testing.assert_array_equal(*encoded)


def test_dtypes_of_numbers():
    X = pl.DataFrame(
        {
            "decimal": pl.Series(["1.5", "2.5", "3"] * 5).cast(pl.Decimal(10, 2)),
            "time": pl.Series([10**12, 2 * 10**12, 0] * 5).cast(pl.Time),
            "span": pl.Series([1, 2, None] * 5).cast(pl.Duration("ms")),
            "small": pl.Series([1, 2, 3] * 5, dtype=pl.UInt8),
        }
    )
    encoder = TableEncoder(missing="center").fit(X)
    assert [block.kind for block in encoder.blocks_] == ["number", "time", "number", "number"]
