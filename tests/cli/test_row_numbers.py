"""Rows go by their number in the file, from 0, although some of its rows are left out."""

import re

import numpy as np
import polars as pl
import pytest
from cases import first_of
from sklearn.datasets import load_wine

from conemetric import FrobMetric, load_decision, save_metric

X, y = load_wine(return_X_y=True)
UNLABELLED = np.arange(178) % 5 == 1
LABELLED = np.flatnonzero(~UNLABELLED)


@pytest.fixture(
    params=[
        "words",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("numbers", "minus one")),
    ]
)
def labels_missing(request, tmp_path, frame):
    """A file in which every fifth row has no label, and the labels of its rows, None if missing."""
    if request.param == "words":
        label = pl.when(pl.lit(~UNLABELLED)).then("kind")
    elif request.param == "numbers":
        label = pl.when(pl.lit(~UNLABELLED)).then(pl.lit(y))
    else:
        label = pl.lit(np.where(UNLABELLED, -1, y))
    path = tmp_path / "missing.csv"
    frame.drop("bottle", "note").with_columns(kind=label).write_csv(path)
    return path, pl.read_csv(path)["kind"].to_list()


def learn(run, path, out, *options):
    usual = ("--label", "kind", "--method", "frob", "--out", out, "--overwrite", "--json")
    result = run("learn", path, *options, *usual)
    assert result.code == 0, result.err
    assert any("Left out: 36 rows without a label" in note for note in result.json["notes"])
    return result.json


def test_predictions_and_deciding_rows_are_numbered_as_in_the_file(run, labels_missing, tmp_path):
    path, labels = labels_missing
    learn(run, path, tmp_path / "out")
    shown = pl.read_csv(tmp_path / "out" / "predictions.csv")
    assert [labels[row] for row in shown["row"]] == shown["true"].to_list()
    assert shown["row"].is_unique().all() and shown["row"].max() > len(LABELLED)

    decision = tmp_path / "out" / "decision.safetensors"
    found = run("predict", path, "--decision", decision, "--json").json["predictions"]
    assert [row["row"] for row in found] == list(range(178))
    frame = pl.read_csv(path).drop("kind")
    why = load_decision(decision).explain(frame, 3)  # numbers of rows among those with a label
    for row, expected in zip(found, LABELLED[why.rows].tolist(), strict=True):
        assert [by["row"] for by in row["decided_by"]] == expected


def test_the_report_numbers_rows_as_in_the_file(run, labels_missing, tmp_path):
    path, labels = labels_missing
    learn(run, path, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    table = re.search(r"Why: the training rows.*?</table>", page, re.DOTALL)[0]
    held_out = set(pl.read_csv(tmp_path / "out" / "predictions.csv")["row"])
    lines = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)[1:]
    seen = []
    for line in lines:
        cells = re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line, re.DOTALL)
        by, label = cells[-4], cells[-3]
        row = int(by.removeprefix("row "))
        assert label == str(labels[row]) and row not in held_out
        if line.lstrip().startswith("<th"):
            seen.append(int(cells[0].removeprefix("row ")))
            assert cells[1] == str(labels[seen[-1]])
    assert 3 <= len(seen) <= 6 and set(seen) <= held_out


def test_ids_that_are_numbers_stay_numbers(run, labels_missing, tmp_path):
    path, _ = labels_missing
    frame = pl.read_csv(path).with_columns(number=1000 + 2 * pl.int_range(178))
    frame.write_csv(path)
    learn(run, path, tmp_path / "out", "--id", "number")
    decision = tmp_path / "out" / "decision.safetensors"
    answer = run("predict", path, "--decision", decision, "--id", "number", "--json").json
    by = {each["row"] for row in answer["predictions"] for each in row["decided_by"]}
    assert by <= set((1000 + 2 * LABELLED).tolist())


def test_neighbors_are_numbered_as_in_the_file(run, frame, tmp_path):
    path, metric = tmp_path / "gaps.csv", tmp_path / "metric.safetensors"
    save_metric(metric, FrobMetric().fit(X, y), feature_names=[f"f{i}" for i in range(13)])
    frame.with_columns(f2=pl.when(pl.lit(~UNLABELLED)).then("f2")).write_csv(path)
    usual = ("neighbors", path, "--metric", metric, "--drop-missing", "-k", 1, "--json")
    found = run(*usual).json["neighbors"]
    assert [row["row"] for row in found] == LABELLED.tolist()
    from_all = run(*usual[:-2], 1, "--against", path, "--json").json["neighbors"]
    assert [row["neighbor"] for row in from_all] == LABELLED.tolist()  # each row finds itself


@first_of("kind", ["pairs", "triplets"])
def test_pairs_by_number_count_rows_without_a_label(run, tmp_path, kind):
    """An array of labels beside the rows does not matter to pairs, even where it has gaps."""
    rng = np.random.default_rng(0)
    path, constraints = tmp_path / "rows.npz", tmp_path / "constraints.csv"
    rows = np.array([rng.choice(178, 3, replace=False) for _ in range(600)])
    i, j, k = rows.T
    if kind == "pairs":
        table = pl.DataFrame({"i": i, "j": j, "same": y[i] == y[j]})
    else:
        ordered = (y[i] == y[j]) & (y[i] != y[k])
        table = pl.DataFrame(rows[ordered], schema=["i", "j", "k"])
    table.write_csv(constraints)
    answers = []
    for more in ({}, {"y": np.where(UNLABELLED, -1, y)}):
        np.savez(path, X=X, **more)
        usual = (f"--{kind}", constraints, "--out", tmp_path / "out", "--overwrite", "--json")
        result = run("learn", path, *usual)
        assert result.code == 0, result.err
        answers.append({key: result.json[key] for key in ("rows", "before", "notes")})
    assert answers[0] == answers[1] and answers[0]["rows"] == 178
