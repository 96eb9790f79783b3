"""Adapt a frozen embedding to judged queries, and measure the gain on others, score by score."""

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.progress import emit
from ..core.warn import collected_warnings
from ..evaluation.statistics import SIGNIFICANT, PairedDifference, paired_difference
from ..ranking import measures
from ..ranking.adapter import QueryAdapter, RelevanceMetric
from ..ranking.base import RankingEstimator
from ..ranking.engines import ENGINES, check_target
from ..ranking.fusion import Fusion, reciprocal_ranks
from ..ranking.judgements import check_relevance
from ..ranking.top_k import unit_rows
from .advice import in_options
from .options import AdaptOptions

DEPTH = 100  # of the rankings: the deepest of the measures
MEASURES = {
    "nDCG@10": lambda ranking, judged: measures.ndcg(ranking, judged, 10),
    "MRR@10": lambda ranking, judged: measures.reciprocal_rank(ranking, judged, 10),
    "AP@100": lambda ranking, judged: measures.average_precision(ranking, judged, 100),
    "recall@100": lambda ranking, judged: measures.recall(ranking, judged, 100),
    "hit@10": lambda ranking, judged: measures.hit_rate(ranking, judged, 10),
}
MAIN = "nDCG@10"  # the measure that decides
MAPS = ("queries", "both")
RRF = "reciprocal rank fusion"
EMBEDDED = "embedding before"  # its ranking as a column: no column may be called "embedding"
SHOWN_FIRST = 10  # documents that a user looks at


@dataclass(frozen=True)
class Collection:
    """Embedded queries and documents, and judgements by their row numbers."""

    queries: np.ndarray  # (n_queries, n_features)
    documents: np.ndarray  # (n_documents, n_features)
    relevance: np.ndarray  # integers (r, 3): query, document, grade
    test: np.ndarray | None = None  # which queries the collection itself holds out
    query_names: list[str] | None = None  # None: rows go by their number
    document_names: list[str] | None = None
    query_texts: list[str] | None = None
    document_texts: list[str] | None = None
    # columns of other scores to learn with, each a sparse matrix (n_queries, n_documents)
    scores: dict[str, Any] | None = None


class Contribution(NamedTuple):
    """What one of the scores adds to the others."""

    name: str  # of the column, or "embedding"
    weight: float
    # held-out queries, by their place, with a relevant document among the first 10 only with this
    # score, and only without it
    rescued: np.ndarray
    lost: np.ndarray


@dataclass
class Adaptation:
    """The fitted maps, and how they rank held-out queries."""

    collection: Collection
    options: AdaptOptions
    fitted: dict[str, RankingEstimator]  # by the side they map, "queries" or "both"
    chosen: str  # one of these
    held_out: np.ndarray  # queries to judge on
    # "before", by each of ``fitted``, and with columns of scores by each alone and by reciprocal
    # rank fusion: arrays (n_held_out, depth)
    rankings: dict[str, np.ndarray]
    values: dict[str, dict[str, np.ndarray]]  # measures of each ranking, by query
    seconds: dict[str, float]
    n_training: int
    notes: list[str]
    # to the chosen ranking, that of the embedding first; empty without columns
    contributions: list[Contribution]

    @property
    def estimator(self) -> RankingEstimator:
        """The chosen map."""
        return self.fitted[self.chosen]

    @property
    def unchanged(self) -> bool:
        """Whether nothing was better than the embedding as it is."""
        return self.estimator.setting_ == self.estimator.candidates_[0].setting

    @property
    def helps(self) -> bool:
        """Whether the map ranks held-out queries better, beyond chance."""
        change = self.difference(MAIN)
        return not self.unchanged and change.p_value <= SIGNIFICANT and change.difference > 0

    @property
    def uses_scores(self) -> bool:
        """Whether a column of scores has a weight."""
        return any(score.weight for score in self.contributions[1:])

    def mean(self, measure: str, name: str | None = None) -> float:
        """The mean of a measure over the held-out queries after, or of another ranking, in points."""
        return 100 * float(self.values[name or self.chosen][measure].mean())

    def difference(self, measure: str, against: str = "before") -> PairedDifference:
        """Of a measure over the held-out queries, from before, or another ranking, to after."""
        before = self.values[against][measure]
        after = self.values[self.chosen][measure]
        return paired_difference(before, after, random_state=self.options.seed)


def adapt(collection: Collection, options: AdaptOptions | None = None) -> Adaptation:
    """Hold queries out, learn from the others, and judge before and after."""
    options = options or AdaptOptions()
    maps = check_options(options)
    if options.similarity == "cosine":  # unit rows, so that both estimators see the same data
        collection = replace(
            collection,
            queries=unit_rows(np.asarray(collection.queries)),
            documents=unit_rows(np.asarray(collection.documents)),
        )
    train, test = _split(collection, options)
    notes: list[str] = []
    fitted: dict[str, RankingEstimator] = {}
    seconds: dict[str, float] = {}
    for name in maps:
        began = time.perf_counter()
        fitted[name] = _fitted(name, options, _part(collection, train), notes)
        seconds[name] = time.perf_counter() - began
    chosen = _chosen(fitted)
    emit("stage", stage="evaluating")
    queries, documents, relevance, scores = _part(collection, test)
    judged = check_relevance(relevance, len(queries), len(documents))
    rankings = _rankings(fitted, queries, documents, scores, options)
    added: list[Contribution] = []
    if scores is not None:
        rankings |= _rankings_beside(rankings["before"], scores)
        added = _contributions(fitted[chosen], queries, documents, scores, judged)
    return Adaptation(
        collection,
        options,
        fitted,
        chosen,
        held_out=test,
        rankings=rankings,
        values={name: _measured(ranking, judged) for name, ranking in rankings.items()},
        seconds=seconds,
        n_training=len(train),
        notes=notes,
        contributions=added,
    )


def _fitted(name, options, part, notes):
    """A map of "queries" or of "both" sides, fitted; its warnings become notes."""
    given = {
        "n_components": options.n_components,
        "tol": options.tol,
        "normalization": options.normalization,
        "random_state": options.seed,
    }
    estimator: RankingEstimator
    if name == "queries":
        emit("stage", stage="learning a map of queries")
        estimator = QueryAdapter(similarity=options.similarity, target=options.target, **given)
    else:
        emit("stage", stage="learning a map of both sides")
        estimator = RelevanceMetric(**given)
    with collected_warnings() as collected:
        estimator.fit(*part)
    for warning in collected:
        notes.append(f"Map of {name}: {in_options(warning)}")
    return estimator


def _chosen(fitted):
    """The map to use: that of queries, which comes first, unless another is surely better."""
    chosen, *others = fitted
    for name in others:
        if fitted[name].chosen_.beats(fitted[chosen].chosen_):
            chosen = name
    return chosen


def _rankings(fitted, queries, documents, scores, options):
    """How the embedding as it is, and with each map, ranks."""
    rankings = {"before": measures.rank(queries, documents, DEPTH, options.similarity)}
    for name, estimator in fitted.items():
        rankings[name], _ = estimator.rank(queries, documents, scores, DEPTH)
    return rankings


def _measured(ranking, judged):
    """Every measure of a ranking, by query."""
    return {name: measure(ranking, judged) for name, measure in MEASURES.items()}


def check_options(options: AdaptOptions) -> tuple[str, ...]:
    """Which maps to try, that of queries first; an error if the options do not go together."""
    if options.map not in ("auto", *MAPS):
        raise ValueError(f"map={options.map!r} is not known; use auto, {' or '.join(MAPS)}.")
    if options.similarity not in ("cosine", "inner"):
        raise ValueError(f"similarity={options.similarity!r} is not known; use cosine or inner.")
    if options.map == "both" and options.similarity == "inner":
        raise ValueError(
            "map='both' learns a distance, which ranks as a cosine does; for an index by inner "
            "product use map='queries'."
        )
    if options.target is not None:
        if options.target not in ENGINES:
            known = ", ".join(ENGINES)
            raise ValueError(f"target={options.target!r} is not known; use one of {known}.")
        if options.map == "both":
            raise ValueError(
                f"map='both' is not learned for target={options.target!r}; use map='queries', which "
                "leaves the engine's index as it is."
            )
        check_target(options.target, options.normalization, options.similarity)
        return ("queries",)
    if options.map != "auto":
        return (options.map,)
    if options.similarity == "inner":  # no distance ranks as an inner product does
        return ("queries",)
    return MAPS


def _split(collection, options):
    """Judged queries to learn from and to judge on."""
    judgements = check_relevance(
        collection.relevance, len(collection.queries), len(collection.documents)
    )
    judged = np.flatnonzero(judgements.n_relevant > 0)
    if collection.test is not None:
        test = collection.test[judged]
    else:
        drawn = np.random.default_rng(options.seed).permutation(len(judged))
        test = drawn < max(1, round(options.test_size * len(judged)))
    if test.all() or test.sum() < 2:
        raise ValueError(
            f"{len(judged)} queries have a relevant document, {int(test.sum())} of them held out; "
            "at least 2 must be, and some must remain to learn from."
        )
    return judged[~test], judged[test]


def _part(collection, queries):
    """Some of the queries, the documents, and the judgements and columns renumbered to match."""
    new = np.full(len(collection.queries), -1)
    new[queries] = np.arange(len(queries))
    kept = collection.relevance[new[collection.relevance[:, 0]] >= 0]
    relevance = np.column_stack([new[kept[:, 0]], kept[:, 1:]])
    scores = None
    if collection.scores:
        scores = {}
        for name, column in collection.scores.items():
            scores[name] = sparse.csr_array(column)[queries]
    return collection.queries[queries], collection.documents, relevance, scores


def _rankings_beside(before, scores):
    """Rankings of every column alone, and of reciprocal rank fusion of all with ``before``."""

    def fused(columns):
        ranks = {name: reciprocal_ranks(column) for name, column in columns.items()}
        ranking, _ = Fusion(dict.fromkeys(columns, 1.0), "raw", []).rank(ranks, DEPTH)
        return ranking

    rankings = {}
    for name, column in scores.items():
        rankings[f"{name} alone"] = fused({name: column})
    # the ranking of the embedding as a column: the nearest document has the highest score
    query, place = np.nonzero(before >= 0)
    heights = -place.astype(np.float64)
    shape = next(iter(scores.values())).shape
    embedding = sparse.csr_array((heights, (query, before[query, place])), shape)
    rankings[RRF] = fused({**scores, EMBEDDED: embedding})
    return rankings


def _contributions(estimator, queries, documents, scores, judged):
    """What every score with a weight adds: the ranking with it against that without it."""

    def hits(weights):
        changed = replace(estimator.model_, weights=weights)
        ranking, _ = changed.rank(queries, documents, scores, SHOWN_FIRST)
        return measures.hit_rate(ranking, judged, SHOWN_FIRST) > 0

    weights = estimator.score_weights_
    found = hits(weights)
    contributed = []
    for name, weight in weights.items():
        without = hits(weights | {name: 0.0})
        rescued = np.flatnonzero(found & ~without)
        lost = np.flatnonzero(without & ~found)
        contributed.append(Contribution(name, weight, rescued, lost))
    return contributed
