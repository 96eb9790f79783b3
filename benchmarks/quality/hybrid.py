"""Words and vectors: nDCG@10 of an embedding, BM25, their mixes, maps, and the joint program.

    CONEMETRIC_DATA=... python benchmarks/hybrid.py [--collections cranfield cisi cosqa scifact]
    [--splits 10] [--metric] [--states 10]

Reads ``ir_hybrid_NAME.npz``: docs, queries (rows of all-MiniLM-L6-v2), split, qrels [query,
document, grade] and the first 200 documents by BM25. Cranfield and CISI are split at random
by query, 60 % to learn from, for each seed; CoSQA and SciFact have splits of their own.
Nothing is chosen on test queries. Standard errors are over all test queries of all splits;
p is of a paired randomisation test of the joint program against the best of the others. Below
each mean are the seconds of one split, of processor time and by the clock, compilation excluded.
--states: the spread of the joint program's mean over so many values of random_state, beside the
standard error of its gain over the embedding, on the first split.

    frozen    cosine of the embedding
    bm25      as it is
    rrf       reciprocal rank fusion of both, 1 / (60 + rank), first 200 of each
    mix       both scaled to [0, 1] over the first 200 of each, weight tuned on training queries
    adapter   QueryAdapter, defaults
    metric    RelevanceMetric, defaults (with --metric)
    joint     QueryAdapter with scores={"bm25": ...}, defaults
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking.measures import ndcg, rank

COLLECTIONS = ("cranfield", "cisi", "cosqa", "scifact")
WITHOUT_SPLIT = ("cranfield", "cisi")
LISTED = 200
RRF = 60  # everyone's default


class Part:
    """Some queries of a collection (a mask), renumbered."""

    def __init__(self, file, kept):
        number = np.cumsum(kept) - 1
        rows = file["qrels"][kept[file["qrels"][:, 0]]]
        self.queries, self.documents = unit(file["queries"][kept]), unit(file["docs"])
        self.relevance = np.column_stack([number[rows[:, 0]], rows[:, 1:]])
        self.listed = file["bm25_documents"][kept]
        self.bm25 = as_matrix(self.listed, file["bm25_scores"][kept], len(self.documents))
        self.nearest = rank(self.queries, self.documents, LISTED)

    @property
    def data(self):
        return self.queries, self.documents, self.relevance

    def judge(self, ranking):
        return ndcg(ranking, self.relevance)

    def mixed(self, weight):
        """Both scaled to [0, 1] over their lists."""
        row = np.arange(len(self.nearest))[:, None]
        scores = np.zeros((len(self.queries), len(self.documents)))
        cosine = np.einsum("qld,qd->ql", self.documents[self.nearest], self.queries)
        scores[row, self.nearest] = (1 - weight) * scaled(cosine)
        bm25 = self.bm25.toarray()
        for q, listed in enumerate(self.listed):
            listed = listed[listed >= 0]
            if len(listed):
                scores[q, listed] += weight * scaled(bm25[q, listed][None])[0]
        return first(scores)

    def fused_by_rank(self):
        scores = np.zeros((len(self.queries), len(self.documents)))
        row, places = np.arange(len(self.queries))[:, None], 1 / (RRF + 1.0 + np.arange(LISTED))
        scores[row, self.nearest] += places
        for q, listed in enumerate(self.listed):
            listed = listed[listed >= 0]
            scores[q, listed] += places[: len(listed)]
        return first(scores)


def unit(X):
    X = X.astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def as_matrix(listed, scores, n_documents):
    row, place = np.nonzero(listed >= 0)
    values = scores[row, place].astype(np.float64)
    return sparse.csr_array((values, (row, listed[row, place])), (len(listed), n_documents))


def scaled(scores):
    low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def first(scores):
    return np.argsort(-scores, axis=1, kind="stable")[:, :10]


def tuned_mix(train, test):
    weights = np.linspace(0, 1, 21)
    best = max(weights, key=lambda weight: np.nanmean(train.judge(train.mixed(weight))))
    return test.mixed(best)


def fitted(kind, train, test, columns, state=0):
    scores = [{"scores": {"bm25": part.bm25}} if columns else {} for part in (train, test)]
    estimator = kind(random_state=state).fit(*train.data, **scores[0])
    return estimator.rank(test.queries, test.documents, **scores[1])[0]


METHODS = {
    "frozen": lambda train, test: test.nearest[:, :10],
    "bm25": lambda train, test: test.listed[:, :10],
    "rrf": lambda train, test: test.fused_by_rank(),
    "mix": tuned_mix,
    "adapter": lambda train, test: fitted(QueryAdapter, train, test, False),
    "metric": lambda train, test: fitted(RelevanceMetric, train, test, False),
    "joint": lambda train, test: fitted(QueryAdapter, train, test, True),
}


def compile_kernels():
    """Run everything once on a small collection of random rows."""
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(60, 8)).astype(np.float32)
    relevance = np.column_stack([np.arange(20), np.arange(20)])
    column = sparse.csr_array(rng.random((20, 60)))
    for kind in (QueryAdapter, RelevanceMetric):
        for scores in (None, {"bm25": column}):
            kind(random_state=0).fit(documents[20:40], documents, relevance, scores)
            kind(10.0).fit(documents[20:40], documents, relevance, scores)


def splits(name, file, n):
    """Masks of the training queries."""
    if name not in WITHOUT_SPLIT:
        return [file["split"] == "train"]
    masks = []
    for seed in range(n):
        order = np.random.default_rng(seed).permutation(len(file["queries"]))
        masks.append(np.isin(np.arange(len(order)), order[: int(0.6 * len(order))]))
    return masks


def measure(name, methods, n_splits):
    """nDCG@10 of every test query, and seconds of a split (processor, clock), by method."""
    path = Path(os.environ["CONEMETRIC_DATA"]) / f"ir_hybrid_{name}.npz"
    file = dict(np.load(path))
    values: dict[str, list] = {method: [] for method in methods}
    seconds: dict[str, list] = {method: [] for method in methods}
    for train in splits(name, file, n_splits):
        parts = Part(file, train), Part(file, ~train)
        for method in methods:
            began = np.array([time.process_time(), time.perf_counter()])
            found = parts[1].judge(METHODS[method](*parts))
            ended = np.array([time.process_time(), time.perf_counter()])
            seconds[method].append(ended - began)
            values[method].append(found[~np.isnan(found)])
    return {method: np.concatenate(values[method]) for method in methods}, seconds


def spread_over_states(name, n_states):
    """Means of the joint program over values of random_state, and the standard error of its gain."""
    file = dict(np.load(Path(os.environ["CONEMETRIC_DATA"]) / f"ir_hybrid_{name}.npz"))
    train = splits(name, file, 1)[0]
    parts = Part(file, train), Part(file, ~train)
    frozen = parts[1].judge(parts[1].nearest[:, :10])
    gains = [
        parts[1].judge(fitted(QueryAdapter, *parts, True, state)) - frozen
        for state in range(n_states)
    ]
    means = 100 * np.array([np.nanmean(gain) for gain in gains])
    error = 100 * np.nanstd(gains[0]) / np.isfinite(gains[0]).sum() ** 0.5
    return means, error


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collections", nargs="*", default=list(COLLECTIONS), choices=COLLECTIONS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--states", type=int, default=0)
    parser.add_argument("--metric", action="store_true", help="RelevanceMetric too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of fits that leave the embedding as it is
    methods = [method for method in METHODS if method != "metric" or options.metric]
    means: dict[str, list] = {method: [] for method in methods}
    compile_kernels()
    print(f"{'':10s}" + "".join(f"{method:>14s}" for method in methods), flush=True)
    for name in options.collections:
        values, seconds = measure(name, methods, options.splits)
        cells = []
        for method, of_query in values.items():
            means[method].append(100 * of_query.mean())
            cells.append(
                f"{means[method][-1]:.1f} +- {100 * of_query.std() / len(of_query) ** 0.5:.1f}"
            )
        print(f"{name:10s}" + "".join(f"{cell:>14s}" for cell in cells))
        cells = ["{:.1f} / {:.1f} s".format(*np.mean(seconds[m], axis=0)) for m in methods]
        print(f"{'':10s}" + "".join(f"{cell:>14s}" for cell in cells))
        best = max((m for m in methods if m != "joint"), key=lambda m: means[m][-1])
        change = paired_difference(values[best], values["joint"], random_state=0)
        error = (values["joint"] - values[best]).std(ddof=1) / len(values[best]) ** 0.5
        print(
            f"{'':10s}joint over {best}: {100 * change.difference:+.2f}, standard error "
            f"{100 * error:.2f}, p {change.p_value:.3f}, {change.n} queries",
            flush=True,
        )
        if options.states:
            found, error = spread_over_states(name, options.states)
            print(
                f"{'':10s}joint over frozen by random_state: {found.min():+.2f} to "
                f"{found.max():+.2f}, standard deviation {found.std(ddof=1):.2f}, standard error "
                f"{error:.2f}",
                flush=True,
            )
    print(f"{'mean':10s}" + "".join(f"{np.mean(means[method]):14.1f}" for method in methods))


if __name__ == "__main__":
    main()
