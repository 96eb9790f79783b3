"""More features than rows: fits in the span of the rows against the same programs solved
in all features, and time and memory of shapes like gene expression.

    python benchmarks/wide.py --equal 50      # objective, bound and neighbours, per estimator
    python benchmarks/wide.py --shapes 60x1000,150x20000
    python benchmarks/wide.py --shapes 60x1000 --device cuda

Equality is judged by the program over all features: the certificate of the fit against
the one that program computes from the stored metric and multipliers, and the distances
of the three nearest neighbours by the metric against those of a direct solve. Memory is
the growth of the process' peak, over the size of X.
"""

import argparse
import resource
import time
import warnings

import numpy as np

from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig
from conemetric.arrays import to_numpy
from conemetric.operators import from_triplets
from conemetric.problems.frobenius import FrobeniusProgram
from conemetric.solvers.dual_quasi_newton import DualQuasiNewton

ESTIMATORS = (FrobMetric, LMNNEig, DMLEig, BoostMetric)


def labelled(n, D, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, D))
    X[:, : min(50, D)] += 0.5 * y[:, None]
    return X, y


def instance(seed):
    """D from n/2 to 20 n, with duplicates, constant and collinear features."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 30))
    X, y = labelled(n, int(n * [0.5, 1, 2, 5, 20][seed % 5]), seed)
    X[:, X.shape[1] // 2] = 1.0
    X[:, -1] = 2 * X[:, 0]
    X[1], y[1] = X[2], y[2]
    return X, y


def nearest(Z):
    distances = ((Z[:, None] - Z) ** 2).sum(2) ** 0.5
    return np.sort(distances, axis=1)[:, 1:4]


def equality(n_instances):
    worst = np.zeros(3)
    for seed in range(n_instances):
        X, y = instance(seed)
        metric = FrobMetric(tol=1e-9).fit(X, y)
        program = FrobeniusProgram(from_triplets(X, metric.triplets_), metric.C_)
        bounds = program.certify(metric.components_.T, metric.multipliers_)
        direct = DualQuasiNewton(tol=1e-9).solve(program)
        near = nearest(X @ direct.primal_point)
        worst = np.maximum(
            worst,
            [
                abs(metric.objective_ / direct.certificate.primal - 1),
                max(
                    abs(bounds.primal / metric.certificate_.primal - 1),
                    abs(bounds.dual / metric.certificate_.dual - 1),
                ),
                abs(nearest(metric.transform(X)) - near).max() / near.max(),
            ],
        )
    objective, certificate, neighbours = worst
    print(
        f"FrobMetric, {n_instances} instances, worst relative difference: objective "
        f"{objective:.1e}, certificate in all features {certificate:.1e}, distances of the "
        f"nearest {neighbours:.1e}"
    )


def shape(n, D, device):
    X, y = labelled(n, D)
    if device:
        import torch

        X = torch.as_tensor(X, device=device)
    for estimator in ESTIMATORS:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        start, cpu = time.perf_counter(), time.process_time()
        metric = estimator().fit(X, y)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        print(
            f"{n} x {D} {estimator.__name__}: {seconds:.2f} s ({cpu:.2f} s of CPU), peak memory "
            f"+ {grown / (8 * n * D):.1f} X, {metric.n_iter_} iterations, rank "
            f"{to_numpy(metric.components_).shape[0]}, {metric.certificate_.status}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equal", type=int, default=0)
    parser.add_argument("--shapes", default="")
    parser.add_argument("--device", default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for estimator in ESTIMATORS:  # compile
        estimator().fit(*labelled(30, 5))
    if args.equal:
        equality(args.equal)
    for text in filter(None, args.shapes.split(",")):
        shape(*map(int, text.split("x")), args.device)


if __name__ == "__main__":
    main()
