"""Learn one metric on one data set and measure what it gained on rows it has not seen."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...core.clock import seconds_compiling, stopwatch
from ...core.progress import all_or_nothing, emit, labelled
from ...core.warn import collected_warnings
from ...estimators.scales import ScaleWarning
from ...estimators.useless import UselessMetricWarning
from ...evaluation.statistics import corrected_t_test
from ...solvers.base import Status
from ...storage import LearnedMetric
from ..advice import in_options
from .methods import find, methods_for
from .options import Options
from .task import Task, data_id

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
    others : tuple of (float, float)
        Errors before and after on the splits beyond the first.
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
    others: tuple[tuple[float, float], ...] = ()

    @property
    def rates(self) -> np.ndarray:
        """Errors before and after, a row for each split."""
        return np.array([(self.before.rate, self.after.rate), *self.others])

    @cached_property
    def p_value(self) -> float:
        """Of the difference on the held-out items, or, of several splits, between their errors."""
        if self.others:
            before, after = self.rates.T
            return corrected_t_test(before, after, self.options.test_size)
        return self.before.p_value(self.after)

    @property
    def outcome(self) -> str:
        """ "better" or "worse" than the Euclidean distance on the held-out items, or "" if the
        difference may well be chance.
        """
        if self.alarm or self.p_value > SIGNIFICANT:
            return ""
        before, after = self.rates.mean(axis=0)
        return "better" if after < before else "worse"

    @property
    def verdict(self) -> str:
        """Whether to use the metric, in a sentence."""
        before, after = (f"{rate:.2%}" for rate in self.rates.mean(axis=0))
        where = f"on {self.after.n:,} held-out {self.task.items}"
        if self.others:
            spread = self.rates.std(axis=0, ddof=1)
            before, after = (
                f"{rate} ± {std:.2%}" for rate, std in zip((before, after), spread, strict=True)
            )
            where = f"(mean and standard deviation of {len(self.rates)} random splits)"
        figures = f"{self.task.measure} {after} against {before} {where}, p = {self.p_value:.2g}"
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
    task: Task,
    options: Options = DEFAULT_OPTIONS,
    *,
    on_metric: Callable[[LearnedMetric, bool], None] | None = None,
    feature_names: Sequence[str] | None = None,
    categories: dict[str, list[str]] | None = None,
) -> Study:
    """Split, scale, reduce, learn and judge, and judge again on as many other splits as
    ``options.repeats`` wants; `conemetric.watching` shows the progress.

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
    study = _study(task, options, on_metric, feature_names, categories)
    if options.repeats == 1:
        return study
    others: list[tuple[float, float]] = []
    for seed in range(options.seed + 1, options.seed + options.repeats):
        with all_or_nothing(), labelled(method=f"split {len(others) + 2} of {options.repeats}"):
            again = _study(task, replace(options, seed=seed))
        others.append((again.before.rate, again.after.rate))
    study = replace(study, others=tuple(others))
    rates = ", ".join(f"{before:.1%} to {after:.1%}" for before, after in study.rates)
    study.notes.append(f"Before and after on each split: {rates}; the metric is the first's.")
    return study


def _study(task, options, on_metric=None, feature_names=None, categories=None):
    """The study of one split."""
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
        notes={
            "data_id": identity,
            "rows": task.n_rows,
            "learned_from": task.kind,
            "seed": options.seed,
            "n_neighbors": options.n_neighbors,
        },
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
    """The unfitted steps: fill, scale, reduce."""
    _check_preprocessing(task, options)
    first = []
    if options.impute is not None:
        first = [SimpleImputer(strategy=options.impute, keep_empty_features=True)]
        n = int(np.isnan(task.X).sum())
        notes.append(
            f"Filled {n:,} missing value{'s' * (n != 1)} with the {options.impute} of "
            f"{'its' if n == 1 else 'their'} column in the training rows."
        )
    standard = options.scale == "standard"
    if options.scale == "auto":
        kept, scaled = (
            task.quick_error([*first, *steps], options, SMALL) for steps in ([], [StandardScaler()])
        )
        standard = scaled < kept
        notes.append(
            f"Columns {'standardised' if standard else 'kept as they are'}: Euclidean "
            f"{task.measure} on training rows: as they are {kept:.1%}, standardised {scaled:.1%}."
        )
    steps = [*first, *([StandardScaler()] if standard else [])]
    if options.n_pca is not None:
        steps.append(PCA(options.n_pca, random_state=options.seed))
    return steps or ["passthrough"]


def _check_preprocessing(task, options):
    if options.scale not in ("auto", "standard", "none"):
        raise ValueError(f"scale='{options.scale}' is not known; use auto, standard or none.")
    if options.impute not in (None, "mean", "median"):
        raise ValueError(f"impute='{options.impute}' is not known; use mean or median.")
    if options.n_pca is None:
        return
    rows, columns = task.training_rows().shape
    if not 1 <= options.n_pca <= min(rows, columns):
        raise ValueError(
            f"n_pca={options.n_pca} must be from 1 to {min(rows, columns)} for {rows} training "
            f"rows of {columns} columns."
        )


def _fit(method, task, options, notes):
    """The fitted estimator, and why its metric is useless, if it is."""
    given = {name: getattr(options, name) for name in ("n_neighbors", "time_budget", "tol")}
    estimator = method.make(**{"random_state": options.seed, **given, **options.parameters})
    with collected_warnings() as collected:
        task.fit(estimator)
    alarm = ""
    for warning in collected:
        if isinstance(warning, UselessMetricWarning):
            alarm = in_options(warning)
        elif not isinstance(warning, ScaleWarning):  # options.scale has decided
            notes.append(in_options(warning))
    searched = getattr(estimator, "n_references_", None)
    if searched is not None:
        notes.append(f"Neighbours searched among {searched:,} training rows.")
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


@contextmanager
def _stage(name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Announce a stage, and time it."""
    emit("stage", stage=name)
    began = stopwatch()
    yield
    seconds[name] = stopwatch() - began
