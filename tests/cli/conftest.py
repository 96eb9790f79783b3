"""Files to learn from, and a way to run the command line in this process."""

import json
from functools import cache
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import typer.main
from sklearn.datasets import load_wine

from conemetric.cli import main

X, y = load_wine(return_X_y=True)
KINDS = np.array(["Barolo", "Grignolino", "Barbera"])[y]


commands = cache(typer.main.get_command)  # of the app: as long to make as a short command takes


@pytest.fixture
def run(capsys, monkeypatch):
    """``run("learn", ...)`` gives exit code, stdout, stderr, and the JSON answer where
    there is one.
    """
    monkeypatch.setattr(typer.main, "get_command", commands)

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        answer = json.loads(captured.out) if "--json" in arguments and captured.out else None
        return SimpleNamespace(code=end.value.code, out=captured.out, err=captured.err, json=answer)

    return call


@pytest.fixture
def frame():
    """Wine, with a text label, an id and a column of words."""
    names = [f"f{i}" for i in range(X.shape[1])]
    more = {"kind": KINDS, "bottle": [f"b{i}" for i in range(len(y))], "note": ["dry"] * len(y)}
    return pl.DataFrame(X, schema=names).with_columns(
        **{name: pl.Series(values) for name, values in more.items()}
    )


@pytest.fixture
def csv(tmp_path, frame):
    path = tmp_path / "wine.csv"
    frame.write_csv(path)
    return path


@pytest.fixture
def pairs(tmp_path):
    """Pairs by bottle id."""
    indices = np.random.default_rng(0).integers(len(y), size=(300, 2))
    indices = indices[indices[:, 0] != indices[:, 1]]
    ids = [[f"b{i}" for i in column] for column in indices.T]
    path = tmp_path / "pairs.csv"
    pl.DataFrame(
        {"one": ids[0], "other": ids[1], "same": y[indices[:, 0]] == y[indices[:, 1]]}
    ).write_csv(path)
    return path


@pytest.fixture
def triplets(tmp_path):
    """Triplets by row number."""
    rows = np.random.default_rng(0).integers(len(y), size=(4000, 3))
    i, j, k = rows.T
    path = tmp_path / "triplets.csv"
    pl.DataFrame(
        rows[(y[i] == y[j]) & (y[i] != y[k]) & (i != j)][:200], schema=["i", "j", "k"]
    ).write_csv(path)
    return path


@pytest.fixture
def written_report():
    """For tests that look at a report, among others that need none (`no_report`)."""


@pytest.fixture
def no_report(request, monkeypatch):
    """No report is written, but where `written_report` asks for it: it takes longer than the rest."""
    if "written_report" not in request.fixturenames:
        for function in ("metric.write_report", "adaptation.write_retrieval_report"):
            monkeypatch.setattr(f"conemetric.report.{function}", lambda *args, **kwargs: None)


@pytest.fixture(autouse=True)
def quick_comparison(few_trees):
    """Every study here compares with small models."""
