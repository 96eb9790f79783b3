"""What RelevanceMetric and QueryAdapter gain on judged queries they have not seen, by defaults.

    CONEMETRIC_DATA=... python benchmarks/retrieval.py [--collections cranfield scifact]
    [--estimators metric adapter] [--splits 5]

Reads ``ir_cranfield_minilm384.npz`` and ``ir_scifact_minilm128.npz``: docs, queries
(rows of all-MiniLM-L6-v2), split and qrels [query, document, grade]. Cranfield is split
at random by query, 60 % to learn from, for each seed; SciFact has BEIR's split. Nothing
is chosen on test queries: every setting is the default, which chooses on training
queries.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking.measures import ndcg, rank

FILES = {"cranfield": "ir_cranfield_minilm384.npz", "scifact": "ir_scifact_minilm128.npz"}
ESTIMATORS = {"metric": RelevanceMetric, "adapter": QueryAdapter}


def unit(X):
    X = X.astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def read(name):
    """Queries, documents, judgements and the given split of a collection."""
    file = np.load(Path(os.environ["CONEMETRIC_DATA"]) / FILES[name])
    return unit(file["queries"]), unit(file["docs"]), file["qrels"], file["split"]


def split(name, seed):
    """(queries, documents, judgements) to learn from and to judge on."""
    queries, documents, relevance, given = read(name)
    train = given == "train"
    if name == "cranfield":
        train = np.zeros(len(queries), bool)
        order = np.random.default_rng(seed).permutation(len(queries))
        train[order[: int(0.6 * len(queries))]] = True
    return [part(queries, documents, relevance, rows) for rows in (train, ~train)]


def part(queries, documents, relevance, kept):
    """The collection of some queries (a mask), numbered anew."""
    number = np.cumsum(kept) - 1
    rows = relevance[kept[relevance[:, 0]]]
    return queries[kept], documents, np.column_stack([number[rows[:, 0]], rows[:, 1:]])


def judge(estimator, queries, documents, relevance):
    """nDCG@10 of every query with a relevant document."""
    mapped = estimator.transform_queries(queries), estimator.transform_documents(documents)
    values = ndcg(rank(*mapped, 10, estimator.model_.similarity), relevance)
    return values[~np.isnan(values)]


def frozen(queries, documents, relevance):
    values = ndcg(rank(queries, documents, 10), relevance)
    return values[~np.isnan(values)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collections", nargs="*", default=list(FILES), choices=FILES)
    parser.add_argument("--estimators", nargs="*", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that leave the embedding as it is
    for name in options.collections:
        for kind in options.estimators:
            gains = []
            for seed in range(options.splits if name == "cranfield" else 1):
                train, test = split(name, seed)
                began = time.process_time()
                fitted = ESTIMATORS[kind](random_state=0).fit(*train)
                seconds = time.process_time() - began
                before, after = frozen(*test), judge(fitted, *test)
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


if __name__ == "__main__":
    main()
