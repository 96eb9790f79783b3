"""``conemetric learn`` on what people have: good files, and bad ones."""

import csv as csv_module
import gzip
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cases import first_of
from sklearn.datasets import load_wine

from conemetric import FrobMetric, load_metric, watching
from conemetric.cli.invocation import TimeLimit
from conemetric.datasets import BUNDLED

X, y = load_wine(return_X_y=True)


@pytest.fixture
def whole_study():
    """For tests of what is recommended: it depends on the decision too."""


@pytest.fixture(autouse=True)
def quick_study(request, monkeypatch, no_report):
    """Without a decision, which has tests of its own, and without a fit to all rows."""
    if "whole_study" in request.fixturenames:
        return
    monkeypatch.setattr("conemetric.studies.deciding.new_decision", lambda *_: None)
    monkeypatch.setattr("conemetric.studies.study._refitted", lambda task, study, *_: study)


def test_a_csv_with_text_labels_gives_metric_table_and_report(run, written_report, csv, tmp_path):
    out = tmp_path / "out"
    result = run("learn", csv, "--label", "kind", "--method", "frob", "--out", out, "--json")
    assert result.code == 0
    answer = result.json
    assert answer["rows"] == 178 and answer["features"] == 13
    assert answer["after"]["error"] < 0.1 and answer["after"]["status"] == "converged"
    notes = " ".join(answer["notes"])
    assert (
        "Ignored: 'bottle': all values are different; --categorical bottle learns from it." in notes
    )
    assert "Ignored: 'note': constant." in notes
    metric = load_metric(out / "metric.safetensors")
    assert metric.feature_names == [f"f{i}" for i in range(13)]
    assert metric.preprocessing == ["StandardScaler"]
    assert metric.certificate.relative_gap == answer["after"]["relative_gap"]
    with open(out / "table.csv", newline="") as file:
        rows = {row["method"]: float(row["error"]) for row in csv_module.DictReader(file)}
    shown = [answer[name]["error"] for name in ("before", "after", "constant")]
    assert rows == dict(zip(("euclidean", "frob", "constant"), shown, strict=True))
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in out.iterdir()) == [
        "metric.safetensors",
        "predictions.csv",
        "report.html",
        "table.csv",
    ]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("label", ["kind", "f0"])
def test_predictions_are_those_that_were_judged(run, csv, frame, tmp_path, ids, label):
    named = ("--id", "bottle") if ids else ()
    options = ("--label", label, "--method", "frob", *named, "--out", tmp_path / "out", "--json")
    answer = run("learn", csv, *options).json
    rows = pl.read_csv(tmp_path / "out" / "predictions.csv")
    numbers = rows["row"].str.strip_prefix("b").cast(int) if ids else rows["row"]
    assert rows["true"].to_list() == frame[label].gather(numbers).to_list()
    for name in ("before", "after"):
        if label == "kind":
            error = (rows["true"] != rows[name]).mean()
        else:
            error = ((rows["true"] - rows[name]) ** 2).mean() / rows["true"].var(ddof=0)
        assert error == pytest.approx(answer[name]["error"])
    assert len(rows) == answer["after"]["held_out"]


def test_people_get_a_table_and_pipes_no_progress(run, whole_study, csv, tmp_path):
    result = run("learn", csv, "--label", "kind", "--method", "frob", "--out", tmp_path / "out")
    assert result.code == 0
    assert "\nMetricClassifier has the lowest error" in result.out
    assert "FrobMetric" in result.out and "proven within" in result.out
    assert result.err == ""


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("outcome", ["better", "worse", ""])
@pytest.mark.costly
def test_the_last_lines_say_what_to_do(run, csv, tmp_path, monkeypatch, outcome, repeats):
    monkeypatch.setattr("conemetric.studies.Study.outcome", outcome)
    options = ("--label", "kind", "--method", "frob", "--repeats", repeats)
    result = run("learn", csv, *options, "--out", tmp_path / "out")
    lines = result.out.splitlines()
    (verdict,) = [i for i, line in enumerate(lines) if "p = " in line]
    then = "\n".join(lines[verdict + 1 :])
    assert ("--repeats" in then) == (repeats == 1)
    if outcome != "better":
        assert then.startswith("Next: ") and "conemetric compare" in then
        return
    scope = {"X": X}
    exec(textwrap.dedent("\n".join(lines[-2:])), scope)
    assert scope["Z"].shape[0] == 178


@pytest.mark.costly
@pytest.mark.parametrize("repeats", [2, 3])
def test_several_splits_in_table_and_json(run, csv, tmp_path, repeats):
    options = ("--label", "kind", "--method", "frob", "--repeats", repeats, "--seed", 5)
    answer = run("learn", csv, *options, "--out", tmp_path / "out", "--json").json
    assert len(answer["splits"]) == repeats
    with open(tmp_path / "out" / "table.csv", newline="") as file:
        rows = dict(zip(("before", "after", "constant"), csv_module.DictReader(file), strict=True))
    for name, row in rows.items():
        errors = [split[name] for split in answer["splits"]]
        assert errors[0] == answer[name]["error"]
        assert float(row["mean"]) == pytest.approx(np.mean(errors))
        assert float(row["std"]) == pytest.approx(np.std(errors, ddof=1))


def test_repeats_and_many_files_are_refused(run, tmp_path):
    result = run("learn", str(tmp_path / "part-*.parquet"), "--label", "y", "--repeats", "2")
    assert result.code == 2 and "--repeats" in result.err


def test_names_are_listed_with_their_sizes(run):
    answer = run("datasets", "--json").json
    assert [row["name"] for row in answer["datasets"]] == list(BUNDLED)
    assert answer["datasets"][0] == {
        "name": "vehicle",
        "rows": 846,
        "features": 18,
        "classes": 4,
        "about": "silhouettes of four vehicles",
    }
    assert "wdbc is breast_cancer" in run("datasets").out


@pytest.mark.cases(3)
@pytest.mark.parametrize("labels", ["classes", "quantity"])
@pytest.mark.parametrize("missing", [0, 1, 9])
def test_whole_numbers_stay_numbers_where_some_are_missing(run, frame, tmp_path, labels, missing):
    numbers = y if labels == "classes" else np.random.default_rng(0).integers(100, 9000, len(y))
    column = pl.Series(numbers.tolist())
    column[list(range(0, 2 * missing, 2))] = None
    path = tmp_path / "gaps.csv"
    frame.drop("kind").with_columns(column.alias("label")).write_csv(path)
    options = ("--label", "label", "--method", "frob", "--out", tmp_path / "out")
    answer = run("learn", path, *options, "--json").json
    assert answer["rows"] == 178 - missing
    assert ("r2" in answer["after"]) == (labels == "quantity")
    assert any(note.startswith("Left out") for note in answer["notes"]) == (missing > 0)


def test_labels_alone_give_a_blend_with_evidence(run, frame, csv, tmp_path):
    frame.gather_every(3).write_csv(csv)
    result = run("learn", csv, "--label", "kind", "--out", tmp_path / "out")
    assert result.code == 0
    assert "AutoMetric" in result.out and "Cross-validated" in result.out
    assert "certificate" not in result.out
    again = run("learn", csv, "--label", "kind", "--out", tmp_path / "again", "--json").json
    assert set(again["evidence"]["error"]) >= {"Euclidean", "blend", "FrobMetric"}
    assert again["after"]["method"] == "auto" and "status" not in again["after"]


def test_the_same_seed_gives_the_same_metric(run, frame, csv, tmp_path):
    frame.gather_every(3).write_csv(csv)
    for name in "ab":
        assert (
            run("learn", csv, "--label", "kind", "--seed", "3", "--out", tmp_path / name).code == 0
        )
    first, second = (load_metric(tmp_path / name / "metric.safetensors") for name in "ab")
    np.testing.assert_array_equal(first.components, second.components)


def test_parquet_with_a_column_of_vectors(run, tmp_path):
    path = tmp_path / "vectors.parquet"
    pl.DataFrame(
        {
            "embedding": pl.Series(X.astype(np.float32).tolist(), dtype=pl.List(pl.Float32)),
            "kind": y,
        }
    ).write_parquet(path)
    result = run(
        "learn", path, "--label", "kind", "--method", "frob", "--out", tmp_path / "out", "--json"
    )
    assert result.code == 0 and result.json["features"] == 13
    assert load_metric(tmp_path / "out" / "metric.safetensors").feature_names[0] == "embedding_0"


@pytest.mark.parametrize("labels", ["npy", "txt", "csv"])
def test_arrays_with_labels_in_another_file(run, tmp_path, labels):
    np.save(tmp_path / "rows.npy", X)
    path = tmp_path / f"labels.{labels}"
    if labels == "npy":
        np.save(path, y)
    else:
        path.write_text(
            ("label\n" if labels == "csv" else "") + "".join(f"{label}\n" for label in y)
        )
    result = run(
        "learn",
        tmp_path / "rows.npy",
        "--labels",
        path,
        "--method",
        "frob",
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert result.code == 0 and result.json["rows"] == 178


def test_npz_and_pca(run, tmp_path):
    np.savez(tmp_path / "both.npz", X=X[::3], y=y[::3])
    result = run("learn", tmp_path / "both.npz", "--pca", "5", "--out", tmp_path / "out", "--json")
    assert result.code == 0 and result.json["after"]["rank"] <= 5
    assert load_metric(tmp_path / "out" / "metric.safetensors").preprocessing == [
        "StandardScaler",
        "PCA(5)",
    ]


def test_triplets_by_row_number(run, csv, triplets, tmp_path):
    result = run(
        "learn",
        csv,
        "--triplets",
        triplets,
        "--ignore",
        "kind",
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert result.code == 0
    assert result.json["after"]["error"] < result.json["before"]["error"]


def test_unicode_paths_and_names(run, frame, tmp_path):
    folder = tmp_path / "Müller 数据"
    folder.mkdir()
    frame.rename({"kind": "Sorte ß", "f0": "糖"}).write_csv(folder / "wein é.csv")
    result = run(
        "learn",
        folder / "wein é.csv",
        "--label",
        "Sorte ß",
        "--method",
        "frob",
        "--out",
        folder / "ausgabe ü",
        "--json",
    )
    assert result.code == 0
    assert load_metric(folder / "ausgabe ü" / "metric.safetensors").feature_names[0] == "糖"


def test_a_constant_column_and_duplicate_rows(run, frame, tmp_path):
    few = frame.gather_every(3).with_columns(f3=pl.lit(1.0))
    pl.concat([few] * 2).write_csv(tmp_path / "odd.csv")
    result = run(
        "learn",
        tmp_path / "odd.csv",
        "--label",
        "kind",
        "--scale",
        "standard",
        "--out",
        tmp_path / "out",
        "--json",
    )
    assert result.code == 0 and result.json["rows"] == 120
    assert np.isfinite(load_metric(tmp_path / "out" / "metric.safetensors").components).all()


def test_many_rows_are_subsampled_and_said_so(run, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "many.npz",
        X=rng.normal(size=(1800, 3)).astype(np.float32),
        y=rng.integers(0, 4, 1800),
    )
    args = (
        "--max-rows",
        "100",
        "--max-test-rows",
        "140",
        "--method",
        "frob",
        "--no-decision",
        "--out",
        tmp_path / "out",
        "--json",
    )
    result = run("learn", tmp_path / "many.npz", *args)
    assert result.code == 0 and result.json["before"]["held_out"] == pytest.approx(140, abs=3)
    assert any(
        re.match(r"Learned from (100|99|98) of 1,2[56]\d training rows", note)
        for note in result.json["notes"]
    )


# ---- what is refused, in one line


def refused(result, *words):
    assert result.code == 2
    assert result.err.startswith("error ") and result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err
    return True


def test_missing_values(run, frame, tmp_path):
    path = tmp_path / "missing.csv"
    holes = pl.int_range(pl.len()) % 17 == 0
    frame.with_columns(
        f1=pl.when(holes).then(None).otherwise("f1"),
        kind=pl.when(holes.shift(1)).then(None).otherwise("kind"),
    ).write_csv(path)
    args = ("learn", path, "--label", "kind", "--method", "frob", "--out", tmp_path / "out")
    result = run(*args, "--json")
    assert result.code == 0 and result.json["rows"] == 167
    notes = " ".join(result.json["notes"])
    assert "Missing values: 'f1' 6.2%" in notes and "Left out: 11 rows without a label." in notes


def test_rows_labelled_minus_one_have_no_label(run, frame, tmp_path):
    path, codes = tmp_path / "partly.csv", np.arange(178) % 3
    partly = np.where(np.arange(178) % 10 == 0, -1, codes)
    frame.with_columns(kind=pl.Series(partly)).write_csv(path)
    args = ("learn", path, "--label", "kind", "--method", "frob", "--out", tmp_path / "out")
    answer = run(*args, "--json").json
    note = "Left out: 18 rows without a label (-1 means none; rename it if it is a class)."
    assert answer["rows"] == 160 and note in answer["notes"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.head(3), ("3 rows", "at least 10")),
        (lambda f: f.filter(pl.col("kind") == "Barolo"), ("one class only", "Barolo")),
        (lambda f: f.with_columns(kind=pl.col("bottle")), ("no class has two", "values recur.")),
        (lambda f: f.select("kind", "note"), ("no column to learn from", "constant")),
        (lambda f: f.with_columns(kind=pl.lit(0.5)), ("the label is 0.5 in all 178 rows",)),
        (lambda f: f.clear(), ("no rows",)),
    ],
)
def test_data_that_cannot_be_learned_from(run, frame, tmp_path, change, words):
    change(frame).write_csv(tmp_path / "bad.csv")
    assert refused(
        run("learn", tmp_path / "bad.csv", "--label", "kind", "--out", tmp_path / "out"), *words
    )


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--label", "kin"), ("no column 'kin'", "did you mean 'kind'")),
        ((), ("no labels, pairs or triplets given", "'f0'")),
        (("--label", "kind", "--method", "nonsense"), ("'nonsense' is not known", "frob")),
        (("--label", "kind", "--method", "numax-no"), ("not known",)),
        (("--label", "kind", "--scale", "wrong"), ("scale='wrong'",)),
        (("--label", "kind", "--pca", "500"), ("n_pca=500 must be from 1 to 13",)),
        (("--label", "kind", "--labels", "x.npy"), ("--label and --labels",)),
        (("--label", "kind", "--image", "big"), ("--image 'big'",)),
        (("--label", "kind", "--target", "number"), ("target='number' is not known",)),
        (("--label", "kind", "--target", "continuous"), ("is for numbers, and y holds 'Barolo'",)),
        (("--label", "f0", "--method", "dml-eig"), ("'dml-eig' learns from", "not quantity")),
        (("--pairs", "missing.csv"), ("no file 'missing.csv'",)),
        (("--label", "kind", "-k", "1000"), ("n_neighbors=1000 (-k)", "125 rows that vote")),
    ],
)
def test_bad_arguments(run, csv, tmp_path, arguments, words):
    assert refused(run("learn", csv, *arguments, "--out", tmp_path / "out"), *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        # a field too many would shift the label of its row
        (lambda lines: [*lines[:4], "1," + lines[4], *lines[5:]], ("line 5", "17 fields", "16")),
    ],
)
def test_a_csv_with_a_slip_is_refused(run, csv, tmp_path, change, words):
    lines = csv.read_text().splitlines()
    csv.write_text("\n".join(change(lines)) + "\n")
    assert refused(run("learn", csv, "--label", "kind", "--out", tmp_path / "out"), *words)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("row", range(1, 179)),
        ("customer_id", np.random.default_rng(0).permutation(10_000)[:178]),
    ],
)
def test_row_numbers_are_not_learned_from(run, frame, tmp_path, name, values):
    path = tmp_path / "numbered.csv"
    frame.with_columns(pl.Series(name, list(values))).write_csv(path)
    args = ("learn", path, "--label", "kind", "--method", "frob", "--json")
    args += ("--out", tmp_path / "out")
    result = run(*args)
    assert result.json["features"] == 13
    notes = " ".join(result.json["notes"])
    assert f"Ignored: '{name}': looks like a row number; --numeric {name} learns from it." in notes
    kept = run(*args, "--numeric", name, "--overwrite")
    assert kept.json["features"] == 14 and "row number" not in " ".join(kept.json["notes"])


def test_a_useless_metric_is_the_headline_of_the_report(run, written_report, tmp_path):
    path, rows = tmp_path / "line.csv", np.arange(80)
    columns = {"x": rows / 2 + 0.1, "z": rows**1.5, "side": np.where(rows % 2, "a", "b")}
    pl.DataFrame(columns).write_csv(path)
    args = ("learn", path, "--label", "side", "--out", tmp_path / "out", "--test-size", "0.2")
    args = (*args, "--method", "lmnn-eig")
    result = run(*args)
    assert result.code == 0
    assert result.out.startswith("The metric that LMNNEig learned is zero")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The metric that LMNNEig learned is zero" in page
    assert "LMNNEig learned is zero" in run(*args, "--overwrite", "--json").json["alarm"]
    compared = run(*("compare", *args[1:-2]), "--method", "lmnn-eig", "--overwrite", "--json").json
    assert compared["results"][1]["collapsed"] and "LMNNEig learned is zero" in compared["notes"][0]


def test_warnings_name_options_of_the_command(run, csv, tmp_path):
    args = ("learn", csv, "--label", "kind", "--method", "frob", "--tol", "0")
    result = run(*args, "--out", tmp_path / "out")
    assert (
        "FrobMetric ended as" in result.out and "raise --tol to accept this solution." in result.out
    )
    assert "max_iter or" not in result.out


def test_a_wrong_image_size_in_the_report(run, written_report, csv, tmp_path):
    options = ("--label", "kind", "--method", "frob", "--image", "5x5")
    result = run("learn", csv, *options, "--out", tmp_path / "out")
    assert refused(result, "5x5", "13 columns")


def test_duplicate_and_unknown_ids(run, frame, pairs, tmp_path):
    frame.with_columns(bottle=pl.lit("b0")).write_csv(tmp_path / "same.csv")
    args = ("--ignore", "kind", "--id", "bottle", "--pairs", pairs, "--out", tmp_path / "out")
    assert refused(run("learn", tmp_path / "same.csv", *args), "'b0', 178 times", "unique")
    frame.head(100).write_csv(tmp_path / "part.csv")
    assert refused(run("learn", tmp_path / "part.csv", *args), "ids not in the data")


@pytest.mark.parametrize("rows", [[0, 178], [-1, 5], [None, 5]])
def test_row_numbers_that_are_none(run, csv, tmp_path, rows):
    pl.DataFrame({"a": [rows[0], 1] * 20, "b": [rows[1], 2] * 20, "same": [1, 0] * 20}).write_csv(
        tmp_path / "pairs.csv"
    )
    result = run(
        "learn",
        csv,
        "--ignore",
        "kind",
        "--pairs",
        tmp_path / "pairs.csv",
        "--out",
        tmp_path / "out",
    )
    assert refused(
        result, "pairs.csv", "missing row numbers" if rows[0] is None else "rows 0 to 177"
    )


def test_one_column_makes_a_report(run, written_report, tmp_path):
    pl.DataFrame({"size": X[:, 0], "kind": y}).write_csv(tmp_path / "narrow.csv")
    options = ("--label", "kind", "--method", "frob", "--out", tmp_path / "out", "--json")
    result = run("learn", tmp_path / "narrow.csv", *options)
    assert result.code == 0, result.err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 'id="plot-principal_axes"' in page and 'class="numbers counts"' in page
    places = re.findall(r'c[xy]="(.*?)"', page)
    assert places and "nan" not in places


def test_files_that_are_something_else(run, tmp_path):
    for name in ("bad.npy", "bad.npz", "bad.parquet", "bad.xlsx"):
        (tmp_path / name).write_bytes(b"not what the name says")
        assert refused(run("learn", tmp_path / name, "--label", "kind"), name)
    assert refused(run("learn", tmp_path), "is a folder")
    assert refused(run("learn", tmp_path / "none.csv"), "there is no file")
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04 and no more")
    assert refused(run("learn", tmp_path / "cut.npz"), "cut.npz", "cannot be read as npz")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert refused(run("learn", tmp_path / "objects.npy"), "objects.npy")


def test_a_place_that_cannot_be_written(run, csv, tmp_path):
    (tmp_path / "taken").write_text("a file")
    result = run("learn", csv, "--label", "kind", "--out", tmp_path / "taken")
    assert refused(result, "cannot write to", "--out")


def test_debug_shows_the_traceback(csv, capsys):
    from conemetric.cli import main

    with pytest.raises(ValueError, match="no column"):
        main(["learn", str(csv), "--label", "nothing", "--debug"])


def test_usage_errors_and_help(run):
    assert run("learn", "--nonsense").code == 2
    assert run("--help").code == 0
    assert "vehicle" in run("learn", "--help").out
    assert run("--version").out.startswith("conemetric ")


# ---- words and missing values


@pytest.fixture
def holes(tmp_path, frame):
    """Wine with missing numbers, a column of words, and words of the rows."""
    rows = np.arange(len(frame))
    path = tmp_path / "holes.csv"
    frame.with_columns(
        pl.Series("colour", np.array(["red", "white", "rosé"])[rows // 60]),
        pl.when(pl.Series(rows % 9 == 0)).then(None).otherwise(pl.col("f3")).alias("f3"),
    ).write_csv(path)
    return path


def test_missing_values_and_words_are_learned_from_and_embedded_alike(run, holes, tmp_path):
    out, Z = tmp_path / "out", tmp_path / "Z.npy"
    args = ("learn", holes, "--label", "kind", "--out", out, "--method", "frob")
    result = run(*args, "--json")
    assert result.json["features"] == 14, result.err
    notes = " ".join(result.json["notes"])
    assert "Categories: 'colour'" in notes and "Missing values: 'f3' 11.2%" in notes
    metric = load_metric(out / "metric.safetensors")
    assert metric.columns == [*(f"f{i}" for i in range(13)), "colour"]
    train = pl.read_csv(holes)
    assert run("embed", holes, "--metric", out / "metric.safetensors", "--out", Z).code == 0
    np.testing.assert_allclose(np.load(Z), metric.transform(train))
    shown = run(*args, "--overwrite").out
    assert shown.index("Categories: 'colour'") < shown.index("Euclidean")  # above the table


def awkward():
    """Tables as people have them, by what is awkward, and what is said about it."""
    rng = np.random.default_rng(0)
    n, size = 120, np.round(rng.normal(size=120), 3)
    y = np.where(size + rng.normal(size=120) / 3 > 0, "big", "small")
    plain = pl.DataFrame({"size": size, "weight": np.round(rng.normal(size=n), 3), "y": y})
    few = pl.Series("doors", rng.choice(["2", "3", "4", "5more"], n))
    gaps = pl.when(pl.int_range(pl.len()) % 6 > 0)
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(n)]
    slip = pl.Series("size", [*map(str, size[:-1]), "o.5"])
    return {
        "number or word": (plain.with_columns(few), "Categories: 'doors'"),
        "gaps": (plain.with_columns(weight=gaps.then("weight")), "Missing values: 'weight' 16.7%"),
        "missing words": (
            plain.with_columns(few).with_columns(doors=gaps.then("doors")),
            "Missing values: 'doors'",
        ),
        "dates": (plain.with_columns(pl.Series("day", days)), "Dates: 'day'"),
        "an impossible date": (
            plain.with_columns(pl.Series("day", ["2024-02-30", *days[1:]])),
            "'day' has 1 entry that is not a date (first: '2024-02-30'), taken as missing; --categorical",
        ),
        "a slip": (
            plain.with_columns(slip),
            "'size' has 1 entry that is not numeric (first: 'o.5')",
        ),
        "infinite": (
            plain.with_columns(weight=gaps.then("weight").otherwise(float("inf"))),
            "'weight' has 20 entries that are not numeric (first: 'inf'), taken as missing.",
        ),
        "identifiers": (plain.with_columns(pl.Series("id", range(n))), "Ignored: 'id'"),
        "all missing": (
            plain.with_columns(pl.lit(None, pl.Float64).alias("none")),
            "'none': all missing",
        ),
        "huge": (plain.with_columns(weight=pl.col("weight") * 1e300), ""),
    }


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", awkward())
@pytest.mark.parametrize("form", ["csv", "csv.gz", "spaced.csv", "parquet"])
def test_awkward_tables_are_learned_from_the_first_time(run, tmp_path, kind, form):
    table, said = awkward()[kind]
    path = tmp_path / f"table.{form}"
    if form == "parquet":
        table.write_parquet(path)
    else:
        text = table.write_csv()
        text = text.replace("\n", " \n", 1) if form.startswith("spaced") else text
        path.write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())
    args = ("--label", "y", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    result = run("learn", path, *args, "--json")
    assert result.code == 0, result.err
    assert said in " ".join(result.json["notes"])
    assert result.json["after"]["error"] < 0.45


@pytest.mark.parametrize(
    ("option", "features", "said"),
    [
        ((), 3, "Categories: 'doors'"),
        (("--categorical", "size"), 3, "Categories: 'size', 'doors'"),
        (("--numeric", "doors"), 3, "'doors' has"),
        (("--ignore", "doors"), 2, ""),
    ],
)
def test_kinds_of_columns_can_be_given(run, tmp_path, option, features, said):
    awkward()["number or word"][0].write_csv(tmp_path / "table.csv")
    args = ("--label", "y", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    answer = run("learn", tmp_path / "table.csv", *args, *option, "--json").json
    assert answer["features"] == features and said in " ".join(answer["notes"])


def test_columns_are_kept_as_they_are_where_that_is_better(run, tmp_path):
    np.savez(tmp_path / "t.npz", X=X, y=y)
    result = run(
        "learn",
        tmp_path / "t.npz",
        "--method",
        "frob",
        "--scale",
        "none",
        "--json",
        "--out",
        tmp_path / "o",
    )
    assert result.code == 0, result.err


# ---- what is there already


def test_nothing_is_overwritten_unless_that_is_wanted(run, csv, tmp_path, monkeypatch):
    args = ("learn", csv, "--label", "kind", "--method", "frob", "--json")
    out = tmp_path / "out"
    assert run(*args, "--out", out).code == 0
    before = (out / "metric.safetensors").read_bytes()
    refused(run(*args, "--out", out, "--seed", "1"), "exists already", "--overwrite")
    assert (out / "metric.safetensors").read_bytes() == before
    assert run(*args, "--out", out, "--seed", "1", "--overwrite").code == 0
    assert (out / "metric.safetensors").read_bytes() != before
    monkeypatch.chdir(tmp_path)
    places = [run(*args).json["files"]["metric"] for _ in range(3)]
    assert [str(Path(place).parent) for place in places] == [
        "conemetric-out",
        "conemetric-out-2",
        "conemetric-out-3",
    ]


@pytest.mark.parametrize(
    "command",
    ["learn", "compare", "embed", "neighbors", "verify", "compress", "inspect", "export"],
)
def test_help_shows_no_types_of_flags(run, command):
    for text in (run("--help").out, run(command, "--help").out):
        assert "bool" not in text.lower()


# ---- interruptions

CHILD = """
import os, signal, sys
from contextlib import contextmanager
from conemetric import watching
from conemetric.cli import learn, main

@contextmanager
def bar(stage):
    def watch(event):
        if sys.argv[1] == "interrupt" and event["kind"] == "solve" and event["iteration"] == 3:
            os.kill(os.getpid(), signal.SIGINT)
    with watching(watch):
        yield

def die(descriptor):
    os.kill(os.getpid(), signal.SIGKILL)

learn.progress_bar = bar
if sys.argv[1] == "kill":
    os.fsync = die  # the file is written, but does not have its name yet
main(sys.argv[2:])
"""


@pytest.fixture
def child(csv, tmp_path):
    def start(what, method="frob"):
        out = tmp_path / "out"
        command = [
            sys.executable,
            "-c",
            CHILD,
            what,
            "learn",
            csv,
            "--label",
            "kind",
            "--method",
            method,
            "--out",
            out,
        ]
        return subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=300
        ), out

    return start


@pytest.mark.slow
def test_ctrl_c_saves_the_best_certified_metric(child):
    process, out = child("interrupt")
    assert process.returncode == 130
    assert "interrupted" in process.stderr and "Traceback" not in process.stderr
    metric = load_metric(out / "metric.safetensors")
    assert (
        metric.certificate.status == "interrupted"
        and metric.certificate.dual <= metric.certificate.primal
    )


@pytest.fixture
def limits(monkeypatch):
    """The time limits of the commands that the test runs; they end when it says so."""
    begun = []
    begin = TimeLimit.__enter__

    def begin_and_remember(limit):
        begun.append(limit)
        return begin(limit)

    monkeypatch.setattr(TimeLimit, "__enter__", begin_and_remember)
    return begun


@pytest.mark.parametrize("json", [False, True])
def test_a_time_limit_keeps_the_best_metric_so_far(run, csv, tmp_path, monkeypatch, limits, json):
    fit = FrobMetric.fit

    def fit_until_the_limit(*given, **options):
        def end_the_time(event):
            if event["kind"] == "solve" and event["iteration"] == 3:
                limits[0]._end()

        with watching(end_the_time):
            return fit(*given, **options)

    monkeypatch.setattr(FrobMetric, "fit", fit_until_the_limit)
    out = tmp_path / "out"
    options = ["--json"] if json else []
    limited = ("learn", csv, "--label", "kind", "--method", "frob", "--time-limit", 60, *options)
    done = run(*limited, "--out", out)
    assert done.code == 0
    assert os.listdir(out) == ["metric.safetensors"]
    assert load_metric(out / "metric.safetensors").certificate.status == "interrupted"
    if json:
        assert done.json["time_limit"] == 60
        assert done.json["files"] == {"metric": str(out / "metric.safetensors")}
    else:
        assert "--time-limit" in done.out and "load_metric" in done.out


def test_a_time_limit_before_any_metric_is_an_error(run, csv, tmp_path, monkeypatch, limits):
    monkeypatch.setattr(FrobMetric, "fit", lambda *_, **__: limits[0]._end() or time.sleep(60))
    limited = ("learn", csv, "--label", "kind", "--method", "frob", "--time-limit", 60)
    done = run(*limited, "--out", tmp_path / "out")
    assert done.code == 2
    assert "--time-limit 60" in done.err and "--max-rows" in done.err


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_a_time_limit_ends_what_takes_longer(handler):
    """Also in a job in the background, where shells have interrupts ignored; others still are."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt), TimeLimit(0.05) as limit:
            if handler == signal.SIG_IGN:
                signal.raise_signal(signal.SIGINT)
            for _ in range(1000):
                time.sleep(0.01)
        assert limit.is_over
        assert signal.getsignal(signal.SIGINT) == handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_after_the_metric_says_where_it_is(run, csv, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("conemetric.report.metric.write_report", interrupted)
    done = run("learn", csv, "--label", "kind", "--method", "frob", "--out", tmp_path / "out")
    place = tmp_path / "out" / "metric.safetensors"
    assert (
        done.code == 130
        and f"the metric, not the rest, is in '{place}'" in done.err
        and place.exists()
    )


@pytest.mark.slow
def test_ctrl_c_saves_the_blend_so_far(child):
    process, out = child("interrupt", "auto")
    assert process.returncode == 130 and "Traceback" not in process.stderr
    assert "interrupted" in process.stderr and "blend" in process.stderr
    metric = load_metric(out / "metric.safetensors")
    assert metric.method == "AutoMetric" and len(metric.components) == 13


@pytest.mark.slow
def test_a_killed_run_leaves_no_half_written_metric(child):
    process, out = child("kill")
    assert process.returncode == -signal.SIGKILL
    assert not (out / "metric.safetensors").exists()


@first_of("target", ["auto", "continuous"])
@pytest.mark.parametrize("kind", ["fractions", "whole numbers", "with gaps"])
def test_a_quantity_is_learned_from_and_reported(
    run, written_report, frame, tmp_path, kind, target
):
    y = frame["f0"].to_numpy() * 100 + np.arange(178) / 7
    y = np.round(y).astype(int) if kind == "whole numbers" else y
    frame = frame.with_columns(pl.Series("price", y))
    if kind == "with gaps":
        frame = frame.with_columns(
            price=pl.when(pl.int_range(178) % 20 == 0).then(None).otherwise("price")
        )
    frame.write_csv(tmp_path / "prices.csv")
    args = ["learn", tmp_path / "prices.csv", "--label", "price", "--target", target]
    args += ["--ignore", "kind", "--out", tmp_path / "out"]
    result = run(*args, "--json")
    assert result.code == 0, result
    before, after = result.json["before"], result.json["after"]
    assert after["method"] == "frob" and 0 <= result.json["p_value"] <= 1
    for row in (before, after):
        assert row["r2"] == pytest.approx(1 - row["error"]) and row["rmse"] > 0
        assert row["low"] <= row["error"] <= row["high"]
    assert after["r2"] > 0.5
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h3>1 - R², Euclidean</h3>" in page and f"RMSE {before['rmse']:.4g}" in page


def test_whole_numbers_are_classes_where_that_is_said(run, frame, tmp_path):
    codes = np.arange(178) // 4 * 3
    frame.with_columns(kind=pl.Series(codes)).write_csv(tmp_path / "codes.csv")
    args = ["learn", tmp_path / "codes.csv", "--label", "kind", "--method", "frob", "--json"]
    for number, more in enumerate(([], ["--target", "classes"])):
        result = run(*args, *more, "--out", tmp_path / str(number))
        assert result.code == 0 and "r2" not in result.json["after"]
    result = run(*args, "--target", "continuous", "--out", tmp_path / "last")
    assert result.json["after"]["r2"] <= 1


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("as_words", [False, True])
def test_text_that_spells_dates_is_learned_as_time_unless_asked_for_as_words(
    run, tmp_path, form, as_words
):
    rng = np.random.default_rng(0)
    days = np.datetime64("2021-01-01") + rng.integers(0, 700, 200)
    table = pl.DataFrame(
        {
            "day": days.astype(str),
            "size": rng.normal(size=200),
            "y": np.where(days < np.datetime64("2022-01-01"), "early", "late"),
        }
    )
    path, out = tmp_path / f"table.{form}", tmp_path / "out"
    table.write_csv(path) if form == "csv" else table.write_parquet(path)
    words = ("--categorical", "day") if as_words else ()
    usual = ("--label", "y", "--method", "frob", "--no-decision", "--out", out, "--json")
    answer = run("learn", path, *usual, *words).json
    kinds = {c.name: c.kind for c in load_metric(out / "metric.safetensors").encoder.columns_}
    assert kinds["day"] == ("category" if as_words else "date")
    assert ("Dates: 'day'" in " ".join(answer["notes"])) != as_words
    assert as_words or answer["after"]["error"] < 0.1


@pytest.mark.parametrize("target", ["auto", "classes", "continuous"])
@pytest.mark.parametrize("kind", ["classes", "quantity"])
def test_it_says_what_many_whole_numbers_were_taken_for(run, tmp_path, kind, target):
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 30 if kind == "classes" else rng.permutation(3000)[:300]
    X = labels[:, None] + rng.normal(size=(300, 2))
    path = tmp_path / "table.csv"
    pl.DataFrame(X).with_columns(
        y=pl.Series(labels // (10 if target == "classes" else 1))
    ).write_csv(path)
    usual = ("--label", "y", "--method", "frob", "--no-decision", "--out", tmp_path / "out")
    answer = run("learn", path, *usual, "--target", target, "--json").json
    notes = " ".join(answer["notes"])
    assert ("whole numbers, taken as" in notes) == (target == "auto")
    if target == "auto":
        change = {"classes": "--target continuous", "quantity": "--target classes"}[kind]
        assert change in notes
