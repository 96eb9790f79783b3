"""Column generation against plain NuMax on random secants of MNIST's fives (the paper's figure 7).

    python benchmarks/numax_mnist5.py --data DIR --secants 50000 [--device cuda]

Plain NuMax is ADMM on all the secants given (factorised up to a limit, conjugate
gradients above). Both stop at the same certified gap and violation; their traces are
compared.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from conemetric.operators.secants import ListedSecants
from conemetric.problems.isometry import SecantIsometryProgram
from conemetric.solvers.admm import ADMM
from conemetric.solvers.secant_generation import SecantGeneration


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="data")
    parser.add_argument("--secants", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--delta", type=float, default=0.4)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--device", help="run on PyTorch there instead of NumPy")
    options = parser.parse_args()
    with np.load(Path(options.data) / "mnist.npz") as file:
        n = int(file["n_train"])
        fives = file["X"][:n][file["y"][:n] == 5]
    X = fives.reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(len(fives), 400) / 255.0
    if options.device:
        import torch

        X = torch.as_tensor(X, device=options.device)
    print("secants   generation s  plain s  ratio  active  trace difference")
    for m in options.secants:
        pairs = np.random.default_rng(0).integers(0, len(X), (m, 2))
        problem = SecantIsometryProgram(
            ListedSecants(X, pairs[pairs[:, 0] != pairs[:, 1]]), options.delta
        )
        began = time.perf_counter()
        ours = SecantGeneration(tol=options.tol, first=500, add=500).solve(problem)
        generation = time.perf_counter() - began
        print(f"{m:7d}   {generation:10.1f}", end="  ", flush=True)
        began = time.perf_counter()
        plain = ADMM(tol=options.tol).solve(problem.restrict(problem.secants.sample(m, None)))
        direct = time.perf_counter() - began
        difference = (
            abs(ours.certificate.primal - plain.certificate.primal) / plain.certificate.primal
        )
        active = int(ours.history["active"][-1])
        print(
            f"{direct:9.1f}  {direct / generation:5.1f}  {active:6d}  {difference:.1e}", flush=True
        )


if __name__ == "__main__":
    main()
