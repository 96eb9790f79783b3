"""The decision that goes with a learned metric: a classifier or regressor learned from the same
rows, judged on the same held-out rows beside a random forest and boosting, which get the table as it
is: words as categories, gaps as gaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from threadpoolctl import threadpool_limits

from ...core.blas import MIN_PARALLEL_WORK
from ...core.clock import stopwatch
from ...core.extras import require
from ...core.progress import emit
from ...core.warn import collected_warnings
from ...decisions.classifier import MetricClassifier
from ...decisions.parts import Explanation
from ...decisions.regressor import MetricRegressor
from ...estimators.automatic import AutoMetric
from ...estimators.collapsed import CollapsedMetricWarning
from ..advice import in_options
from .judging import Judgement
from .task import word_columns

if TYPE_CHECKING:
    from .study import Study

# forest and boosting then take seconds: boosting grows a hundred trees for each class
MOST_COMPARED = 20_000  # training rows
MOST_CLASSES = 30
MOST_CATEGORIES = 250  # of a word column, the rest pooled: boosting takes 254

COMPARED = ("random forest", "histogram boosting")
BASELINES = {
    "labels": (RandomForestClassifier(n_jobs=-1), HistGradientBoostingClassifier()),
    "quantity": (RandomForestRegressor(n_jobs=-1), HistGradientBoostingRegressor()),
}


@dataclass(frozen=True)
class Decided:
    """A fitted decision, and how it does beside others."""

    name: str  # of its class, MetricClassifier or MetricRegressor
    estimator: Any  # fitted to the rows that the metric was learned from
    rows: np.ndarray  # their numbers in the data
    X: Any  # all rows of the data
    judgements: dict[str, Judgement]  # on the held-out rows, by name; the decision comes first
    seconds: dict[str, float]  # learning time of each
    failed: dict[str, str] = field(default_factory=dict)  # what could not be learned, and why
    final: Any = None  # the decision fitted to all rows, once it is judged
    final_rows: np.ndarray | None = None

    def explain(self, rows: np.ndarray, n: int) -> Explanation:
        """The n training rows that decided each of these rows, by their numbers in the data."""
        why = self.estimator.explain(self.X[rows], n)
        return replace(why, rows=self.rows[why.rows])


def decide(study: "Study") -> Decided | None:
    """Learn a decision from the rows that the metric of a study was learned from; None if these
    have no labels, or were reduced by PCA, which leaves no columns to explain a decision by.
    """
    task, seed = study.task, study.options.seed
    if task.kind not in BASELINES:
        return None
    if study.options.n_pca is not None:
        study.notes.append("No decision: it is learned from columns, not principal components.")
        return None
    X = task.raw
    if isinstance(X, np.ndarray) and study.names is not None:
        X = require("polars", "cli").DataFrame(X, schema=study.names)
    learn, test = task.original(task.learn), task.original(task.test)
    decision = _decision(study)
    name = type(decision).__name__
    models: dict[str, Any] = {name: decision}
    if len(learn) <= MOST_COMPARED and (
        task.kind == "quantity" or len(task.classes) <= MOST_CLASSES
    ):
        models |= dict(_compared(task.kind, X, seed))
    judgements, seconds, failed = {}, {}, {}
    for other, model in models.items():
        emit("stage", stage=f"learning to decide, {other}")
        began = stopwatch()
        try:
            if model is decision:
                _fit(model, X[learn], task.y[task.learn], study.notes)
            else:
                # fits of few rows start threads thousands of times; where cores are busy, they wait
                # long
                small = len(learn) * X.shape[1] < MIN_PARALLEL_WORK
                with threadpool_limits(1 if small else None):
                    model.fit(X[learn], task.y[task.learn])
            seconds[other] = stopwatch() - began
            judgements[other] = task.judged(np.ravel(model.predict(X[test])))
        except ValueError as error:  # such as boosting, which splits off rows of every class
            if model is decision:
                raise
            failed[other] = str(error).partition("\n")[0]
            study.notes.append(f"{other} could not be learned: {failed[other]}")
    return Decided(name, decision, learn, X, judgements, seconds, failed)


def refitted(study: "Study", whole: Any) -> Decided:
    """The decision of a study with one that is fitted to all rows."""
    decided = study.decided
    assert decided is not None
    rows, final = whole.original(whole.learn), clone(decided.estimator)
    _fit(final, decided.X[rows], whole.y[whole.learn], [])
    return replace(decided, final=final, final_rows=rows)


def _decision(study):
    """The unfitted decision: in the plain metric or that of the study's method."""
    metric, X = study.estimator, study.task.raw
    words = "from_dtype" if isinstance(X, np.ndarray) else word_columns(X) or "from_dtype"
    given = {"categorical_features": words, "random_state": study.options.seed}
    if study.task.kind == "quantity":
        return MetricRegressor(**given)
    return MetricClassifier("auto" if isinstance(metric, AutoMetric) else clone(metric), **given)


def _fit(decision, X, y, notes):
    with collected_warnings() as collected:
        decision.fit(X, y)
    for warning in collected:
        if not isinstance(warning, CollapsedMetricWarning):  # it may have chosen the plain metric
            notes.append(f"Decision: {in_options(warning)}")


# ---- what it is compared with


def _compared(kind, X, seed) -> Iterator[tuple[str, Any]]:
    """Names and unfitted models of the comparison."""
    models = [clone(model).set_params(random_state=seed) for model in BASELINES[kind]]
    words = [] if isinstance(X, np.ndarray) else word_columns(X)
    if not isinstance(X, np.ndarray):
        encoders = (
            OneHotEncoder(max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist"),
            OrdinalEncoder(
                max_categories=MOST_CATEGORIES,
                handle_unknown="use_encoded_value",
                unknown_value=np.nan,
                encoded_missing_value=np.nan,
            ),
        )
        places = list(range(len(words)))
        models[1].set_params(categorical_features=places)
        models = [
            make_pipeline(
                FunctionTransformer(_as_objects),
                make_column_transformer(
                    (encoder, places), remainder="passthrough", sparse_threshold=0
                ),
                model,
            )
            for encoder, model in zip(encoders, models, strict=True)
        ]
    yield from zip(COMPARED, models, strict=True)
    if find_spec("catboost") is not None:
        catboost = require("catboost", "cli")
        of = catboost.CatBoostClassifier if kind == "labels" else catboost.CatBoostRegressor
        quiet = {"verbose": 0, "allow_writing_files": False, "random_seed": seed}
        model = of(**quiet, cat_features=list(range(len(words))) or None)
        yield "CatBoost", make_pipeline(FunctionTransformer(partial(_as_objects, gap="")), model)


def _as_objects(X, gap=np.nan):
    """A table as objects: words first, then numbers and times; missing words are ``gap``."""
    if isinstance(X, np.ndarray):
        return X
    words = word_columns(X)
    others = [name for name in X.columns if name not in words]
    columns = [
        [gap if word is None else str(word) for word in X[name].to_list()] for name in words
    ] + [X[name].to_physical().cast(float).fill_null(np.nan).to_list() for name in others]
    out = np.empty((len(X), len(columns)), object)
    for place, values in enumerate(columns):
        out[:, place] = values
    return out
