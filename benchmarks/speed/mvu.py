"""Maximum variance unfolding: time against n on Swiss rolls, and against exact MVU
through CVXPY at n = 200.

    python benchmarks/mvu.py [--sizes 250 500 1000 2000] [--cvxpy 200] [--data DIR]
    [--constraint at_most] [--figure FILE]

Wall-clock seconds first, then processor seconds (of all threads), which a busy machine
disturbs less. With --data DIR (holding frey.npz) the 1,965 Frey faces are timed too;
the paper reports 131 s for them.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_swiss_roll
from sklearn.exceptions import ConvergenceWarning

from conemetric import MaximumVarianceUnfolding


def timed(function, *args):
    """(wall-clock, processor) seconds of a call."""
    began, busy = time.perf_counter(), time.process_time()
    function(*args)
    return time.perf_counter() - began, time.process_time() - busy


def draw(sizes, seconds, path):
    """Time against the number of points, with its exponent, on logarithmic axes."""
    import matplotlib.pyplot as plt

    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.loglog(sizes, seconds, "o-", label=f"Swiss roll, n^{slope:.1f}")
    axes.set(xlabel="points", ylabel="seconds")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def report(name, seconds, model):
    c = model.certificate_
    print(
        f"{name:24} {seconds[0]:8.1f} s {seconds[1]:8.1f} s   objective {model.objective_:.6e}   "
        f"gap {c.relative_gap:9.1e}   "
        f"violation {c.violation:.1e}   {model.n_iter_:4d} "
        f"iterations   {c.status}",
        flush=True,
    )


def exact_by_cvxpy(model, X, solver):
    """Exact unfolding (edge lengths at most as in the data) by a general conic solver:
    (seconds, objective).

    Its dual, min b'u over u >= 0 with Lap(u) + t 11' - I psd, has a variable per edge
    instead of one per pair of points, and is the faster form for SCS.
    """
    import cvxpy

    n, (a, b) = len(X), model.edges_.T
    i = np.concatenate([a, b, a, b])
    j = np.concatenate([a, b, b, a])
    number, sign = np.tile(np.arange(len(a)), 4), np.repeat([1.0, 1.0, -1.0, -1.0], len(a))
    laplacian = sparse.csc_array((sign, (i + n * j, number)), (n * n, len(a)))
    u, t = cvxpy.Variable(len(a), nonneg=True), cvxpy.Variable()
    matrix = cvxpy.reshape(laplacian @ u, (n, n), order="F") + t * np.ones((n, n)) - np.eye(n)
    program = cvxpy.Problem(cvxpy.Minimize(((X[a] - X[b]) ** 2).sum(1) @ u), [matrix >> 0])
    seconds = timed(lambda: program.solve(solver=solver))
    return seconds, program.value


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    parser.add_argument("--data", type=Path)
    parser.add_argument(
        "--figure", type=Path, help="draw the times of the Swiss rolls into this file"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    MaximumVarianceUnfolding(tol=0.1).fit(make_swiss_roll(100, random_state=0)[0])  # compile
    taken = []
    for n in args.sizes:
        model = MaximumVarianceUnfolding(tol=args.tol, constraint=args.constraint)
        taken.append(timed(model.fit, make_swiss_roll(n, random_state=0)[0]))
        report(f"Swiss roll, n = {n}", taken[-1], model)
    if args.figure:
        draw(args.sizes, [seconds for seconds, _ in taken], args.figure)
    if args.data:
        model = MaximumVarianceUnfolding(n_neighbors=5, tol=args.tol, constraint=args.constraint)
        report(
            "Frey faces, n = 1965",
            timed(model.fit, np.load(args.data / "frey.npz")["X"].astype(np.float64)),
            model,
        )
    if args.cvxpy:
        X = make_swiss_roll(args.cvxpy, random_state=0)[0]
        model = MaximumVarianceUnfolding(sigma=np.inf, tol=args.tol)
        ours = timed(model.fit, X)
        report(f"exact, n = {args.cvxpy}", ours, model)
        theirs, objective = exact_by_cvxpy(model, X, args.solver)
        ratio, difference = theirs[1] / ours[1], model.objective_ / objective - 1
        print(
            f"CVXPY + {args.solver:16} {theirs[0]:8.1f} s {theirs[1]:8.1f} s   objective "
            f"{objective:.6e}   {ratio:.0f} times, "
            f"our objective {difference:+.1e}"
        )


if __name__ == "__main__":
    main()
