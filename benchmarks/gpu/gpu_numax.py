"""NuMax on all of MNIST (60,000 x 400, 1.8 billion secants) on one GPU, plain and
class-aware, certificate included.

    PYTHONPATH=src python benchmarks/gpu_numax.py --data DIR            (DIR holds mnist.npz)
    PYTHONPATH=src python benchmarks/gpu_numax.py --data DIR --device cpu --points 600
    --deltas 0.4

First a check on few points against NumPy in float64, then the parts of a round one by
one, then each configuration: rank, 1-NN error on the test set, certified gap and
violation over every pair, rounds, ADMM steps, active secants, seconds.
"""

import argparse
import time
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import torch

from conemetric import NuMax
from conemetric.operators.secants import AllSecants
from conemetric.problems.isometry import SecantIsometryProgram
from conemetric.solvers.secant_generation import SecantGeneration

PAPER = {  # delta, class_aware: rank, error %, seconds of a rough earlier script on one H200
    (0.4, False): (72, 2.99, 14.8),
    (0.25, False): (97, 3.11, 19.7),
    (0.1, False): (167, 3.31, 46.4),
    (0.4, True): (52, 2.68, 14.0),
    (0.25, True): (69, 2.72, 16.7),
    (0.1, True): (116, 3.09, 31.5),
}


def load(folder, points):
    """Training and test images, the central 20 x 20 pixels in [0, 1], and labels."""
    with np.load(Path(folder) / "mnist.npz") as file:
        X, y, n_train = file["X"], file["y"].astype(np.int64), int(file["n_train"])
    X = X.reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(len(X), 400) / 255.0
    return X[:n_train][:points], y[:n_train][:points], X[n_train:], y[n_train:]


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(function, device, repeat=3):
    """Best of a few runs after one to warm up."""
    best = np.inf
    for _ in range(repeat + 1):
        wait(device)
        began = time.perf_counter()
        function()
        wait(device)
        best = min(best, time.perf_counter() - began)
    return best


def one_nn_error(Z, y, Z_test, y_test, block=2000):
    """Per cent of test points whose nearest training point has another label."""
    wrong, norms = 0, (Z * Z).sum(1)
    for start in range(0, len(Z_test), block):
        Q = Z_test[start : start + block]
        nearest = (norms - 2 * Q @ Z.T).argmin(1)
        wrong += int((y[nearest] != y_test[start : start + block]).sum())
    return 100 * wrong / len(Z_test)


def check(X, y, device):
    """The trace on few points, on this device and on NumPy."""
    for class_aware in (False, True):
        ours = (
            NuMax(0.4, class_aware=class_aware)
            .fit(torch.as_tensor(X, device=device), y)
            .certificate_
        )
        reference = NuMax(0.4, class_aware=class_aware).fit(X, y).certificate_
        difference = abs(ours.primal - reference.primal) / reference.primal
        print(
            f"check on {len(X)} points, class_aware={class_aware}: trace {ours.primal:.5f}, on "
            f"NumPy {reference.primal:.5f}, "
            f"relative difference {difference:.1e} "
            f"{'OK' if difference <= 2e-3 and ours.dual <= reference.primal else 'FAILED'}",
            flush=True,
        )


def parts(X, device, n_active):
    """Seconds of the parts of a round: scans in both precisions, and what an ADMM step
    is made of.
    """
    secants = AllSecants(X)
    L = torch.linalg.qr(torch.randn(X.shape[1], 72, dtype=X.dtype, device=device)).Q
    for dtype in (torch.float32, torch.float64):
        taken = seconds(partial(secants.scan, L, 0.4, dtype), device)
        print(f"scan of {secants.n_pairs:,} pairs, {dtype}: {taken:.4f} s", flush=True)
    A = (
        SecantIsometryProgram(secants, 0.4)
        .restrict(secants.sample(n_active, np.random.default_rng(0)))
        .operator
    )
    S = A.adjoint(A.empty_constraint_vector() + 1)
    G = A.gram() + torch.eye(A.n_constraints, dtype=X.dtype, device=device)
    triangle, r = torch.linalg.cholesky(G), A.empty_constraint_vector() + 1
    for name, function in {
        "Gram": A.gram,
        "Cholesky": lambda: torch.linalg.cholesky(G),
        "solve": lambda: torch.cholesky_solve(r[:, None], triangle),
        "adjoint": lambda: A.adjoint(r),
        "forward": lambda: A.forward_factor(L),
        "eigh": lambda: torch.linalg.eigh(S),
        "eigvalsh": lambda: torch.linalg.eigvalsh(S),
    }.items():
        print(
            f"  {name:9s} {A.n_constraints:,} secants: {1e3 * seconds(function, device):.2f} ms",
            flush=True,
        )


def fit_adding(X, delta, add, device):
    """Seconds and result of the plain solve when ``add`` secants enter in a round."""
    wait(device)
    began = time.perf_counter()
    result = SecantGeneration(add=add).solve(SecantIsometryProgram(AllSecants(X), delta))
    wait(device)
    return time.perf_counter() - began, result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument(
        "--check", type=int, default=500, help="points of the check against NumPy; 0 for none"
    )
    parser.add_argument("--deltas", type=float, nargs="+", default=[0.4, 0.25, 0.1])
    parser.add_argument(
        "--add",
        type=int,
        nargs="*",
        default=[2000, 8000, 16_000],
        help="secants per round to compare",
    )
    options = parser.parse_args()
    device = torch.device(options.device)
    X_host, y_host, X_test, y_test = load(options.data, options.points)
    X, y = torch.as_tensor(X_host, device=device), torch.as_tensor(y_host, device=device)
    X_test, y_test = torch.as_tensor(X_test, device=device), torch.as_tensor(y_test, device=device)
    if options.check:
        check(X_host[: options.check], y_host[: options.check], device)
    try:
        parts(X, device, min(8000, options.points * 4))
    except Exception:
        traceback.print_exc()
    NuMax(0.4).fit(X[:3000])  # warm up
    print(
        "delta class rank (paper)  1-NN % (paper)   gap      violation/delta  rounds steps "
        "active  seconds (earlier)",
        flush=True,
    )
    for class_aware in (False, True):
        for delta in options.deltas:
            try:
                wait(device)
                began = time.perf_counter()
                model = NuMax(delta, class_aware=class_aware).fit(X, y_host)
                wait(device)
                taken = time.perf_counter() - began
                error = one_nn_error(model.transform(X), y, model.transform(X_test), y_test)
                rank, paper_error, earlier = PAPER.get((delta, class_aware), (0, 0.0, 0.0))
                certificate, history = model.certificate_, model.history_
                print(
                    f"{delta:5.2f} {class_aware!s:5s} {len(model.components_):4d} ({rank:3d})    "
                    f"{error:5.2f} ({paper_error:4.2f})   "
                    f"{certificate.relative_gap:.2e}  {certificate.violation:.2e}  "
                    f"{len(history['steps']):10d} "
                    f"{int(history['steps'][-1]):5d} {int(history['active'][-1]):6d}  "
                    f"{taken:6.2f} ({earlier:4.1f})  "
                    f"{certificate.status}",
                    flush=True,
                )
                trace = " ".join(
                    f"{a:.0f}/{s:.0f}/{v:.1e}"
                    for a, s, v in zip(
                        *(history[k] for k in ("active", "steps", "violation")), strict=True
                    )
                )
                print(f"      active/steps/violation by round: {trace}", flush=True)
            except Exception:
                traceback.print_exc()
    for add in options.add:
        try:
            taken, result = fit_adding(X, options.deltas[0], add, device)
            steps, active = int(result.history["steps"][-1]), int(result.history["active"].max())
            print(
                f"adding {add}: {taken:.2f} s, {result.n_iter + 1} rounds, {steps} steps, at most "
                f"{active} active",
                flush=True,
            )
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    main()
