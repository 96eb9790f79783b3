"""What a command advises, it has: every option in a message is one of that command."""

import inspect
import re

import numpy as np
import polars as pl
import pytest
from cases import pairs_of
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from conemetric import (
    CollapsedMetricWarning,
    FrobMetric,
    MetricClassifier,
    RelevanceMetric,
    load_metric,
    save_metric,
)
from conemetric.cli import app
from conemetric.cli.app import COMMANDS as FUNCTIONS
from conemetric.cli.options import options_of
from conemetric.cli.wording import plural
from conemetric.ranking.judgements import check_relevance
from conemetric.studies.advice import in_options

X, y = load_wine(return_X_y=True)
NAMES = [f"f{i}" for i in range(13)]
COMMANDS = ("learn", "compare", "compress", "embed", "neighbors", "verify")


@pytest.fixture(scope="module")
def filling(tmp_path_factory):
    """A metric that fills missing values, and one that does not."""
    folder = tmp_path_factory.mktemp("metrics")
    for name, first in (("filling", [SimpleImputer()]), ("plain", [])):
        fitted = make_pipeline(*first, StandardScaler(), FrobMetric(max_iter=20)).fit(X, y)
        save_metric(folder / f"{name}.safetensors", fitted, feature_names=NAMES)
    return folder


def arguments(command, path, pairs, metric, out):
    used, label = ("--metric", metric), ("--label", "kind")
    return {
        "learn": ("learn", path, *label, "--method", "frob", "--no-decision", "--out", out),
        "compare": ("compare", path, *label, "--method", "frob", "--out", out),
        "compress": ("compress", path, *label, "--max-rows", "40", "--delta", "0.6", "--out", out),
        "embed": ("embed", path, *used, "--out", out.with_suffix(".csv")),
        "neighbors": ("neighbors", path, *used),
        "verify": ("verify", pairs, "--data", path, *used, "--id", "bottle"),
    }[command]


FAULTS = {
    "missing": lambda f: f.with_columns(f1=pl.when(pl.col("f1") > 2).then(None).otherwise("f1")),
    "one missing": lambda f: f.with_columns(
        f1=pl.when(pl.int_range(pl.len()) == 7).then(None).otherwise("f1")
    ),
    "all missing": lambda f: f.with_columns(f1=pl.lit(None, pl.Float64)),
    "infinite": lambda f: f.with_columns(f1=pl.lit(float("inf"))),
    "huge": lambda f: f.with_columns(f1=pl.lit(-1e308)),
    "slip": lambda f: f.with_columns(
        f1=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("l.5")).otherwise("f1")
    ),
    "row number": lambda f: f.with_columns(f1=pl.int_range(pl.len())),
    "no column": lambda f: f.drop("f1"),
}


@pytest.fixture(scope="module")
def options():
    """Of every command, by its help."""
    runner = CliRunner()
    texts = {name: runner.invoke(app, [name, "--help"]).output for name in COMMANDS}
    return {name: set(re.findall(r"--[a-z][a-z-]*", text)) for name, text in texts.items()}


@pytest.mark.cases(6)
@pairs_of(command=COMMANDS, fault=FAULTS, kind=("csv", "parquet"))
def test_every_remedy_is_an_option_of_the_command(
    run, frame, pairs, filling, options, tmp_path, monkeypatch, command, kind, fault
):
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)
    path = tmp_path / f"data.{kind}"
    getattr(FAULTS[fault](frame), f"write_{kind}")(path)
    metric = filling / "plain.safetensors"
    result = run(*arguments(command, path, pairs, metric, tmp_path / "out"))
    assert result.code in (0, 2) and "internal error" not in result.err
    said = set(re.findall(r"--[a-z][a-z-]*", result.err + result.out))
    assert said <= options[command], said - options[command]
    assert not re.search(r"\b1 (rows|columns|features|values|pairs)\b", result.err + result.out)


@pytest.mark.parametrize("command", ["embed", "neighbors"])
def test_rows_with_missing_values_can_be_left_out(run, frame, filling, tmp_path, command):
    path = tmp_path / "data.csv"
    FAULTS["missing"](frame).write_csv(path)
    metric = filling / "plain.safetensors"
    args = arguments(command, path, None, metric, tmp_path / "out")
    result = run(*args)
    assert result.code == 2 and "--drop-missing" in result.err
    result = run(*args, "--drop-missing", "--json")
    assert result.code == 0
    assert any(note.startswith("Dropped: ") for note in result.json["notes"])


def test_the_euclidean_distance_is_imputed_as_the_learned_one_is(
    run, frame, pairs, filling, tmp_path
):
    path, metric = tmp_path / "data.csv", filling / "filling.safetensors"
    FAULTS["missing"](frame).write_csv(path)
    fill = load_metric(metric).fill
    filled = FAULTS["missing"](frame).with_columns(f1=pl.col("f1").fill_null(fill[1]))
    filled.write_csv(tmp_path / "filled.csv")
    answers = [
        run("verify", pairs, "--data", file, "--metric", metric, "--id", "bottle", "--json").json
        for file in (path, tmp_path / "filled.csv")
    ]
    for name in ("euclidean", "learned"):
        assert answers[0][name] == pytest.approx(answers[1][name])


@pytest.mark.parametrize("width", [1, 12, 14])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("holes", [False, True])
def test_an_array_of_the_wrong_width_is_named(filling, width, dtype, holes):
    rows = np.ones((4, width), dtype)
    rows[0, 0] = np.nan if holes else 1
    with pytest.raises(ValueError, match=rf"\(4, {width}\); the metric takes rows of 13"):
        load_metric(filling / "filling.safetensors").transform(rows)


def test_pairs_that_contradict_each_other_are_reported(run, csv, filling, tmp_path):
    names = {"one": ["b0", "b1", "b2", "b3"] * 8, "other": ["b1", "b0", "b3", "b2"] * 8}
    path = tmp_path / "pairs.csv"
    pl.DataFrame({**names, "same": [1, 0, 1, 1] * 8}).write_csv(path)
    metric = filling / "plain.safetensors"
    args = ("--data", csv, "--metric", metric, "--id", "bottle", "--folds", "2", "--json")
    notes = " ".join(run("verify", path, *args).json["notes"])
    assert "1 pair in 'pairs.csv' marked both same and different" in notes


@pytest.mark.parametrize("repeats", [2, 3])
@pytest.mark.parametrize("order", [1, -1])
def test_judgements_that_contradict_each_other_are_warned_about(repeats, order):
    rows = [*[[0, 4, grade] for grade in range(repeats)][::order], [1, 0, 1], [1, 0, 1]]
    with pytest.warns(UserWarning, match=r"document 4 for query 0 both .*pairs: 1") as caught:
        judged = check_relevance(rows, 2, 5)
    assert len(caught) == 1 and judged.grade.tolist() == [repeats - 1, 1]


def test_equal_judgements_are_not_warned_about(recwarn):
    check_relevance([[0, 1, 1], [0, 1, 1], [1, 1, 2]], 2, 3)
    assert not recwarn


def test_no_command_advises_a_parameter(run):
    with pytest.raises(ValueError, match="pass C as a number") as few:
        RelevanceMetric().fit(np.eye(3), documents=np.eye(3), relevance=[[0, 0], [1, 1]])
    assert "C as a number" not in in_options(few.value)
    with pytest.raises(ValueError, match="pass C as a number") as torn:
        FrobMetric().fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])
    assert "C as a number" not in in_options(torn.value)
    line, alternating = np.arange(40.0)[:, None] * [[1.0, 0.5]], np.arange(40) % 2
    with pytest.warns(CollapsedMetricWarning, match="n_impostors") as useless:
        FrobMetric().fit(line, alternating)
    (advice,) = (in_options(each.message) for each in useless)
    assert advice.endswith("try another --method, or keep the Euclidean distance.")
    decision = MetricClassifier(metric=None).fit(line, alternating)
    for alpha in (0, 0.001):
        with pytest.raises(ValueError, match="alpha") as wrong:
            decision.predict_set(line, alpha)
        advice = in_options(wrong.value)
        assert advice.startswith(f"--alpha {alpha} ") and not re.search(r"(?<!-)\balpha", advice)


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2000, "row", "2,000 rows"),
        (2, "query", "2 queries"),
    ],
)
def test_plural(n, noun, text):
    assert plural(n, noun) == text


def test_help_tells_one_default_only():
    """Words about a default go with options that have no value then."""
    told = []
    for command in FUNCTIONS:
        for option in options_of(inspect.signature(command).parameters["given"].annotation):
            help_text = option.annotation.__metadata__[0].help or ""
            if "default:" in help_text and option.default is not inspect.Parameter.empty:
                told.append((command.__name__, option.name, option.default))
    assert told and [each for each in told if each[2] is not None] == []
