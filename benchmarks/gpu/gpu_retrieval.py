"""Seconds of one fit of RelevanceMetric and of QueryAdapter at a given C, negatives included.

"middle" is 50,000 documents and 5,000 queries of 7 relevant documents each, 700,000 comparisons;
"large" is 1,000,000 documents and 10,000 queries of one each; "small" is for a try. Rows have 384
dimensions in float32 and length one, about 1,000 topics, with queries near their documents in half of
the dimensions. With --device cpu NumPy and Numba compute.

    python -m benchmarks gpu_retrieval --sizes middle large
    python -m benchmarks gpu_retrieval --device cpu --sizes middle --estimators metric --profile

Data: simulated
Minutes: 2 on an H200 (estimated)
Needs: an NVIDIA GPU with PyTorch
"""

import cProfile
import pstats
from unittest import mock

import numpy as np

from conemetric.ranking.program import RankingProgram

from ..command import add_device, command_parser
from ..data import JudgedQueries, unit_rows
from ..measuring import timed
from ..quality.retrieval import ESTIMATORS

# documents, queries, relevant documents of a query
SIZES = {"small": (2_000, 100, 7), "middle": (50_000, 5_000, 7), "large": (1_000_000, 10_000, 1)}
D = 384


def collection(n_documents, n_queries, n_relevant, seed=0):
    """Documents by topic; a query is of one topic, and so are its relevant documents."""
    rng = np.random.default_rng(seed)
    topic = np.sort(rng.integers(max(10, min(1000, n_documents // 20)), size=n_documents))
    centres = rng.standard_normal((topic[-1] + 1, D), np.float32)
    documents = unit_rows(centres[topic] + rng.standard_normal((n_documents, D), np.float32))
    first = rng.integers(n_documents - n_relevant, size=n_queries)
    relevant = first[:, None] + np.arange(n_relevant)
    queries = 2 * documents[relevant].mean(1)
    queries += rng.standard_normal((n_queries, D), np.float32) * np.repeat([0.05, 0.2], D // 2)
    pairs = [np.repeat(np.arange(n_queries), n_relevant), relevant.ravel()]
    return JudgedQueries(unit_rows(queries), documents, np.column_stack(pairs))


def fit(estimator, judged, device):
    """Seconds of a fit, and of its comparisons, which hold the search for negatives."""
    spent = []
    comparisons = RankingProgram.comparisons

    def clocked(*arguments, **options):
        comparing = timed(comparisons, *arguments, device=device, **options)
        spent.append(comparing.wall)
        return comparing.result

    with mock.patch.object(RankingProgram, "comparisons", clocked):
        fitting = timed(estimator.fit, *judged, device=device)
    return fitting.wall, sum(spent)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
    parser.add_argument("--sizes", nargs="*", default=["middle", "large"], choices=SIZES)
    parser.add_argument("--estimators", nargs="*", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--C", type=float, nargs="*", default=[1.0, 10.0, 100.0])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args(arguments)
    for size in options.sizes:
        judged = collection(*SIZES[size])
        if options.device != "cpu":
            import torch

            judged = judged._replace(
                queries=torch.as_tensor(judged.queries, device=options.device),
                documents=torch.as_tensor(judged.documents, device=options.device),
            )
        for kind in options.estimators:
            few = judged.relevance[judged.relevance[:, 0] < 50] % 1000
            small = JudgedQueries(judged.queries[:50], judged.documents[:1000], few)
            fit(ESTIMATORS[kind](1.0, random_state=0), small, options.device)  # compile
            for C in options.C:
                for _ in range(2):
                    fitted = ESTIMATORS[kind](C, random_state=0)
                    seconds, comparing = fit(fitted, judged, options.device)
                    print(
                        f"{size}, {options.device}, {kind}, C = {C:g}: "
                        f"{len(fitted.comparisons_):,} comparisons, {seconds:.3f} s, of which "
                        f"{comparing:.3f} s comparisons; {fitted.n_iter_} iterations, gap "
                        f"{fitted.certificate_.relative_gap:.1e}",
                        flush=True,
                    )
            if options.profile:
                profile = cProfile.Profile()
                profile.runcall(ESTIMATORS[kind](C, random_state=0).fit, *judged)
                pstats.Stats(profile).sort_stats("cumulative").print_stats(35)
