"""Seconds of NuMax by column generation and by ADMM on all secants at once, for MNIST's fives.

Both get the same random secants (figure 7 of the paper). Plain NuMax is ADMM on all of them
(factorised up to a limit, conjugate gradients above). Both stop at the same certified gap and
violation; their traces are compared.

    python -m benchmarks numax_mnist5 --secants 5000
    python -m benchmarks numax_mnist5 --secants 50000 --device cuda

Data: mnist
Minutes: 3 with --secants 50000 on an H200; hours on a processor, where plain ADMM takes 14 s a step
"""

import numpy as np

from conemetric.papers.numax.admm import ADMM
from conemetric.papers.numax.program import SecantIsometryProgram
from conemetric.papers.numax.secant_generation import SecantGeneration
from conemetric.papers.numax.secants import ListedSecants

from ..command import add_device, command_parser
from ..data import mnist_centre
from ..measuring import timed


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--secants", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--delta", type=float, default=0.4)
    parser.add_argument("--tol", type=float, default=1e-4)
    add_device(parser, default=None)
    options = parser.parse_args(arguments)
    digits = mnist_centre()
    X = digits.X[digits.y == 5]
    if options.device:
        import torch

        X = torch.as_tensor(X, device=options.device)
    print("secants   generation s  plain s  ratio  active  trace difference")
    for m in options.secants:
        pairs = np.random.default_rng(0).integers(0, len(X), (m, 2))
        problem = SecantIsometryProgram(
            ListedSecants(X, pairs[pairs[:, 0] != pairs[:, 1]]), options.delta
        )
        generation = timed(SecantGeneration(tol=options.tol, first=500, add=500).solve, problem)
        print(f"{m:7d}   {generation.wall:10.1f}", end="  ", flush=True)
        whole = problem.restrict(problem.secants.sample(m, None))
        direct = timed(ADMM(tol=options.tol).solve, whole)
        ours = generation.result.certificate.primal
        plain = direct.result.certificate.primal
        active = int(generation.result.history["active"][-1])
        print(
            f"{direct.wall:9.1f}  {direct.wall / generation.wall:5.1f}  {active:6d}  "
            f"{abs(ours - plain) / plain:.1e}",
            flush=True,
        )
