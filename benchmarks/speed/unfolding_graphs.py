"""Seconds and certificates of unfoldings of random neighbour graphs, with --conic beside CVXPY.

Graphs of 15 to 60 points that are rigid, loose, disconnected, collinear or have an outlier, under
both constraints. Prints for every fit its status, iterations, processor seconds, gap and violation;
with --conic also the seconds of CVXPY with Clarabel and how far the objectives are apart.

    python -m benchmarks unfolding_graphs --graphs 40
    python -m benchmarks unfolding_graphs --graphs 5 --conic

Data: simulated
Minutes: less than 1; with --conic up to minutes a graph
"""

import importlib.util
import time
import warnings

import numpy as np

from conemetric import MaximumVarianceUnfolding
from conemetric.papers.unfolding.neighbour_graph import neighbour_edges, variance_bound

from ..command import command_parser
from ..measuring import timed

KINDS = "rigid", "loose", "disconnected", "collinear", "outlier"


def graph(seed):
    """(kind, points, number of neighbours)."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 5]
    n = int(rng.integers(15, 61))
    if kind == "rigid":
        return kind, rng.normal(size=(n, int(rng.integers(2, 4)))), int(rng.integers(5, 8))
    if kind == "loose":
        return kind, rng.normal(size=(n, int(rng.integers(6, 10)))), int(rng.integers(2, 5))
    if kind == "disconnected":
        D = int(rng.integers(2, 5))
        halves = rng.normal(size=(n // 2, D)), rng.normal(size=(n - n // 2, D)) + 30
        return kind, np.vstack(halves), int(rng.integers(3, 6))
    if kind == "collinear":
        X = np.outer(rng.normal(size=n), rng.normal(size=3))
        return kind, X, int(rng.integers(2, 6))
    X = rng.normal(size=(n, 3))
    X[0] *= 100
    return kind, X, int(rng.integers(3, 6))


def conic(X, n_neighbors, equality):
    """(optimum, status, seconds) of the same program in units that keep its numbers near one."""
    import cvxpy as cp

    edges, lengths = neighbour_edges(X, n_neighbors)
    n = len(X)
    b = lengths**2
    size = b.max()
    sigma = 10 * variance_bound(edges, lengths, n)
    K = cp.Variable((n, n), PSD=True)
    B = np.zeros((len(edges), n))
    B[np.arange(len(edges)), edges[:, 0]] = 1
    B[np.arange(len(edges)), edges[:, 1]] = -1
    distances = cp.sum(cp.multiply(B @ K, B), axis=1)
    kept = distances == b / size if equality else distances <= b / size
    objective = cp.sum_squares(K) * size / (2 * sigma) - cp.trace(K)
    program = cp.Problem(cp.Minimize(objective), [cp.sum(K) == 0, kept])
    began = time.process_time()
    program.solve(solver="CLARABEL")
    return size * program.value, program.status, time.process_time() - began


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--graphs", type=int, default=40)
    parser.add_argument("--conic", action="store_true")
    options = parser.parse_args(arguments)
    if options.conic and importlib.util.find_spec("cvxpy") is None:
        parser.error("--conic needs cvxpy, which this Python does not have")
    warnings.simplefilter("ignore")
    MaximumVarianceUnfolding().fit(graph(1)[1])  # compile
    slowest = 0.0
    converged = 0
    for seed in range(options.graphs):
        kind, X, k = graph(seed)
        for constraint in ("at_most", "equal"):
            unfolding = MaximumVarianceUnfolding(n_neighbors=k, constraint=constraint)
            _, seconds, model = timed(unfolding.fit, X)
            c = model.certificate_
            slowest = max(slowest, seconds)
            converged += c.status == "converged"
            line = (
                f"{seed:2} {kind:12} {len(X)} points {constraint:7} {c.status} "
                f"{model.n_iter_:2} iterations {seconds:5.2f} s  gap {c.relative_gap:+.1e} "
                f"violation {c.violation:.1e}"
            )
            if options.conic:
                optimum, status, taken = conic(X, k, constraint == "equal")
                line += f"  conic {taken:6.1f} s, ours {c.primal / optimum - 1:+.1e} ({status})"
            print(line, flush=True)
    print(f"{converged} of {2 * options.graphs} converged, slowest {slowest:.2f} s")
