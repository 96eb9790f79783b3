"""Small fits beside other work: every estimator on wine, breast cancer and digits.

    python benchmarks/small_fits.py [--trees before=PATH/src now=src] [--busy 0 4] [--rounds 3]
                                    [--only FrobMetric NuMax] [--data wine]

Each tree is measured in a process of its own, in turn, with as many busy processes beside it. A
row shows the seconds of a first fit (wall), the median of later ones (wall / processor), and the
same with one thread everywhere (`OMP_NUM_THREADS=1`), which is the floor.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ESTIMATORS = ("FrobMetric", "BoostMetric", "DMLEig", "LMNNEig", "RelativeComparisons", "NuMax")
ESTIMATORS += ("GradientMetric", "AutoMetric", "MetricClassifier")
DATA = ("wine", "breast_cancer", "digits")
LIMIT = 120  # seconds of one worker

WORKER = """
import json, sys, time, warnings
import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler
warnings.simplefilter("ignore")
import conemetric
name, data, fits = sys.argv[1], sys.argv[2], int(sys.argv[3])
X, y = getattr(datasets, "load_" + data)(return_X_y=True)
X = X / 16 if data == "digits" else StandardScaler().fit_transform(X)
make = getattr(conemetric, name)
for _ in range(fits):
    model = make(random_state=0) if "random_state" in make().get_params() else make()
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(X) if name == "NuMax" else model.fit(X, y)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - processor]), flush=True)
"""


def fits(tree, name, data, rounds, threads=None):
    """(first wall, median wall of the rest, median processor of the rest); None past the limit."""
    environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve())}
    environment.pop("OMP_NUM_THREADS", None)
    if threads is not None:
        environment["OMP_NUM_THREADS"] = environment["OPENBLAS_NUM_THREADS"] = str(threads)
    command = [sys.executable, "-c", WORKER, name, data, str(rounds)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    times = [json.loads(line) for line in done.stdout.splitlines()]
    walls, processors = zip(*times[1:], strict=True)
    return times[0][0], statistics.median(walls), statistics.median(processors)


def shown(found):
    if found is None:
        return f"{'> ' + str(LIMIT):>24}"
    return f"{found[0]:8.2f}{found[1]:8.2f}{found[2]:8.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", nargs="+", default=["now=src"])
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=ESTIMATORS)
    parser.add_argument("--data", nargs="+", default=DATA)
    given = parser.parse_args()
    trees = dict(each.split("=") for each in given.trees)
    columns = [(name, None) for name in trees] + [(f"{list(trees)[-1]}, one thread", 1)]
    print(f"{os.cpu_count()} cores; each cell: first wall, later wall, later processor (s)")
    for busy in given.busy:
        print(f"\nbeside {busy} busy processes\n{'':36}", *(f"{c:>24}" for c, _ in columns), sep="")
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
        try:
            for data in given.data:
                for name in given.only:
                    row = f"{data:16}{name:20}"
                    for column, threads in columns:
                        tree = trees[column.removesuffix(", one thread")]
                        row += shown(fits(tree, name, data, given.rounds + 1, threads))
                    print(row, flush=True)
        finally:
            for other in others:
                other.kill()


if __name__ == "__main__":
    main()
