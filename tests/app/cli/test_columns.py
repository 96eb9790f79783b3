"""What the columns and the label of a file are taken for, and what is said about it."""

import numpy as np
import polars as pl
import pytest

from conemetric.app.cli.learn import Learn
from conemetric.app.cli.loading import load_task


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No report and no second fit to all rows, which have tests of their own."""
    monkeypatch.setattr("conemetric.app.report.metric.write_report", lambda *args, **kwargs: None)
    monkeypatch.setattr("conemetric.app.studies.study._refitted", lambda task, study, *_: study)


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
