"""More features than rows: fits in the span of the rows beside the same programs in all features.

With --shapes the benchmark prints seconds and memory of shapes like gene expression. Each shape and
estimator is measured in a process of its own: the seconds of a second fit, and how far the process'
peak memory grew in it, in sizes of X (X itself not counted). ``--direct`` fits in all features.

With --equal each estimator is fitted twice to random instances, as it is and with the span left out,
and the worst difference is printed: of the objective and of the proven bound, relative to them, and of
the distances of the three nearest neighbours, relative to the largest that a metric of that size could
give two rows, ||M||^1/2 times their Euclidean distance (an optimum that merges the rows of each class
leaves distances that are nothing but rounding). The FrobMetric optimum is unique, with ||M - M*||_F^2
at most twice the gap; linear objectives (LMNNEig, DMLEig, NuMax) and BoostMetric's may have many
optima, or a flat one, whose neighbours differ though the objectives agree.

    python -m benchmarks wide --shapes 60x1000,150x20000
    python -m benchmarks wide --shapes 60x1000 --device cuda
    python -m benchmarks wide --shapes 60x1000 --estimators FrobMetric --direct
    python -m benchmarks wide --equal 50 --jobs 16

Data: simulated
Minutes: 2 for the shapes; 20 for --equal 50 on one core (estimated)
"""

import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from unittest.mock import patch

import numpy as np
from scipy.spatial.distance import pdist, squareform

from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig, NuMax
from conemetric.core.arrays import to_numpy
from conemetric.engine.operators.span import Coordinates

from ..command import add_device, command_parser
from ..measuring import peak_memory, timed
from ..processes import in_own_process

ESTIMATORS = {
    "FrobMetric": FrobMetric,
    "LMNNEig": LMNNEig,
    "DMLEig": DMLEig,
    "BoostMetric": BoostMetric,
}
RIDGE = 1e-3  # of a singular scatter: its inverse amplifies rounding
EXACT = {
    "FrobMetric": FrobMetric(tol=1e-10),
    "FrobMetric, identity": FrobMetric(prior="identity", tol=1e-10),
    "FrobMetric, logistic": FrobMetric(loss="logistic", tol=1e-10),
    "LMNNEig": LMNNEig(ridge=RIDGE, tol=1e-8, max_iter=2000),
    "DMLEig": DMLEig(ridge=RIDGE, tol=1e-8),
    "BoostMetric": BoostMetric(tol=1e-8),
    "NuMax": NuMax(delta=0.4, tol=1e-8),
}
PLACES = (
    "conemetric.constraints.in_memory.in_span",
    "conemetric.papers.numax.numax.in_span",
    "conemetric.engine.operators.whitening.centred_in_span",
)


def labelled(n, D, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, D))
    X[:, : min(50, D)] += 0.5 * y[:, None]
    return X, y


def instance(seed):
    """D from n/2 to 20 n, with duplicates, constant and collinear features."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 16))
    X, y = labelled(n, int(n * [0.5, 1, 2, 5, 20][seed % 5]), seed)
    X[:, X.shape[1] // 2] = 1.0
    X[:, -1] = 2 * X[:, 0]
    X[1], y[1] = X[2], y[2]
    return X, y


def everywhere():
    """A context in which every fit is in all features."""
    stack = ExitStack()
    for place in PLACES:
        stack.enter_context(patch(place, lambda X, **options: Coordinates(X)))
    return stack


def outcome(estimator, X, y):
    """Objective, bound, distances of the three nearest in units of the largest possible,
    gap.
    """
    fitted = estimator.fit(X, y)
    size = np.linalg.norm(to_numpy(fitted.components_), 2) * pdist(X).max()
    distances = np.sort(squareform(pdist(to_numpy(fitted.transform(X)))), axis=1)
    near = distances[:, 1:4] / (size or 1.0)
    certificate = fitted.certificate_
    return fitted.objective_, certificate.dual, near, certificate.relative_gap


def differences(estimator, X, y):
    """Between a fit in the span and one in all features: of objective, bound and
    neighbours; and the larger gap of the two.
    """
    *inside, gap = outcome(estimator, X, y)
    with everywhere():
        *outside, other_gap = outcome(estimator, X, y)
    objective, bound = (abs(a - b) / abs(b) for a, b in zip(inside[:2], outside[:2], strict=True))
    return objective, bound, float(abs(inside[2] - outside[2]).max()), max(gap, other_gap)


def compared(name, seed):
    warnings.simplefilter("ignore")
    began = time.process_time()
    return *differences(EXACT[name], *instance(seed)), time.process_time() - began


def equality(n_instances, names, jobs):
    for name in names:
        # the widest, which take longest, first
        seeds = sorted(range(n_instances), key=lambda seed: -(seed % 5))
        with ProcessPoolExecutor(jobs) as pool:
            each = np.array(list(pool.map(partial(compared, name), seeds)))
        objective, bound, neighbours, gap, _ = each.max(0)
        print(
            f"{name}, {n_instances} instances, worst difference: objective {objective:.1e}, "
            f"bound {bound:.1e}, distances of the nearest {neighbours:.1e} (median "
            f"{np.median(each[:, 2]):.1e}); largest gap {gap:.1e} (median "
            f"{np.median(each[:, 3]):.1e}); {each[:, 4].sum():.0f} s of CPU",
            flush=True,
        )


def measure(name, n, D, device, direct):
    """What a second fit takes; ``grown`` is the growth of peak memory in sizes of X."""
    warnings.simplefilter("ignore")
    estimator = ESTIMATORS[name]()
    with everywhere() if direct else ExitStack():
        estimator.fit(*labelled(30, 60))  # compile
        X, y = labelled(n, D)
        if device:
            import torch

            X = torch.as_tensor(X, device=device)
            estimator.fit(X, y)
        before = peak_memory()
        fitting = timed(estimator.fit, X, y, device=device or "cpu")
    return {
        "wall": fitting.wall,
        "processor": fitting.processor,
        "grown": (peak_memory() - before) / (8 * n * D),
        "n_iter": estimator.n_iter_,
        "rank": to_numpy(estimator.components_).shape[0],
        "status": str(estimator.certificate_.status),
    }


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--equal", type=int, default=0, help="random instances to compare on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--shapes", default="", help="rows x features, separated by commas")
    parser.add_argument("--estimators", nargs="*", choices=EXACT)
    add_device(parser, default=None)
    parser.add_argument("--direct", action="store_true", help="fit in all features")
    options = parser.parse_args(arguments)
    if not (options.equal or options.shapes):
        parser.error("nothing to measure; pass --shapes 60x1000 or --equal 50")
    if options.equal:
        equality(options.equal, options.estimators or EXACT, options.jobs)
    for shape in filter(None, options.shapes.split(",")):
        n, D = map(int, shape.split("x"))
        for name in options.estimators or ESTIMATORS:
            found = in_own_process(measure, name, n, D, options.device, options.direct)
            print(
                f"{shape} {name}: {found['wall']:.2f} s ({found['processor']:.2f} s of "
                f"processors), peak memory + {found['grown']:.1f} X, {found['n_iter']} iterations, "
                f"rank {found['rank']}, {found['status']}",
                flush=True,
            )
