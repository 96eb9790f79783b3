"""From which size on more threads of BLAS make products, decompositions and fits faster.

Prints milliseconds by number of threads, of the wall clock and of the processors.
`conemetric.core.blas.MIN_WORK` is taken from this table; measure on quiet cores.

    taskset -c 0,1 python -m benchmarks blas_threads
    python -m benchmarks blas_threads --threads 1 2 16 --fits

Data: simulated
Minutes: less than 1; about 5 with --fits
"""

import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    NuMax,
)
from conemetric.core import blas

from ..command import command_parser
from ..output import print_row

LEAST_SECONDS = 0.2  # of repetitions of one measurement
ORDERS = (32, 64, 96, 128, 192, 256, 384, 512, 768)
FIT_SIZES = ((500, 16), (2000, 32), (2000, 64), (2000, 128), (2000, 256), (2000, 512), (8000, 128))
UNFOLDING_SIZES = (100, 200, 300, 400)
SECANT_SIZES = ((500, 30), (1000, 64), (500, 128))


def measured(function, threads):
    """Milliseconds of a call: wall, processor."""
    with threadpool_limits(threads, user_api="blas"):
        function()
        calls = 0
        wall = time.perf_counter()
        processor = time.process_time()
        while calls == 0 or time.perf_counter() - wall < LEAST_SECONDS:
            function()
            calls += 1
        wall = time.perf_counter() - wall
        processor = time.process_time() - processor
    return 1e3 * wall / calls, 1e3 * processor / calls


def operations(rng):
    """(name, multiplications, function) of the operations that iterations consist of."""
    for order in ORDERS:
        A = rng.normal(size=(order, order))
        S = A + A.T
        tall = rng.normal(size=(8 * order, order))
        yield f"product {order}^3", order**3, lambda A=A: A @ A
        yield f"tall {8 * order} x {order}^2", 8 * order**3, lambda tall=tall: tall.T @ tall
        yield f"eigh {order}", order**3, lambda S=S: np.linalg.eigh(S)
        positive = S @ S + order * np.eye(order)
        yield f"cholesky {order}", order**3 // 3, lambda P=positive: np.linalg.cholesky(P)


def labelled(rng, n, d):
    """Five overlapping classes."""
    y = rng.integers(0, 5, n)
    return rng.normal(size=(n, d)) + rng.normal(size=(5, d))[y], y


def fits(rng):
    """(name, multiplications, function) of whole fits, without the search for neighbours."""
    for n, d in FIT_SIZES:
        X, y = labelled(rng, n, d)
        numbers = rng.integers(0, n, (5000, 3))
        triplets = numbers[(numbers[:, 0] != numbers[:, 1]) & (numbers[:, 0] != numbers[:, 2])]
        triplets = triplets[triplets[:, 1] != triplets[:, 2]]
        for method in (FrobMetric(), LMNNEig(), BoostMetric()):
            name = f"{type(method).__name__} {n} x {d}"
            method.set_params(max_iter=30)
            yield name, n * d * d, lambda m=method, X=X, T=triplets: m.fit(X, triplets=T)
        pairs = triplets[:, :2]
        similar = y[pairs[:, 0]] == y[pairs[:, 1]]
        method = DMLEig(max_iter=30)
        yield (
            f"DMLEig {n} x {d}",
            n * d * d,
            lambda m=method, X=X, P=pairs, s=similar: m.fit(X, pairs=P, similar=s),
        )
    for n in UNFOLDING_SIZES:
        X = rng.normal(size=(n, 3))
        for constraint in ("at_most", "equal"):
            method = MaximumVarianceUnfolding(n_neighbors=5, constraint=constraint, max_iter=30)
            yield f"unfolding {constraint} {n}", n**3, lambda m=method, X=X: m.fit(X)
    for n, d in SECANT_SIZES:
        X, _ = labelled(rng, n, d)
        yield f"NuMax {n} x {d}", n * d * d, lambda X=X: NuMax(max_iter=30).fit(X)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--fits", action="store_true", help="also whole fits")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    blas.MIN_WORK = 0  # as many threads as are allowed, whatever the size
    rng = np.random.default_rng(0)
    cases = list(operations(rng))
    if options.fits:
        cases += fits(rng)
    print("milliseconds, wall and processor")
    print_row("", ["work", *(f"{threads} threads" for threads in options.threads)], 28, 22)
    for name, work, function in cases:
        times = [measured(function, threads) for threads in options.threads]
        cells = [f"{wall:.2f}{processor:10.2f}" for wall, processor in times]
        print_row(name, [f"{work:.1e}", *cells], 28, 22)
