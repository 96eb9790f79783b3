"""Seconds of an iteration of stage-wise BoostMetric on 450,000 triplets, beside those of one adjoint.

The rows are 50,000 digits of MNIST in 164 principal components. With --growth FILE the benchmark
draws, instead, seconds against the dimension: D from 50 to 1,000 at 250 triplets (figure 2 of the
paper).

    python -m benchmarks boostmetric_mnist --iterations 60
    python -m benchmarks boostmetric_mnist --growth boostmetric_growth.png

Data: mnist; simulated circles with --growth
Minutes: 5 (estimated from 60 iterations), 1 with --growth
"""

import warnings
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.engine.losses import Logistic, LogSumExp
from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.column_generation import ColumnGeneration
from conemetric.papers.boostmetric.program import TraceProgram

from ..command import command_parser
from ..data import mnist_components
from ..measuring import exponent, median_seconds, timed

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())


def mnist(n_points, n_iterations, dtype):
    X, y, _, _ = mnist_components(n_points, dtype=dtype)
    searching = timed(triplets_from_labels, X, y)
    triplets = searching.result
    print(
        f"{len(X)} points, {X.shape[1]} features, {len(triplets)} triplets, {dtype.__name__}; "
        f"neighbours {searching.wall:.1f} s"
    )
    operator = from_triplets(X, triplets)
    for loss in (ExponentialTrace, LogisticTrace):
        problem = loss(operator, 1e-7)
        ColumnGeneration(max_iter=2).solve(problem)
        result = ColumnGeneration(max_iter=n_iterations).solve(problem)
        margins = operator.forward_factor(result.primal_point)
        _, u, _ = problem.evaluate(margins)
        S = operator.adjoint(u)
        z = result.primal_point[:, -1:]
        h = operator.forward_factor(z)
        parts = {
            "adjoint": median_seconds(lambda u=u: operator.adjoint(u), 9),
            "leading eigenvector": median_seconds(lambda S=S: np.linalg.eigh(S), 9),
            "rank-one forward": median_seconds(lambda z=z: operator.forward_factor(z), 9),
            "slope": median_seconds(lambda p=problem, m=margins, h=h: p.slope(m, h, 0.1), 9),
        }
        seconds = np.diff(result.history["seconds"])
        name = type(loss.keywords["loss"]).__name__
        print(
            f"{name}: {result.n_iter} iterations, {seconds.sum():.1f} s, objective "
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

    dimensions = [50, 100, 200, 400, 600, 800, 1000]
    times = []
    rng = np.random.default_rng(0)
    print("D, seconds for", n_iterations, "iterations at 250 triplets")
    for D in dimensions:
        y = np.repeat(np.arange(4), 25)
        angle = rng.uniform(0, 2 * np.pi, len(y))
        circles = (1 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        X = np.hstack([circles, rng.normal(size=(len(y), D - 2))])
        problem = ExponentialTrace(from_triplets(X, triplets_from_labels(X, y)[:250]), 1e-7)
        ColumnGeneration(max_iter=2).solve(problem)
        solver = ColumnGeneration(max_iter=n_iterations)
        times.append(median_seconds(lambda s=solver, p=problem: s.solve(p), 3))
        print(f"{D:5d} {times[-1]:8.3f}", flush=True)
    print(f"exponent from D = {dimensions[3]} on: {exponent(dimensions[3:], times[3:]):.2f}")
    figure, axis = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axis.loglog(dimensions, times, marker="o")
    axis.set(
        xlabel="dimension",
        ylabel=f"seconds, {n_iterations} iterations",
        title="BoostMetric, 250 triplets",
    )
    figure.savefig(file)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--float32", action="store_true")
    parser.add_argument("--growth", metavar="FILE")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.growth:
        growth(options.growth)
    else:
        mnist(options.points, options.iterations, np.float32 if options.float32 else np.float64)
