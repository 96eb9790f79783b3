"""What the columns and the label of a file are taken for, and what is said about it."""

import numpy as np
import polars as pl
import pytest

from conemetric import TableEncoder, load_metric
from conemetric.cli.learn import Learn
from conemetric.cli.options import Supervised
from conemetric.cli.reading.loading import load_task
from conemetric.cli.reading.reading import Reading as BareReading
from conemetric.cli.reading.tables import read_table
from conemetric.studies.task import table_encoder


@pytest.fixture(autouse=True)
def no_report(monkeypatch):
    """The report has tests of its own."""
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)


def table_of_labels(path, labels):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=len(labels)), "z": rng.normal(size=len(labels))}
    pl.DataFrame({**rows, "y": labels}).write_csv(path)
    return load_task(str(path), Learn(data=str(path), label="y"))


def test_the_task_of_numbers_is_told_with_the_option_for_the_other(tmp_path):
    rng, n = np.random.default_rng(0), 2000
    rented = rng.gamma(1.2, 600, n).astype(int)
    grades = rng.binomial(20, 0.5, n)
    cases = {
        "counts": (rented, "quantity", f"{len(np.unique(rented)):,} whole numbers, taken as a qua"),
        "grades": (grades, "labels", f"{len(np.unique(grades))} whole numbers, taken as classes"),
        "stars": (
            rng.integers(1, 11, n) / 2,
            "quantity",
            "10 numbers, some with a fraction, taken",
        ),
        "codes": (rng.integers(1, 4, n), "labels", ""),
        "lengths": (rng.normal(size=n).round(4), "quantity", ""),
        "words": (rng.choice(["a", "b"], n), "labels", ""),
    }
    options = {"quantity": "--target classes", "labels": "--target continuous"}
    for name, (labels, kind, said) in cases.items():
        table, task, _ = table_of_labels(tmp_path / "table.csv", labels)
        assert task.kind == kind, name
        told = [note for note in table.notes if note.startswith("Labels:")]
        assert len(told) == bool(said), name
        assert not said or (said in told[0] and options[kind] in told[0]), name


@pytest.mark.parametrize(
    ("labels", "words"),
    [(range(0, 6000, 20), "y, a quantity"), ([*"abc"] * 100, "y, 3 classes")],
)
def test_the_title_tells_the_task(run, tmp_path, labels, words):
    path = tmp_path / "table.csv"
    table_of_labels(path, labels)
    usual = ("--label", "y", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    result = run("learn", path, *usual)
    title = next(line for line in result.out.splitlines() if line.startswith("table:"))
    assert f"learning to predict {words}: 300 rows" in title
    assert words in run("learn", path, *usual, "--overwrite", "--json").json["task"]


# ---- how columns are read


def dates(form):
    days = np.datetime64("2014-01-05") + np.arange(60) * 11
    return [day.item().strftime(form) for day in days]


NUMBERS = np.random.default_rng(0).lognormal(4, 1, 60).round(2)
COLUMNS = {
    "money": ([f"${v:,.2f}" for v in NUMBERS], "number", "Money: 'c' ('$"),
    "debts": ([f"(${v:,.2f})" for v in NUMBERS], "number", "Money: 'c' ('($"),
    "euros": ([f"{v} €".replace(".", ",") for v in NUMBERS], "number", " €' is "),
    "percent": ([f"{v}%" for v in NUMBERS], "number", "Percentages: 'c' ('"),
    "unit": ([f"{v} km" for v in NUMBERS], "number", "Numbers in km: 'c' ('"),
    "thousands": ([f"{v * 1000:,.0f}" for v in NUMBERS], "number", "Numbers: 'c' ('"),
    "placeholder": (
        ["-" if i % 3 else f"${v}M" for i, v in enumerate(NUMBERS)],
        "number",
        "'-' as m",
    ),
    "not a number": (
        ["Varies with device" if i < 20 else f"{v}M" for i, v in enumerate(NUMBERS)],
        "number",
        "'c' has 20 entries that are not numeric (first: 'Varies with device'), taken as missing",
    ),
    "American": (dates("%m/%d/%y"), "date", "Dates: 'c' ('01/05/14' is 2014-01-05), as elapsed"),
    "named": (dates("%d-%b-%y"), "date", "Dates: 'c' ('05-Jan-14' is 2014-01-05), as"),
    "in full": (dates("%B %d, %Y"), "date", "('September 04, 2014' is 2014-09-04), as elapsed"),
    "compact": (dates("%m%d%Y"), "date", "Dates: 'c' ('01052014' is 2014-01-05)"),
    "ambiguous": (
        ["02/03/2014", "04/05/2014"] * 30,
        "date",
        "cannot be told apart, and the month is",
    ),
    "iso": (dates("%Y-%m-%d"), "date", "Dates: 'c', as elapsed time"),
    "clock": ([f"{7 + i % 12}:{i:02}" for i in range(60)], "time", "Times of day: 'c' ('"),
    "duration": (
        [f"{i % 9 + 1}h {i}m" for i in range(60)],
        "number",
        "Durations in seconds: 'c' ('",
    ),
}


def written(path, column, name="c"):
    n = len(column)
    rows = {"w": ["u", "v", "v", "v"] * (n // 4), name: column, "y": ["a", "b"] * (n // 2)}
    frame = pl.DataFrame(rows)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return path


def test_columns_are_read_as_what_they_spell_and_a_line_says_so(tmp_path):
    for name, (column, kind, said) in COLUMNS.items():
        path = written(tmp_path / "table.csv", column)
        table = read_table(path, Supervised(label="y"))
        encoder = table_encoder(table.X, table.kinds).fit(table.X)
        assert encoder.columns_[1].kind == kind, name
        notes = [
            note for note in table.notes if "'c'" in note and not note.startswith("Missing values")
        ]
        assert len(notes) == 1 + (name == "not a number"), (name, notes)
        assert said in " ".join(notes), (name, notes)
        if name != "compact":  # which is text in Parquet
            parquet = written(tmp_path / "table.parquet", column)
            same = read_table(parquet, Supervised(label="y")).X
            assert same["c"].to_list() == table.X["c"].to_list(), name
        words = read_table(path, Supervised(label="y", categorical=["c"]))
        assert words.kinds == {}, name
        assert "takes all as categories" not in " ".join(words.notes), name


def test_columns_that_are_read_alike_share_a_line(tmp_path):
    """Such as all of an export in which #NULL! means a missing value."""
    numbers = [str(i * 7 % 11) for i in range(40)]
    columns = {f"q{i}": ["#NULL!", *numbers[1:]] for i in range(8)}
    columns |= {f"p{i}": [f"{number}%" for number in numbers] for i in range(3)}
    frame = pl.DataFrame({**columns, "worth": ["$1B", "$2B"] * 20, "y": ["a", "b"] * 20})
    frame.write_csv(tmp_path / "t.csv")
    notes = read_table(tmp_path / "t.csv", Supervised(label="y")).notes
    named = "'q0', 'q1', 'q2', 'q3', 'q4', 'q5' and 2 more"
    missing = "('10' is 10; '#NULL!' as missing)"
    assert f"Numbers: {named} {missing}; --categorical COLUMN takes all as categories." in notes
    assert sum(note.startswith("Percentages: ") for note in notes) == 3  # few have one each
    assert (
        "Money: 'worth' ('$1B' is 1,000,000,000); --categorical worth takes all as categories."
        in notes
    )


@pytest.mark.parametrize(
    ("true", "false"), [("Yes yes Y", "no N"), ("TRUE True t", "F FALSE"), ("Yes TRUE", "No FALSE")]
)
def test_booleans_in_several_spellings(tmp_path, true, false):
    """As where several people filled in a table; labels keep the more common word."""
    rng = np.random.default_rng(0)
    known = {word: True for word in true.split()} | {word: False for word in false.split()}
    words = [*known, *rng.choice([*known], 40 - len(known)).tolist()]
    numbers = rng.normal(size=40)
    frame = pl.DataFrame({"x": numbers, "c": [*words[:-1], None], "y": words})
    frame.write_csv(tmp_path / "t.csv")
    table = read_table(tmp_path / "t.csv", Supervised(label="y"))
    assert table.X["c"].to_list() == [*(known[word] for word in words[:-1]), None]
    labels = np.array([known[word] for word in words])
    assert len(set(table.labels[labels])) == len(set(table.labels[~labels])) == 1
    common = max(true.split(), key=words.count)
    assert words.count(table.labels[labels][0]) == words.count(common)
    assert sum(note.startswith("Booleans: 'c' (") for note in table.notes) == 1
    assert sum(note.startswith("Booleans: 'y' (") for note in table.notes) == 1
    encoder = table_encoder(table.X, table.kinds).fit(table.X)
    new = frame.with_columns(c=pl.Series([*true.split(), *false.split()] * 20)[:40])
    new.write_csv(tmp_path / "new.csv")
    read = read_table(tmp_path / "new.csv", BareReading(), encoder)
    features = encoder.transform(read.X)[:, 1:3]
    assert len(np.unique(features, axis=0)) == 2 and not read.notes
    as_words = read_table(tmp_path / "t.csv", Supervised(label="y", categorical=["c"]))
    assert as_words.X["c"].n_unique() > 3


@pytest.mark.parametrize(
    "words", [["Yes", "No"], ["y", "n", "t"], ["yes", "Yes"], ["no", "Yes", "maybe", "No"]]
)
def test_other_words_are_no_truth_values(tmp_path, words):
    frame = pl.DataFrame(
        {"x": np.arange(24.0) ** 2, "c": words * (24 // len(words)), "y": ["a", "b"] * 12}
    )
    frame.write_csv(tmp_path / "t.csv")
    table = read_table(tmp_path / "t.csv", Supervised(label="y"))
    assert table.X["c"].to_list() == frame["c"].to_list()


def test_new_rows_are_read_as_those_learned_from(tmp_path):
    for name, (column, _, _) in COLUMNS.items():
        if name == "ambiguous":
            continue
        path = written(tmp_path / "table.csv", column)
        table = read_table(path, Supervised(label="y"))
        encoder = table_encoder(table.X, table.kinds).fit(table.X)
        encoder = type(encoder).from_state(encoder.state())
        expected = encoder.transform(table.X)
        again = read_table(path, BareReading(), encoder)
        np.testing.assert_allclose(encoder.transform(again.X), expected, err_msg=name)
        few = read_table(written(tmp_path / "few.csv", column[-4:]), BareReading(), encoder)
        at = encoder.blocks_[1].features
        np.testing.assert_allclose(encoder.transform(few.X)[:, at], expected[-4:, at], err_msg=name)
        assert not [note for note in few.notes if "missing" in note and name != "not a number"], (
            name
        )


def test_predict_reads_money_and_dates_as_learn_did(run, tmp_path):
    rng = np.random.default_rng(0)
    prices = rng.lognormal(5, 1, 200).round(2)
    days = np.datetime64("2014-01-05") + rng.integers(0, 2000, 200)
    rows = {
        "price": [f"${p:,.2f}" for p in prices],
        "day": [day.item().strftime("%d/%m/%y") for day in days],
        "at": [
            f"{h}:{m:02}"
            for h, m in zip(rng.integers(0, 24, 200), rng.integers(0, 60, 200), strict=True)
        ],
        "sold": np.where(prices > np.median(prices), "yes", "no"),
    }
    path, out = tmp_path / "sales.csv", tmp_path / "out"
    pl.DataFrame(rows).write_csv(path)
    result = run("learn", path, "--label", "sold", "--out", out, "--json")
    assert result.code == 0, result.err
    assert result.json["decision"]["error"] < 0.1
    new = {**rows, "price": [f"${p / 1000:.4g}K" for p in prices], "day": [f"{d}" for d in days]}
    pl.DataFrame(new).write_csv(tmp_path / "new.csv")
    predicted = []
    for file in (path, tmp_path / "new.csv"):
        decision = ("--decision", out / "decision.safetensors")
        answer = run("predict", file, *decision, "--rows", "0", "--json").json
        predicted.append([row["class"] for row in answer["predictions"]])
    assert np.mean(np.array(predicted[0]) == rows["sold"]) > 0.95
    assert np.mean(np.array(predicted[0]) == predicted[1]) > 0.97  # four digits of a price


def test_labels_that_spell_a_quantity(tmp_path):
    cases = {
        "money": ([f"${v}M" for v in NUMBERS[:-1]] + ["-"], "quantity", "Money: 'y'"),
        "percent": ([f"{v}%" for v in NUMBERS], "quantity", "Percentages: 'y'"),
        "thousands": ([f"{1000 + 37 * i:,}" for i in range(60)], "quantity", "Numbers: 'y'"),
        "stars": (["1 star", "2 stars", "3 stars"] * 20, "labels", ""),
        "incomes": (["50000+.", "- 50000."] * 30, "labels", ""),
        "dates": (dates("%m/%d/%y"), "labels", ""),
        "words": (["a", "b", "c"] * 20, "labels", ""),
    }
    for name, (labels, kind, said) in cases.items():
        path = tmp_path / "table.csv"
        pl.DataFrame({"x": np.arange(60) % 7, "z": NUMBERS, "y": labels}).write_csv(path)
        table, task, _ = load_task(str(path), Learn(data=str(path), label="y"))
        assert task.kind == kind, name
        assert said in " ".join(table.notes), name
        assert task.n_rows == 60 - (name == "money")
        if name == "money":
            np.testing.assert_allclose(task.y, NUMBERS[:-1] * 1e6)
        table, task, _ = load_task(str(path), Learn(data=str(path), label="y", target="classes"))
        assert task.kind == "labels" and set(task.y) == set(labels), name


def test_numbers_that_are_asked_for_are_read_too(tmp_path):
    words = [f"${v}" if i % 2 else "sold out" for i, v in enumerate(NUMBERS)]
    path = written(tmp_path / "table.csv", [*words[:12], *(["none left", "soon"] * 24)])
    table = read_table(path, Supervised(label="y", numeric=["c"]))
    assert table.X["c"][:12].drop_nulls().to_list() == NUMBERS[1:12:2].tolist()
    assert "'c' has 54 entries that are not numeric" in " ".join(table.notes)


def test_a_hint_quotes_a_name_with_spaces(tmp_path):
    for name, argument in {
        "list price": '--categorical "list price"',
        "price": "--categorical price",
        "$ price": "--categorical '$ price'",
        "l'prix": """--categorical "l'prix\"""",
    }.items():
        path = written(tmp_path / "table.csv", COLUMNS["money"][0], name)
        notes = " ".join(read_table(path, Supervised(label="y")).notes)
        assert f"; {argument} takes all as categories." in notes


def test_many_files_are_read_as_the_first_one_is(run, tmp_path):
    pytest.importorskip("dask")
    rng = np.random.default_rng(0)
    prices = rng.lognormal(5, 1, 300).round(2)
    rows = pl.DataFrame(
        {
            "price": [f"${p:,.2f}" for p in prices],
            "day": ["7/11/14", "25/12/13", "1/2/15"] * 100,
            "rate": [f"{v}%" for v in rng.integers(0, 99, 300)],
            "y": np.where(prices > 150, "dear", "cheap"),
        }
    )
    for part in range(3):
        rows[part * 100 : part * 100 + 100].write_parquet(tmp_path / f"part-{part}.parquet")
    out = tmp_path / "out"
    options = ("--label", "y", "--method", "frob", "--out", out, "--json")
    result = run("learn", str(tmp_path / "part-*.parquet"), *options)
    assert result.code == 0, result.err
    notes = " ".join(result.json["notes"])
    assert "Money: 'price'" in notes and "Percentages: 'rate'" in notes and "Dates: 'day'" in notes
    metric = load_metric(out / "metric.safetensors")
    kinds = {column.name: column for column in metric.encoder.columns_}
    assert kinds["price"].spelling.currency == "$" and kinds["day"].formats == ["%d/%m/%y"]
    whole = TableEncoder().fit(rows.drop("y"))
    new = pl.DataFrame({"price": ["$5"], "day": ["2/3/14"], "rate": ["3%"]})
    assert metric.transform(new).shape[0] == 1
    assert [c.kind for c in whole.columns_] == [c.kind for c in metric.encoder.columns_]


# ---- columns that give the label away


@pytest.mark.parametrize("many", [False, True])
def test_a_column_that_gives_the_label_away_is_named_with_the_option(run, tmp_path, many):
    rng = np.random.default_rng(0)
    survived = rng.integers(0, 2, 400)
    rows = pl.DataFrame(
        {
            "age": rng.normal(size=400),
            "is alive": np.array(["no", "yes"])[survived],
            "fare": rng.normal(size=400) + survived,
            "survived": survived,
        }
    )
    path, data = tmp_path / "part-0.csv", tmp_path / "part-0.csv"
    rows.write_csv(path)
    if many:
        pytest.importorskip("dask")
        path, data = tmp_path / "part-0.parquet", tmp_path / "part-*.parquet"
        rows.write_parquet(path)
    usual = ("--label", "survived", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    said = "'is alive' alone predicts 'survived' (held-out error 0.0%); if it is known only afterwards, "
    said += 'pass --ignore "is alive".'
    assert said in run("learn", str(data), *usual, "--json").json["notes"]
    lines = run("learn", str(data), *usual, "--overwrite").out.splitlines()
    assert lines.count(said) == 1
    assert lines.index(said) > next(i for i, line in enumerate(lines) if "Euclidean" in line)
    ignored = run("learn", str(data), *usual, "--overwrite", "--ignore", "is alive").out
    assert "alone predicts" not in ignored
