import json
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np
import pytest
from matplotlib.figure import Figure

from conemetric import experiments
from conemetric.evaluation.statistics import compare
from conemetric.experiments import figure, get_experiment, list_experiments, run_experiment
from conemetric.experiments.definition import Experiment, Method, Published, ScaleFreeC, ours, published_table

calls = []


@dataclass(frozen=True)
class Counting(Experiment):
    def measure(self, column, method, run):
        calls.append((column, method, run))
        value = {"good": 1.0, "bad": 3.0}[method] + run + (column == "beta:large")
        return {"value": value, "seconds": 0.5, "tolerance": 0.1}


METHODS = {"good": Method(), "bad": Method(), "absent": ours("NoSuchMetric")}
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
def fake(monkeypatch):
    monkeypatch.setitem(experiments.EXPERIMENTS, "fake", FAKE)
    calls.clear()


def test_ours_beside_theirs(tmp_path):
    table = run_experiment("fake", out=tmp_path)
    rows = {(row.dataset, row.method): row for row in table.rows}
    good = rows["alpha", "good"]
    assert (good.runs, good.mean, good.std, good.published, good.verdict) == (3, 2.0, 1.0, 2.5, "better")
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
    run_experiment("fake", out=tmp_path, runs=1)
    assert len(calls) == 4
    table = run_experiment("fake", out=tmp_path, runs=2)
    assert len(calls) == 8 and len(set(calls)) == 8
    assert [row.runs for row in table.rows] == [2, 2, 2, 2]


def test_a_line_cut_short_is_measured_again(tmp_path):
    whole = run_experiment("fake", out=tmp_path)
    store = tmp_path / "fake.jsonl"
    store.write_text(store.read_text()[:-20])
    assert run_experiment("fake", out=tmp_path).rows == whole.rows
    assert len(calls) == len(set(calls)) + 1
    assert all(json.loads(line) for line in store.read_text().splitlines())


def test_records_of_another_version_are_ignored(tmp_path):
    run_experiment("fake", out=tmp_path)
    store = tmp_path / "fake.jsonl"
    store.write_text(store.read_text().replace('"version": 1', '"version": 0'))
    run_experiment("fake", out=tmp_path)
    assert len(calls) == 2 * len(set(calls))


def test_choice_of_data_sets_and_methods(tmp_path):
    table = run_experiment("fake", out=tmp_path, datasets=["beta"], methods=["good"])
    assert [(row.dataset, row.method) for row in table.rows] == [("beta:large", "good")]


def test_callback_counts_the_cells(tmp_path):
    seen = []
    run_experiment("fake", out=tmp_path, callback=lambda record: seen.append((record["done"], record["total"])))
    assert seen == [(i + 1, 8) for i in range(8)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "nothing"}, "'nothing' is not a known experiment; known: frobmetric-table1"),
        ({"name": "fake", "datasets": ["gamma"]}, r"datasets \['gamma'\] are not in fake"),
        ({"name": "fake", "methods": ["ugly"]}, r"methods \['ugly'\] are not in fake"),
    ],
)
def test_bad_arguments(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_experiment(**arguments, out=tmp_path)


def test_comparison_of_two_methods_uses_the_runs_they_share(tmp_path):
    table = run_experiment("fake", out=tmp_path)
    assert table.comparison("alpha", "good", "bad", 0.2) == compare([1, 2, 3], [3, 4, 5], 0.2)


def test_every_experiment_is_well_formed():
    for experiment in list_experiments():
        assert get_experiment(experiment.name) is experiment
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
    from conemetric import FrobMetric

    metric = FrobMetric(tol=0.1).fit(X, y)
    (small,), (large,) = ScaleFreeC(1.0)(X, y), ScaleFreeC(1.0)(10 * X, y)
    assert small["C"] == pytest.approx(large["C"] * 1e4)
    kappas = [metric.C_ / small["C"], FrobMetric(tol=0.1).fit(10 * X, y).C_ / large["C"]]
    assert kappas[0] == pytest.approx(kappas[1])


ARGUMENTS = {"name": "frobmetric-table1", "runs": 6, "datasets": ["iris"], "methods": ["Euclidean", "FrobMetric, default C"]}
SCRIPT = """
import time
from conemetric.experiments import run_experiment
run_experiment(**{arguments}, out={out!r}, callback=lambda record: time.sleep(0.05))
"""


def without_times(table):
    return [(row.dataset, row.method, row.runs, row.mean, row.std, row.verdict) for row in table.rows]


def test_killed_and_restarted_gives_the_same_table(tmp_path):
    script = SCRIPT.format(arguments=ARGUMENTS, out=str(tmp_path / "killed"))
    process = subprocess.Popen([sys.executable, "-c", script])
    store = tmp_path / "killed" / "frobmetric-table1.jsonl"
    while process.poll() is None and not (store.exists() and store.read_text().count("\n") >= 3):
        time.sleep(0.005)
    process.kill()
    process.wait()
    finished = store.read_text().count("\n")
    assert 3 <= finished < 12, "the run was to be killed half-way"
    remeasured = []
    resumed = run_experiment(**ARGUMENTS, out=tmp_path / "killed", callback=remeasured.append)
    assert len(remeasured) == 12 - finished
    assert without_times(resumed) == without_times(run_experiment(**ARGUMENTS, out=tmp_path / "whole"))


def test_roc_curves_are_means_over_runs():
    ax = Figure().subplots()
    figure._curves(ax, [{"method": "a", "curve": [[0, 1], values]} for values in ([0, 1], [1, 1])])
    assert ax.lines[0].get_ydata().tolist() == [0.5, 1.0]
