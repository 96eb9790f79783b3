"""Seconds, traffic and memory of FrobMetric in blocks, beside the fit in memory.

Fits the same rows from labels, against the same references, in memory on as many threads as there are
workers ("memory"), in blocks in one process ("process"), and in blocks on a local cluster of processes
("cluster"), each in a process of its own. Prints the ratio of their solves and of the whole fits, bytes
over the wire per iteration beside 8 (D^2 + small) x workers, and the largest resident size of the
client. With --kill the fit on the cluster is repeated and a worker killed in the middle.

    python -m benchmarks blocks_overhead --references 5000 --kill
    python -m benchmarks blocks_overhead --mode cluster --references 1000 --iterations 8

Data: simulated
Minutes: 5 on four cores with --references 5000 (estimated)
Needs: dask, distributed
"""

import os
import signal
import time
import warnings
from types import SimpleNamespace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..command import command_parser
from ..measuring import peak_memory, timed
from ..processes import in_own_process


def chunk(number, rows, features, n_classes=20):
    """Rows of one partition and their labels: classes with centres that are not far apart."""
    centres = np.random.default_rng(0).normal(size=(n_classes, features))
    rng = np.random.default_rng(1 + number)
    y = rng.integers(0, n_classes, rows)
    scale = np.linspace(0.5, 3.0, features)
    return (centres[y] + scale * rng.normal(size=(rows, features))).astype(np.float32), y


def collections(options):
    """Dask arrays of the rows and labels, made where they are needed."""
    import dask
    import dask.array as da

    rows = options.points // options.blocks
    made = [dask.delayed(chunk)(k, rows, options.features) for k in range(options.blocks)]
    X = [da.from_delayed(part[0], (rows, options.features), np.float32) for part in made]
    y = [da.from_delayed(part[1], (rows,), np.int64) for part in made]
    return da.concatenate(X), da.concatenate(y)


def estimator(options):
    from conemetric import FrobMetric

    return FrobMetric(
        n_references=options.references,
        random_state=0,
        n_impostors=3,
        max_iter=options.iterations or 1000,
        tol=0.0 if options.iterations else 1e-3,
    )


class Record:
    """Callback that remembers at each iteration the time, the processor time of this
    process and its children, and what else is measured.
    """

    def __init__(self, measure=None):
        self.times = []
        self.processor = []
        self.measured = []
        self._measure = measure

    def __call__(self, event):
        if event["kind"] != "solve":
            return
        self.times.append(time.perf_counter())
        self.processor.append(processor_seconds())
        if self._measure is not None:
            self.measured.append(self._measure())

    @staticmethod
    def per_iteration(values):
        """Mean growth from the second iteration on."""
        return (values[-1] - values[1]) / (len(values) - 2)


def processor_seconds():
    import psutil

    own = psutil.Process()
    return sum(sum(each.cpu_times()[:2]) for each in (own, *own.children(recursive=True)))


def described(name, metric, record, seconds):
    """What a fit took, as a line."""
    return (
        f"{name:22s} {seconds:8.1f} s in all, {record.per_iteration(record.times):6.3f} s per "
        f"iteration ({record.per_iteration(record.processor):.3f} s of processor), "
        f"{metric.n_iter_} iterations, primal {metric.certificate_.primal:.9g}, gap "
        f"{metric.certificate_.relative_gap:.1e}, {peak_memory() / 1e6:.0f} MB"
    )


def fit(options, X, y, callback):
    """The fitted metric and its seconds; ``callback`` gets the events of the fit."""
    from conemetric import watching

    with watching(callback):
        fitting = timed(estimator(options).fit, X, y)
    return fitting.result, fitting.wall


def outcome(lines, metric, record, seconds):
    """What a process of its own returns of a fit."""
    return {
        "lines": lines,
        "seconds": seconds,
        "per_iteration": record.per_iteration(record.times),
        "bits": metric.components_.tobytes().hex()[:64],
    }


def warm_up():
    """Compile the kernels before any clock runs."""
    from conemetric import FrobMetric

    FrobMetric(n_impostors=3, n_references=200).fit(*chunk(0, 2000, 8))


def in_memory(options):
    rows = options.points // options.blocks
    parts = [chunk(k, rows, options.features) for k in range(options.blocks)]
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    del parts
    warm_up()
    record = Record()
    metric, seconds = fit(options, X, y, record)
    return outcome([described("in memory", metric, record, seconds)], metric, record, seconds)


def in_process(options):
    from conemetric.blocks import Threads

    warm_up()
    record = Record()
    with Threads(workers=options.workers):
        metric, seconds = fit(options, *collections(options), record)
    line = described("blocks, this process", metric, record, seconds)
    return outcome([line], metric, record, seconds)


def on_cluster(options):
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=options.workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(warm_up)
        count_bytes()
        client.run(count_bytes)
        record = Record(measure=lambda: traffic(client))
        metric, seconds = fit(options, *collections(options), record)
        per_iteration = record.per_iteration(record.measured)
        share = 8 * options.features**2 * options.workers
        lines = [
            described("blocks, cluster", metric, record, seconds),
            f"traffic: {per_iteration / 1e6:.3f} MB per iteration between processes, "
            f"{per_iteration / share:.1f} x 8 D^2 x workers; {record.measured[1] / 1e6:.1f} MB "
            "before the second iteration",
        ]
        if options.kill:
            lines += with_a_death(options, client, metric)
        return outcome(lines, metric, record, seconds)


def with_a_death(options, client, undisturbed):
    """Lines about the same fit, half way through which a worker is killed."""
    record = Record()
    middle = undisturbed.n_iter_ // 2

    def kill(event):
        record(event)
        if event.get("iteration") == middle:
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)

    metric, seconds = fit(options, *collections(options), kill)
    same = np.array_equal(metric.components_, undisturbed.components_)
    steps = np.diff(record.times)
    return [
        described(f"killed at {middle}", metric, record, seconds),
        f"the same bits: {same}; it cost {steps.max() - np.median(steps):.1f} s",
    ]


sent = [0]  # bytes that this process has written to sockets


def count_bytes():
    """Count what this process writes to sockets from now on."""
    from distributed.comm.tcp import TCP

    write = TCP.write

    async def counted(self, *args, **kwargs):
        n_bytes = await write(self, *args, **kwargs)
        sent[0] += n_bytes
        return n_bytes

    TCP.write = counted


def bytes_sent():
    return sent[0]


def traffic(client):
    """Bytes written so far by client, scheduler and workers."""
    return bytes_sent() + sum(client.run(bytes_sent).values())


MODES = {"memory": in_memory, "process": in_process, "cluster": on_cluster}


def run_mode(mode, options):
    """The `outcome` of a fit in this process; options are those of the command line, as a dict."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # after a given number of iterations
    return MODES[mode](SimpleNamespace(**options))


def measured(mode, **options):
    """The `outcome` of a fit in a process of its own, with one thread for each worker."""
    environment = {"OMP_NUM_THREADS": str(options["workers"])}
    return in_own_process(run_mode, mode, options, environment=environment)


def add_size(parser, references, iterations=None):
    """The options that say how large the fits are."""
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--references", type=int, default=references)
    parser.add_argument(
        "--iterations", type=int, default=iterations, help="so many, whatever the gap"
    )


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_size(parser, references=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill", action="store_true", help="kill a worker of a second fit")
    parser.add_argument("--mode", choices=MODES, help="only this one")
    options = vars(parser.parse_args(arguments))
    only = options.pop("mode")
    results = {}
    for mode in [only] if only else MODES:
        results[mode] = measured(mode, **options)
        print("\n".join(results[mode]["lines"]), flush=True)
    if only:
        return
    for mode in ("process", "cluster"):
        whole = results[mode]["seconds"] / results["memory"]["seconds"]
        iteration = results[mode]["per_iteration"] / results["memory"]["per_iteration"]
        print(f"{mode}: {whole:.2f} x the fit in memory, {iteration:.2f} x its iterations")
