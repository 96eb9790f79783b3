"""``conemetric learn`` from many files, in this process and on clusters."""

from functools import partial
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from conemetric import FrobMetric, load_metric
from conemetric.cli.reading import partitions as module
from conemetric.cli.reading.partitions import find_partitions
from conemetric.cli.reading.reading import Reading
from conemetric.studies import Options, partitioned
from conemetric.studies.partitioned import Partitioned
from conemetric.studies.task import table_encoder

pytest.importorskip("dask.array")
pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def pattern(tmp_path, frame):
    """Wine in three files, one of them empty, with a column that numbers the rows."""
    table = frame.with_columns(row_id=pl.int_range(len(frame)))
    mixed = table.sample(fraction=1.0, shuffle=True, seed=0)
    for k, (start, stop) in enumerate([(0, 100), (100, 100), (100, 178)]):
        mixed[start:stop].write_parquet(tmp_path / f"part-{k}.parquet")
    return str(tmp_path / "part-*.parquet")


@pytest.mark.slow
def test_the_same_metric_in_this_process_and_on_a_cluster(run, pattern, tmp_path):
    distributed = pytest.importorskip("distributed")
    usual = "learn", pattern, "--label", "kind", "--numeric", "row_id", "--tol", "1e-2"
    here = run(*usual, "--out", tmp_path / "here", "--json")
    assert here.code == 0
    assert here.json["rows"] == 178 and here.json["features"] == 14
    assert here.json["after"]["status"] == "converged"
    assert "Learned from all 125 training rows, in 2 partitions." in here.json["notes"]
    local = run(*usual, "--out", tmp_path / "local", "--workers", "2")
    assert local.code == 0
    assert "computing on 2 workers; dashboard: http" in local.err
    with distributed.LocalCluster(
        n_workers=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        address = cluster.scheduler_address
        given = run(*usual, "--out", tmp_path / "given", "--scheduler", address)
    assert given.code == 0
    metrics = [
        load_metric(tmp_path / name / "metric.safetensors") for name in ("here", "local", "given")
    ]
    for metric in metrics[1:]:
        np.testing.assert_array_equal(metric.components, metrics[0].components)


def test_large_files_are_cut_and_held_out_rows_not_learned_from(pattern, monkeypatch):
    monkeypatch.setattr(module, "PARTITION_BYTES", 14 * 8 * 30)
    parts = find_partitions(pattern, Reading(label="kind", numeric=["row_id"]))
    assert len(parts.sizes) == 4 + 3 and max(parts.sizes) <= 30 and sum(parts.sizes) == 178
    assert parts.names == [*(f"f{i}" for i in range(13)), "row_id"]
    options = Options(test_size=0.25)
    task = Partitioned.of(parts.read, parts.sizes, options)
    task = task.split(options, np.random.default_rng(0)).prepared(_Same())
    X, _ = task.collections()
    numbers = X[:, -1].compute().astype(int)
    held_out = task.X[task.test][:, -1].astype(int)
    assert len(held_out) == 44
    assert sorted([*numbers, *held_out]) == list(range(178))


class _Same:
    def transform(self, X):
        return X


def test_rows_are_numbered_by_a_column_that_is_left_out(pattern):
    parts = find_partitions(pattern, Reading(label="kind"))
    assert "row_id" not in parts.names
    assert any("looks like a row number" in note for note in parts.notes)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--label", "kinds"], "did you mean 'kind'"),
        ([], "with --label"),
        (["--label", "kind", "--id", "bottle"], "--id cannot be used with many files"),
        (["--label", "kind", "--workers", "2", "--scheduler", "tcp://x:1"], "pass one of them"),
        (["--label", "kind", "--method", "numax"], "works in memory"),
        (["--label", "bottle"], "pass --label a column whose values recur."),
    ],
)
def test_what_does_not_go_together_is_said(run, pattern, tmp_path, arguments, message):
    result = run("learn", pattern, *arguments, "--out", tmp_path / "out")
    assert result.code == 2
    assert message in result.err


def test_files_must_be_alike(run, pattern, tmp_path, frame):
    frame.drop("f3").write_parquet(tmp_path / "part-9.parquet")
    result = run("learn", pattern, "--label", "kind", "--out", tmp_path / "out")
    assert result.code == 2
    assert "column 'f3' holds nothing" in result.err
    result = run("learn", tmp_path / "no-*.parquet", "--label", "kind")
    assert result.code == 2
    assert "there is no file" in result.err


def test_the_certificate_is_that_of_the_same_rows_in_memory(pattern):
    parts = find_partitions(pattern, Reading(label="kind"))
    options = Options(test_size=0.25)
    task = Partitioned.of(parts.read, parts.sizes, options)
    task = task.split(options, np.random.default_rng(0)).prepared(_Same())
    metric = FrobMetric(tol=1e-9)
    task.fit(metric)
    expected = FrobMetric(tol=1e-9).fit(*(part.compute() for part in task.collections()))
    assert metric.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-8)


@pytest.mark.parametrize("vectors", [False, True])
def test_words_and_gaps_are_learned_from_and_reported(
    run, written_report, frame, tmp_path, vectors
):
    rows = pl.int_range(len(frame))
    table = frame.with_columns(
        colour=pl.Series(np.array(["red", "white", "rosé"])[np.arange(178) // 60]),
        f3=pl.when(rows % 9 > 0).then("f3"),
    ).sample(fraction=1.0, shuffle=True, seed=0)
    if vectors:
        table = table.with_columns(vector=pl.concat_list("f0", "f1")).drop("f0", "f1")
    for k in range(2):
        table[k * 100 : (k + 1) * 100].write_parquet(tmp_path / f"part-{k}.parquet")
    args = ("--label", "kind", "--out", tmp_path / "out", "--tol", "1e-2", "--json")
    answer = run("learn", tmp_path / "part-*.parquet", *args).json
    notes = " ".join(answer["notes"])
    assert "Categories: 'colour'" in notes and "Missing values: 'f3'" in notes
    assert answer["features"] == 14 and answer["after"]["error"] < 0.2
    metric = load_metric(tmp_path / "out" / "metric.safetensors")
    assert {column.name: column.kind for column in metric.encoder.columns_}["colour"] == "category"
    out = tmp_path / "embedded.npy"
    part = tmp_path / "part-1.parquet"
    metric_file = tmp_path / "out" / "metric.safetensors"
    assert run("embed", part, "--metric", metric_file, "--out", out).code == 0
    assert np.isfinite(np.load(out)).all() and len(np.load(out)) == 78


@pytest.mark.parametrize("n_pca", [None, 2])
@pytest.mark.parametrize("n_files", [1, 4])
def test_the_encoding_is_that_of_all_training_rows(frame, tmp_path, n_files, n_pca, monkeypatch):
    """Though a sample of 40 rows votes: rare words and all moments count."""
    monkeypatch.setattr(partitioned, "VOTING", 40)
    rows = pl.int_range(len(frame))
    table = frame.with_columns(
        colour=pl.when(rows % 50 == 0).then(pl.lit("rosé")).otherwise(pl.lit("red")),
        f3=pl.when(rows % 9 > 0).then("f3"),
    ).sample(fraction=1.0, shuffle=True, seed=0)
    ends = np.linspace(0, len(table), n_files + 1).astype(int)
    for k, (start, stop) in enumerate(pairwise(ends.tolist())):
        table[start:stop].write_parquet(tmp_path / f"part-{k}.parquet")
    parts = find_partitions(str(tmp_path / "part-*.parquet"), Reading(label="kind"))
    options = Options(test_size=0.25)
    task = Partitioned.of(parts.read, parts.sizes, options)
    task = task.split(options, np.random.default_rng(0))
    steps = [table_encoder(task.X), *([] if n_pca is None else [PCA(n_pca)])]
    prepare = task.fitted(make_pipeline(*steps))
    assert len(task.train) == 40 and len(task.test) == 44
    kept = np.delete(np.arange(178), task.sampled[task.test])
    whole = pl.concat([read()[0] for read in parts.read])
    expected = table_encoder(task.X).fit(whole[kept])
    np.testing.assert_allclose(prepare[0].transform(whole), expected.transform(whole), atol=1e-12)
    assert "colour=rosé" in " ".join(prepare[0].get_feature_names_out())
    assert prepare.transform(whole).shape[1] == (n_pca or expected.transform(whole).shape[1])


def test_gaps_do_not_read_the_sample_twice(frame, tmp_path):
    for k in range(3):
        part = frame.select("f0", "f1", "kind").with_columns(
            f0=pl.when(pl.int_range(178) > k).then("f0")
        )
        part.write_parquet(tmp_path / f"part-{k}.parquet")
    parts = find_partitions(str(tmp_path / "part-*.parquet"), Reading(label="kind"))
    calls = []

    def counted(read, **options):
        calls.append(options)
        return read(**options)

    read = [partial(counted, each) for each in parts.read]
    task = Partitioned.of(read, parts.sizes, Options())
    assert len(calls) <= len(read) + 1  # the names of the columns
    expected = pl.concat([each(table=True)[0] for each in parts.read])[task.sampled]
    assert task.X.equals(expected) and task.X.null_count().row(0) == (6, 0)


@pytest.mark.parametrize("gaps_in", [0, 1])
def test_gaps_in_numbers_alone_reach_the_report(run, written_report, frame, tmp_path, gaps_in):
    """Also where the first file has none."""
    table = frame.drop("bottle", "note").sample(fraction=1.0, shuffle=True, seed=0)
    for k in range(2):
        part = table[k * 89 : (k + 1) * 89]
        if k == gaps_in:
            part = part.with_columns(f3=pl.when(pl.int_range(89) % 9 > 0).then("f3"))
        part.write_parquet(tmp_path / f"part-{k}.parquet")
    args = ("--label", "kind", "--out", tmp_path / "out", "--tol", "1e-2", "--json")
    result = run("learn", tmp_path / "part-*.parquet", *args)
    assert result.code == 0, result.err
    assert "Missing values: 'f3' 5.6%, set to" in " ".join(result.json["notes"])
    assert "f3" in (tmp_path / "out" / "report.html").read_text()
    metric = load_metric(tmp_path / "out" / "metric.safetensors")
    assert [column.name for column in metric.encoder.columns_] == [f"f{i}" for i in range(13)]
    embedded = tmp_path / "embedded.npy"
    args = ("--metric", tmp_path / "out" / "metric.safetensors", "--out", embedded)
    assert run("embed", tmp_path / f"part-{gaps_in}.parquet", *args).code == 0
    assert np.isfinite(np.load(embedded)).all()


@pytest.mark.parametrize("bytes_each", [1 << 26, 14 * 8 * 30])
@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.costly
def test_held_out_rows_go_by_their_file_and_their_number_in_it(
    run, tmp_path, frame, monkeypatch, bytes_each, numbers
):
    """Rows without a label are left out and counted all the same."""
    monkeypatch.setattr(module, "PARTITION_BYTES", bytes_each)
    table = frame.sample(fraction=1.0, shuffle=True, seed=0).drop("bottle", "note")
    if numbers:
        table = table.with_columns(kind=pl.col("kind").str.len_chars().cast(pl.Int64))
    table = table.with_columns(kind=pl.when(pl.int_range(178) % 7 > 0).then("kind"))
    files = {}
    for k, (start, stop) in enumerate([(0, 100), (100, 178)]):
        path = tmp_path / f"part-{k}.parquet"
        files[str(path)] = table[start:stop]
        files[str(path)].write_parquet(path)
    result = run("learn", tmp_path / "part-*.parquet", "--label", "kind", "--json")
    assert result.code == 0, result.err
    n_left_out = table["kind"].null_count()
    assert f"Left out: {n_left_out} rows without a label." in result.json["notes"]
    assert result.json["rows"] == 178 - n_left_out
    shown = pl.read_csv(result.json["files"]["predictions"])
    assert shown.columns[:3] == ["file", "row", "true"]
    assert set(shown["file"]) == set(files)
    for file, row, true in shown.select("file", "row", "true").rows():
        assert files[file]["kind"][row] == true
    assert shown.select("file", "row").is_unique().all()


def test_files_without_any_label_are_refused(run, tmp_path, frame):
    frame.with_columns(kind=pl.lit(None, pl.String)).write_parquet(tmp_path / "part-0.parquet")
    result = run("learn", tmp_path / "part-*.parquet", "--label", "kind", "--out", tmp_path / "out")
    assert result.code == 2 and "no row with a label in column 'kind'" in result.err
