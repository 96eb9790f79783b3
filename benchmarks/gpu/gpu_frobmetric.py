"""FrobMetric on 50,000 MNIST digits (PCA to 164 dimensions, 450,000 triplets) from PyTorch tensors.

    python benchmarks/gpu_frobmetric.py --data FOLDER [--device cuda] [--points 50000]

Prints seconds for neighbours and solve in both precisions, the parts of one evaluation,
whether a second run gives the same bits, and the objective beside that of the NumPy
solver.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.operators import from_triplets
from conemetric.problems.frobenius import FrobeniusProgram
from conemetric.solvers.dual_quasi_newton import DualQuasiNewton


def digits(folder, n_points, device):
    file = np.load(Path(folder) / "mnist.npz")
    X = torch.tensor(file["X"][:n_points], device=device).double() / 255
    X = X - X.mean(0)
    _, vectors = torch.linalg.eigh(X.T @ X)
    return X @ vectors[:, -164:], file["y"][:n_points].astype(np.int64)


def timed(function, device, repeats=1):
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        result = function()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / repeats, result


def parts(operator, device):
    """Milliseconds of the pieces of one evaluation of the dual."""
    u = operator.empty_constraint_vector() + 1.0
    S = operator.adjoint(u)
    values, vectors = torch.linalg.eigh(S)
    L = vectors * values.clip(0, None).sqrt()
    Y = operator.X @ L
    pieces = {
        "adjoint": lambda: operator.adjoint(u),
        "  distribute": lambda: operator.distribute(u),
        "eigh": lambda: torch.linalg.eigh(S),
        "forward": lambda: operator.forward_factor(L),
        "  X @ L": lambda: operator.X @ L,
        "  pairs": lambda: operator.squared_distances(Y),
    }
    for name, piece in pieces.items():
        timed(piece, device, 2)
        print(f"    {name:14s} {1e3 * timed(piece, device, 20)[0]:8.3f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--C", type=float, nargs="*", default=[10.0, 1000.0])
    options = parser.parse_args()
    device = options.device
    X, y = digits(options.data, options.points, device)
    triplets_from_labels(X[:2000], y[:2000])
    seconds, triplets = timed(lambda: triplets_from_labels(X, y), device)
    print(f"neighbours of {len(X)} points: {seconds:.2f} s, {len(triplets)} triplets")
    for dtype in (torch.float64, torch.float32):
        build, operator = timed(lambda dtype=dtype: from_triplets(X.to(dtype), triplets), device)
        print(f"{dtype}: operator of {operator.n_pairs} pairs built in {build:.3f} s")
        parts(operator, device)
        for C in options.C:
            problem = FrobeniusProgram(operator, C)
            solve = lambda problem=problem: DualQuasiNewton(tol=1e-3).solve(problem)  # noqa: E731
            timed(solve, device)
            seconds, result = timed(solve, device)
            again = timed(solve, device)[1]
            c = result.certificate
            print(
                f"  C={C:g}: {seconds:.3f} s, {result.history['evaluations'][-1]:.0f} "
                f"evaluations, objective {c.primal:.9f}, "
                f"certified gap {c.relative_gap:.2e}, same bits again: "
                f"{bool((result.dual_point == again.dual_point).all())}"
            )
    tight = DualQuasiNewton(tol=2e-7, max_iter=3000)
    on_device = tight.solve(FrobeniusProgram(from_triplets(X, triplets), options.C[0])).certificate
    on_host = tight.solve(
        FrobeniusProgram(from_triplets(X.cpu().numpy(), triplets.cpu().numpy()), options.C[0])
    ).certificate
    print(
        f"objective at gap {tight.tol:g}: {device} {on_device.primal:.12f}, NumPy "
        f"{on_host.primal:.12f}, ",
        end="",
    )
    print(f"relative difference {abs(on_device.primal / on_host.primal - 1):.1e}")


if __name__ == "__main__":
    main()
