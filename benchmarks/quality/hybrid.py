"""nDCG@10 of an embedding, of BM25, of their mixes, of learned maps, and of the joint program.

Cranfield and CISI are split at random by query, 60 % to learn from, for each seed; CoSQA and SciFact
have splits of their own. Nothing is chosen on test queries. Standard errors are over all test queries
of all splits; p is of a paired randomisation test of the joint program against the best of the others.
Below each mean are the seconds of one split, of processor time and by the clock, compilation excluded.
--states: the spread of the joint program's mean over so many values of random_state, beside the
standard error of its gain over the embedding, on the first split.

    frozen    cosine of the embedding
    bm25      as it is
    rrf       reciprocal rank fusion of both, 1 / (60 + rank), first 200 of each
    mix       both scaled to [0, 1] over the first 200 of each, weight tuned on training queries
    adapter   QueryAdapter, defaults
    metric    RelevanceMetric, defaults (with --metric)
    joint     QueryAdapter with scores={"bm25": ...}, defaults

    python -m benchmarks hybrid --collections cranfield cisi cosqa scifact --splits 10

Data: ir_hybrid_cranfield, ir_hybrid_cisi, ir_hybrid_cosqa, ir_hybrid_scifact
Minutes: 30 (estimated)
"""

import warnings

import numpy as np
from scipy import sparse

from conemetric import QueryAdapter, RelevanceMetric
from conemetric.evaluation.statistics import paired_difference
from conemetric.ranking.measures import ndcg, rank

from ..command import command_parser
from ..data import load_collection
from ..measuring import timed
from ..output import print_row

COLLECTIONS = ("cranfield", "cisi", "cosqa", "scifact")
LISTED = 200
RRF = 60  # everyone's default


class Part:
    """Some queries of a collection (a mask), renumbered."""

    def __init__(self, collection, kept):
        self.judged = collection.judged.part(kept)
        self.queries, self.documents, self.relevance = self.judged
        self.listed = collection.extras["bm25_documents"][kept]
        scores = collection.extras["bm25_scores"][kept]
        self.bm25 = as_matrix(self.listed, scores, len(self.documents))
        self.nearest = rank(self.queries, self.documents, LISTED)

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
        row = np.arange(len(self.queries))[:, None]
        places = 1 / (RRF + 1.0 + np.arange(LISTED))
        scores[row, self.nearest] += places
        for q, listed in enumerate(self.listed):
            listed = listed[listed >= 0]
            scores[q, listed] += places[: len(listed)]
        return first(scores)


def as_matrix(listed, scores, n_documents):
    row, place = np.nonzero(listed >= 0)
    values = scores[row, place].astype(np.float64)
    return sparse.csr_array((values, (row, listed[row, place])), (len(listed), n_documents))


def scaled(scores):
    low = scores.min(1, keepdims=True)
    high = scores.max(1, keepdims=True)
    return (scores - low) / np.where(high > low, high - low, 1)


def first(scores):
    return np.argsort(-scores, axis=1, kind="stable")[:, :10]


def tuned_mix(train, test):
    weights = np.linspace(0, 1, 21)
    best = max(weights, key=lambda weight: np.nanmean(train.judge(train.mixed(weight))))
    return test.mixed(best)


def fitted(kind, train, test, columns, state=0):
    scores = [{"scores": {"bm25": part.bm25}} if columns else {} for part in (train, test)]
    estimator = kind(random_state=state).fit(*train.judged, **scores[0])
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


def splits(collection, n):
    """(training, test) parts of every split."""
    for seed in range(n if collection.training is None else 1):
        train = collection.training_queries(seed)
        yield Part(collection, train), Part(collection, ~train)


def measure(name, methods, n_splits):
    """nDCG@10 of every test query, and seconds of a split (processor, clock), by method."""
    collection = load_collection(f"ir_hybrid_{name}")
    values: dict[str, list] = {method: [] for method in methods}
    seconds: dict[str, list] = {method: [] for method in methods}
    for train, test in splits(collection, n_splits):
        for method in methods:
            ranking = timed(METHODS[method], train, test)
            found = test.judge(ranking.result)
            seconds[method].append([ranking.processor, ranking.wall])
            values[method].append(found[~np.isnan(found)])
    return {method: np.concatenate(values[method]) for method in methods}, seconds


def spread_over_states(name, n_states):
    """Means of the joint program over values of random_state, and the standard error of its gain."""
    train, test = next(splits(load_collection(f"ir_hybrid_{name}"), 1))
    frozen = test.judge(test.nearest[:, :10])
    gains = [
        test.judge(fitted(QueryAdapter, train, test, True, state)) - frozen
        for state in range(n_states)
    ]
    means = 100 * np.array([np.nanmean(gain) for gain in gains])
    error = 100 * np.nanstd(gains[0]) / np.isfinite(gains[0]).sum() ** 0.5
    return means, error


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--collections", nargs="*", default=list(COLLECTIONS), choices=COLLECTIONS)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--states", type=int, default=0)
    parser.add_argument("--metric", action="store_true", help="RelevanceMetric too")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of fits that leave the embedding as it is
    methods = [method for method in METHODS if method != "metric" or options.metric]
    means: dict[str, list] = {method: [] for method in methods}
    compile_kernels()
    print_row("", methods, 10, 14)
    for name in options.collections:
        values, seconds = measure(name, methods, options.splits)
        cells = []
        for method, of_query in values.items():
            means[method].append(100 * of_query.mean())
            cells.append(
                f"{means[method][-1]:.1f} +- {100 * of_query.std() / len(of_query) ** 0.5:.1f}"
            )
        print_row(name, cells, 10, 14)
        cells = ["{:.1f} / {:.1f} s".format(*np.mean(seconds[m], axis=0)) for m in methods]
        print_row("", cells, 10, 14)
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
    print_row("mean", [f"{np.mean(means[method]):.1f}" for method in methods], 10, 14)
