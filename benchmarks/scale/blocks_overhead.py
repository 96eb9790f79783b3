"""FrobMetric in blocks against the fit in memory: seconds, traffic, memory of the client.

    python benchmarks/blocks_overhead.py [--points 2000000] [--features 64] [--blocks 16]
        [--workers 2] [--references 20000] [--iterations N] [--kill]

Fits the same rows from labels, against the same references, (a) in memory on as
many threads as there are workers, (b) in blocks in this process, (c) in blocks on a local
cluster of processes, and prints the ratio of their solves and of the whole fits, bytes
over the wire per iteration beside 8 (D^2 + small) x workers, and the largest resident
size of the client of (c). With --kill, (c) again with a worker killed in the middle.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np


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
        self.times, self.processor, self.measured, self._measure = [], [], [], measure

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


def report(name, metric, record, seconds):
    print(
        f"{name:22s} {seconds:8.1f} s in all, {record.per_iteration(record.times):6.3f} s per "
        f"iteration ({record.per_iteration(record.processor):.3f} s of processor), "
        f"{metric.n_iter_} iterations, primal {metric.certificate_.primal:.9g}, gap "
        f"{metric.certificate_.relative_gap:.1e}, {peak_mb():.0f} MB",
        flush=True,
    )
    print(
        f"RESULT {seconds} {record.per_iteration(record.times)} {metric.components_.tobytes().hex()[:64]}"
    )


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def fit(name, options, *data, measure=None):
    """Fit and report."""
    from conemetric import watching

    record, began = Record(measure), time.perf_counter()
    with watching(record):
        metric = estimator(options).fit(*data)
    report(name, metric, record, time.perf_counter() - began)
    return metric, record


def warm_up():
    """Compile the kernels before any clock runs."""
    from conemetric import FrobMetric

    FrobMetric(n_impostors=3, n_references=200).fit(*chunk(0, 2000, 8))


def in_memory(options):
    rows = options.points // options.blocks
    parts = [chunk(k, rows, options.features) for k in range(options.blocks)]
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    del parts
    warm_up()
    fit("in memory", options, X, y)


def in_process(options):
    from conemetric.blocks import Threads

    warm_up()
    with Threads(workers=options.workers):
        fit("blocks, this process", options, *collections(options))


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
        client.run(_count_bytes_there)
        metric, record = fit(
            "blocks, cluster", options, *collections(options), measure=lambda: traffic(client)
        )
        per_iteration = record.per_iteration(record.measured)
        share = 8 * options.features**2 * options.workers
        print(
            f"traffic: {per_iteration / 1e6:.3f} MB per iteration between processes, "
            f"{per_iteration / share:.1f} x 8 D^2 x workers; {record.measured[1] / 1e6:.1f} MB before the "
            "second iteration"
        )
        if options.kill:
            with_a_death(options, client, metric)


def with_a_death(options, client, undisturbed):
    from conemetric import watching

    record, began = Record(), time.perf_counter()
    middle = undisturbed.n_iter_ // 2

    def kill(state):
        record(state)
        if state.get("iteration") == middle:
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)

    with watching(kill):
        metric = estimator(options).fit(*collections(options))
    report(f"killed at {middle}", metric, record, time.perf_counter() - began)
    same = np.array_equal(metric.components_, undisturbed.components_)
    steps = np.diff(record.times)
    print(f"the same bits: {same}; it cost {steps.max() - np.median(steps):.1f} s")


sent = [0]


def count_bytes():
    """Count what this process writes to sockets from now on."""
    from distributed.comm.tcp import TCP

    write = TCP.write

    async def counted(self, *args, **kwargs):
        n_bytes = await write(self, *args, **kwargs)
        sent[0] += n_bytes
        return n_bytes

    TCP.write = counted


def traffic(client):
    """Bytes written so far by client, scheduler and workers."""
    return sent[0] + sum(client.run(_sent).values())


def _sent():
    import blocks_overhead

    return blocks_overhead.sent[0]


def _count_bytes_there():
    import blocks_overhead

    blocks_overhead.count_bytes()


MODES = {"memory": in_memory, "process": in_process, "cluster": on_cluster}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--references", type=int, default=20_000)
    parser.add_argument("--iterations", type=int, help="so many, whatever the gap")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--mode", choices=MODES)
    options = parser.parse_args()
    if options.mode:
        MODES[options.mode](options)
        return
    results = {}
    for mode in MODES:  # each in a process of its own: threads, memory and peaks of its own
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(options.workers),
            "PYTHONPATH": os.pathsep.join(
                [os.path.dirname(os.path.abspath(__file__)), os.environ.get("PYTHONPATH", "")]
            ),
        }
        output = subprocess.run(
            [sys.executable, *sys.argv, "--mode", mode],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        lines = output.splitlines()
        print("\n".join(line for line in lines if not line.startswith("RESULT")), flush=True)
        results[mode] = next(line.split() for line in lines if line.startswith("RESULT"))
    for mode in ("process", "cluster"):
        whole, iteration = (float(results[mode][k]) / float(results["memory"][k]) for k in (1, 2))
        print(f"{mode}: {whole:.2f} x the fit in memory, {iteration:.2f} x its iterations")


if __name__ == "__main__":
    main()
