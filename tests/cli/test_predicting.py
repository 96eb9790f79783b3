"""``conemetric learn`` saves a decision, and ``conemetric predict`` decides as it does in Python."""

import csv as csv_module
import os
import shlex
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

from conemetric import (
    FrobMetric,
    MetricClassifier,
    MetricRegressor,
    load_decision,
    save_decision,
    save_metric,
)
from conemetric.cli import predicting
from conemetric.storage import certificate_values

X, y = load_wine(return_X_y=True)
KINDS = np.array(["Barolo", "Grignolino", "Barbera"])[y]
QUICK = {"labels": ("--label", "kind"), "quantity": ("--label", "f0", "--ignore", "kind")}


@pytest.fixture
def learned(run, csv, tmp_path, monkeypatch):
    """Learn from the file with these options; the answer and the folder."""
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)

    def learn(*options, data=csv):
        result = run("learn", data, *options, "--out", tmp_path / "out", "--json")
        assert result.code == 0, result.err
        return result.json, tmp_path / "out"

    return learn


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.costly
def test_predict_agrees_with_python(run, learned, csv, frame, tmp_path, kind, ids):
    named = ("--id", "bottle") if ids else ()
    frame = frame.gather_every(2)
    frame.write_csv(csv)
    answer, out = learned(*QUICK[kind], "--method", "frob", *named)
    with open(out / "table.csv", newline="") as file:
        table = {row["method"]: row for row in csv_module.DictReader(file)}
    estimator = load_decision(out / "decision.safetensors")
    name = "MetricClassifier" if kind == "labels" else "MetricRegressor"
    assert list(table)[2:] == [name, "random forest", "histogram boosting", "constant"]
    assert float(table[name]["error"]) == answer["decision"]["error"]

    columns = [f"f{i}" for i in range(13) if kind == "labels" or i > 0]
    rows = frame.select(columns).to_numpy()
    shuffled = tmp_path / "new.csv"
    frame.select("kind", "bottle", *columns[::-1]).write_csv(shuffled)
    command = ("predict", shuffled, "--decision", out / "decision.safetensors", "--alpha", 0.2)
    found = run(*command, *named, "--json").json["predictions"]
    why = estimator.explain(rows, 3)
    names = frame["bottle"].to_numpy() if ids else np.arange(len(frame))
    for i, row in enumerate(found):
        assert row["row"] == names[i]
        assert [by["row"] for by in row["decided_by"]] == names[why.rows[i]].tolist()
        np.testing.assert_allclose([by["share"] for by in row["decided_by"]], why.shares[i])
    if kind == "labels":
        assert [row["class"] for row in found] == estimator.predict(rows).tolist()
        probability = estimator.predict_proba(rows).max(1)
        np.testing.assert_allclose([row["probability"] for row in found], probability)
        sets = [estimator.classes_[s].tolist() for s in estimator.predict_set(rows, 0.2)]
        assert [row["set"] for row in found] == sets
    else:
        np.testing.assert_allclose([row["value"] for row in found], estimator.predict(rows))
        limits = [(row["low"], row["high"]) for row in found]
        np.testing.assert_allclose(limits, estimator.predict_interval(rows, 0.2))

    assert run(*command, *named, "--out", tmp_path / "predicted.csv").code == 0
    with open(tmp_path / "predicted.csv", newline="") as file:
        lines = list(csv_module.DictReader(file))
    assert [line["row"] for line in lines] == names.astype(str).tolist()
    assert [float(line["share_3"]) for line in lines] == [
        r["decided_by"][2]["share"] for r in found
    ]
    assert run(*command, *named).out.count("%") >= 20  # a table for people

    bare = run(*command, *named, "--rows", 0, "--json").json["predictions"]
    assert bare == [{**row, "decided_by": []} for row in found]
    shown = run(*command, *named, "--rows", 0).out
    assert "decided by" not in shown and str(names[0]) in shown


def test_rows_that_decide_little_are_called_that():
    def notes_on(share):
        named = [{"row": row, "share": share} for row in range(3)]
        return predicting._on_small_shares([{"decided_by": named}] * 5)

    (note,) = notes_on(-0.004)
    assert "1.2% of the score" in note and "--explain targets" in note
    assert notes_on(0.1) == [] and predicting._on_small_shares([{"decided_by": []}]) == []


def test_rows_are_chosen_by_their_targets_where_asked(run, learned, csv, frame):
    _, out = learned(*QUICK["labels"], "--method", "frob")
    estimator = load_decision(out / "decision.safetensors")
    rows = frame.select(f"f{i}" for i in range(13)).to_numpy()
    command = ("predict", csv, "--decision", out / "decision.safetensors", "--json")
    for options, by in (((), "terms"), (("--explain", "targets"), "targets")):
        why = estimator.explain(rows, 3, by=by)
        found = run(*command, *options).json["predictions"]
        shares = [[each["share"] for each in row["decided_by"]] for row in found]
        np.testing.assert_allclose(shares, why.shares)


@pytest.fixture
def ours_is_level(monkeypatch):
    """The verdict calls no row worse, so that learn ends with the command that predicts."""
    monkeypatch.setattr("conemetric.studies.verdict.Verdict.is_worse", lambda *_: False)


def last_command(result):
    """The words of the command that learn ends with, as a shell reads it."""
    return shlex.split(result.out.splitlines()[-1].partition(": conemetric ")[2])


@pytest.mark.skipif(os.name == "nt", reason="quoted for another shell")
@pytest.mark.parametrize("dialect", [False, True])
@pytest.mark.costly
def test_the_command_that_learn_ends_with_runs_as_it_is(
    run, frame, tmp_path, ours_is_level, dialect
):
    """Whatever spaces and quotes are in names, and however the file was read."""
    folder = tmp_path / "o'ther wines (red)"
    folder.mkdir()
    path = folder / "my wine.csv"
    options = [
        "--label",
        "kind",
        "--method",
        "frob",
        "--id",
        "a bottle",
        "--out",
        folder / "my out",
    ]
    frame = frame.rename({"bottle": "a bottle"})
    if dialect:
        frame.write_csv(path, separator=";", decimal_comma=True)
        options += ["--separator", ";", "--decimal", ",", "--encoding", "utf-8", "--header"]
    else:
        frame.write_csv(path)
    result = run("learn", path, *options)
    assert result.code == 0, result.err
    answer = run(*last_command(result), "--json")
    assert answer.code == 0, answer.err
    assert [row["row"] for row in answer.json["predictions"]] == frame["a bottle"].to_list()


def test_a_bundled_data_set_is_predicted_by_its_name(run, tmp_path, monkeypatch, ours_is_level):
    monkeypatch.chdir(tmp_path)
    result = run("learn", "iris", "--method", "frob")
    command = last_command(result)
    assert command[:2] == ["predict", "iris"]
    assert len(run(*command, "--json").json["predictions"]) == 150


def test_predict_takes_what_learn_wrote_last(run, csv, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nothing = run("predict", csv)
    assert nothing.code == 2 and "--decision" in nothing.err and "conemetric learn" in nothing.err
    names = [f"f{i}" for i in range(13)]
    for k, folder in enumerate(("conemetric-out-10", "conemetric-out", "conemetric-output")):
        path = tmp_path / folder / "decision.safetensors"
        path.parent.mkdir()
        decision = MetricClassifier(metric=None, classifier="neighbors", random_state=0)
        save_decision(path, decision.fit(frame.select(names), np.roll(KINDS, 40 * k)))
        os.utime(path, (k, k))
    answer = run("predict", csv, "--json").json
    assert answer["file"] == os.path.join("conemetric-out", "decision.safetensors")
    assert any(answer["file"] in note and "--decision" in note for note in answer["notes"])
    named = run("predict", csv, "--decision", answer["file"], "--json").json
    assert named["predictions"] == answer["predictions"]
    assert not any("wrote last" in note for note in named["notes"])
    os.utime(tmp_path / "conemetric-out-10" / "decision.safetensors", (9, 9))
    assert "conemetric-out-10" in run("predict", csv, "--json").json["file"]


def test_held_out_rows_are_judged_by_decisions_that_have_not_seen_them(learned, frame):
    """By the same split, beside scikit-learn's forest; then all rows are learned from."""
    answer, out = learned(*QUICK["labels"])
    held_out = pl.read_csv(out / "predictions.csv")["row"].to_numpy()
    learn = np.setdiff1d(np.arange(178), held_out)
    saved = load_decision(out / "decision.safetensors")
    rows = frame.select(f"f{i}" for i in range(13))
    judged = clone(saved).fit(rows[learn], KINDS[learn])
    wrong = judged.predict(rows[held_out]) != KINDS[held_out]
    everyone = judged.refit(rows, KINDS)
    np.testing.assert_allclose(saved.predict_proba(rows), everyone.predict_proba(rows), atol=1e-9)
    assert answer["decision"]["error"] == pytest.approx(wrong.mean())
    shown = pl.read_csv(out / "predictions.csv")
    assert (shown["MetricClassifier"] != shown["true"]).mean() == pytest.approx(wrong.mean())
    forest = RandomForestClassifier(10, random_state=0).fit(X[learn], KINDS[learn])
    assert answer["compared"][0]["error"] == pytest.approx(
        1 - forest.score(X[held_out], KINDS[held_out])
    )


def test_missing_values_and_words_are_treated_as_when_learning(run, learned, frame, tmp_path):
    words = np.where(np.arange(178) % 5 == 0, "red", "dark red")
    holes = frame.with_columns(
        note=pl.Series(words), f3=pl.when(pl.int_range(178) % 7 > 0).then(pl.col("f3"))
    )
    holes.write_csv(tmp_path / "holes.csv")
    _, out = learned(*QUICK["labels"], "--method", "frob", data=tmp_path / "holes.csv")
    decision = load_decision(out / "decision.safetensors")
    assert {each.name: each.kind for each in decision.encoder_.columns_}["note"] == "category"
    new = holes.with_columns(
        note=pl.when(pl.int_range(178) % 2 == 0).then(pl.lit("violet")),
        f5=pl.when(pl.int_range(178) % 3 > 0).then(pl.col("f5")),
    )
    new.select(reversed(new.columns)).write_csv(tmp_path / "new.csv")  # in another order
    args = ("--decision", out / "decision.safetensors")
    answer = run("predict", tmp_path / "new.csv", *args, "--json")
    result = answer.json["predictions"]
    unseen = "Categories not seen during fit: 'violet' (column 'note'); they are encoded at the column mean"
    assert len([note for note in answer.json["notes"] if unseen in note]) == 1 and not answer.err
    with pytest.warns(UserWarning, match="categories not seen during fit: 'violet'"):
        assert [row["class"] for row in result] == decision.predict(new).tolist()
    found = [list(row["probabilities"].values()) for row in result]
    np.testing.assert_allclose(found, decision.predict_proba(new))
    assert list(result[0]["probabilities"]) == decision.classes_.tolist()
    assert run("predict", tmp_path / "new.csv", *args, "--out", tmp_path / "p.csv").code == 0
    assert "probability of Barolo" in pl.read_csv(tmp_path / "p.csv").columns


@pytest.mark.parametrize(
    ("options", "note"),
    [(("--label", "kind", "--no-decision"), None), (("--label", "kind", "--pca", 3), "principal")],
)
def test_no_decision(learned, options, note):
    answer, out = learned(*options, "--method", "frob")
    assert answer["decision"] is None and answer["compared"] == []
    assert not (out / "decision.safetensors").exists()
    assert note is None or any("No classifier" in n and note in n for n in answer["notes"])


def test_pairs_have_no_decision(learned, pairs):
    answer, out = learned("--id", "bottle", "--ignore", "kind", "--pairs", pairs)
    assert answer["decision"] is None and not (out / "decision.safetensors").exists()


def test_gaps_in_a_file_are_those_of_pandas(run, frame, tmp_path):
    pandas = pytest.importorskip("pandas")
    path, data = tmp_path / "decision.safetensors", tmp_path / "rows.csv"
    word = np.array(["N/A", "red", "None", "dark"])[y + np.arange(178) % 2]
    holes = frame.select("f0", "f1", f2=pl.Series(np.where(y > 0, X[:, 2].astype(str), "None")))
    holes.with_columns(w=pl.Series(word)).write_csv(data)
    rows = pandas.read_csv(data)
    decision = MetricClassifier(metric=None, random_state=0).fit(rows, KINDS)
    save_decision(path, decision)
    answer = run("predict", data, "--decision", path, "--json").json
    found = [list(row["probabilities"].values()) for row in answer["predictions"]]
    np.testing.assert_allclose(found, decision.predict_proba(rows))
    assert any("read with 'None', 'N/A' as missing, in 'f2', 'w'" in n for n in answer["notes"])


def test_infinite_numbers_are_noted(run, frame, tmp_path):
    path, data = tmp_path / "decision.safetensors", tmp_path / "rows.csv"
    rows = frame.select("f0", pl.when(pl.int_range(178) > 5).then("f1").alias("f1"))
    save_decision(path, MetricClassifier(metric=None, random_state=0).fit(rows, KINDS))
    rows.with_columns(pl.when(pl.int_range(178) > 1).then("f0").otherwise(np.inf)).write_csv(data)
    notes = run("predict", data, "--decision", path, "--json").json["notes"]
    assert any("'f0' has 2 entries that are not numeric (first: 'inf')" in note for note in notes)


def test_an_impossible_date_is_a_gap_that_is_noted(run, frame, tmp_path):
    path, data = tmp_path / "decision.safetensors", tmp_path / "rows.csv"
    days = [f"{1 + i % 28:02}.{1 + i // 28:02}.2024" for i in range(178)]
    rows = frame.select("f0", day=pl.Series([*days[:-1], None]))
    decision = MetricClassifier(metric=None, random_state=0).fit(rows, KINDS)
    save_decision(path, decision)
    rows.with_columns(day=pl.Series([*days[:-1], "31.06.2024"])).write_csv(data)
    answer = run("predict", data, "--decision", path, "--json").json
    assert "Dates: 'day' has 1 entry that is not a date (first: '31.06.2024')" in answer["notes"][0]
    found = [list(row["probabilities"].values()) for row in answer["predictions"]]
    np.testing.assert_allclose(found, decision.predict_proba(rows))


def test_decisions_of_data_frames_and_wrong_files(run, csv, frame, tmp_path):
    path = tmp_path / "decision.safetensors"
    names = [f"f{i}" for i in range(13)][::-1]
    before = MetricClassifier(metric=None, random_state=0).fit(frame.select(names), KINDS)
    save_decision(path, before)
    answer = run("predict", csv, "--decision", path, "--json")
    expected = before.predict(frame.select(names)).tolist()
    assert [row["class"] for row in answer.json["predictions"]] == expected
    result = run("predict", csv, "--decision", path, "--alpha", 0.0001)
    assert result.code == 2 and "held-out rows" in result.err
    result = run("predict", csv, "--decision", csv)
    assert result.code == 2 and "not a decision file" in result.err


@pytest.mark.parametrize("estimator", [MetricClassifier, MetricRegressor])
@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("form", ["csv", "npy"])
def test_columns_that_a_decision_lacks_are_named(run, frame, tmp_path, estimator, missing, form):
    path, data = tmp_path / "decision.safetensors", tmp_path / f"new.{form}"
    names = [f"f{i}" for i in range(13)]
    few = frame.select(names).gather_every(4)
    save_decision(path, estimator(metric=None, random_state=0).fit(few, y[::4]))
    new = frame.select(names[:-missing])
    if form == "csv":
        new.write_csv(data)
        message = (
            "has no column 'f12'," if missing == 1 else "has no column 'f11', 'f12', which train"
        )
    else:
        np.save(data, new.to_numpy())
        message = f"has {13 - missing} columns of numbers; training used 13."
    result = run("predict", data, "--decision", path)
    assert result.code == 2 and message in " ".join(result.err.split())
    assert "metric" not in result.err


@pytest.mark.parametrize(
    "before",
    [
        MetricClassifier(metric=None, classifier="kernel", random_state=0),
        MetricClassifier(metric=None, classifier="neighbors", random_state=0),
        MetricRegressor(metric=None, random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("n", [60, 3])
def test_inspect_tells_what_is_in_a_decision(run, frame, tmp_path, before, n):
    path, names = tmp_path / "decision.safetensors", [f"f{i}" for i in range(1, 13)]
    classes = isinstance(before, MetricClassifier)
    rows = np.arange(178)[::3] if n == 60 else [0, 70, 170]  # one of each class
    before.fit(frame[rows].select(names), KINDS[rows] if classes else X[rows, 0])
    save_decision(path, before)
    answer = run("inspect", path, "--json").json
    assert answer["method"] == type(before).__name__
    assert answer["decision"] == str(before.blend_)
    assert answer["classes"] == (before.classes_.tolist() if classes else None)
    assert answer["feature_names"] == names and answer["training_rows"] == n
    certificate = before.certificate_
    assert answer["certificate"] == (
        None if certificate is None else certificate_values(certificate)
    )
    evidence = None if before.evidence_ is None else asdict(before.evidence_)
    assert answer["evidence"] == evidence and (evidence is None) == (n == 3)
    assert answer["held_out_rows"] == (0 if n == 3 else n)
    shown = run("inspect", path).out
    assert type(before).__name__ in shown and ("cross-validated on" in shown) == (n > 3)


@pytest.mark.parametrize("before", [MetricClassifier(), MetricRegressor()], ids=str)
def test_a_decision_without_held_out_rows_predicts_without_promises(run, csv, tmp_path, before):
    path, rows = tmp_path / "decision.safetensors", [0, 70, 170]
    before.fit(X[rows], KINDS[rows] if isinstance(before, MetricClassifier) else X[rows, 0])
    save_decision(path, before, notes={"feature_names": [f"f{i}" for i in range(13)]})
    answer = run("predict", csv, "--decision", path, "--json").json
    predicted = "class" if isinstance(before, MetricClassifier) else "value"
    found = [row[predicted] for row in answer["predictions"]]
    assert found == before.predict(X).tolist()
    assert not {"set", "low", "high"} & set(answer["predictions"][0])
    assert any("hold any out" in note for note in answer["notes"])
    screen = run("predict", csv, "--decision", path).out
    assert "hold any out" in screen and "90%" not in screen
    assert run("predict", csv, "--decision", path, "--out", tmp_path / "new.csv").code == 0
    assert pl.read_csv(tmp_path / "new.csv")[predicted].to_list() == found


def test_files_of_the_other_kind_are_refused_by_name(run, csv, tmp_path):
    metric, decision = tmp_path / "metric.safetensors", tmp_path / "decision.safetensors"
    save_metric(metric, FrobMetric().fit(X[:, :2], y))
    save_decision(decision, MetricClassifier(metric=None, random_state=0).fit(X[::4], y[::4]))
    for command, message in (
        (("predict", csv, "--decision", metric), "holds a metric, not a decision"),
        (
            ("neighbors", csv, "--metric", decision),
            "holds a decision, not a metric; pass a metric file",
        ),
        (("inspect", csv), "not a metric or decision file"),
        (("inspect", tmp_path / "absent"), "no metric or decision file"),
    ):
        result = run(*command)
        assert result.code == 2 and message in result.err
