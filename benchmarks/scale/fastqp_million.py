"""Seconds, memory and certificate of relative comparisons at 1,000,000 triplets of 100 features.

Prints the solve with L = I and with L = (A'A) o (A'A) for a random A, and how long a sweep takes beside
its floor, one read of Z (its sum).

    python -m benchmarks fastqp_million --triplets 1000000 --features 100 --tol 1e-3

Data: simulated
Minutes: 1
"""

import time

import numpy as np

from conemetric.engine.operators import from_triplets
from conemetric.estimators.scale import scaled_C
from conemetric.papers.relative_comparisons.dual_coordinate import RUN, DualCoordinate, dual_sweep
from conemetric.papers.relative_comparisons.program import ComparisonProgram

from ..command import command_parser
from ..measuring import peak_memory


def data(n_points, n_features, n_triplets, rng):
    """Ten classes that differ in a fifth of the features; random triplets of two points
    of a class and one of another.
    """
    y = np.sort(rng.integers(0, 10, n_points))
    centres = 0.7 * rng.normal(size=(10, n_features)) * (np.arange(n_features) < n_features // 5)
    X = rng.normal(size=(n_points, n_features)) + centres[y]
    first = np.searchsorted(y, np.arange(10))
    size = np.bincount(y, minlength=10)
    i = rng.integers(0, n_points, n_triplets)
    place = (i - first[y[i]] + 1 + rng.integers(0, size[y[i]] - 1)) % size[y[i]]
    k = (first[y[i]] + size[y[i]] + rng.integers(0, n_points - size[y[i]])) % n_points
    return X, np.column_stack([i, first[y[i]] + place, k])


def gigabytes():
    return peak_memory() / 2**30


def sweep_seconds(problem):
    """Best of three sweeps from zero, every row visited, and the seconds of one read of Z."""
    m = problem.operator.n_constraints
    p = len(problem.L)
    length = max(1, RUN // p)
    sweeps = []
    reads = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state = np.zeros(p), np.zeros(p)
        lam = np.zeros(m)
        active = np.ones(m, dtype=bool)
        began = time.perf_counter()
        for rows in problem.slices:
            starts = rng.permutation(np.arange(0, rows.stop - rows.start, length))
            given = problem.inverse_diagonal, problem.penalties[rows]
            vectors = *given, *state, lam[rows], active[rows]
            dual_sweep(problem.block(rows), starts, length, np.inf, vectors)
        sweeps.append(time.perf_counter() - began)
        began = time.perf_counter()
        for rows in problem.slices:
            problem.block(rows).sum()
        reads.append(time.perf_counter() - began)
    return min(sweeps), min(reads)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--triplets", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--tol", type=float, default=1e-3)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    small = from_triplets(*data(300, options.features, 3000, rng))
    # compiles sweeps and Newton steps
    DualCoordinate(tol=1e-9).solve(
        ComparisonProgram(small, scaled_C(small, small.n_features) / 3000)
    )
    X, T = data(options.points, options.features, options.triplets, rng)
    print(f"imports and data: peak {gigabytes():.2f} GB")
    C = scaled_C(from_triplets(X, T), X.shape[1]) / len(T)
    for label, A in (("I", None), ("L", rng.normal(size=(options.features, options.features)))):
        began = time.perf_counter()
        operator = from_triplets(X if A is None else X @ A, T)
        problem = ComparisonProgram(operator, C, None if A is None else A.T @ A)
        built = time.perf_counter()
        result = DualCoordinate(tol=options.tol).solve(problem)
        solved = time.perf_counter()
        c = result.certificate
        h = result.history
        print(
            f"L = {label}: Z {T.shape[0]} x {options.features} built in {built - began:.1f} s, "
            f"solved in {solved - built:.1f} s "
            f"({result.n_iter} iterations, {h['steps'][-1]} Newton steps), objective "
            f"{c.primal:.8g}, certified gap "
            f"{c.relative_gap:.1e}, {c.status}, peak {gigabytes():.2f} GB"
        )
        print(
            "   gap after each iteration: "
            + " ".join(
                f"{gap:.0e}@{s:.1f}s"
                for gap, s in zip(h["relative_gap"], h["seconds"], strict=True)
            )
        )
        if A is None:
            sweep, read = sweep_seconds(problem)
            print(
                f"   one sweep {sweep:.3f} s, one read of Z {read:.3f} s, ratio {sweep / read:.1f}"
            )
        del problem, operator
