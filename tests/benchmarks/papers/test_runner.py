import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks import data
from benchmarks.papers import figure
from benchmarks.papers.__main__ import main
from benchmarks.papers.experiment import (
    Competitor,
    Experiment,
    Published,
    ScaleFreeC,
    ours,
    published_table,
)
from benchmarks.papers.runner import run
from benchmarks.papers.tables import EXPERIMENTS
from conemetric import FrobMetric

ROOT = Path(__file__).parents[3]
calls = []


@dataclass(frozen=True)
class Counting(Experiment):
    def measure(self, column, method, run):
        calls.append((column, method, run))
        value = {"good": 1.0, "bad": 3.0}[method] + run + (column == "beta:large")
        return {"value": value, "seconds": 0.5, "tolerance": 0.1}


METHODS = {"good": Competitor(), "bad": Competitor(), "absent": ours("NoSuchMetric")}
FAKE = Counting(
    name="fake",
    title="A fake",
    paper="nowhere",
    quantity="error",
    columns=("alpha", "beta:large"),
    methods=METHODS,
    published={
        ("alpha", "good"): Published(2.5, 0.3),
        ("alpha", "bad"): Published(4.0, 0.9),
        ("beta:large", "good"): Published(2.9),
    },
    runs={"alpha": 3, "beta:large": 1},
)


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


def test_ours_beside_theirs(tmp_path):
    table = run(FAKE, out=tmp_path)
    rows = {(row.dataset, row.method): row for row in table.rows}
    good = rows["alpha", "good"]
    assert (good.runs, good.mean, good.std, good.published, good.verdict) == (
        3,
        2.0,
        1.0,
        2.5,
        "better",
    )
    assert rows["alpha", "bad"].verdict == "equal"  # 4.0 against 4.0
    assert rows["beta:large", "good"].verdict == "better"  # by more than the tolerance of one run
    assert rows["beta:large", "bad"].verdict == ""
    assert len(table.skipped) == 2 and "NoSuchMetric is not installed" in table.skipped[0]
    text = str(table)
    assert "2.00 (1.00)" in text and "2.50 (0.30)" in text and "skipped alpha, absent" in text
    lines = (tmp_path / "fake.csv").read_text().splitlines()
    assert len(lines) == 5 and lines[0].startswith("dataset,method,runs,mean,std")
    assert (tmp_path / "fake.png").stat().st_size > 1000


def test_finished_cells_are_not_measured_again(tmp_path):
    run(FAKE, out=tmp_path, runs=1)
    assert len(calls) == 4
    table = run(FAKE, out=tmp_path, runs=2)
    assert len(calls) == 8 and len(set(calls)) == 8
    assert [row.runs for row in table.rows] == [2, 2, 2, 2]


def test_a_line_cut_short_is_measured_again(tmp_path):
    whole = run(FAKE, out=tmp_path)
    store = tmp_path / "fake.jsonl"
    cut = store.read_text()[:-20]
    store.write_text(cut)
    assert run(FAKE, out=tmp_path).rows == whole.rows
    assert len(calls) == len(set(calls)) + 1
    # another run may be writing to the file: nothing is taken back
    assert store.read_text().startswith(cut)
    assert run(FAKE, out=tmp_path).rows == whole.rows
    assert len(calls) == len(set(calls)) + 1


def test_two_runs_may_share_a_folder(tmp_path):
    """One is started while the other is half-way, as the callback of that one."""
    alone = run(FAKE, out=tmp_path / "alone")
    inner = []

    def start_another(record):
        if record["done"] == 3:
            inner.append(run(FAKE, out=tmp_path / "shared"))

    outer = run(FAKE, out=tmp_path / "shared", callback=start_another)
    assert inner[0].rows == outer.rows == alone.rows
    lines = (tmp_path / "shared" / "fake.jsonl").read_text().splitlines()
    assert len(lines) == 13 and all(json.loads(line) for line in lines)


def test_records_of_another_version_are_ignored(tmp_path):
    run(FAKE, out=tmp_path)
    store = tmp_path / "fake.jsonl"
    store.write_text(store.read_text().replace('"version": 1', '"version": 0'))
    run(FAKE, out=tmp_path)
    assert len(calls) == 2 * len(set(calls))


def test_columns_whose_data_cannot_be_had_are_skipped_unless_measured(tmp_path, monkeypatch):
    attempts = []

    def offline(**_):
        attempts.append(1)
        raise OSError("no route to host")

    monkeypatch.delenv("CONEMETRIC_DATA", raising=False)
    monkeypatch.setattr(data, "get_data_home", lambda: str(tmp_path / "home"))
    monkeypatch.setattr(data, "fetch_openml", offline)
    fake = replace(FAKE, columns=("alpha", "pima", "frey"), published={}, runs=1)
    table = run(fake, out=tmp_path)
    assert [row.dataset for row in table.rows] == ["alpha", "alpha"] and len(attempts) == 1
    assert "pima, good: data set pima is not on this machine" in table.skipped[1]
    store = tmp_path / "fake.jsonl"
    store.write_text(store.read_text() + store.read_text().replace("alpha", "pima"))
    assert [row.dataset for row in run(fake, out=tmp_path).rows] == [
        *("alpha", "alpha", "pima", "pima")
    ]


def test_choice_of_data_sets_and_methods(tmp_path):
    table = run(FAKE, out=tmp_path, datasets=["beta"], methods=["good"])
    assert [(row.dataset, row.method) for row in table.rows] == [("beta:large", "good")]


def test_callback_counts_the_cells(tmp_path):
    seen = []
    run(FAKE, out=tmp_path, callback=lambda record: seen.append((record["done"], record["total"])))
    assert seen == [(i + 1, 8) for i in range(8)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"datasets": ["gamma"]}, r"datasets \['gamma'\] are not in fake"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"runs": 0}, "runs=0"),
        ({"methods": ["ugly"]}, r"methods \['ugly'\] are not in fake"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(FAKE, **arguments, out=tmp_path)


def test_every_experiment_is_well_formed():
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        for column in experiment.columns:
            assert experiment.n_runs(column) >= 1
        assert {column for column, _ in experiment.published} <= set(experiment.columns)


def test_published_table():
    table = published_table(["a", "b"], "x | 1.5 (0.2) | -\ny | 2 | 3")
    assert table == {("a", "x"): (1.5, 0.2), ("a", "y"): (2.0, None), ("b", "y"): (3.0, None)}
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        published_table(["a", "b"], "x | 1")


def test_scale_free_grid_is_the_estimators_own_rule():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    X = rng.normal(size=(60, 3)) + y[:, None]
    metric = FrobMetric(tol=0.1).fit(X, y)
    (small,), (large,) = ScaleFreeC(1.0)(X, y), ScaleFreeC(1.0)(10 * X, y)
    assert small["C"] == pytest.approx(large["C"] * 1e4)
    kappas = [metric.C_ / small["C"], FrobMetric(tol=0.1).fit(10 * X, y).C_ / large["C"]]
    assert kappas[0] == pytest.approx(kappas[1])


TABLE = EXPERIMENTS["frobmetric-table1"]
ARGUMENTS = {"runs": 6, "datasets": ["iris"], "methods": ["Euclidean", "FrobMetric, default C"]}
SCRIPT = """
import time
from benchmarks.papers.runner import run
from benchmarks.papers.tables import EXPERIMENTS
run(EXPERIMENTS["frobmetric-table1"], **{arguments}, n_jobs={jobs}, out={out!r},
    callback=lambda record: time.sleep(0.05))
"""


def cells(store):
    """What the file holds of every cell, without the time it took, and the number of lines."""
    lines = store.read_text().splitlines()
    records = [{**record, "seconds": None} for record in map(json.loads, lines)]
    return {
        (record["dataset"], record["method"], record["run"]): record for record in records
    }, len(lines)


def without_times(table):
    return [
        (row.dataset, row.method, row.runs, row.mean, row.std, row.verdict) for row in table.rows
    ]


def columns(path):
    with path.open() as file:
        return [{**row, "seconds": None} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    return folder, run(TABLE, **ARGUMENTS, out=folder)


@pytest.mark.slow
@pytest.mark.parametrize(("jobs", "kills"), [(1, 2), (2, 1)])
def test_killed_and_restarted_gives_the_same_table(tmp_path, uninterrupted, jobs, kills):
    """Killed with all its processes, each time a random while after a random number of
    new records.
    """
    folder, whole = uninterrupted
    random = np.random.default_rng(jobs)
    store = tmp_path / "frobmetric-table1.jsonl"
    finished = 0
    for _ in range(kills):
        enough = finished + int(random.integers(1, 4))
        script = SCRIPT.format(arguments=ARGUMENTS, jobs=jobs, out=str(tmp_path))
        process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, start_new_session=True)
        while process.poll() is None and not (
            store.exists() and store.read_text().count("\n") >= enough
        ):
            time.sleep(0.005)
        time.sleep(float(random.uniform(0, 0.05)))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        finished = store.read_text().count("\n")
        assert enough <= finished < 12, "the run was to be killed half-way"
    remeasured = []
    resumed = run(TABLE, **ARGUMENTS, out=tmp_path, n_jobs=jobs, callback=remeasured.append)
    assert len(remeasured) == 12 - finished
    assert without_times(resumed) == without_times(whole)
    assert columns(tmp_path / "frobmetric-table1.csv") == columns(folder / "frobmetric-table1.csv")
    assert cells(store) == cells(folder / "frobmetric-table1.jsonl")


def test_roc_curves_are_means_over_runs():
    ax = Figure().subplots()
    figure._curves(ax, [{"method": "a", "curve": [[0, 1], values]} for values in ([0, 1], [1, 1])])
    assert ax.lines[0].get_ydata().tolist() == [0.5, 1.0]
    assert ax.lines[0].get_label() == "a (0.750)"


def test_the_command_lists_measures_and_continues(tmp_path, capsys):
    main(["--list", "--json"])
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [entry["name"] for entry in listed] == list(EXPERIMENTS)
    assert {entry["duration"] for entry in listed} <= {"a minute", "minutes", "hours", "?"}
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(EXPERIMENTS) and lines[0].split()[1] == listed[0]["duration"]
    chosen = ["frobmetric-table1", "--runs=1", "--datasets=iris,wine", f"--out={tmp_path}"]
    for methods in (["Euclidean"], ["Euclidean", "FrobMetric, default C"]):
        chosen += [f"--methods={methods[-1]}"]
        main([*chosen, "--json"])
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert [row["method"] for row in rows] == methods * 2
        assert [row["published"] for row in rows if row["method"] == "Euclidean"] == [28.08, 3.64]
    assert len((tmp_path / "frobmetric-table1.jsonl").read_text().splitlines()) == 4
    main(chosen)
    assert "FrobMetric, default C" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["frobmetric-table1", "--runs", "0"], "runs=0"),
        (["frobmetric-table1", "--datasets", "iris,gamma"], "['gamma'] are not in"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--out", str(tmp_path)])
    assert end.value.code == 2 and message in capsys.readouterr().err.splitlines()[-1]
