"""Stage-wise BoostMetric on 50,000 MNIST digits (PCA to 164 dimensions, 450,000
triplets) from PyTorch tensors.

    python benchmarks/gpu_boostmetric.py --data FOLDER [--device cuda] [--points 50000]
    [--iterations 500]

Prints seconds for the iterations in both precisions and both losses, the parts of one
iteration, and the objective and leading eigenvalues beside those of the NumPy solver
after a few iterations.
"""

import argparse
import time
import warnings
from functools import partial

import torch
from gpu_frobmetric import digits, timed
from sklearn.exceptions import ConvergenceWarning

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.operators import from_triplets
from conemetric.problems.losses import Logistic, LogSumExp
from conemetric.problems.trace import TraceProgram
from conemetric.solvers.column_generation import ColumnGeneration

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())

CHECKED = 20  # iterations compared with NumPy


def parts(problem, device):
    """Milliseconds of the pieces of one iteration."""
    operator = problem.operator
    margins = operator.forward_factor(operator.X[:3].T * 0.1)
    _, u, _ = problem.evaluate(margins)
    S = operator.adjoint(u)
    z = torch.linalg.eigh(S).eigenvectors[:, -1:]
    h = operator.forward_factor(z)
    pieces = {
        "adjoint": lambda: operator.adjoint(u),
        "  distribute": lambda: operator.distribute(u),
        "eigh": lambda: torch.linalg.eigh(S),
        "rank-one forward": lambda: operator.forward_factor(z),
        "evaluate": lambda: problem.evaluate(margins),
        "slope": lambda: problem.slope(margins, h, 0.1),
    }
    for name, piece in pieces.items():
        timed(piece, device, 2)
        print(f"    {name:18s} {1e3 * timed(piece, device, 20)[0]:8.3f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    device = options.device
    X, y = digits(options.data, options.points, device)
    seconds, triplets = timed(lambda: triplets_from_labels(X, y), device)
    print(f"neighbours of {len(X)} points: {seconds:.2f} s, {len(triplets)} triplets", flush=True)
    host = from_triplets(X.cpu().numpy(), triplets.cpu().numpy())
    for loss in (ExponentialTrace, LogisticTrace):
        began = time.perf_counter()
        reference = ColumnGeneration(max_iter=CHECKED).solve(loss(host, 1e-7))
        per_iteration = (time.perf_counter() - began) / CHECKED
        print(
            f"\n{type(loss.keywords['loss']).__name__}; NumPy, float64: {1e3 * per_iteration:.1f} ms an iteration",
            flush=True,
        )
        for dtype in (torch.float64, torch.float32):
            problem = loss(from_triplets(X.to(dtype), triplets), 1e-7)
            print(f"  {dtype}")
            parts(problem, device)
            short = ColumnGeneration(max_iter=CHECKED).solve(problem)
            ours, theirs = short.certificate.primal, reference.certificate.primal
            difference = abs(ours / theirs - 1)
            print(
                f"    objective after {CHECKED} iterations {ours:.9f}, NumPy {theirs:.9f}, "
                f"difference {difference:.1e}"
            )
            assert difference < (1e-9 if dtype == torch.float64 else 1e-4)
            seconds, result = timed(
                lambda p=problem: ColumnGeneration(max_iter=options.iterations).solve(p), device
            )
            slopes = result.history["evaluations"][1:].mean()
            print(
                f"    {result.n_iter} iterations: {seconds:.3f} s "
                f"({result.history['seconds'][-1]:.3f} s without the certificate;"
                f" {1e3 * seconds / result.n_iter:.2f} ms each, {slopes:.1f} slopes)\n    "
                f"{result.certificate}",
                flush=True,
            )


if __name__ == "__main__":
    main()
