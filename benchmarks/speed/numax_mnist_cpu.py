"""NuMax on MNIST with its exhaustive scans on the CPU: seconds, peak memory, rank and
certificate, with a progress bar.

python benchmarks/numax_mnist_cpu.py --data DIR --delta 0.4                    (all 60,000 points: 1.8 billion secants)
python benchmarks/numax_mnist_cpu.py --data DIR --delta 0.4 --points 5000
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from conemetric import NuMax
from conemetric.core.progress import watching


def load(folder, points):
    """Training and test images, the central 20 x 20 pixels in [0, 1] in float32, and labels."""
    with np.load(Path(folder) / "mnist.npz") as file:
        X, y, n_train = file["X"], file["y"].astype(np.int64), int(file["n_train"])
    X = X.reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(len(X), 400)
    return (
        X[:n_train][:points].astype(np.float32) / 255,
        y[:n_train][:points],
        X[n_train:].astype(np.float32) / 255,
        y[n_train:],
    )


def one_nn_error(Z, y, Z_test, y_test, block=500):
    """Per cent of test points whose nearest training point has another label."""
    norms, wrong = (Z * Z).sum(1), 0
    for start in range(0, len(Z_test), block):
        nearest = (norms - 2 * Z_test[start : start + block] @ Z.T).argmin(1)
        wrong += int((y[nearest] != y_test[start : start + block]).sum())
    return 100 * wrong / len(Z_test)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="data")
    parser.add_argument("--delta", type=float, default=0.4)
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--class-aware", action="store_true")
    options = parser.parse_args()
    X, y, X_test, y_test = load(options.data, options.points)
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
            state = f"active {record['active']:.0f}, steps {record['steps']:.0f}, rank {record['rank']:.0f}, "
            state += f"trace {record['primal']:.3f}, bound {record['dual']:.3f}, worst violation {record['violation']:.1e} delta"
            bar.update(task, completed=record["iteration"] + 1, state=state)

        began = time.perf_counter()
        with watching(show):
            model = NuMax(options.delta, class_aware=options.class_aware).fit(X, y)
        seconds = time.perf_counter() - began
    history, certificate = model.history_, model.certificate_
    print("round  seconds  active  steps  trace     bound     worst violation / delta")
    for row in zip(
        *(history[name] for name in ("seconds", "active", "steps", "primal", "dual", "violation")),
        strict=True,
    ):
        print("       {:7.1f} {:7.0f} {:6.0f}  {:8.4f}  {:8.4f}  {:.2e}".format(*row))
    error = one_nn_error(model.transform(X), y, model.transform(X_test), y_test)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{len(X):,} points, {len(X) * (len(X) - 1) // 2:,} secants, delta {options.delta}: "
        f"{seconds:.1f} s, peak {peak:.2f} GB, "
        f"rank {len(model.components_)}, 1-NN error {error:.2f} %, gap "
        f"{certificate.relative_gap:.1e}, "
        f"worst violation {certificate.violation:.1e} delta, {certificate.status}"
    )


if __name__ == "__main__":
    main()
