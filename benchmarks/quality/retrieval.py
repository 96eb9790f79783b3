"""What RelevanceMetric and QueryAdapter gain in nDCG@10 on held-out queries, by their defaults.

Cranfield is split at random by query, 60 % to learn from, for each seed; SciFact has BEIR's split.
Nothing is chosen on test queries: every setting is the default, which chooses on training queries.

    python -m benchmarks retrieval --collections cranfield scifact --splits 5

Data: ir_cranfield_minilm384, ir_scifact_minilm128
Minutes: 8 (estimated)
"""

import warnings

import numpy as np

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking.measures import ndcg, rank

from ..command import command_parser
from ..data import load_collection
from ..measuring import timed

FILES = {"cranfield": "ir_cranfield_minilm384", "scifact": "ir_scifact_minilm128"}
ESTIMATORS = {"metric": RelevanceMetric, "adapter": QueryAdapter}


def split(name, seed):
    """Judged queries to learn from, and others to test on."""
    collection = load_collection(FILES[name])
    train = collection.training_queries(seed)
    return collection.judged.part(train), collection.judged.part(~train)


def judge(estimator, queries, documents, relevance):
    """nDCG@10 of every query with a relevant document."""
    mapped = estimator.transform_queries(queries), estimator.transform_documents(documents)
    values = ndcg(rank(*mapped, 10, estimator.model_.similarity), relevance)
    return values[~np.isnan(values)]


def frozen(queries, documents, relevance):
    values = ndcg(rank(queries, documents, 10), relevance)
    return values[~np.isnan(values)]


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--collections", nargs="*", default=list(FILES), choices=FILES)
    parser.add_argument("--estimators", nargs="*", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of fits that leave the embedding as it is
    for name in options.collections:
        for kind in options.estimators:
            gains = []
            for seed in range(options.splits if name == "cranfield" else 1):
                train, test = split(name, seed)
                _, seconds, fitted = timed(ESTIMATORS[kind](random_state=0).fit, *train)
                before = frozen(*test)
                after = judge(fitted, *test)
                change = paired_difference(before, after, random_state=0)
                error = (after - before).std(ddof=1) / len(before) ** 0.5
                gains.append(100 * change.difference)
                print(
                    f"{name:9s} {kind:7s} split {seed}: {100 * before.mean():.1f} -> "
                    f"{100 * after.mean():.1f} ({gains[-1]:+.2f}, standard error "
                    f"{100 * error:.2f}, p {change.p_value:.3f}; {change.n} queries), C "
                    f"{fitted.C_:.3g}, margin {fitted.setting_.margin:g}, {fitted.setting_.n_hard} "
                    f"hard, gap {fitted.certificate_.relative_gap:.1e}, {seconds:.1f} s",
                    flush=True,
                )
            print(f"{name:9s} {kind:7s} mean gain {np.mean(gains):+.2f}", flush=True)
