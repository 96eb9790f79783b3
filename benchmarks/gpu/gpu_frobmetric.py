"""Seconds of FrobMetric on 450,000 triplets of MNIST from PyTorch tensors.

The rows are 50,000 digits in 164 principal components. Prints seconds of the neighbour search and of
the solve in both precisions, the parts of one evaluation, whether a second run gives the same bits,
and the objective beside that of the NumPy solver.

    python -m benchmarks gpu_frobmetric --C 10 1000
    python -m benchmarks gpu_frobmetric --device cpu --points 1000

Data: mnist
Minutes: 2 on an H200 (estimated)
Needs: torch, an NVIDIA GPU
"""

import torch

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets

from ..command import add_device, command_parser
from ..data import mnist_components
from ..measuring import mean_seconds, timed


def digits(n_points, device):
    """Digits in 164 principal components, as a tensor in float64, and their labels."""
    X, y, _, _ = mnist_components(n_points)
    return torch.as_tensor(X, device=device), y


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
    print_pieces(pieces, device)


def print_pieces(pieces, device):
    """Milliseconds of each of these functions."""
    for name, piece in pieces.items():
        print(f"    {name:18s} {1e3 * mean_seconds(piece, 20, device):8.3f} ms")


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--C", type=float, nargs="*", default=[10.0, 1000.0])
    options = parser.parse_args(arguments)
    device = options.device
    X, y = digits(options.points, device)
    triplets_from_labels(X[:2000], y[:2000])
    searching = timed(triplets_from_labels, X, y, device=device)
    triplets = searching.result
    print(f"neighbours of {len(X)} points: {searching.wall:.2f} s, {len(triplets)} triplets")
    for dtype in (torch.float64, torch.float32):
        building = timed(from_triplets, X.to(dtype), triplets, device=device)
        operator = building.result
        print(f"{dtype}: operator of {operator.n_pairs} pairs built in {building.wall:.3f} s")
        parts(operator, device)
        for C in options.C:
            problem = FrobeniusProgram(operator, C)
            solver = DualQuasiNewton(tol=1e-3)
            solver.solve(problem)  # compile
            solving = timed(solver.solve, problem, device=device)
            result = solving.result
            again = solver.solve(problem)
            c = result.certificate
            print(
                f"  C={C:g}: {solving.wall:.3f} s, {result.history['evaluations'][-1]:.0f} "
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
