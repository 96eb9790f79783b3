"""Seconds of one fit of RelevanceMetric and QueryAdapter at a given C, negatives included.

    python benchmarks/gpu_retrieval.py [--device cuda] [--sizes middle large]
    [--estimators metric adapter] [--profile]

"middle": 50,000 documents, 5,000 queries of 7 relevant documents each, 700,000
comparisons; "large": 1,000,000 documents, 10,000 queries of one each; "small" for a try.
384 dimensions, float32, unit rows about 1,000 topics, queries near their documents in
half of the dimensions. With --device cpu, NumPy and Numba.
"""

import argparse
import cProfile
import pstats
import time
from unittest import mock

import numpy as np
from retrieval import ESTIMATORS, unit

from conemetric.ranking.program import RankingProgram

# documents, queries, relevant documents of a query
SIZES = {"small": (2_000, 100, 7), "middle": (50_000, 5_000, 7), "large": (1_000_000, 10_000, 1)}
D = 384


def collection(n_documents, n_queries, n_relevant, seed=0):
    """Documents by topic; a query is of one topic, and so are its relevant documents."""
    rng = np.random.default_rng(seed)
    topic = np.sort(rng.integers(max(10, min(1000, n_documents // 20)), size=n_documents))
    centres = rng.standard_normal((topic[-1] + 1, D), np.float32)
    documents = unit(centres[topic] + rng.standard_normal((n_documents, D), np.float32))
    first = rng.integers(n_documents - n_relevant, size=n_queries)
    relevant = first[:, None] + np.arange(n_relevant)
    queries = 2 * documents[relevant].mean(1)
    queries += rng.standard_normal((n_queries, D), np.float32) * np.repeat([0.05, 0.2], D // 2)
    pairs = [np.repeat(np.arange(n_queries), n_relevant), relevant.ravel()]
    return unit(queries), documents, np.column_stack(pairs)


class Clock:
    """Wall-clock seconds of what the device has finished."""

    def __init__(self, device):
        self.device = device

    def __call__(self):
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()


def fit(estimator, data, clock):
    """Seconds of a fit, and of its comparisons, which hold the search for negatives."""
    spent = []

    def timed(*arguments, **options):
        began = clock()
        found = comparisons(*arguments, **options)
        spent.append(clock() - began)
        return found

    comparisons = RankingProgram.comparisons
    with mock.patch.object(RankingProgram, "comparisons", timed):
        began = clock()
        estimator.fit(*data)
        return clock() - began, sum(spent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", nargs="*", default=["middle", "large"], choices=SIZES)
    parser.add_argument("--estimators", nargs="*", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--C", type=float, nargs="*", default=[1.0, 10.0, 100.0])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    clock = Clock(options.device)
    for size in options.sizes:
        data = collection(*SIZES[size])
        if options.device != "cpu":
            import torch

            moved = [torch.as_tensor(X, device=options.device) for X in data[:2]]
            data = (*moved, data[2])
        for kind in options.estimators:
            few = data[2][data[2][:, 0] < 50]
            fit(
                ESTIMATORS[kind](1.0, random_state=0),
                (data[0][:50], data[1][:1000], few % 1000),
                clock,
            )
            for C in options.C:
                for _ in range(2):
                    fitted = ESTIMATORS[kind](C, random_state=0)
                    seconds, comparing = fit(fitted, data, clock)
                    print(
                        f"{size}, {options.device}, {kind}, C = {C:g}: "
                        f"{len(fitted.comparisons_):,} comparisons, {seconds:.3f} s, of which "
                        f"{comparing:.3f} s comparisons; {fitted.n_iter_} iterations, gap "
                        f"{fitted.certificate_.relative_gap:.1e}",
                        flush=True,
                    )
            if options.profile:
                profile = cProfile.Profile()
                profile.runcall(ESTIMATORS[kind](C, random_state=0).fit, *data)
                pstats.Stats(profile).sort_stats("cumulative").print_stats(35)


if __name__ == "__main__":
    main()
