"""Runs an experiment cell by cell: each finished cell is on disk at once, so that a
killed run goes on where it stopped.

Cells are independent and seeded by their own place in the table, so that the numbers do
not depend on order, on the number of processes, or on interruptions. With several
processes each gets its share of the cores.
"""

import csv
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, cpu_count, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning

from conemetric.core.progress import all_or_nothing

from . import figure
from .experiment import Experiment

VERSION = 1  # of the records; those of another version are measured again


@dataclass(frozen=True)
class Row:
    """Ours beside theirs, for one method on one data set."""

    dataset: str
    method: str
    runs: int
    mean: float
    std: float
    seconds: float
    published: float | None
    published_std: float | None
    verdict: str  # better, equal, worse; empty without a published number


@dataclass(frozen=True)
class ResultTable:
    """Result of an experiment.

    Attributes
    ----------
    experiment : Experiment
    rows : list of Row
    skipped : list of str
        Cells that could not be measured, and why.
    records : list of dict
        One per cell and run.
    summary : list of dict
        What the whole table comes to, where its experiment says so.
    """

    experiment: Experiment
    rows: list[Row]
    skipped: list[str]
    records: list[dict[str, Any]]

    def __str__(self):
        e = self.experiment
        lines = [f"{e.title} ({e.paper}): {e.quantity}"]
        lines.append(
            f"{'data set':24s} {'method':24s} {'runs':>4s} {'ours':>17s} {'published':>17s}  "
            f"{'':6s} {'fit s':>8s}"
        )
        for row in self.rows:
            theirs = "" if row.published is None else _with_std(row.published, row.published_std)
            mine = _with_std(row.mean, row.std if row.runs > 1 else None)
            cells = f"{row.dataset:24s} {row.method:24s} {row.runs:4d} {mine:>17s} {theirs:>17s}"
            lines.append(f"{cells}  {row.verdict:6s} {row.seconds:8.2f}")
        for line in self.summary:
            lines.append(", ".join(f"{heading} {value}" for heading, value in line.items()))
        return "\n".join([*lines, *(f"skipped {text}" for text in self.skipped)])

    @property
    def summary(self):
        return self.experiment.summary(self.rows)


def _with_std(mean, std):
    return f"{mean:.2f}" if std is None else f"{mean:.2f} ({std:.2f})"


def run(
    experiment,
    runs=None,
    datasets=None,
    methods=None,
    out="reproduce",
    n_jobs=1,
    callback: Callable | None = None,
):
    """Measure an experiment, or continue one that was interrupted.

    Parameters
    ----------
    experiment : Experiment
    runs : int, default=None
        Runs per cell; None means as many as the paper has.
    datasets, methods : sequence of str, default=None
        Restrict to these; None means all.
    out : path, default="reproduce"
        Folder for NAME.jsonl (one line per finished cell; what is there is not measured
        again), NAME.csv and NAME.png.
    n_jobs : int, default=1
        Processes, which share the cores between them; -1 means one per core.
    callback : callable, default=None
        Called after each cell with its record, and ``done`` and ``total``.

    Returns
    -------
    ResultTable
    """
    if runs is not None and runs < 1:
        raise ValueError(f"runs={runs}; give a number of runs per cell from 1.")
    if n_jobs != -1 and n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}; give a number of processes, or -1 for one per core.")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"{experiment.name}.jsonl"
    records = _load(store)
    cells, skipped = _cells(experiment, runs, datasets, methods, records)
    todo = [cell for cell in cells if cell not in records]
    jobs = min(cpu_count() if n_jobs == -1 else n_jobs, max(1, len(todo)))
    with store.open("a") as file:
        for record in _measure_all(experiment, todo, jobs):
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
            records[_key(record)] = record
            if callback is not None:
                callback(
                    {**record, "done": sum(cell in records for cell in cells), "total": len(cells)}
                )
    table = _summary(experiment, [records[cell] for cell in cells], skipped)
    _write_csv(table, folder / f"{experiment.name}.csv")
    figure.draw(table, folder / f"{experiment.name}.png")
    return table


def _cells(experiment, runs, datasets, methods, records):
    """The cells asked for that are measured or can be, and why the others cannot."""
    for given, known, what in (
        (
            datasets,
            {name for column in experiment.columns for name in (column, column.partition(":")[0])},
            "datasets",
        ),
        (methods, set(experiment.methods), "methods"),
    ):
        unknown = sorted(set(given or ()) - known)
        if unknown:
            raise ValueError(
                f"{what} {unknown} are not in {experiment.name}; choose from {sorted(known)}."
            )
    cells, skipped = [], []
    for column in experiment.columns:
        if datasets and not {column, column.partition(":")[0]} & set(datasets):
            continue
        n_runs = runs or experiment.n_runs(column)
        wanted = {
            method: [(column, method, r) for r in range(n_runs)]
            for method in methods or experiment.methods
        }
        measured = {
            method for method, its in wanted.items() if all(cell in records for cell in its)
        }
        missing = None if len(measured) == len(wanted) else experiment.missing_data(column)
        for method, its in wanted.items():
            obstacle = (
                None if method in measured else missing or experiment.obstacle(column, method)
            )
            if obstacle:
                skipped.append(f"{column}, {method}: {obstacle}")
            else:
                cells += its
    # run by run, so that an interrupted experiment has all methods on the same splits
    return sorted(cells, key=lambda cell: (experiment.columns.index(cell[0]), cell[2])), skipped


def _key(record):
    return record["dataset"], record["method"], record["run"]


def _load(store):
    """Finished records; a line cut short by a kill is none, and is closed so that the
    next record has its own.

    Nothing is ever removed from the file, so that two runs may write to it at once:
    each appends whole lines.
    """
    if not store.exists():
        return {}
    text = store.read_text()
    if text and not text.endswith("\n"):
        with store.open("a") as file:
            file.write("\n")
    return {
        _key(record): record
        for record in map(_parse, text.splitlines())
        if record.get("version") == VERSION
    }


def _parse(line):
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return {}


def _measure_all(experiment, cells, jobs):
    if jobs == 1:
        yield from (_measure(experiment, *cell) for cell in cells)
        return
    with parallel_config(backend="loky", inner_max_num_threads=max(1, cpu_count() // jobs)):
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(
            delayed(_measure)(experiment, *cell) for cell in cells
        )


def _measure(experiment, column, method, run):
    with warnings.catch_warnings(record=True) as caught, all_or_nothing():
        warnings.simplefilter("always")
        measured = experiment.measure(column, method, run)
    unconverged = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    key = {"version": VERSION, "dataset": column, "method": method, "run": run}
    return {**key, **measured, "unconverged": unconverged}


def _summary(experiment, records, skipped):
    groups = defaultdict(list)
    for record in records:
        groups[record["dataset"], record["method"]].append(record)
    rows = []
    order = list(experiment.methods)
    for column, method in sorted(
        groups, key=lambda key: (experiment.columns.index(key[0]), order.index(key[1]))
    ):
        group = groups[column, method]
        values = np.array([record["value"] for record in group])
        mean, std = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0
        published = experiment.published.get((column, method))
        their_mean, their_std = (None, None) if published is None else published
        tolerance = _tolerance(published, std, group)
        verdict = (
            ""
            if published is None
            else _verdict(mean - published.mean, tolerance, experiment.lower_is_better)
        )
        seconds = float(np.mean([record["seconds"] for record in group]))
        rows.append(
            Row(column, method, len(values), mean, std, seconds, their_mean, their_std, verdict)
        )
    return ResultTable(experiment, rows, skipped, records)


def _tolerance(published, std, group):
    """One standard deviation: the published one, else ours over runs, else that of a single run."""
    if published is not None and published.std:
        return published.std
    return std or group[0].get("tolerance", 0.0)


def _verdict(excess, tolerance, lower_is_better):
    if abs(excess) <= tolerance:
        return "equal"
    return "better" if (excess < 0) == lower_is_better else "worse"


def _write_csv(table, path):
    names = list(Row.__dataclass_fields__)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in table.rows)
