"""``--groups``: rows that belong together are learned from or held out together."""

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_wine

X, y = load_wine(return_X_y=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)


@pytest.fixture
def grouped(tmp_path, frame):
    """Wine with a column of cellars, some of them unknown, and 20 rows without a label."""
    rng = np.random.default_rng(0)
    cellar = np.array([f"cellar {i}" for i in rng.integers(25, size=178)], object)
    cellar[:3] = None
    path = tmp_path / "grouped.csv"
    frame.with_columns(
        cellar=pl.Series(cellar.tolist()),
        kind=pl.when(pl.int_range(178) % 9 > 0).then("kind"),
    ).write_csv(path)
    return path, cellar


@pytest.mark.parametrize("label", ["kind", "f0"])
@pytest.mark.costly
def test_rows_of_a_group_are_held_out_together(run, grouped, tmp_path, label):
    path, cellar = grouped
    usual = ("--label", label, "--groups", "cellar", "--method", "frob", "--out", tmp_path / "out")
    ignored = ("--ignore", "kind") if label == "f0" else ()
    result = run("learn", path, *usual, *ignored, "--json")
    assert result.code == 0, result.err
    notes = " ".join(result.json["notes"])
    assert "Groups: 3 rows without one, each a group of its own." in notes
    assert "training and held-out rows share no group" in notes
    assert result.json["features"] == 13 - (label == "f0") and result.json["shared_rows"] == 0
    held_out = pl.read_csv(tmp_path / "out" / "predictions.csv")["row"].to_numpy()
    assert 20 < len(held_out) < 90
    known = {name for name in cellar[held_out] if name is not None}
    others = np.setdiff1d(np.arange(178), held_out)
    if label == "kind":
        others = others[others % 9 > 0]
    assert not known & set(cellar[others])


def test_pairs_with_groups(run, grouped, pairs, tmp_path):
    path, _ = grouped
    usual = (
        "--id",
        "bottle",
        "--ignore",
        "kind",
        "--pairs",
        pairs,
        "--groups",
        "cellar",
        "--tol",
        0.1,
    )
    result = run("learn", path, *usual, "--out", tmp_path / "out", "--json")
    assert result.code == 0, result.err
    assert result.json["shared_rows"] == 0
    assert any("share 0 rows and no group" in note for note in result.json["notes"])
    assert "pairs that share 0 rows with training" in result.json["verdict"]


def test_groups_in_an_array_file(run, tmp_path):
    rows = tmp_path / "rows.npz"
    np.savez(rows, X=X, y=y, who=np.arange(178) // 3, few=np.arange(5))
    usual = ("learn", rows, "--method", "frob", "--out", tmp_path / "out", "--overwrite", "--json")
    result = run(*usual, "--groups", "who")
    assert any("Groups: " in note for note in result.json["notes"])
    for name, words in (("other", "has no array 'other'"), ("few", "has shape (5,)")):
        result = run(*usual, "--groups", name)
        assert result.code == 2 and words in result.err and "--groups" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--groups", "celler"), "did you mean 'cellar'"),
        (("--groups", "note"), "all rows are of one group"),
        (("--groups", "kind"), "every class occurs in one group only"),
    ],
)
def test_groups_that_cannot_be(run, grouped, tmp_path, arguments, words):
    result = run("learn", grouped[0], "--label", "kind", *arguments, "--out", tmp_path / "out")
    assert result.code == 2 and words in result.err and "--groups" in result.err


def test_groups_need_a_file_of_their_own(run, tmp_path, frame):
    frame.write_parquet(tmp_path / "part-0.parquet")
    result = run("learn", tmp_path / "part-*.parquet", "--label", "kind", "--groups", "bottle")
    assert result.code == 2 and "--groups cannot be used with many files" in result.err
    result = run("learn", "wine", "--groups", "bottle")
    assert result.code == 2 and "--groups names a column of a file" in result.err


def test_compare_holds_groups_out_too(run, grouped, tmp_path):
    usual = ("--label", "kind", "--groups", "cellar", "--method", "frob", "--out", tmp_path / "out")
    result = run("compare", grouped[0], *usual, "--json")
    assert any("share no group" in note for note in result.json["notes"])
