"""Stage-wise BoostMetric on MNIST (50,000 digits, PCA to 164, 450,000 triplets):
seconds per iteration against one adjoint.

    CONEMETRIC_DATA=... python benchmarks/boostmetric_mnist.py [--points 50000]
    [--iterations 500] [--float32] [--growth FILE]

--growth instead draws seconds against the dimension, D from 50 to 1,000 at 250 triplets
(Figure 2 of the paper), into FILE.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
from papers.datasets import load
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.operators import from_triplets
from conemetric.problems.losses import Logistic, LogSumExp
from conemetric.problems.trace import TraceProgram
from conemetric.solvers.column_generation import ColumnGeneration

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())


def seconds_of(function, repeats):
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def mnist(n_points, n_iterations, dtype):
    data = load("mnist")
    X, y = data.X[:n_points].astype(np.float32) / 255, data.y[:n_points]
    X = PCA(164, svd_solver="covariance_eigh").fit_transform(X).astype(dtype)
    began = time.perf_counter()
    triplets = triplets_from_labels(X, y)
    seconds = time.perf_counter() - began
    print(
        f"{len(X)} points, {X.shape[1]} features, {len(triplets)} triplets, {dtype.__name__}; "
        f"neighbours {seconds:.1f} s"
    )
    operator = from_triplets(X, triplets)
    for loss in (ExponentialTrace, LogisticTrace):
        problem = loss(operator, 1e-7)
        ColumnGeneration(max_iter=2).solve(problem)
        result = ColumnGeneration(max_iter=n_iterations).solve(problem)
        margins = operator.forward_factor(result.primal_point)
        _, u, _ = problem.evaluate(margins)
        S, z = operator.adjoint(u), result.primal_point[:, -1:]
        h = operator.forward_factor(z)
        parts = {
            "adjoint": seconds_of(lambda u=u: operator.adjoint(u), 9),
            "leading eigenvector": seconds_of(lambda S=S: np.linalg.eigh(S), 9),
            "rank-one forward": seconds_of(lambda z=z: operator.forward_factor(z), 9),
            "slope": seconds_of(lambda p=problem, m=margins, h=h: p.slope(m, h, 0.1), 9),
        }
        seconds = np.diff(result.history["seconds"])
        print(
            f"{type(loss.keywords['loss']).__name__}: {result.n_iter} iterations, {seconds.sum():.1f} s, objective "
            f"{result.certificate.primal:.6f}"
        )
        print("   " + ", ".join(f"{name} {1e3 * value:.1f} ms" for name, value in parts.items()))
        print(f"   slopes per iteration {result.history['evaluations'][1:].mean():.1f}")
        per_iteration = np.median(seconds)
        print(
            f"   median iteration {1e3 * per_iteration:.1f} ms = "
            f"{per_iteration / parts['adjoint']:.2f} x one adjoint",
            flush=True,
        )


def growth(file, n_iterations=100):
    import matplotlib.pyplot as plt

    dimensions, times = [50, 100, 200, 400, 600, 800, 1000], []
    rng = np.random.default_rng(0)
    print("D, seconds for", n_iterations, "iterations at 250 triplets")
    for D in dimensions:
        y = np.repeat(np.arange(4), 25)
        angle = rng.uniform(0, 2 * np.pi, len(y))
        circles = (1 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        X = np.hstack([circles, rng.normal(size=(len(y), D - 2))])
        problem = ExponentialTrace(from_triplets(X, triplets_from_labels(X, y)[:250]), 1e-7)
        ColumnGeneration(max_iter=2).solve(problem)
        times.append(
            seconds_of(lambda p=problem: ColumnGeneration(max_iter=n_iterations).solve(p), 3)
        )
        print(f"{D:5d} {times[-1]:8.3f}", flush=True)
    slope = np.polyfit(np.log(dimensions[3:]), np.log(times[3:]), 1)[0]
    print(f"exponent from D = {dimensions[3]} on: {slope:.2f}")
    figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axis.loglog(dimensions, times, marker="o")
    axis.set(
        xlabel="dimension",
        ylabel=f"seconds, {n_iterations} iterations",
        title="BoostMetric, 250 triplets",
    )
    figure.savefig(file)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--growth", metavar="FILE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.growth:
        growth(options.growth)
    else:
        mnist(options.points, options.iterations, np.float32 if options.float32 else np.float64)


if __name__ == "__main__":
    main()
