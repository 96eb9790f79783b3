"""Learn one metric on one data set and measure what it gained on rows it has not seen."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...core.compiled import seconds_compiling, stopwatch
from ...core.progress import watching
from ...estimators.base import UselessMetricWarning
from ...solvers.base import Status
from ...storage import LearnedMetric
from .methods import find, methods_for
from .supervision import data_id, p_value

SMALL = 2000  # rows that scaling is judged on
COMPILING = "compiling, once"
SIGNIFICANT = 0.05  # p at or below which a difference is no chance
WORTH_SAYING = 2.0  # seconds of compilation; fetching kernels from the cache takes less


@dataclass(frozen=True)
class Options:
    """How to learn and how to judge.

    Attributes
    ----------
    method : str or None
        A name of `conemetric.app.studies.methods`; None takes the first there that learns from
        what is given: "auto" (`AutoMetric`) for labels.
    parameters : dict
        Parameters of the estimator; what the chosen class does not know is left out.
    impute : {None, "mean", "median"}
        What stands for missing values (NaN): the mean or median of the column in the
        training rows; None refuses them.
    scale : {"auto", "standard", "none"}
        "auto" standardises the columns where that lowers the Euclidean error on
        training rows.
    n_pca : int or None
        Reduce to this many principal components first.
    n_neighbors : int
        That vote when a metric is judged, by "auto" too.
    test_size : float
        Share of the rows (or pairs, or triplets) held out.
    max_rows : int or None
        Learn from at most this many rows, drawn class by class. None takes as many as a
        fit takes minutes for (`methods.most_rows`).
    max_test_rows : int
        Judge on at most this many held-out rows.
    seed : int
    time_budget : float or None
        Seconds that "auto" may learn for; None for as long as it takes.
    """

    method: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    impute: str | None = None
    scale: str = "auto"
    n_pca: int | None = None
    n_neighbors: int = 3
    test_size: float = 0.3
    max_rows: int | None = None
    max_test_rows: int = 5_000
    seed: int = 0
    time_budget: float | None = 20.0


@dataclass(frozen=True)
class Study:
    """What was learned, from what, and how well it does; a report is a picture of this.

    Attributes
    ----------
    options : Options
        With ``method`` and ``scale`` as settled.
    estimator : fitted estimator
    prepare : Pipeline
        Scaler and PCA, fitted on training rows.
    metric : LearnedMetric
        Preprocessing and learned map in one.
    task : supervision.Task
        Data and held-out part.
    before, after : supervision.Judgement
        The Euclidean distance on prepared rows, and the learned one.
    seconds : dict
        Time of each stage.
    notes : list of str
        Choices made on the way, in words.
    alarm : str
        Why the metric is of no use, where it is none.
    """

    options: Options
    estimator: Any
    prepare: Any
    metric: LearnedMetric
    task: Any
    before: Any
    after: Any
    seconds: dict[str, float]
    notes: list[str]
    alarm: str = ""

    @property
    def outcome(self):
        """ "better" or "worse" than the Euclidean distance on the held-out items, or "" where
        chance may well have made the difference.
        """
        if self.alarm or p_value(self.before, self.after) > SIGNIFICANT:
            return ""
        return "better" if self.after.rate < self.before.rate else "worse"

    @property
    def verdict(self):
        """Whether to use the metric, in a sentence."""
        figures = (
            f"{self.task.measure} {self.after.rate:.2%} against {self.before.rate:.2%} on {self.after.n:,} "
            f"held-out {self.task.items}, p = {p_value(self.before, self.after):.2g}"
        )
        if self.outcome == "better":
            return f"Use it: {figures}."
        finding = "Worse than" if self.outcome == "worse" else "No measurable gain over"
        return f"{finding} Euclidean ({figures}): keep the Euclidean distance."

    @property
    def evidence(self):
        """What held-out training rows say, where the method asked them (`AutoMetric`); else None."""
        return getattr(self.estimator, "evidence_", None)


DEFAULT_OPTIONS = Options()


def run_study(
    task,
    options=DEFAULT_OPTIONS,
    *,
    progress=None,
    on_metric=None,
    feature_names=None,
    categories=None,
) -> Study:
    """Split, scale, reduce, learn and judge.

    Parameters
    ----------
    task : supervision.Task
        Rows with labels, pairs or triplets.
    options : Options
    progress : callable, default=None
        ``progress(stage, record, done)``: the stage in words, the scalars of an
        iteration while learning (else None), and the share of a neighbour search that
        is done (else None).
    on_metric : callable, default=None
        ``on_metric(metric, interrupted)``: called with the `LearnedMetric` as soon as it
        exists, before anything is judged, and whether Ctrl-C ended its fit.
    feature_names : sequence of str, default=None
    categories : dict, default=None
        Columns of words behind features named ``column=value``, for the metric file.

    Returns
    -------
    Study

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric.app.studies import Options, run_study
    >>> from conemetric.app.studies.supervision import Labelled
    >>> X, y = load_iris(return_X_y=True)
    >>> study = run_study(Labelled(X, y), Options(method="frob"))
    >>> study.after.rate <= 0.1, study.metric.method
    (True, 'FrobMetric')
    """
    clock = _Clock(progress or (lambda stage, record, done: None))
    compiled_before = seconds_compiling()
    method = find(options.method or methods_for(task.kind)[0].name, task.kind)
    options = replace(options, method=method.name)
    notes: list[str] = []
    identity = data_id(task)
    task = task.split(options, np.random.default_rng(options.seed))
    notes += task.notes
    with clock("scaling"):
        prepare = make_pipeline(*_preprocessing(task, options, notes)).fit(task.training_rows())
        task = task.prepared(prepare)
    with clock("learning"):
        estimator, alarm = _fit(method, task, options, clock, notes)
    metric = LearnedMetric.from_estimator(
        make_pipeline(*(step for _, step in prepare.steps), estimator),
        feature_names=feature_names,
        categories=categories,
        notes={"data_id": identity, **_summary(task, options)},
    )
    if on_metric is not None:
        on_metric(metric, _interrupted(estimator))
    with clock("judging"):
        before, after = task.judge(None, options), task.judge(estimator, options)
    compiling = seconds_compiling() - compiled_before
    if compiling > WORTH_SAYING:
        clock.seconds[COMPILING] = compiling
    return Study(
        options, estimator, prepare, metric, task, before, after, clock.seconds, notes, alarm
    )


def _preprocessing(task, options, notes):
    if options.scale not in ("auto", "standard", "none"):
        raise ValueError(f"scale='{options.scale}' is not known; use auto, standard or none.")
    first = []
    if options.impute is not None:
        if options.impute not in ("mean", "median"):
            raise ValueError(f"impute='{options.impute}' is not known; use mean or median.")
        first = [SimpleImputer(strategy=options.impute, keep_empty_features=True)]
        notes.append(
            f"Filled {int(np.isnan(task.X).sum()):,} missing values by the {options.impute} of "
            "their column in the training rows."
        )
    standard = options.scale == "standard"
    if options.scale == "auto":
        rates = {
            name: task.quick_error([*first, *steps], options, SMALL)
            for name, steps in _SCALERS.items()
        }
        standard = rates["standardised"] < rates["as they are"]
        listed = ", ".join(f"{name} {rate:.1%}" for name, rate in rates.items())
        notes.append(
            f"Columns {'standardised' if standard else 'kept as they are'}: Euclidean "
            f"{task.measure} on training rows: {listed}."
        )
    steps = [*first, *([StandardScaler()] if standard else [])]
    if options.n_pca is not None:
        rows, columns = task.training_rows().shape
        if not 1 <= options.n_pca <= min(rows, columns):
            raise ValueError(
                f"n_pca={options.n_pca} must be from 1 to {min(rows, columns)} for {rows} "
                f"training rows of {columns} columns."
            )
        steps.append(PCA(options.n_pca, random_state=options.seed))
    return steps or ["passthrough"]


_SCALERS = {"as they are": [], "standardised": [StandardScaler()]}


def _fit(method, task, options, clock, notes):
    """The fitted estimator, and why its metric is of no use, where it is none."""
    estimator = method.make(
        random_state=options.seed,
        n_neighbors=options.n_neighbors,
        time_budget=options.time_budget,
        **options.parameters,
    )
    with (
        warnings.catch_warnings(record=True) as caught,
        watching(clock.watch),
    ):
        warnings.simplefilter("always")
        task.fit(estimator)
    alarm = ""
    for warning in caught:
        text = str(warning.message)
        if issubclass(warning.category, UselessMetricWarning):
            alarm = text
        elif issubclass(warning.category, UserWarning):
            notes.append(text)
    recall = getattr(estimator, "neighbor_recall_", None)
    if recall is not None and recall < 1:
        notes.append(f"Neighbours found approximately: {recall:.1%} of those in a random sample.")
    if hasattr(estimator, "evidence_"):
        notes.extend(_evidence_in_words(estimator))
    return estimator, alarm


def _evidence_in_words(estimator):
    """What the training rows say about a blend."""
    yield f"Cross-validated on {estimator.evidence_.n_rows:,} training rows: {estimator.evidence_}."
    parts = sorted(estimator.weights_.items(), key=lambda part: -part[1])
    yield f"Blend: {', '.join(f'{name} {weight:.0%}' for name, weight in parts)}."
    for name, reason in estimator.shortened_.items():
        yield f"Candidate {name} learned from {reason}."
    for name, reason in estimator.left_out_.items():
        yield f"Candidate {name} is left out: {reason}."


def _interrupted(estimator):
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return getattr(estimator, "interrupted_", False)
    return certificate.status is Status.INTERRUPTED


def _summary(task, options):
    return {
        "rows": task.n_rows,
        "learned_from": task.kind,
        "seed": options.seed,
        "n_neighbors": options.n_neighbors,
    }


class _Clock:
    """Time per stage, and the stage's name for the progress display."""

    def __init__(self, progress):
        self.progress, self.seconds, self.stage = progress, {}, ""

    def __call__(self, stage):
        self.stage = stage
        self.progress(stage, None, None)
        return self

    def watch(self, event):
        stage = f"{self.stage}, {event['candidate']}" if "candidate" in event else self.stage
        if event["kind"] == "solve":
            self.progress(stage, event, None)
        elif event["kind"] == "search":
            self.progress(f"{self.stage}: finding neighbours", None, event["done"])
        elif event["kind"] == "compile":
            self.progress(COMPILING if event["begins"] else self.stage, None, None)

    def __enter__(self):
        self.began = stopwatch()

    def __exit__(self, *_):
        self.seconds[self.stage] = stopwatch() - self.began
