"""How a fit in blocks grows with the workers, in this process and on a local cluster.

    python benchmarks/blocks_growth.py [--points 2000000] [--blocks 16] [--workers 1 2 4 8 16]

First what as many processes that share nothing but the machine's memory gain over one.
Then for each number of workers: seconds of the whole fit and per iteration, and how many
times faster than with one. Every fit runs in a process of its own, each worker with one
thread.
"""

import argparse
import os
import subprocess
import sys

from blocks_overhead import MODES


def started(options, mode, workers, parts=1):
    """A process that fits this part of the rows."""
    here = os.path.dirname(os.path.abspath(__file__))
    arguments = {
        "mode": mode,
        "workers": workers,
        "points": options.points // parts,
        "features": options.features,
        "blocks": options.blocks // parts,
        "references": options.references,
        "iterations": options.iterations,
    }
    return subprocess.Popen(
        [sys.executable, os.path.join(here, "blocks_overhead.py")]
        + [f"--{name}={value}" for name, value in arguments.items()],
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(workers),
            "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def measured(process):
    """(seconds in all, seconds per iteration, bits) of a fit."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(process.returncode)
    line = next(line for line in output.splitlines() if line.startswith("RESULT"))
    _, whole, iteration, bits = line.split()
    return float(whole), float(iteration), bits


def machine(options, parts):
    """What this machine gives to so many processes that share nothing, each with its part
    of the rows: no engine can grow more.
    """
    (_, alone, _) = measured(started(options, "process", 1, parts))
    running = [started(options, "process", 1, parts) for _ in range(parts)]
    together = max(measured(process)[1] for process in running)
    print(
        f"{parts} processes that share nothing: {parts * alone / together:.2f} x the iterations of one",
        flush=True,
    )


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
    machine(options, max(options.workers))
    for mode in options.modes:
        first = None
        for workers in options.workers:
            found = measured(started(options, mode, workers))
            first = found if first is None else first
            print(
                f"{mode:8s} {workers:2d} workers: {found[0]:7.1f} s in all ({first[0] / found[0]:5.2f} x), "
                f"{found[1]:7.3f} s per iteration ({first[1] / found[1]:5.2f} x), the same bits: "
                f"{found[2] == first[2]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
