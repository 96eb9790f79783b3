"""How the seconds of FrobMetric's solve grow with triplets (at D = 64) and with D (at 10,000 triplets).

Prints every solve, and the exponents of the power laws fitted to them.

    python -m benchmarks frobmetric_scaling --largest 1000000 --figure frobmetric_scaling.png

Data: simulated
Minutes: 3
"""

import numpy as np

from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets
from conemetric.estimators.scale import scaled_C

from ..command import command_parser
from ..measuring import exponent, timed


def instance(rng, m, D):
    """Gaussian classes in D dimensions, m triplets over m / 9 points (9 a point, as
    from labels).
    """
    n = max(30, m // 9)
    labels = rng.integers(0, 10, n)
    X = rng.normal(size=(n, D)) + 1.5 * rng.normal(size=(10, D))[labels] * (np.arange(D) < 8)
    order = np.argsort(labels, kind="stable")
    first = np.searchsorted(labels[order], np.arange(11))
    i = rng.integers(0, n, m)
    low = first[labels[i]]
    high = first[labels[i] + 1]
    j = order[low + rng.integers(0, 2**31, m) % (high - low)]
    k = order[(high + rng.integers(0, 2**31, m) % (n - (high - low))) % n]
    return X, np.stack([i, j, k], 1)[i != j]


def measure(m, D):
    X, triplets = instance(np.random.default_rng(0), m, D)
    operator = from_triplets(X, triplets)
    problem = FrobeniusProgram(operator, scaled_C(operator, operator.n_features))
    DualQuasiNewton(max_iter=1, tol=1.0).solve(problem)
    seconds, _, result = timed(DualQuasiNewton(tol=1e-3).solve, problem)
    evaluations = int(result.history["evaluations"][-1])
    print(
        f"m = {len(triplets):8d}  D = {D:5d}  {seconds:8.3f} s  {evaluations:4d} evaluations  "
        f"{1e3 * seconds / evaluations:8.2f} ms each",
        flush=True,
    )
    return seconds, seconds / evaluations


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--figure")
    parser.add_argument("--largest", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    triplets = [m for m in (10_000, 30_000, 100_000, 300_000, 1_000_000) if m <= options.largest]
    dimensions = [16, 32, 64, 128, 256, 512, 1024]
    curves = {
        "triplets": (np.array(triplets), np.array([measure(m, 64) for m in triplets])),
        "dimensions": (np.array(dimensions), np.array([measure(10_000, D) for D in dimensions])),
    }
    for name, (x, times) in curves.items():
        whole, single = (exponent(x, column) for column in times.T)
        print(f"exponent in {name}: solve {whole:.2f}, one evaluation {single:.2f}")
    if options.figure:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for axis, (name, (x, times)) in zip(axes, curves.items(), strict=True):
            axis.loglog(x, times[:, 0], "o-", label="solve to a certified gap of 1e-3")
            axis.loglog(x, times[:, 1], "s--", label="one evaluation")
            axis.set(xlabel=name, ylabel="seconds")
            axis.grid(alpha=0.3)
        axes[0].legend()
        figure.savefig(options.figure, dpi=150)
