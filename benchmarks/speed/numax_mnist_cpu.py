"""Seconds, peak memory, rank and certificate of NuMax on all 1.8 billion secants of MNIST, on the CPU.

Every pair of the 60,000 digits (20 x 20 pixels) is scanned exhaustively. A bar shows the progress;
the 1-NN error of the embedding on the test images is printed at the end.

    python -m benchmarks numax_mnist_cpu --delta 0.4
    python -m benchmarks numax_mnist_cpu --delta 0.4 --points 5000 --class-aware

Data: mnist
Minutes: 12
"""

import time

import numpy as np
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from conemetric import NuMax
from conemetric.core.progress import watching
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import mnist_centre
from ..measuring import peak_memory


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--delta", type=float, default=0.4)
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--class-aware", action="store_true")
    options = parser.parse_args(arguments)
    X, y, X_test, y_test = mnist_centre(options.points, dtype=np.float32)
    columns = (
        TextColumn("round {task.completed:.0f}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", state="", total=None)

        def show(record):
            if record["kind"] != "solve":
                return
            state = (
                f"active {record['active']:.0f}, steps {record['steps']:.0f}, "
                f"rank {record['rank']:.0f}, trace {record['primal']:.3f}, "
                f"bound {record['dual']:.3f}, worst violation {record['violation']:.1e} delta"
            )
            bar.update(task, completed=record["iteration"] + 1, state=state)

        began = time.perf_counter()
        with watching(show):
            model = NuMax(options.delta, class_aware=options.class_aware).fit(X, y)
        seconds = time.perf_counter() - began
    history = model.history_
    certificate = model.certificate_
    print("round  seconds  active  steps  trace     bound     worst violation / delta")
    for row in zip(
        *(history[name] for name in ("seconds", "active", "steps", "primal", "dual", "violation")),
        strict=True,
    ):
        print("       {:7.1f} {:7.0f} {:6.0f}  {:8.4f}  {:8.4f}  {:.2e}".format(*row))
    error = 100 * knn_error(model, X, y, X_test, y_test, 1)
    print(
        f"{len(X):,} points, {len(X) * (len(X) - 1) // 2:,} secants, delta {options.delta}: "
        f"{seconds:.1f} s, peak {peak_memory() / 2**30:.2f} GB, "
        f"rank {len(model.components_)}, 1-NN error {error:.2f} %, gap "
        f"{certificate.relative_gap:.1e}, "
        f"worst violation {certificate.violation:.1e} delta, {certificate.status}"
    )
