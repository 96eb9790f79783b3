"""How the seconds and memory of a whole fit grow with points, triplets and dimensions.

Each is varied alone, the others fixed, on Gaussian classes. Prints seconds, peak memory and iterations,
and the exponent of a power law fitted to the times.

    python -m benchmarks scaling --methods FrobMetric BoostMetric --out scaling.json

Data: simulated
Minutes: 1 for each method
"""

import json
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import conemetric

from ..command import command_parser
from ..measuring import exponent

BASE = {"n": 2000, "D": 50, "impostors": 3}
VARIED = {
    "n": (500, 1000, 2000, 4000, 8000),
    "impostors": (1, 3, 10, 30),
    "D": (10, 50, 100, 200, 400),
}


def classes(n, D, seed=0):
    """Ten overlapping Gaussian classes in D dimensions, the differences between them in
    a few of these.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 10, n)
    centres = np.zeros((10, D))
    centres[:, : min(D, 10)] = 2 * rng.normal(size=(10, min(D, 10)))
    return rng.normal(size=(n, D)) + centres[y], y


def measure(method, n, D, impostors):
    X, y = classes(n, D)
    estimator = getattr(conemetric, method)()
    if "n_impostors" in estimator.get_params():
        estimator.set_params(n_impostors=impostors)
    tracemalloc.start()
    began = time.perf_counter()
    estimator.fit(X, y)
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return {"seconds": seconds, "peak_mib": peak, "n_iter": int(estimator.n_iter_)}


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--methods", nargs="*", default=["FrobMetric"])
    parser.add_argument("--out", type=Path, default=Path("scaling.json"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    records = []
    for method in options.methods:
        measure(method, 200, 10, 3)  # compiles
        for name, values in VARIED.items():
            times = []
            for value in values:
                record = {"method": method, "varied": name, **BASE, name: value}
                record |= measure(method, record["n"], record["D"], record["impostors"])
                records.append(record)
                times.append(record["seconds"])
                print(
                    f"{method:14s} {name:>9s} = {value:<6d} {record['seconds']:9.3f} s "
                    f"{record['peak_mib']:8.0f} MiB "
                    f"{record['n_iter']:5d} iterations",
                    flush=True,
                )
            slope = exponent(values[1:], times[1:])
            print(f"{method:14s} time grows as {name}^{slope:.2f}")
            options.out.write_text(json.dumps(records, indent=1))
