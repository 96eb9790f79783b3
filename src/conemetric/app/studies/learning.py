"""Learn one metric on one data set and measure what it gained on rows it has not seen."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...core.compiled import seconds_compiling, stopwatch
from ...core.progress import emit
from ...core.warn import collected_warnings
from ...estimators.base import UselessMetricWarning
from ...solvers.base import Status
from ...storage import LearnedMetric
from .methods import find, methods_for
from .options import Options
from .supervision import data_id, p_value

SMALL = 2000  # rows that scaling is judged on: an error's standard error is then about 1 %
COMPILING = "compiling, once"
SIGNIFICANT = 0.05  # p at or below which a difference counts: the usual 5 %
WORTH_SAYING = 2.0  # seconds of compilation; fetching kernels from the cache takes less


@dataclass(frozen=True)
class Study:
    """What was learned, from what, and how well it does.

    Attributes
    ----------
    options : Options
        With the ``method`` that was used.
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
        Why the metric is useless; empty if it is not.
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
    def outcome(self) -> str:
        """ "better" or "worse" than the Euclidean distance on the held-out items, or "" if the
        difference may well be chance.
        """
        if self.alarm or p_value(self.before, self.after) > SIGNIFICANT:
            return ""
        return "better" if self.after.rate < self.before.rate else "worse"

    @property
    def verdict(self) -> str:
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
    def evidence(self) -> Any:
        """What the method found on held-out training rows (`AutoMetric`); else None."""
        return getattr(self.estimator, "evidence_", None)


DEFAULT_OPTIONS = Options()


def run_study(
    task: Any,
    options: Options = DEFAULT_OPTIONS,
    *,
    on_metric: Callable[[LearnedMetric, bool], None] | None = None,
    feature_names: Sequence[str] | None = None,
    categories: dict[str, list[str]] | None = None,
) -> Study:
    """Split, scale, reduce, learn and judge; `conemetric.watching` shows the progress.

    Parameters
    ----------
    task : supervision.Task
        Rows with labels, pairs or triplets.
    options : Options
    on_metric : callable, default=None
        ``on_metric(metric, interrupted)``: called as soon as the `LearnedMetric` exists, before
        it is judged; ``interrupted`` says whether Ctrl-C ended its fit.
    feature_names : sequence of str, default=None
    categories : dict, default=None
        Text columns behind features named ``column=value``, for the metric file.

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
    seconds: dict[str, float] = {}
    compiled_before = seconds_compiling()
    method = find(options.method or methods_for(task.kind)[0].name, task.kind)
    options = replace(options, method=method.name)
    notes: list[str] = []
    identity = data_id(task)
    task = task.split(options, np.random.default_rng(options.seed))
    notes += task.notes
    with _stage("scaling", seconds):
        prepare = make_pipeline(*_preprocessing(task, options, notes)).fit(task.training_rows())
        task = task.prepared(prepare)
    with _stage("learning", seconds):
        estimator, alarm = _fit(method, task, options, notes)
    metric = LearnedMetric.from_estimator(
        make_pipeline(*(step for _, step in prepare.steps), estimator),
        feature_names=feature_names,
        categories=categories,
        notes={"data_id": identity, **_summary(task, options)},
    )
    if on_metric is not None:
        on_metric(metric, _interrupted(estimator))
    with _stage("judging", seconds):
        before, after = task.judge(None, options), task.judge(estimator, options)
    compiling = seconds_compiling() - compiled_before
    if compiling > WORTH_SAYING:
        seconds[COMPILING] = compiling
    return Study(options, estimator, prepare, metric, task, before, after, seconds, notes, alarm)


def _preprocessing(task, options, notes):
    if options.scale not in ("auto", "standard", "none"):
        raise ValueError(f"scale='{options.scale}' is not known; use auto, standard or none.")
    first = []
    if options.impute is not None:
        if options.impute not in ("mean", "median"):
            raise ValueError(f"impute='{options.impute}' is not known; use mean or median.")
        first = [SimpleImputer(strategy=options.impute, keep_empty_features=True)]
        notes.append(
            f"Filled {int(np.isnan(task.X).sum()):,} missing values with the {options.impute} of "
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


def _fit(method, task, options, notes):
    """The fitted estimator, and why its metric is useless, if it is."""
    estimator = method.make(
        random_state=options.seed,
        n_neighbors=options.n_neighbors,
        time_budget=options.time_budget,
        **options.parameters,
    )
    with collected_warnings() as collected:
        task.fit(estimator)
    alarm = ""
    for warning in collected:
        if isinstance(warning, UselessMetricWarning):
            alarm = str(warning)
        else:
            notes.append(str(warning))
    recall = getattr(estimator, "neighbor_recall_", None)
    if recall is not None and recall < 1:
        notes.append(f"Neighbours found approximately: {recall:.1%} of those in a random sample.")
    if hasattr(estimator, "evidence_"):
        notes.extend(_evidence_in_words(estimator))
    return estimator, alarm


def _evidence_in_words(estimator):
    """How a blend did on its training rows."""
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


@contextmanager
def _stage(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Announce a stage, and time it."""
    emit("stage", stage=name)
    began = stopwatch()
    yield
    seconds[name] = stopwatch() - began
