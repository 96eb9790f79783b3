"""Seconds of stage-wise BoostMetric on 450,000 triplets of MNIST from PyTorch tensors.

The rows are 50,000 digits in 164 principal components. Prints seconds of the iterations in both
precisions and for both losses, the parts of one iteration, and the objective beside that of the NumPy
solver after a few iterations.

    python -m benchmarks gpu_boostmetric --iterations 500
    python -m benchmarks gpu_boostmetric --device cpu --points 1000 --iterations 20

Data: mnist
Minutes: 2 on an H200 (estimated)
Needs: torch, an NVIDIA GPU
"""

import warnings
from functools import partial

import torch
from sklearn.exceptions import ConvergenceWarning

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.engine.losses import Logistic, LogSumExp
from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.column_generation import ColumnGeneration
from conemetric.papers.boostmetric.program import TraceProgram

from ..command import add_device, command_parser
from ..measuring import timed
from .gpu_frobmetric import digits, print_pieces

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())

CHECKED = 20  # iterations compared with NumPy
# relative difference that rounding explains after so many iterations
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}


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
    print_pieces(pieces, device)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--iterations", type=int, default=500)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    device = options.device
    X, y = digits(options.points, device)
    searching = timed(triplets_from_labels, X, y, device=device)
    triplets = searching.result
    print(
        f"neighbours of {len(X)} points: {searching.wall:.2f} s, {len(triplets)} triplets",
        flush=True,
    )
    host = from_triplets(X.cpu().numpy(), triplets.cpu().numpy())
    for loss in (ExponentialTrace, LogisticTrace):
        on_host = timed(ColumnGeneration(max_iter=CHECKED).solve, loss(host, 1e-7))
        name = type(loss.keywords["loss"]).__name__
        print(
            f"\n{name}; NumPy, float64: {1e3 * on_host.wall / CHECKED:.1f} ms an iteration",
            flush=True,
        )
        for dtype in (torch.float64, torch.float32):
            problem = loss(from_triplets(X.to(dtype), triplets), 1e-7)
            print(f"  {dtype}")
            parts(problem, device)
            short = ColumnGeneration(max_iter=CHECKED).solve(problem)
            ours = short.certificate.primal
            theirs = on_host.result.certificate.primal
            difference = abs(ours / theirs - 1)
            verdict = "" if difference < ROUNDING[dtype] else ": MORE THAN ROUNDING EXPLAINS"
            print(
                f"    objective after {CHECKED} iterations {ours:.9f}, NumPy {theirs:.9f}, "
                f"difference {difference:.1e}{verdict}"
            )
            solver = ColumnGeneration(max_iter=options.iterations)
            solving = timed(solver.solve, problem, device=device)
            result = solving.result
            slopes = result.history["evaluations"][1:].mean()
            print(
                f"    {result.n_iter} iterations: {solving.wall:.3f} s "
                f"({result.history['seconds'][-1]:.3f} s without the certificate;"
                f" {1e3 * solving.wall / result.n_iter:.2f} ms each, {slopes:.1f} slopes)\n    "
                f"{result.certificate}",
                flush=True,
            )
