"""How a fit in blocks grows with the workers, in this process and on a local cluster.

    python benchmarks/blocks_growth.py [--points 2000000] [--blocks 16] [--workers 1 2 4 8 16]

For each number of workers: seconds of the whole fit and per iteration, and how many times
faster than with one. Every fit runs in a process of its own, each worker with one thread.
"""

import argparse
import os
import subprocess
import sys

from blocks_overhead import MODES


def measured(options, mode, workers):
    """(seconds in all, seconds per iteration, bits) of one fit."""
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = {
        "mode": mode,
        "workers": workers,
        "points": options.points,
        "features": options.features,
        "blocks": options.blocks,
        "references": options.references,
        "iterations": options.iterations,
    }
    output = subprocess.run(
        [sys.executable, os.path.join(here, "blocks_overhead.py")]
        + [f"--{name}={value}" for name, value in arguments.items()],
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(workers),
            "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    line = next(line for line in output.splitlines() if line.startswith("RESULT"))
    _, whole, iteration, bits = line.split()
    return float(whole), float(iteration), bits


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--references", type=int, default=2_000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["process", "cluster"])
    options = parser.parse_args()
    for mode in options.modes:
        first = None
        for workers in options.workers:
            found = measured(options, mode, workers)
            first = found if first is None else first
            print(
                f"{mode:8s} {workers:2d} workers: {found[0]:7.1f} s in all ({first[0] / found[0]:5.2f} x), "
                f"{found[1]:7.3f} s per iteration ({first[1] / found[1]:5.2f} x), the same bits: "
                f"{found[2] == first[2]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
