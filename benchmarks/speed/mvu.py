"""Seconds of maximum variance unfolding against the number of points, and beside CVXPY.

Times fits of Swiss rolls of growing size, with --frey also of the 1,965 Frey faces (the paper
reports 131 s), and at --cvxpy points the same exact program in CVXPY. Each line has seconds of the
wall clock first, then processor seconds of all threads, which a busy machine disturbs less.

    python -m benchmarks mvu --tol 1e-2 --cvxpy 0 --frey --figure mvu_scaling.png
    python -m benchmarks mvu --sizes --cvxpy 200
    python -m benchmarks mvu --sizes 200 400 1000 --cvxpy 0 --constraint equal

Data: simulated Swiss rolls; frey with --frey
Minutes: 10, nearly all of it CVXPY with SCS; 2 with --cvxpy 0
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_swiss_roll
from sklearn.exceptions import ConvergenceWarning

from conemetric import MaximumVarianceUnfolding

from ..command import command_parser
from ..data import load
from ..measuring import exponent, timed


def draw(sizes, seconds, path):
    """Time against the number of points, with its exponent, on logarithmic axes."""
    import matplotlib.pyplot as plt

    slope = exponent(sizes, seconds)
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.loglog(sizes, seconds, "o-", label=f"Swiss roll, n^{slope:.1f}")
    axes.set(xlabel="points", ylabel="seconds")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def fit_and_report(name, model, X):
    """`Timed` of a fit, which is printed."""
    fit = timed(model.fit, X)
    c = model.certificate_
    print(
        f"{name:24} {fit.wall:8.1f} s {fit.processor:8.1f} s   objective "
        f"{model.objective_:.6e}   gap {c.relative_gap:9.1e}   violation {c.violation:.1e}   "
        f"{model.n_iter_:4d} iterations   {c.status}",
        flush=True,
    )
    return fit


def exact_by_cvxpy(model, X, solver):
    """Exact unfolding (edge lengths at most as in the data) by a general conic solver:
    (`Timed`, objective).

    Its dual, min b'u over u >= 0 with Lap(u) + t 11' - I psd, has a variable per edge
    instead of one per pair of points, and is the faster form for SCS.
    """
    import cvxpy

    n = len(X)
    a, b = model.edges_.T
    i = np.concatenate([a, b, a, b])
    j = np.concatenate([a, b, b, a])
    number = np.tile(np.arange(len(a)), 4)
    sign = np.repeat([1.0, 1.0, -1.0, -1.0], len(a))
    laplacian = sparse.csc_array((sign, (i + n * j, number)), (n * n, len(a)))
    u = cvxpy.Variable(len(a), nonneg=True)
    t = cvxpy.Variable()
    matrix = cvxpy.reshape(laplacian @ u, (n, n), order="F") + t * np.ones((n, n)) - np.eye(n)
    program = cvxpy.Problem(cvxpy.Minimize(((X[a] - X[b]) ** 2).sum(1) @ u), [matrix >> 0])
    solving = timed(program.solve, solver=solver)
    return solving, program.value


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--sizes", type=int, nargs="*", default=[250, 500, 1000, 2000])
    parser.add_argument(
        "--cvxpy",
        type=int,
        default=200,
        help="points of the comparison with CVXPY; 0 leaves it out",
    )
    parser.add_argument("--solver", default="SCS")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--constraint", default="at_most", choices=["at_most", "equal"])
    parser.add_argument("--frey", action="store_true", help="also fit the Frey faces")
    parser.add_argument(
        "--figure", type=Path, help="draw the times of the Swiss rolls into this file"
    )
    options = parser.parse_args(arguments)
    if options.cvxpy and importlib.util.find_spec("cvxpy") is None:
        parser.error("--cvxpy needs cvxpy, which this Python does not have; pass --cvxpy 0")
    warnings.simplefilter("ignore", ConvergenceWarning)
    MaximumVarianceUnfolding(tol=0.1).fit(make_swiss_roll(100, random_state=0)[0])  # compile
    parameters = {"tol": options.tol, "constraint": options.constraint}
    seconds = []
    for n in options.sizes:
        X = make_swiss_roll(n, random_state=0)[0]
        fit = fit_and_report(f"Swiss roll, n = {n}", MaximumVarianceUnfolding(**parameters), X)
        seconds.append(fit.wall)
    if options.figure:
        draw(options.sizes, seconds, options.figure)
    if options.frey:
        model = MaximumVarianceUnfolding(n_neighbors=5, **parameters)
        fit_and_report("Frey faces, n = 1965", model, load("frey").X)
    if options.cvxpy:
        X = make_swiss_roll(options.cvxpy, random_state=0)[0]
        model = MaximumVarianceUnfolding(sigma=np.inf, tol=options.tol)
        ours = fit_and_report(f"exact, n = {options.cvxpy}", model, X)
        theirs, objective = exact_by_cvxpy(model, X, options.solver)
        ratio = theirs.processor / ours.processor
        difference = model.objective_ / objective - 1
        print(
            f"CVXPY + {options.solver:16} {theirs.wall:8.1f} s {theirs.processor:8.1f} s   "
            f"objective {objective:.6e}   {ratio:.0f} times, our objective {difference:+.1e}"
        )
