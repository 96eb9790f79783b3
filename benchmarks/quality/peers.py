"""Error, seconds and memory of our metrics and of everyone else's, on the same splits, by the same 3-NN.

Each peer runs in a virtual environment of its own, made once with pip under --environments (pyDML needs
a ``python3.10``). Results already in --out are kept; delete the file to start anew. Times are processor
seconds on one thread; no fit may take more than --limit of them, and a method that has spent --budget
on a data set starts no further split of it. The last column says, for each peer, how much less our
fastest method takes whose error is no higher on the splits that the peer has finished.

    python -m benchmarks peers --datasets iris digits --out peers.json --limit 300 --budget 120

Data: iris, wine, wdbc, digits, letter, usps11000
Minutes: 400 for everything (estimated)
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import is_available, load
from ..papers.knn_protocol import preprocessing, random_splits
from ._peer_worker import METHODS

WORKER = Path(__file__).with_name("_peer_worker.py")
# method or its first word: (interpreter wanted, one pip install after the other)
ENVIRONMENTS = {
    "metric-learn": ("python3", [["metric-learn==0.7.0", "scikit-learn==1.7.*"]]),
    # calls what later ones do not have
    "metric-learn SDML": ("python3", [["metric-learn==0.7.0", "scikit-learn==1.4.*"]]),
    "pyDML": (
        "python3.10",
        [
            ["numpy==1.23.5", "cython<3", "wheel", "setuptools<70"],
            ["--no-build-isolation", "numpy==1.23.5", "scikit-learn<1.3", "pyDML"],
        ],
    ),
}
OURS = (
    "FrobMetric",
    "FrobMetric, gap 0.1",
    "BoostMetric",
    "BoostMetric, 50 rounds",
    "DMLEig",
    "LMNNEig",
)
UNSUPERVISED = ("Euclidean", "PCA")
# name: (preparation, training rows, test rows, splits); "small" has so few rows,
# classes and dimensions that every peer finishes
SMALL_CLASSES = 10
SETS = {
    "iris": ({"standardise": True}, None, None, 10),
    "wine": ({"standardise": True}, None, None, 10),
    "wdbc": ({"standardise": True}, None, None, 10),
    "digits": ({}, None, None, 10),
    "letter": ({"standardise": True}, 2100, 900, 3),
    "usps11000": ({"n_components": 60}, 2100, 900, 3),
    "digits small": ({"n_components": 16}, 300, 540, 3),
    "letter small": ({"standardise": True}, 300, 900, 3),
    "usps11000 small": ({"n_components": 16}, 300, 900, 3),
}


def interpreter(method, folder):
    """The Python that runs a method; its environment is made when missing."""
    name = method if method in ENVIRONMENTS else method.partition(" ")[0]
    if name not in ENVIRONMENTS:
        return sys.executable
    wanted, installs = ENVIRONMENTS[name]
    home = folder / name
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        subprocess.run(
            [shutil.which(wanted) or sys.executable, "-m", "venv", "--clear", str(home)], check=True
        )
        for packages in installs:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return str(python)


def prepared(name, run):
    """Training and test part of one split, scaled to unit mean square so that no peer overflows."""
    prepare, n_train, n_test, _ = SETS[name]
    data = load(name.partition(" ")[0])
    split = list(random_splits(len(data.X), (0.7, 0.0, 0.3), run + 1))[run]
    kept = np.unique(data.y)[: SMALL_CLASSES if name.endswith(" small") else None]
    train, test = (rows[np.isin(data.y[rows], kept)] for rows in (split.train, split.test))
    train, test = train[:n_train], test[:n_test]
    steps = preprocessing(**prepare).fit(data.X[train])
    X = steps.transform(data.X[train])
    T = steps.transform(data.X[test])
    scale = np.sqrt((X**2).mean())
    return X / scale, data.y[train], T / scale, data.y[test]


def processor_seconds(pid):
    """Of a running process, from outside: a timer inside it would make its own clock coarse."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watched(command, results, limit):
    """Run ``command`` and yield the lines it appends to ``results``; a fit that takes
    more than ``limit`` seconds ends it.
    """
    one_thread = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
    )
    process = subprocess.Popen(
        command,
        env={**os.environ, **one_thread},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    n_read, began = 0, 0.0
    try:
        while True:
            time.sleep(0.1)
            ended = process.poll() is not None
            lines = results.read_text().splitlines() if results.exists() else []
            for line in lines[n_read:]:
                yield json.loads(line)
            if ended:
                if process.returncode:
                    yield {"failure": f"its process ended with {process.returncode}"}
                return
            if len(lines) > n_read:
                n_read, began = len(lines), processor_seconds(process.pid)
            elif n_read and processor_seconds(process.pid) - began > limit:
                yield {"failure": f"not done after {limit} s"}
                return
    finally:
        process.kill()
        process.wait()


def measure(method, name, first, environments, options):
    """Yield a record for each split from ``first`` on; a failure is a record too, and the last."""
    try:
        python = interpreter(method, environments)
    except subprocess.CalledProcessError as error:
        yield {"failure": f"no environment: pip ended with {error.returncode}"}
        return
    parts = [prepared(name, run) for run in range(first, SETS[name][3])]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for run, (X, y, _, _) in enumerate(parts):
            np.savez(folder / f"data{run}.npz", X=X, y=y)
        run = 0
        command = [python, str(WORKER), method, scratch, str(options.budget)]
        for record in watched(command, folder / "results.jsonl", options.limit):
            if "seconds" in record:
                X, y, T, labels = parts[run]
                L = np.load(folder / f"components{run}.npz")["components"]
                record["error"] = 100 * knn_error(None, X @ L.T, y, T @ L.T, labels, 3)
                run += 1
            if "ready" not in record:
                yield record


def summary(records):
    """For each method of one data set its splits, means over these, standard error of the
    error, failure, and for a supervised peer our fastest method whose mean error is no higher on
    the splits that the peer has finished, with the ratio of times.
    """
    rows = {}
    for method in METHODS:
        group = [r for r in records if r["method"] == method]
        done = {r["run"]: r for r in group if "seconds" in r}
        row = {
            "splits": len(done),
            "failure": next((r["failure"] for r in group if "failure" in r), None),
        }
        if done:
            row |= {
                key: np.mean([r[key] for r in done.values()])
                for key in ("error", "seconds", "peak_mib")
            }
            row["spread"] = (
                np.std([r["error"] for r in done.values()], ddof=1) / np.sqrt(len(done))
                if len(done) > 1
                else 0.0
            )
        if done and method not in OURS and method not in UNSUPERVISED:
            rivals = [(np.inf, "none")]
            for name in OURS:
                same = [
                    r
                    for r in records
                    if r["method"] == name and r["run"] in done and "seconds" in r
                ]
                if (
                    len(same) == len(done)
                    and np.mean([r["error"] for r in same]) <= row["error"] + 1e-9
                ):
                    rivals.append((np.mean([r["seconds"] for r in same]), name))
            seconds, row["rival"] = min(rivals)
            row["ratio"] = row["seconds"] / seconds
        if group:
            rows[method] = row
    return rows


def report(results):
    for name in dict.fromkeys(record["dataset"] for record in results):
        print(
            f"\n{name}\n{'method':24s} splits {'error %':>15s} {'CPU s':>9s} {'MiB':>7s}  our "
            "fastest at no higher error"
        )
        for method, row in summary([r for r in results if r["dataset"] == name]).items():
            line = f"{method:24s} {row['splits']:6d}"
            if row["splits"]:
                error = f"{row['error']:.2f} +- {row['spread']:.2f}"
                line += f" {error:>15s} {row['seconds']:9.4f} {row['peak_mib']:7.1f}"
            if "rival" in row:
                line += f"  {row['ratio']:.3g} x {row['rival']}" if row["ratio"] else "  none"
            print(line, (row["failure"] or "")[:150])


def write(results, path):
    """A record a line; the file is never seen half written."""
    new = path.with_suffix(".new")
    new.write_text("[\n" + ",\n".join(map(json.dumps, results)) + "\n]\n")
    new.replace(path)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    known = [name for name in SETS if is_available(name.partition(" ")[0])]
    parser.add_argument("--datasets", nargs="*", default=known, choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=Path("peers.json"))
    parser.add_argument("--environments", type=Path, default=Path("peer-environments"))
    parser.add_argument(
        "--limit", type=int, default=300, help="processor seconds after which a fit is given up"
    )
    parser.add_argument(
        "--budget",
        type=int,
        default=120,
        help="processor seconds after which no further split begins",
    )
    options = parser.parse_args(arguments)
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    for name in options.datasets:
        for method in options.methods:
            group = [r for r in results if (r["dataset"], r["method"]) == (name, method)]
            if (
                any("failure" in r for r in group)
                or sum(r["seconds"] for r in group) >= options.budget
            ):
                continue
            if len(group) < SETS[name][3]:
                for record in measure(
                    method, name, len(group), options.environments.absolute(), options
                ):
                    results.append({"dataset": name, "method": method, "run": len(group), **record})
                    group.append(results[-1])
                    write(results, options.out)
    report(results)
