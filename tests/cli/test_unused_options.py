"""Options that a combination leaves no use for are refused: each message names the option, its value and
what to do. None of them is silently ignored.
"""

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric
from conemetric.datasets import load_bundled
from conemetric.decisions.classifier import MetricClassifier
from conemetric.storage import save_decision, save_metric
from conemetric.tables import TableEncoder

X, y = load_wine(return_X_y=True)
pytestmark = pytest.mark.usefixtures("no_report")


def assert_refused(result, *words):
    message = " ".join(result.err.split())
    assert result.code == 2, message
    for each in words:
        assert each in message


@pytest.fixture
def metric(tmp_path):
    path = tmp_path / "metric.safetensors"
    learned = FrobMetric(tol=0.1).fit(StandardScaler().fit_transform(X), y)
    save_metric(path, learned, feature_names=[f"f{i}" for i in range(13)])
    return path


# ---- adapt


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "pgvector"), ("--target pgvector", "--lexical or --scores FILE")),
        (("--normalization", "range"), ("--normalization range", "--lexical or --scores FILE")),
        (("--language", "german"), ("--language german", "pass --lexical")),
        (("--server", "postgresql://x"), ("--server postgresql://x", "--target pgvector")),
        (("--lexical", "--server", "postgresql://x"), ("--server postgresql://x",)),
        (("--encode", "model"), ("--encode model", "holds vectors only")),
        (("--test-size", "0.4"), ("--test-size 0.4", "says itself which queries")),
    ],
)
def test_adapt(run, tmp_path, options, words):
    points = np.random.default_rng(0).normal(size=(20, 4))
    collection = {
        "queries": points,
        "documents": points,
        "relevance": np.column_stack([np.arange(20)] * 2),
        "split": np.array(["train", "test"] * 10),
    }
    np.savez(tmp_path / "collection.npz", **collection)
    out = tmp_path / "out"
    assert_refused(run("adapt", tmp_path / "collection.npz", *options, "--out", out), *words)
    assert not out.exists()


# ---- learn, compare and compress


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (("--label", "brand"), "--label brand"),
        (("--labels", "{}"), "--labels"),
        (("--id", "name"), "--id name"),
        (("--ignore", "width"), "--ignore width"),
        (("--categorical", "width"), "--categorical width"),
        (("--numeric", "width"), "--numeric width"),
        (("--separator", ";"), "--separator"),
        (("--decimal", ","), "--decimal"),
        (("--encoding", "latin-1"), "--encoding latin-1"),
        (("--no-header",), "--no-header"),
        (("--missing", "-999"), "--missing -999"),
    ],
)
def test_options_of_a_file_without_a_file(run, csv, tmp_path, options, option):
    options = [each.format(csv) for each in options]
    assert_refused(
        run("learn", *options, "--out", tmp_path / "out"), option, "'vehicle'", "name the file"
    )


@pytest.mark.parametrize("kind", ["npy", "parquet"])
@pytest.mark.parametrize(
    ("options", "option"),
    [
        (("--separator", ";"), "--separator"),
        (("--decimal", ","), "--decimal"),
        (("--encoding", "latin-1"), "--encoding latin-1"),
        (("--header",), "--header"),
    ],
)
def test_options_of_csv_for_other_files(run, frame, tmp_path, kind, options, option):
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, X)
    else:
        frame.select(pl.col("^f.*$")).write_parquet(path)
    result = run("compress", path, *options, "--out", tmp_path / "out")
    assert_refused(result, option, f"rows.{kind}", "leave the option out")


@pytest.mark.parametrize("option", ["--ignore", "--categorical", "--numeric"])
def test_columns_of_arrays(run, tmp_path, option):
    np.save(tmp_path / "rows.npy", X)
    result = run("compress", tmp_path / "rows.npy", option, "f1", "--out", tmp_path / "out")
    assert_refused(result, f"{option} f1", "rows.npy", "leave the option out")


@pytest.mark.parametrize(
    "options",
    [
        ("--categorical", "f1", "--numeric", "f1"),
        ("--ignore", "f1", "--categorical", "f1"),
        ("--id", "bottle", "--categorical", "bottle"),
        ("--numeric", "kind"),
        ("--groups", "note", "--categorical", "note"),
    ],
)
def test_two_roles_of_one_column(run, csv, tmp_path, options):
    result = run("learn", csv, "--label", "kind", *options, "--out", tmp_path / "out")
    assert_refused(result, options[-2], "both name the column", options[-1], "leave one out")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--max-rows", "100"), ("--max-test-rows", "50"), ("--neighbors", "5")],
)
@pytest.mark.parametrize("command", ["learn", "compare"])
def test_options_of_labels_with_pairs(run, csv, pairs, tmp_path, command, option, value):
    usual = (command, csv, "--id", "bottle", "--ignore", "kind", "--pairs", pairs)
    result = run(*usual, option, value, "--out", tmp_path / "out")
    assert_refused(result, f"{option} {value}", "--pairs", "leave the option out")


def test_a_gap_for_several_methods(run, csv, tmp_path):
    result = run("learn", csv, "--label", "kind", "--tol", "0.01", "--out", tmp_path / "out")
    assert_refused(result, "--tol 0.01", "name a --method")


@pytest.mark.parametrize("command", ["learn", "compare"])
def test_an_encoded_table_is_scaled(run, frame, tmp_path, command):
    size = pl.Series("size", ["small", "large"] * 89)
    frame.with_columns(size).write_csv(tmp_path / "words.csv")
    usual = (command, tmp_path / "words.csv", "--label", "kind", "--method", "frob")
    result = run(*usual, "--scale", "none", "--out", tmp_path / "out")
    assert_refused(result, "--scale none", "leave the option out")


# ---- what uses a metric or a decision


def test_a_confidence_without_a_promise(run, csv, pairs, metric):
    usual = ("verify", pairs, "--data", csv, "--id", "bottle", "--metric", metric)
    result = run(*usual, "--confidence", "0.9")
    assert_refused(result, "--confidence 0.9", "--max-false-alarms RATE")


def test_a_dialect_of_sql_for_another_format(run, metric, tmp_path):
    usual = ("export", metric, "--to", "onnx", "--out", tmp_path / "metric.onnx")
    assert_refused(run(*usual, "--dialect", "duckdb"), "--dialect duckdb", "--to onnx", "--to sql")


def test_a_marker_of_csv_for_rows_to_embed(run, metric, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    usual = ("embed", tmp_path / "rows.npy", "--metric", metric, "--out", tmp_path / "Z.npy")
    assert_refused(run(*usual, "--missing", "-9"), "--missing", "rows.npy")
    assert_refused(run(*usual, "--separator", ";"), "--separator", "rows.npy")


def test_the_dialect_of_one_of_two_files(run, frame, metric, tmp_path):
    """Of a CSV file searched beside rows of another kind the dialect is that of the CSV file."""
    frame.write_csv(tmp_path / "rows.csv", separator=";")
    np.save(tmp_path / "rows.npy", X)
    usual = ("--metric", metric, "-k", 1, "--separator", ";", "--json")
    ways = (("rows.csv", "rows.npy"), ("rows.npy", "rows.csv"))
    for data, against in ways:
        result = run("neighbors", tmp_path / data, "--against", tmp_path / against, *usual)
        assert result.code == 0, result.err
        assert [row["neighbor"] for row in result.json["neighbors"]] == list(range(178))


def test_rows_with_gaps_that_a_decision_reads(run, csv, frame, tmp_path):
    table = frame.select(pl.col("^f.*$"))
    gaps = table.with_columns(f1=pl.when(pl.int_range(178) % 7 > 0).then("f1"))
    path = tmp_path / "decision.safetensors"
    decision = MetricClassifier(FrobMetric(tol=0.1), categorical_features=[]).fit(gaps, y)
    assert isinstance(decision.encoder_, TableEncoder)
    save_decision(path, decision)
    result = run("predict", csv, "--decision", path, "--drop-missing")
    assert_refused(result, "--drop-missing", "leave the option out")


def test_how_no_rows_are_chosen(run, tmp_path):
    result = run("predict", tmp_path / "rows.csv", "--explain", "targets", "--rows", "0")
    assert_refused(result, "--explain targets", "--rows 0", "leave one of them out")


def test_a_bundled_data_set_needs_none_of_them(run, tmp_path):
    assert load_bundled("vehicle").data.shape[1] == 18
    usual = ("learn", "vehicle", "--method", "frob", "--no-decision", "--max-rows", "60")
    result = run(*usual, "--max-test-rows", "50", "--out", tmp_path / "out", "--json")
    assert result.code == 0, result.err
