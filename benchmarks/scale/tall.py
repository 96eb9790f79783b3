"""Many rows of large embeddings, 20,000 x 1,536 in float32: the parts of a fit by two
versions of the library in one run, each in a process of its own.

    git archive 78e8af7 src | tar x -C /tmp/before
    python benchmarks/tall.py --trees before=/tmp/before/src now=src
    python benchmarks/tall.py --trees now=src --rows 2000 --features 256

Neighbours are searched by each version, and the solve is timed on the triplets of the
first: adjoint, eigendecomposition, forward, how often each, and the certificate. The data:
40 classes in 60 directions, noise whose spread falls off over the features, unit rows.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np


def embeddings(n, D):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, n)
    centres = rng.normal(size=(40, 60)) @ rng.normal(size=(60, D)) / 60**0.5
    X = centres[y] + 2.5 * rng.normal(size=(n, D)) * np.linspace(1.5, 0.5, D)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


class Clock:
    """Seconds and calls of some functions, by name."""

    def __init__(self):
        self.seconds, self.calls, self.depth = {}, {}, 0

    def watch(self, owner, function, name):
        original = getattr(owner, function)

        def timed(*args, **options):
            began = time.perf_counter()
            try:
                return original(*args, **options)
            finally:
                spent = time.perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.calls[name] = self.calls.get(name, 0) + 1

        setattr(owner, function, timed)


def worker(n, D, triplets):
    warnings.simplefilter("ignore")
    from conemetric import FrobMetric
    from conemetric.constraints.in_memory import triplets_from_labels
    from conemetric.core import spectral
    from conemetric.operators.numpy import PairOperator

    small = embeddings(300, 20)
    FrobMetric(max_iter=3).fit(small[0], small[1])  # compile
    X, y = embeddings(n, D)
    began = time.perf_counter()
    T = triplets_from_labels(X, y, 3, 3)
    neighbours = time.perf_counter() - began
    if triplets.exists():
        T = np.load(triplets)
    else:
        np.save(triplets, T)
    clock = Clock()
    clock.watch(PairOperator, "pair_adjoint", "adjoint")
    clock.watch(PairOperator, "pair_forward_factor", "forward")
    clock.watch(spectral, "psd_split", "eigendecomposition")
    began, cpu = time.perf_counter(), time.process_time()
    metric = FrobMetric(C=1000.0).fit(X, triplets=T)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    certificate = metric.certificate_
    return {
        "neighbours": neighbours,
        "fit": seconds,
        "cpu": cpu,
        "seconds": clock.seconds,
        "calls": clock.calls,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.relative_gap,
        "rank": metric.components_.shape[0],
        "iterations": metric.n_iter_,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", nargs="*", default=["now=src"])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--features", type=int, default=1536)
    parser.add_argument("--worker", type=Path, default=None)
    args = parser.parse_args()
    if args.worker is not None:
        print(json.dumps(worker(args.rows, args.features, args.worker)))
        return
    with TemporaryDirectory() as folder:
        for tree in args.trees:
            name, path = tree.split("=")
            command = [sys.executable, __file__, "--worker", f"{folder}/triplets.npy"]
            command += ["--rows", str(args.rows), "--features", str(args.features)]
            environment = {**os.environ, "PYTHONPATH": str(Path(path).resolve())}
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            parts = ", ".join(
                f"{part} {seconds:.2f} s ({found['calls'][part]} times)"
                for part, seconds in found["seconds"].items()
            )
            print(
                f"{name}: neighbours {found['neighbours']:.1f} s; fit to the triplets "
                f"{found['fit']:.1f} s ({found['cpu']:.1f} s of CPU): {parts}; objective "
                f"{found['primal']:.6g}, bound {found['dual']:.6g}, gap {found['gap']:.1e}, rank "
                f"{found['rank']}, {found['iterations']} iterations",
                flush=True,
            )


if __name__ == "__main__":
    main()
