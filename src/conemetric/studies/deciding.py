"""The decision that goes with a learned metric: a classifier or regressor learned from the same
rows, judged on the same held-out rows beside a random forest and boosting, which get the table as it
is: words as categories, gaps as gaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn import ensemble
from sklearn.compose import make_column_transformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from ..automatic.automatic import AutoMetric
from ..core.clock import timed_stage
from ..core.extras import require
from ..core.progress import is_all_or_nothing
from ..core.threads import MIN_PARALLEL_WORK
from ..core.warn import collected_warnings
from ..decisions.classifier import MetricClassifier
from ..decisions.parts import Explanation
from ..decisions.regressor import MetricRegressor
from ..estimators.fit_warnings import CollapsedMetricWarning
from ..tables import TableEncoder
from ..tables.recognition import recognise
from .advice import in_options
from .methods import find
from .options import Options
from .supervision import Labelled
from .task import Judgement, Task, word_columns

# a forest then takes seconds, and its trees, which hold a count of every class in every node, fit in
# memory; boosting takes seconds for many more rows
MOST_COMPARED = 20_000  # training rows
MOST_CLASSES = 30
# A tree of boosting takes about as long as 16 ns times features times rows, and as many rows more for
# the search among its bins; measured for 5,000 to 300,000 rows, 10 to 384 features. The rounds of all
# classes together take about five minutes of one core at most.
ROWS_WORTH_OF_BINS = 30_000
BOOSTING_WORK = 2e10
MOST_CATEGORIES = 250  # of a word column, the rest pooled: boosting takes 254

FOREST, BOOSTING = COMPARED = ("random forest", "histogram boosting")
BASELINES = {
    "labels": (ensemble.RandomForestClassifier, ensemble.HistGradientBoostingClassifier),
    "quantity": (ensemble.RandomForestRegressor, ensemble.HistGradientBoostingRegressor),
}


@dataclass
class Decision:
    """A classifier or regressor, and the table that it learns from."""

    estimator: Any
    X: Any  # all rows of the data
    seconds: dict[str, float] = field(default_factory=dict)  # that its fit took, by its class

    def fit(self, task: Labelled, notes: list[str]) -> None:
        """Fit the estimator, unless it is fitted already."""
        if hasattr(self.estimator, "blend_"):
            return
        name = type(self.estimator).__name__
        stage = timed_stage(f"learning to decide, {name}", self.seconds, name)
        with collected_warnings() as collected, stage:
            rows, y = self.X[task.original(task.learn)], task.y[task.learn]
            self.estimator.fit(rows, y, groups=task.groups_in_folds)
        for warning in collected:
            if not isinstance(warning, CollapsedMetricWarning):  # perhaps not the chosen metric
                notes.append(f"{name}: {in_options(warning)}")


@dataclass(frozen=True)
class Decided:
    """A fitted decision, and how it does beside others."""

    decision: Decision  # fitted to the rows that the metric was learned from
    rows: np.ndarray  # their numbers in the data
    judgements: dict[str, Judgement]  # on the held-out rows, by name; the decision comes first
    seconds: dict[str, float]  # learning time of each
    absent: dict[str, str]  # what has no judgement, by name: skipped, or could not be learned
    final: Any = None  # the decision with all rows, once it is judged
    final_rows: np.ndarray | None = None

    @property
    def name(self) -> str:
        """Of the class of the decision."""
        return next(iter(self.judgements))

    @property
    def metric(self) -> Any:
        """The metric that the decision has learned, None without one."""
        return self.decision.estimator.metric_

    def explain(self, rows: np.ndarray, n: int) -> Explanation:
        """The n training rows that decided each of these rows, by their numbers in the data."""
        why = self.decision.estimator.explain(self.decision.X[rows], n)
        return replace(why, rows=self.rows[why.rows])


def new_decision(
    task: Task, options: Options, names: list[str] | None, notes: list[str]
) -> Decision | None:
    """The unfitted decision that goes with a study; None if its rows have no labels, or are reduced
    by PCA, which leaves no columns to explain a decision by.
    """
    if not isinstance(task, Labelled):
        return None
    if options.n_pca is not None:
        notes.append(
            "No classifier or regressor: these learn from columns, not from principal components."
        )
        return None
    X = task.raw
    words: Any = "from_dtype"
    if not isinstance(X, np.ndarray):
        words = word_columns(X) or words
    elif names is not None:
        X = require("polars", "cli").DataFrame(X, schema=names)
    given: dict[str, Any] = {
        "categorical_features": words,
        "random_state": options.seed,
        "kinds": dict(task.kinds) or None,
    }
    if task.kind == "quantity":
        return Decision(MetricRegressor(**given), X)
    method = find(str(options.method), task.kind)
    metric: Any = "auto"
    if method.name != "auto":
        metric = method.with_options(replace(options, kernel=None), task.n_features)
    return Decision(MetricClassifier(metric, **given), X)


def shared_metric(
    decision: Decision, metric: Any, task: Labelled, prepare: Any, notes: list[str]
) -> Any:
    """The metric of the decision, fitted now, where that is this unfitted one on the same prepared
    rows: `AutoMetric` of standardised or encoded columns. Else None.
    """
    standardised = isinstance(prepare[0], (StandardScaler, TableEncoder))
    # only then does the decision learn the same metric: from classes, in rows prepared as its own
    if not (isinstance(metric, AutoMetric) and standardised and task.kind == "labels"):
        return None
    if metric.kernel is not None:
        return None  # decisions are learned in the columns
    capped = metric.max_rows is not None and metric.max_rows < len(task.learn)
    if capped or metric.n_neighbors != AutoMetric().n_neighbors:
        return None
    try:
        decision.fit(task, notes)
        learned = decision.estimator.metric_
    except KeyboardInterrupt as interrupt:
        # the decision is lost, but the metric that it had learned can be kept
        learned = getattr(interrupt, "metric", None)
        if is_all_or_nothing() or learned is None:
            raise
        learned.interrupted_ = True
    if learned.n_features_in_ != task.n_features:
        return None  # an encoder leaves out columns that are constant in these rows
    return learned


def judged(decision: Decision, task: Labelled, seed: int, notes: list[str]) -> Decided:
    """Learn the decision from the rows of the metric; judge it beside forest and boosting."""
    decision.fit(task, notes)
    X = decision.X
    learn = task.original(task.learn)
    test = task.original(task.test)
    name = type(decision.estimator).__name__
    judgements = {name: task.judged(decision.estimator.predict(X[test]))}
    seconds = dict(decision.seconds)
    absent: dict[str, str] = {}
    n_classes = 0
    if task.kind != "quantity":
        n_classes = len(task.classes)
    threads = None  # as many as there are cores
    if len(learn) * X.shape[1] < MIN_PARALLEL_WORK:
        # fits of few rows start threads thousands of times; where cores are busy, they wait long
        threads = 1
    for other, model in _compared(task.kind, X, seed):
        why_skipped = _why_skipped(other, len(learn), n_classes)
        if why_skipped:
            absent[other] = f"skipped: {why_skipped}"
            notes.append(f"{other} is skipped: {why_skipped}.")
            continue
        if other == BOOSTING:
            _limit_rounds(model, X[learn].shape, n_classes, notes)
        stage = timed_stage(f"learning to decide, {other}", seconds, other)
        try:
            with threadpool_limits(threads), stage:
                _fit_compared(model, X[learn], task.y[task.learn])
        except ValueError as error:
            reason = str(error).partition("\n")[0]
            absent[other] = "could not be learned"
            notes.append(f"{other} could not be learned: {reason}")
            continue
        judgements[other] = task.judged(np.ravel(model.predict(X[test])))
    return Decided(decision, learn, judgements, seconds, absent)


# ---- what it is compared with


def _why_skipped(name, n_rows, n_classes):
    """Why a model is not learned; empty if it is, as boosting always is."""
    if name == BOOSTING:
        return ""
    if n_rows > MOST_COMPARED:
        return f"more than {MOST_COMPARED:,} training rows"
    if n_classes > MOST_CLASSES:
        return f"more than {MOST_CLASSES} classes"
    return ""


def _final_step(model):
    """The forest or boosting at the end of a pipeline, if it is one."""
    if isinstance(model, Pipeline):
        return model[-1]
    return model


def _limit_rounds(boosting, shape, n_classes, notes):
    """Fewer rounds of boosting where all of them would take long: it grows a tree of every class in
    each round.
    """
    n_rows, n_features = shape
    # of two classes, or of a quantity, boosting grows a single tree
    trees_a_round = n_classes if n_classes > 2 else 1
    work_a_round = trees_a_round * n_features * (n_rows + ROWS_WORTH_OF_BINS)
    rounds = max(1, int(BOOSTING_WORK / work_a_round))
    step = _final_step(boosting)
    usual = step.get_params().get("max_iter", rounds)
    if rounds < usual:
        step.set_params(max_iter=rounds)
        notes.append(f"{BOOSTING} takes {rounds} rounds instead of {usual}, to end in minutes.")


def _fit_compared(model, X, y):
    """Fit a model; boosting without early stopping where a class is too small to hold rows out."""
    try:
        model.fit(X, y)
    except ValueError:
        step = _final_step(model)
        if "early_stopping" not in step.get_params():
            raise
        step.set_params(early_stopping=False)
        model.fit(X, y)


def _compared(kind, X, seed) -> Iterator[tuple[str, Any]]:
    """Names and unfitted models of the comparison."""
    new_forest, new_boosting = BASELINES[kind]
    forest = new_forest(n_jobs=-1, random_state=seed)
    boosting = new_boosting(random_state=seed)
    if isinstance(X, np.ndarray):
        yield FOREST, forest
        yield BOOSTING, boosting
        return
    words = word_columns(X)
    places = list(range(len(words)))  # where `_as_objects` puts them
    spelled = {}
    for name, dtype in X.drop(words).schema.items():
        if str(dtype) == "String":
            spelled[name] = recognise(X[name].drop_nulls().unique().to_list())

    def taking_words(encoder, model):
        """A pipeline from the table to the model, with the words encoded."""
        return make_pipeline(
            FunctionTransformer(_as_objects, kw_args={"words": words, "spelled": spelled}),
            make_column_transformer((encoder, places), remainder="passthrough", sparse_threshold=0),
            model,
        )

    one_hot = OneHotEncoder(max_categories=MOST_CATEGORIES, handle_unknown="infrequent_if_exist")
    yield FOREST, taking_words(one_hot, forest)
    ordinal = OrdinalEncoder(
        max_categories=MOST_CATEGORIES,
        handle_unknown="use_encoded_value",
        unknown_value=np.nan,
        encoded_missing_value=np.nan,
    )
    boosting.set_params(categorical_features=places)
    yield BOOSTING, taking_words(ordinal, boosting)


def _as_objects(X, words, spelled):
    """A table as objects: words first, then numbers, dates and times, which may be ``spelled`` as
    words; NaN where missing.
    """
    columns = [_applied(str, X[name]) for name in words]
    for column in X.drop(words):
        number: Any = float
        known = spelled.get(column.name)
        if known is not None:
            number = known.spelling.value_of
        columns.append(_applied(number, column.to_physical()))
    return np.array(columns, object).T


def _applied(function, column):
    """The function of each value of a column, NaN where it is missing."""
    values = []
    for value in column.to_list():
        if value is not None:
            value = function(value)
        else:
            value = np.nan
        values.append(value)
    return values
