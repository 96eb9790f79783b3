"""The decision that goes with a learned metric: a classifier or regressor learned from the same
rows, judged on the same held-out rows beside a random forest and histogram boosting.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from threadpoolctl import threadpool_limits

from ...core.clock import stopwatch
from ...core.progress import emit
from ...core.threads import MIN_PARALLEL_WORK
from ...core.warn import collected_warnings
from ...decisions.base import Explanation
from ...decisions.classifier import MetricClassifier
from ...decisions.regressor import MetricRegressor
from ...estimators.automatic import AutoMetric
from ...estimators.useless import UselessMetricWarning
from ..advice import in_options
from .judging import Judgement
from .learning import Study

# forest and boosting then take seconds: boosting grows a hundred trees for each class
MOST_COMPARED = 20_000  # training rows
MOST_CLASSES = 30

COMPARED = ("random forest", "histogram boosting")
BASELINES = {
    "labels": (RandomForestClassifier(n_jobs=-1), HistGradientBoostingClassifier()),
    "quantity": (RandomForestRegressor(n_jobs=-1), HistGradientBoostingRegressor()),
}


@dataclass(frozen=True)
class Decided:
    """A fitted decision, and how it does beside others."""

    estimator: Any  # MetricClassifier or MetricRegressor; its row numbers are those of the data
    X: np.ndarray  # all rows of the data, missing values filled
    judgements: dict[str, Judgement]  # on the held-out rows, by name; the decision comes first
    seconds: dict[str, float]  # learning time of each

    def explain(self, rows: np.ndarray, n: int) -> Explanation:
        """The n training rows that decided each of these rows."""
        return self.estimator.explain(self.X[rows], n)


def decide(study: Study) -> Decided | None:
    """Learn a decision from the rows that the metric of a study was learned from; None if these
    have no labels, or were reduced by PCA, which leaves no columns to explain a decision by.
    """
    task, seed = study.task, study.options.seed
    if task.kind not in BASELINES:
        return None
    if study.options.n_pca is not None:
        study.notes.append("No decision: it is learned from columns, not principal components.")
        return None
    X, fill = np.asarray(task.raw), study.metric.fill
    if fill is not None:
        X = np.where(np.isnan(X), fill, X)
    learn, test = task.original(task.learn), task.original(task.test)
    decision = _decision(study)
    name = "MetricClassifier" if task.kind == "labels" else "MetricRegressor"
    models: dict[str, Any] = {name: decision}
    if len(learn) <= MOST_COMPARED and (
        task.kind == "quantity" or len(task.classes) <= MOST_CLASSES
    ):
        for other, model in zip(COMPARED, BASELINES[task.kind], strict=True):
            models[other] = clone(model).set_params(random_state=seed)
    judgements, seconds = {}, {}
    for name, model in models.items():
        emit("stage", stage=f"learning to decide, {name}")
        began = stopwatch()
        if model is decision:
            _fit(model, X, study)
        else:
            # fits of few rows start threads thousands of times; where cores are busy, they wait long
            with threadpool_limits(1 if X[learn].size < MIN_PARALLEL_WORK else None):
                model.fit(X[learn], task.y[task.learn])
        seconds[name] = stopwatch() - began
        judgements[name] = task.judged(model.predict(X[test]))
    return Decided(decision, X, judgements, seconds)


def _decision(study):
    """The unfitted decision, in the metric of the study."""
    seed, blend = study.options.seed, study.estimator
    if study.task.kind == "quantity":
        return MetricRegressor(random_state=seed)
    if not isinstance(blend, AutoMetric):
        return MetricClassifier(clone(blend), random_state=seed)
    return MetricClassifier(random_state=seed)


def _fit(decision, X, study):
    """Fit to all rows of the data, those that are not to be learned from with weight 0, so that
    explanations number the rows as the data do.
    """
    task = study.task
    y = np.full(len(X), task.y[0], task.y.dtype)
    weights = np.zeros(len(X))
    y[task.original(task.learn)], weights[task.original(task.learn)] = task.y[task.learn], 1
    with collected_warnings() as collected:
        decision.fit(X, y, sample_weight=weights)
    for warning in collected:
        if not isinstance(warning, UselessMetricWarning):  # it may have chosen the plain metric
            study.notes.append(f"Decision: {in_options(warning)}")
