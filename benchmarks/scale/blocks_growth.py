"""How much faster a fit in blocks becomes with more workers, in one process and on a local cluster.

First what as many processes that share nothing but the machine's memory gain over one: no engine can
grow more. Then for each number of workers the seconds of the whole fit and per iteration, and how many
times faster than with one. Every fit runs in a process of its own, each worker with one thread.

    python -m benchmarks blocks_growth --points 1000000 --iterations 12 --workers 1 2 4 8

Data: simulated
Minutes: 20 on 16 cores (estimated)
Needs: dask, distributed
"""

from concurrent.futures import ThreadPoolExecutor

from ..command import command_parser
from .blocks_overhead import MODES, add_size, measured


def fitted(options, mode, workers, parts=1):
    """The outcome of a fit of one part of the rows."""
    return measured(
        mode,
        points=options.points // parts,
        features=options.features,
        blocks=options.blocks // parts,
        references=options.references,
        iterations=options.iterations,
        workers=workers,
        kill=False,
    )


def machine(options, parts):
    """Print what this machine gives to so many processes that share nothing."""

    def alone(_):
        return fitted(options, "process", 1, parts)["per_iteration"]

    one = alone(0)
    with ThreadPoolExecutor(parts) as pool:
        together = max(pool.map(alone, range(parts)))
    print(
        f"{parts} processes that share nothing: {parts * one / together:.2f} x the iterations of "
        "one",
        flush=True,
    )


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_size(parser, references=2_000, iterations=20)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["process", "cluster"])
    options = parser.parse_args(arguments)
    machine(options, max(options.workers))
    for mode in options.modes:
        first = None
        for workers in options.workers:
            found = fitted(options, mode, workers)
            if first is None:
                first = found
            whole = first["seconds"] / found["seconds"]
            iteration = first["per_iteration"] / found["per_iteration"]
            print(
                f"{mode:8s} {workers:2d} workers: {found['seconds']:7.1f} s in all "
                f"({whole:5.2f} x), {found['per_iteration']:7.3f} s per iteration "
                f"({iteration:5.2f} x), the same bits: {found['bits'] == first['bits']}",
                flush=True,
            )
