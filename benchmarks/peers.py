"""Our metrics beside everyone else's: same data, same split, same 3-NN, each peer in its own virtual environment.

    python benchmarks/peers.py [--datasets iris digits ...] [--methods ...] [--out peers.json] [--limit 300]

Environments are made once, with pip, under --environments. Results already in --out are kept; delete the file to start anew.
Times are processor seconds. The last column says, for each peer, how much less our fastest method of equal or lower error takes.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from peer_worker import METHODS

from conemetric.datasets import available, load
from conemetric.evaluation.knn import knn_error, preprocessing, random_splits

WORKER = Path(__file__).with_name("peer_worker.py")
# prefix of the method: (interpreter wanted, one pip install after the other)
ENVIRONMENTS = {
    "metric-learn": ("python3", [["metric-learn==0.7.0", "scikit-learn==1.7.*"]]),
    "pyDML": (
        "python3.10",
        [
            ["numpy==1.23.5", "cython<3", "wheel", "setuptools<70"],
            ["--no-build-isolation", "numpy==1.23.5", "scikit-learn<1.3", "pyDML"],
        ],
    ),
}
OURS = ("FrobMetric", "FrobMetric, gap 0.1", "BoostMetric", "BoostMetric, 50 rounds", "DMLEig", "LMNNEig")
UNSUPERVISED = ("Euclidean", "PCA")
# name: (preparation, rows used at most, splits)
SETS = {
    "iris": ({"standardise": True}, None, 4),
    "wine": ({"standardise": True}, None, 4),
    "wdbc": ({"standardise": True}, None, 2),
    "digits": ({}, None, 4),
    "letter": ({"standardise": True}, 3000, 1),
    "usps11000": ({"n_components": 60}, 3000, 1),
}


def interpreter(method, folder):
    """The Python that runs a method; its environment is made when missing."""
    prefix = method.partition(" ")[0]
    if prefix not in ENVIRONMENTS:
        return sys.executable
    wanted, installs = ENVIRONMENTS[prefix]
    home = folder / prefix
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        subprocess.run([shutil.which(wanted) or sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        for packages in installs:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return str(python)


def prepared(name, run):
    """Training and test part of one split, scaled to unit mean square so that no peer overflows."""
    prepare, limit, _ = SETS[name]
    data = load(name)
    split = list(random_splits(len(data.X), (0.7, 0.0, 0.3), run + 1))[run]
    keep = 1.0 if limit is None else min(1.0, limit / len(data.X))
    train, test = (rows[: round(keep * len(rows))] for rows in (split.train, split.test))
    steps = preprocessing(**prepare).fit(data.X[train])
    X, T = steps.transform(data.X[train]), steps.transform(data.X[test])
    scale = np.sqrt((X**2).mean())
    return X / scale, data.y[train], T / scale, data.y[test]


def measure(method, name, runs, environments, limit):
    """One record per split; a failure is a record too."""
    try:
        python = interpreter(method, environments)
    except subprocess.CalledProcessError as error:
        return [{"failure": f"no environment: pip ended with {error.returncode}"}]
    parts = [prepared(name, run) for run in range(runs)]
    with tempfile.TemporaryDirectory() as scratch:
        for run, (X, y, _, _) in enumerate(parts):
            np.savez(Path(scratch) / f"data{run}.npz", X=X, y=y)
        try:
            command = [python, str(WORKER), method, scratch, str(limit)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except subprocess.CalledProcessError as error:
            if error.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return [{"failure": f"not done after {limit} s of processor time"}]
            return [{"failure": (error.stderr.strip().splitlines() or ["no message"])[-1][:150]}]
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
        maps = [np.load(Path(scratch) / f"components{run}.npz")["components"] for run in range(runs)]
    return [
        {**json.loads(line), "error": 100 * knn_error(None, X @ L.T, y, T @ L.T, labels, 3)}
        for line, L, (X, y, T, labels) in zip(lines, maps, parts, strict=True)
    ]


def report(results):
    for name in dict.fromkeys(record["dataset"] for record in results):
        rows = {}
        for method in METHODS:
            group = [r for r in results if (r["dataset"], r["method"]) == (name, method)]
            if group and "failure" in group[0]:
                rows[method] = group[0]["failure"]
            elif group:
                rows[method] = {key: float(np.mean([r[key] for r in group])) for key in ("error", "seconds", "peak_mib")}
        print(f"\n{name}\n{'method':24s} {'error %':>8s} {'CPU s':>9s} {'MiB':>7s}  our fastest at no higher error")
        for method, row in rows.items():
            if isinstance(row, str):
                print(f"{method:24s} {row}")
                continue
            rivals = [(rows[o]["seconds"], o) for o in OURS if isinstance(rows.get(o), dict) and rows[o]["error"] <= row["error"]]
            remark = ""
            if method not in OURS and method not in UNSUPERVISED:
                remark = f"{row['seconds'] / min(rivals)[0]:8.1f} x  {min(rivals)[1]}" if rivals else "none"
            print(f"{method:24s} {row['error']:8.2f} {row['seconds']:9.3f} {row['peak_mib']:7.0f}  {remark}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="*", default=[name for name in SETS if available(name)], choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=Path("peers.json"))
    parser.add_argument("--environments", type=Path, default=Path("peer-environments"))
    parser.add_argument("--limit", type=int, default=300, help="processor seconds after which a method is given up")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else []
    known = {(r["dataset"], r["method"]) for r in results}
    for name in options.datasets:
        for method in options.methods:
            if (name, method) not in known:
                records = measure(method, name, SETS[name][2], options.environments.absolute(), options.limit)
                results += [{"dataset": name, "method": method, "run": run, **r} for run, r in enumerate(records)]
                options.out.write_text(json.dumps(results, indent=1))
    report(results)


if __name__ == "__main__":
    main()
