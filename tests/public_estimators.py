"""Every public estimator with small data, for tests of what holds for all of them.

`CASES` is checked to have one of every class that the package exports: whoever adds an estimator
adds a case here, and gets all these tests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from broken import (
    BrokenFolds,
    BrokenMetric,
    BrokenRows,
    broken_kernel,
    broken_preprocessor,
)
from judged import collection
from sklearn.base import clone

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    KernelCoordinates,
    LearnedAdapter,
    LearnedMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    MetricClassifier,
    MetricRegressor,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    RelevanceMetric,
    TableEncoder,
    save_decision,
    save_metric,
)

Keywords = dict[str, Any]


@dataclass(frozen=True)
class Update:
    """A method that changes a fitted estimator: its name, keywords that it takes, and keywords
    that it refuses by what is wrong with them.
    """

    method: str
    taken: Keywords
    refused: dict[str, Keywords] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """An unfitted estimator of quick settings, and what to do to it.

    ``first`` and ``second`` are keywords of two fits to data of different kinds: arrays and data
    frames, other numbers of features, other classes. ``refused`` are keywords to replace in the
    second, by what is wrong with them, ``bad`` and ``broken`` are parameters that make it fail
    before it begins and on the way (on data with the keywords ``broken_data``), and ``warning``
    those that make it warn (on data with ``warning_data``).
    """

    estimator: Any
    first: Keywords
    second: Keywords
    refused: dict[str, Keywords]
    bad: Keywords
    used: Callable[[Any, Keywords], dict[str, Any]]
    broken: Keywords = field(default_factory=dict)
    broken_data: Keywords = field(default_factory=dict)
    warning: Keywords = field(default_factory=dict)
    warning_data: Keywords = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    write: Callable[[Any, Any], None] | None = None  # saves it to a path

    def outputs(self, estimator):
        """What a user gets from a fitted estimator, by name; the error where there is one."""
        found = {}
        for name, call in self.used(estimator, self.first).items():
            try:
                found[name] = call()
            except Exception as error:
                found[name] = repr(error)
        return found


# ---- rows with labels or numbers


def _rows(seed, n=24, D=4):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, D)) + 1.5 * rng.normal(size=(3, D))[y], y


X, Y = _rows(0)
# a frame of other columns, far from the first rows, with other classes
OTHER = pd.DataFrame(1e3 + 1e2 * _rows(1, 27, 3)[0], columns=["a", "b", "c"])
OTHER_LABELS = np.array(["red", "green", "blue"])[np.arange(27) % 3]
OTHER_NUMBERS = OTHER["a"].to_numpy() * 7 + OTHER["b"].to_numpy()


def _spoiled(value):
    """The second rows with an entry of this value."""
    rows = OTHER.copy()
    rows.iloc[4, 1] = value
    return rows


def _refused_rows(labels, spoilt=np.nan):
    """What a fit to rows with labels refuses."""
    missing = np.array(labels, object)
    missing[3] = None
    return {
        "missing values": {"X": _spoiled(spoilt)},
        "one class": {"y": np.full(27, labels[0])},
        "rows all alike": {"X": OTHER.iloc[[0] * 27]},
        "too few rows": {"X": OTHER[:1], "y": labels[:1]},
        "wrong number of labels": {"y": labels[:-1]},
        "a missing label": {"y": missing},
        "unreadable rows": {"X": BrokenRows()},
    }


def _metric_outputs(metric, given):
    pairs = PAIRS[:5]
    return {
        "transform": lambda: metric.transform(X),
        "pair_distance": lambda: metric.pair_distance(pairs),
        "get_metric": lambda: metric.get_metric()(X[0], X[1]),
        "get_mahalanobis_matrix": lambda: metric.get_mahalanobis_matrix(),
        "decision_function": lambda: metric.decision_function(pairs),
        "predict": lambda: metric.predict(pairs),
        "score": lambda: metric.score(X, Y),
        "names": lambda: metric.get_feature_names_out(),
    }


PAIRS = np.stack([X[:12], X[12:]], axis=1)
SIGNS = np.where(np.arange(12) % 2, 1, -1)
THRESHOLDS = (
    Update("set_threshold", {"threshold": 1.5}, {"not a number": {"threshold": "far"}}),
    Update(
        "calibrate_threshold",
        {"pairs": PAIRS, "y": SIGNS},
        {
            "missing values": {"pairs": PAIRS * np.nan},
            "one class": {"y": SIGNS * 7},
            "too few rows": {"strategy": "max_fpr"},
            "wrong number of labels": {"y": SIGNS[:-1]},
            "a bad parameter": {"strategy": "best"},
            "unreadable rows": {"pairs": BrokenRows()},
        },
    ),
)
UNSOLVED = {"max_iter": 1, "tol": 1e-12}
# more than a class has rows
FEW_OF_A_CLASS, FEW_FOR_VOTES = {"n_targets": 20}, {"n_neighbors": 20}

# of triplets by name, and pairs
NAMED = {"X": np.arange(27).reshape(9, 3), "y": None}
NAMED_PAIRS = {"X": np.arange(12).reshape(6, 2), "y": [1, -1] * 3, "pairs": None, "similar": None}


def _metric(estimator, **changed):
    """A metric learned from rows with labels, but for what is ``changed`` in its case."""
    case = Case(
        estimator,
        first={"X": X, "y": Y},
        second={"X": OTHER, "y": OTHER_LABELS},
        refused=_refused_rows(OTHER_LABELS),
        bad={"tol": -1.0},
        used=_metric_outputs,
        broken={"preprocessor": broken_preprocessor},
        broken_data=NAMED,
        warning=UNSOLVED,
        updates=THRESHOLDS,
        write=lambda metric, path: save_metric(path, metric),
    )
    if "broken" in changed:
        changed = {"broken_data": {}, **changed}
    return replace(case, **changed)


def _without_coinciding(refused):
    """Without what an estimator does not refuse: it learns that the metric is zero."""
    return {way: data for way, data in refused.items() if way != "rows all alike"}


def _decision_outputs(decision, given):
    rows = given["X"]
    names = ("predict", "predict_proba", "decision_function", "predict_set", "predict_interval")
    calls = {
        name: lambda name=name: getattr(decision, name)(rows)
        for name in names
        if hasattr(decision, name)
    }
    return calls | {
        "explain": lambda: [*vars(decision.explain(rows[:3], 2)).values()],
        "score": lambda: decision.score(rows, given["y"]),
        "evidence": lambda: str(decision.evidence_),
    }


def _decision(estimator, y, other, broken=BrokenMetric):
    more = np.concatenate([X, X[::-1] + 0.1])
    again = Update(
        "refit",
        {"X": more, "y": np.concatenate([y, y[::-1]])},
        {
            "missing values": {"X": more * np.inf},
            "a missing label": {"y": np.full(48, np.nan)},
            "wrong number of labels": {"y": y},
            "unreadable rows": {"X": BrokenRows()},
        },
    )
    refused = _refused_rows(other, spoilt=np.inf)  # NaN would be encoded
    if isinstance(estimator, MetricRegressor):  # which predicts a constant
        del refused["one class"]
    return Case(
        estimator,
        {"X": X, "y": y},
        {"X": OTHER, "y": other},
        refused,
        {"n_landmarks": 0},
        _decision_outputs,
        {"metric": broken()},
        warning_data={"y": other[:, None]},
        updates=(again,),
        write=lambda decision, path: save_decision(path, decision),
    )


# ---- other kinds of data


TABLE = pd.DataFrame({"size": np.arange(20.0), "colour": ["red", "blue"] * 10})
OTHER_TABLE = pd.DataFrame(
    {"weight": np.arange(30.0) ** 2, "on": ["2021-03-04"] * 15 + ["2022-05-06"] * 15}
)

# days or months first
AMBIGUOUS_TABLE = OTHER_TABLE.assign(on=["01/02/2021", "03/04/2021", "05/06/2022"] * 10)


def _encoder():
    parts = TableEncoder().summarize(OTHER_TABLE)
    nothing = TableEncoder().summarize(OTHER_TABLE[:1])
    return Case(
        TableEncoder(),
        {"X": TABLE},
        {"X": OTHER_TABLE},
        {
            "rows all alike": {"X": OTHER_TABLE.iloc[[0] * 30]},
            "too few rows": {"X": OTHER_TABLE[:1]},
            "wrong number of labels": {"sample_weight": np.ones(3)},
            "unreadable rows": {"X": BrokenRows()},
        },
        {"missing": "never"},
        lambda encoder, given: {
            "transform": lambda: encoder.transform(given["X"]),
            "names": lambda: encoder.get_feature_names_out(),
            "state": lambda: encoder.state(),
        },
        {"kinds": {"price": "number"}},
        warning_data={"X": AMBIGUOUS_TABLE},
        updates=(
            Update("fit_summary", {"summary": parts}, {"too few rows": {"summary": nothing}}),
        ),
    )


def _kernel_coordinates():
    return Case(
        KernelCoordinates(),
        {"X": X},
        {"X": OTHER},
        {
            "missing values": {"X": _spoiled(np.nan)},
            "unreadable rows": {"X": BrokenRows()},
        },
        {"width": 0},
        lambda coordinates, given: {
            "transform": lambda: coordinates.transform(given["X"]),
            "names": lambda: coordinates.get_feature_names_out(),
        },
        {"kernel": broken_kernel},
        warning={},
        warning_data={"X": OTHER * [1, 1, 1e9]},
    )


RATINGS = np.where(np.random.default_rng(0).random((12, 8)) < 0.6, 1.0, -1.0)
OTHER_RATINGS = np.random.default_rng(1).integers(1, 4, size=(9, 6)).astype(float)


def _factorization():
    return Case(
        MaxMarginMatrixFactorization(0.5),
        {"Y": RATINGS},
        {"Y": OTHER_RATINGS},
        {
            "missing values": {"Y": OTHER_RATINGS * np.nan},
            "one class": {"Y": np.ones((9, 6))},
            "too few rows": {"Y": OTHER_RATINGS[0]},
            "unreadable rows": {"Y": BrokenRows()},
        },
        {"gamma": 0},
        lambda model, given: {
            "predict": lambda: model.predict([[0, 1], [5, 5]]),
            "decision_function": lambda: model.decision_function([[0, 1], [5, 5]]),
        },
        {"thresholds": [0.5, -0.5, 0.0]},
        warning=UNSOLVED,
    )


def _unfolding():
    return Case(
        MaximumVarianceUnfolding(4),
        {"X": X},
        {"X": OTHER},
        {
            "missing values": {"X": _spoiled(np.nan)},
            "rows all alike": {"X": OTHER.iloc[[0] * 27]},
            "too few rows": {"X": OTHER[:3]},
            "unreadable rows": {"X": BrokenRows()},
        },
        {"n_neighbors": 0},
        lambda unfolding, given: {
            "transform": lambda: unfolding.transform(given["X"]),
            "embedding": lambda: unfolding.embedding_,
            "kernel_matrix": lambda: unfolding.kernel_matrix(),
        },
        {"n_landmarks": 2},
        warning=UNSOLVED,
    )


def _judged(seed, D, n_queries=20):
    queries, documents, relevance = collection(seed, n_queries, 40, D)
    return {"queries": queries, "documents": documents, "relevance": relevance}


JUDGED, OTHER_JUDGED = _judged(0, 6), _judged(1, 4)


def _ranking_outputs(ranking, given):
    rows = {name: given[name] for name in ("queries", "documents")}
    return {
        "rank": lambda: ranking.rank(**rows, k=3),
        "transform_queries": lambda: ranking.transform_queries(given["queries"]),
        "transform_documents": lambda: ranking.transform_documents(given["documents"]),
        "score": lambda: ranking.score(**given),
        "predict": lambda: ranking.predict(given["queries"].reshape(-1, 2, 6)),
    }


def _ranking(estimator, **options):
    given, wide = OTHER_JUDGED, JUDGED
    refused = {
        "missing values": {"documents": given["documents"] * np.nan},
        "one class": {"relevance": given["relevance"] * [1, 1, 0]},
        "too few rows": {"queries": given["queries"][:0]},
        "wrong number of labels": {"relevance": [[10**6, 0]]},
        "unreadable rows": {"documents": BrokenRows()},
    }
    later = {name: refused[name] for name in ("one class", "wrong number of labels")}
    later["missing values"] = {"documents": wide["documents"] * np.nan}
    later["other features"] = given
    more = Update("partial_fit", _judged(2, 6) | {"documents": wide["documents"]}, later)
    more.taken["relevance"] = wide["relevance"][: len(wide["relevance"]) // 2]
    return Case(
        estimator,
        wide,
        given,
        refused,
        {"n_hard": -1},
        _ranking_outputs,
        warning=UNSOLVED,
        updates=(more, *options.pop("updates", ())),
        write=lambda ranking, path: save_metric(path, ranking),
        **options,
    )


def _learned(metric, updates=()):
    """A loaded metric, whose ``fit`` does nothing."""
    given = {"X": X, "y": Y}
    outputs = _metric_outputs if updates else lambda map_, _: {"map": lambda: map_.transform(X)}
    return Case(metric, given, given, {}, {}, outputs, updates=updates)


def _cases():
    """(name, case), in the order of the classes; a class may have several."""
    candidates = {"frob": FrobMetric(tol=0.1)}
    yield (
        "AutoMetric",
        _metric(
            AutoMetric(candidates=candidates, random_state=0),
            broken={"candidates": {**candidates, "broken": BrokenMetric()}},
            bad={"n_neighbors": 0},
            warning=FEW_FOR_VOTES,
        ),
    )
    not_alike = _without_coinciding(_refused_rows(OTHER_LABELS))
    boost = BoostMetric(max_iter=10, tol=0.1)
    yield "BoostMetric", _metric(boost, refused=not_alike)
    yield "BoostMetric, passes", _metric(clone(boost).set_params(n_passes=2), refused=not_alike)
    yield "DMLEig", _metric(DMLEig(tol=0.1), broken_data=NAMED_PAIRS)
    yield (
        "DMLEig, pairs",
        _metric(
            DMLEig(tol=0.1),
            first={"X": PAIRS, "y": SIGNS},
            second={
                "X": OTHER,
                "pairs": np.arange(26).reshape(-1, 2),
                "similar": np.arange(13) % 2,
            },
            refused={
                "missing values": {"X": _spoiled(np.nan)},
                "one class": {"similar": np.ones(13)},
                "rows all alike": {"X": OTHER.iloc[[0] * 27]},
                "too few rows": {"X": OTHER[:1]},
                "wrong number of labels": {"similar": np.ones(3)},
                "a missing label": {"similar": np.full(13, np.nan)},
                "unreadable rows": {"X": BrokenRows()},
            },
            broken_data=NAMED_PAIRS,
        ),
    )
    yield "FrobMetric", _metric(FrobMetric(), broken={"prior": np.eye(9)})
    yield "FrobMetric, warm", _metric(FrobMetric(warm_start=True))
    tuples = np.asarray(OTHER).reshape(9, 3, 3)
    yield (
        "FrobMetric, triplets",
        _metric(
            FrobMetric(),
            first={"X": X, "triplets": [[0, 1, 2], [3, 4, 5], [6, 7, 8]]},
            second={"X": tuples},
            refused={
                "missing values": {"X": tuples * np.nan},
                "rows all alike": {"X": tuples * 0 + 1},
                "too few rows": {"X": tuples[:0]},
                "wrong number of labels": {"sample_weight": np.ones(3)},
                "a missing label": {"sample_weight": np.full(9, np.nan)},
                "unreadable rows": {"X": BrokenRows()},
            },
        ),
    )
    folds = {"cv": BrokenFolds()}
    yield "FrobMetricCV", _metric(FrobMetricCV(Cs=2, cv=2, tol=0.3, random_state=0), broken=folds)
    yield (
        "GradientMetric",
        _metric(
            GradientMetric(),
            bad={"ridge": 0},
            broken={"diagonal": [1, 2]},
            warning={},
            warning_data={"X": OTHER * [1, 1, 1e9]},
        ),
    )
    yield "FrobMetric, kernel", _metric(FrobMetric(kernel="gaussian"), broken={"prior": np.eye(9)})
    yield "KernelCoordinates", _kernel_coordinates()
    yield "LMNNEig", _metric(LMNNEig(tol=0.1), refused=not_alike)
    yield "LearnedAdapter", _learned(LearnedAdapter(np.eye(2, 4), np.zeros(2)))
    yield "LearnedMetric", _learned(LearnedMetric(np.eye(2, 4), np.zeros(2)), THRESHOLDS)
    yield "MaxMarginMatrixFactorization", _factorization()
    yield "MaximumVarianceUnfolding", _unfolding()
    classifier = MetricClassifier(metric=None, random_state=0)
    yield "MetricClassifier", _decision(classifier, Y, OTHER_LABELS)
    classifier = MetricClassifier(FrobMetric(tol=0.1), classifier="neighbors", random_state=0)
    yield "MetricClassifier, metric", _decision(classifier, Y, OTHER_LABELS)
    regressor = MetricRegressor(metric=None, random_state=0)
    yield "MetricRegressor", _decision(regressor, X[:, 0] + X[:, 1], OTHER_NUMBERS)
    embedding = NuMax(0.4, class_aware=True)
    yield "NuMax", _metric(embedding, bad={"delta": 2.0}, broken={"n_components": 9})
    yield "QueryAdapter", _ranking(QueryAdapter(1.0, random_state=0))
    yield "QueryAdapter, auto", _ranking(QueryAdapter(random_state=0))
    weights = RelativeComparisons(random_state=0)
    yield (
        "RelativeComparisons",
        _metric(weights, broken={"basis": broken_kernel}, warning=FEW_OF_A_CLASS),
    )
    yield (
        "RelevanceMetric",
        _ranking(
            RelevanceMetric(1.0, random_state=0),
            broken={"prior": np.ones((9, 9))},
            updates=THRESHOLDS[:1],
        ),
    )
    yield "TableEncoder", _encoder()


CASES = dict(_cases())
