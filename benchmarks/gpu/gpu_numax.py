"""Seconds, rank and error of NuMax on all 1.8 billion secants of MNIST on one GPU.

The rows are 60,000 digits of 20 x 20 pixels. First the trace on few points is compared with that of
NumPy in float64, then the parts of a round are timed one by one. Then each configuration, plain and by
class: rank, 1-NN error on the test set, certified gap and violation over every pair, rounds, ADMM
steps, active secants and seconds, the certificate included. In the end, how seconds depend on how many
secants enter in a round (--add).

    python -m benchmarks gpu_numax --deltas 0.4 0.25 0.1
    python -m benchmarks gpu_numax --device cpu --points 600 --deltas 0.4

Data: mnist
Minutes: 3 on an H200 (estimated)
Needs: torch, an NVIDIA GPU
"""

from functools import partial

import numpy as np
import torch

from conemetric import NuMax
from conemetric.evaluation.knn import knn_error
from conemetric.papers.numax.program import SecantIsometryProgram
from conemetric.papers.numax.secant_generation import SecantGeneration
from conemetric.papers.numax.secants import AllSecants

from ..command import add_device, command_parser
from ..data import mnist_centre
from ..measuring import timed

PAPER = {  # delta, class_aware: rank and 1-NN error, %
    (0.4, False): (72, 2.99),
    (0.25, False): (97, 3.11),
    (0.1, False): (167, 3.31),
    (0.4, True): (52, 2.68),
    (0.25, True): (69, 2.72),
    (0.1, True): (116, 3.09),
}


def best_seconds(function, device, repeats=3):
    """The best of a few runs, after one to warm up."""
    function()
    return min(timed(function, device=device).wall for _ in range(repeats))


def check(X, y, device):
    """The trace on few points, on this device and on NumPy."""
    for class_aware in (False, True):
        model = NuMax(0.4, class_aware=class_aware)
        ours = model.fit(torch.as_tensor(X, device=device), y).certificate_
        reference = model.fit(X, y).certificate_
        difference = abs(ours.primal - reference.primal) / reference.primal
        agree = difference <= 2e-3 and ours.dual <= reference.primal
        print(
            f"check on {len(X)} points, class_aware={class_aware}: trace {ours.primal:.5f}, on "
            f"NumPy {reference.primal:.5f}, relative difference {difference:.1e} "
            f"{'OK' if agree else 'FAILED'}",
            flush=True,
        )


def parts(X, device, n_active):
    """Seconds of the parts of a round: scans in both precisions, and what an ADMM step
    is made of.
    """
    secants = AllSecants(X)
    L = torch.linalg.qr(torch.randn(X.shape[1], 72, dtype=X.dtype, device=device)).Q
    for dtype in (torch.float32, torch.float64):
        taken = best_seconds(partial(secants.scan, L, 0.4, dtype), device)
        print(f"scan of {secants.n_pairs:,} pairs, {dtype}: {taken:.4f} s", flush=True)
    A = (
        SecantIsometryProgram(secants, 0.4)
        .restrict(secants.sample(n_active, np.random.default_rng(0)))
        .operator
    )
    S = A.adjoint(A.empty_constraint_vector() + 1)
    G = A.gram() + torch.eye(A.n_constraints, dtype=X.dtype, device=device)
    triangle = torch.linalg.cholesky(G)
    r = A.empty_constraint_vector() + 1
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
            f"  {name:9s} {A.n_constraints:,} secants: {1e3 * best_seconds(function, device):.2f} ms",
            flush=True,
        )


def fit_adding(X, delta, add, device):
    """Print what the plain solve takes when ``add`` secants enter in a round."""
    problem = SecantIsometryProgram(AllSecants(X), delta)
    solving = timed(SecantGeneration(add=add).solve, problem, device=device)
    result = solving.result
    steps = int(result.history["steps"][-1])
    active = int(result.history["active"].max())
    print(
        f"adding {add}: {solving.wall:.2f} s, {result.n_iter + 1} rounds, {steps} steps, at most "
        f"{active} active",
        flush=True,
    )


def fit(digits, X, delta, class_aware, device):
    """Print what one configuration takes and reaches; ``X`` holds the digits on the device."""
    fitting = timed(NuMax(delta, class_aware=class_aware).fit, X, digits.y, device=device)
    model = fitting.result
    error = 100 * knn_error(model, digits.X, digits.y, digits.X_test, digits.y_test, 1)
    paper_rank, paper_error = PAPER.get((delta, class_aware), (0, 0.0))
    certificate = model.certificate_
    history = model.history_
    print(
        f"{delta:5.2f} {class_aware!s:5s} {len(model.components_):4d} ({paper_rank:3d})    "
        f"{error:5.2f} ({paper_error:4.2f})   "
        f"{certificate.relative_gap:.2e}  {certificate.violation:.2e}  "
        f"{len(history['steps']):10d} {int(history['steps'][-1]):5d} "
        f"{int(history['active'][-1]):6d}  {fitting.wall:6.2f}  {certificate.status}",
        flush=True,
    )
    rounds = zip(history["active"], history["steps"], history["violation"], strict=True)
    trace = " ".join(f"{active:.0f}/{steps:.0f}/{worst:.1e}" for active, steps, worst in rounds)
    print(f"      active/steps/violation by round: {trace}", flush=True)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
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
    options = parser.parse_args(arguments)
    device = options.device
    digits = mnist_centre(options.points)
    X = torch.as_tensor(digits.X, device=device)
    if options.check:
        check(digits.X[: options.check], digits.y[: options.check], device)
    parts(X, device, min(8000, options.points * 4))
    NuMax(0.4).fit(X[:3000])  # compile
    print(
        "delta class rank (paper)  1-NN % (paper)   gap      violation/delta  rounds steps "
        "active  seconds",
        flush=True,
    )
    for class_aware in (False, True):
        for delta in options.deltas:
            fit(digits, X, delta, class_aware, device)
    for add in options.add:
        fit_adding(X, options.deltas[0], add, device)
