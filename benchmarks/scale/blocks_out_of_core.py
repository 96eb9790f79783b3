"""Seconds and memory of FrobMetric from more Parquet than the process may hold.

Writes the rows as float32, with labels, to FOLDER/part-*.parquet (unless they are there). Then a process
of its own, whose data segment is limited by the operating system, fits from labels against
references. Prints the seconds of one read of the files, of the blocks, and of each pass of the solver
over them, the certified gap, the largest resident size and what had no room and went to files in
FOLDER.

    OMP_NUM_THREADS=2 python -m benchmarks blocks_out_of_core FOLDER --limit-gb 3

Data: simulated; 2.6 GB of files, and 7.3 GB more during the fit
Minutes: 6
Needs: dask, pyarrow
"""

import glob
import os
import time
from types import SimpleNamespace

from ..command import command_parser
from ..measuring import peak_memory
from ..processes import in_own_process
from .blocks_overhead import Record, chunk, warm_up


def write(options):
    import pyarrow as pa
    from pyarrow import parquet

    os.makedirs(options.folder, exist_ok=True)
    rows = options.points // options.parts
    for k in range(options.parts):
        path = os.path.join(options.folder, f"part-{k:04d}.parquet")
        if not os.path.exists(path):
            X, y = chunk(k, rows, options.features)
            columns = {f"f{i}": column for i, column in enumerate(X.T)}
            table = pa.table({**columns, "label": y})
            parquet.write_table(table, path, compression="none", use_dictionary=False)


def limited_fit(options):
    """Fit in a process that may hold no more than the limit."""
    import resource  # Windows has none

    options = SimpleNamespace(**options)
    limit = int(options.limit_gb * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import dask.dataframe as dd
    import pyarrow as pa

    from conemetric import FrobMetric, watching
    from conemetric.blocks import Threads

    pa.set_cpu_count(2)  # each of its threads takes of the limit
    pa.set_io_thread_count(2)
    warm_up()
    paths = sorted(glob.glob(os.path.join(options.folder, "part-*.parquet")))
    frame = dd.read_parquet(paths)
    features = [name for name in frame.columns if name != "label"]
    began = time.perf_counter()
    n_rows = sum(len(part.compute(scheduler="synchronous")) for part in frame.partitions)
    read = time.perf_counter() - began
    print(f"{n_rows:,} rows in {len(paths)} files: one read takes {read:.1f} s", flush=True)

    def measure():
        print(f"{time.perf_counter() - began:.1f} s", flush=True)
        return spilled(options.folder)

    record = Record(measure)
    began = time.perf_counter()
    metric = FrobMetric(
        n_references=options.references,
        n_targets=options.targets,
        n_impostors=3,
        random_state=0,
    )
    engine = Threads(folder=options.folder, memory_limit=options.pieces * limit)
    with engine, watching(record):
        metric.fit(frame[features], frame["label"])
    ended = time.perf_counter()
    one = record.per_iteration(record.times)
    print(
        f"fit: {ended - began:.1f} s in all; {record.times[0] - began:.1f} s to the first iteration, "
        f"{one:.1f} s per iteration ({one / read:.2f} x one read), {metric.n_iter_} iterations, gap "
        f"{metric.certificate_.relative_gap:.1e} ({metric.certificate_.status}); "
        f"{peak_memory() / 1e6:.0f} MB resident at most under a limit of {limit / 1e6:.0f} MB; "
        f"{max(record.measured) / 1e6:.0f} MB in files at most"
    )


def spilled(folder):
    """Bytes of what had no room in memory."""
    return sum(map(os.path.getsize, glob.glob(os.path.join(folder, "conemetric-*", "*"))))


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("folder")
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--parts", type=int, default=160)
    parser.add_argument("--references", type=int, default=500)
    parser.add_argument("--targets", type=int, default=1)
    parser.add_argument("--limit-gb", type=float, default=3.0)
    parser.add_argument(
        "--pieces", type=float, default=0.3, help="of the limit, for pieces kept in memory"
    )
    options = parser.parse_args(arguments)
    write(options)
    # what counts towards the limit is what was asked for: Arrow's own allocator asks for a
    # gigabyte at once, and the C library gives large arrays back only with this threshold
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "4000000"}
    in_own_process(limited_fit, vars(options), environment=environment)
