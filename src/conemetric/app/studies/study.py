"""Learn one metric on one data set and measure what it gained on rows it has not seen."""

import statistics
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ...core.clock import seconds_compiling, timed_stage
from ...core.progress import all_or_nothing, labelled
from ...core.warn import collected_warnings
from ...estimators.warnings import CollapsedMetricWarning, ScaleWarning
from ...evaluation.statistics import SIGNIFICANT
from ...solvers.base import Status
from ...storage import LearnedMetric
from ...tables import TableEncoder
from ..advice import in_options
from ..options import Options
from . import deciding
from .methods import find, methods_for
from .supervision import Labelled
from .task import Judgement, Task, data_id, table_encoder

EUCLIDEAN, CONSTANT = "euclidean", "constant"
SMALL = 2000  # rows that scaling is judged on: an error's standard error is then about 1 %
COMPILING = "compiling, once"
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
        Preprocessing and learned map in one, as judged.
    task : supervision.Task
        Data and held-out part of the first split.
    judged : list of dict
        By split: judgements of the Euclidean distance on prepared rows ("euclidean"), of the
        learned one (by its method), of a decision and what it is compared with, and, apart from
        the table, of the most common label or the mean ("constant").
    seconds : dict
        Time of each stage.
    notes : list of str
        Choices made on the way, in words.
    alarm : str
        Why the metric has collapsed; empty if it has not.
    names : list of str or None
        Of the columns of the data.
    decided : deciding.Decided or None
        The decision of the first split.
    refitted : LearnedMetric or None
        The metric learned again from all items, once it was judged.
    """

    options: Options
    estimator: Any
    prepare: Any
    metric: LearnedMetric
    task: Any
    judged: list[dict[str, Judgement]]
    seconds: dict[str, float]
    notes: list[str]
    alarm: str = ""
    names: list[str] | None = None
    decided: deciding.Decided | None = None
    refitted: LearnedMetric | None = None

    @property
    def before(self) -> Judgement:
        """The Euclidean distance on the first split."""
        return self.judged[0][EUCLIDEAN]

    @property
    def after(self) -> Judgement:
        """The learned distance on the first split."""
        return self.judged[0][str(self.options.method)]

    @property
    def rates(self) -> np.ndarray:
        """Errors before and after, a row for each split."""
        return np.column_stack([self.errors(EUCLIDEAN), self.errors(str(self.options.method))])

    def errors(self, name: str) -> np.ndarray:
        """Errors of a row of the table, by split."""
        return np.array([split[name].rate for split in self.judged])

    def p_of(self, one: str, other: str) -> float:
        """p of the difference between two rows of the table, by a paired test; of several splits
        twice the median, which holds however many rows they share (Meinshausen, Meier & Buhlmann,
        JASA 104, 2009). A t-test over few splits takes equal differences for certainty.
        """
        p_values = [split[one].p_value(split[other]) for split in self.judged]
        return p_values[0] if len(p_values) == 1 else min(1.0, 2 * float(np.median(p_values)))

    @cached_property
    def p_value(self) -> float:
        """Of the difference between the Euclidean and the learned distance."""
        return self.p_of(EUCLIDEAN, str(self.options.method))

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
    def rivals(self) -> list[str]:
        """What the decision is compared with, as far as it could be judged on every split."""
        others = [row["method"] for row in self.table()[3:]]
        return [name for name in others if all(name in split for split in self.judged)]

    @cached_property
    def recommended(self) -> str:
        """The row of the table to use: the decision unless one of its rivals is better than it,
        or it is no better than neighbours; then the best of the table if that is; else the learned
        distance if it is better than the Euclidean one. Tests are paired, and count each candidate.
        """
        plain = self._neighbours
        if self.decided is None:
            return plain
        ours, rivals, better = self.decided.name, self.rivals, self._better
        every = [ours, *rivals]
        return better(rivals, ours) or better([ours], plain) or better(every, plain) or plain

    @property
    def _neighbours(self):
        """The distance whose nearest neighbours are the simplest way to predict."""
        return str(self.options.method) if self.outcome == "better" else EUCLIDEAN

    def _better(self, names, than):
        """The best of these rows if it is better than another by more than chance; else empty."""
        best = min(names, key=lambda name: self.errors(name).mean(), default="")
        if not best or self.errors(best).mean() >= self.errors(than).mean():
            return ""
        return best if self.p_of(than, best) * len(names) <= SIGNIFICANT else ""

    @cached_property
    def verdict(self) -> str:
        """What to use, by the whole table, in a sentence or two."""
        distance = self._verdict_on_the_distance() + self._no_better_than_the_constant()
        if self.decided is None:
            return distance
        ours, best = self.decided.name, self.recommended
        if best == ours:
            compared = "".join(
                f", {name} {self._figure(name)} (p = {self.p_of(name, ours):.2g})"
                for name in self.rivals
            )
            return f"To predict, use {ours}: {self.task.measure} {self._figure(ours)}{compared}. {distance}"
        if best in self.rivals:
            than = ours if self._better(self.rivals, ours) else self._neighbours
            by = ours if than == ours else "the nearest neighbours"
            return (
                f"To predict, {best} is better here: {self.task.measure} {self._figure(best)} "
                f"against {self._figure(than)} by {by}, p = {self.p_of(than, best):.2g}. {distance}"
            )
        p = self.p_of(best, ours)
        return (
            f"To predict, {ours} shows no measurable gain over the nearest neighbours "
            f"({self._figure(ours)} against {self._figure(best)}, p = {p:.2g}). {distance}"
        )

    def _verdict_on_the_distance(self):
        before, after = (self._figure(name) for name in (EUCLIDEAN, str(self.options.method)))
        where = f"on {self.after.n:,} held-out {self.task.items}"
        if len(self.judged) > 1:
            where = f"(mean and standard deviation of {len(self.judged)} random splits)"
        figures = f"{self.task.measure} {after} against {before} {where}, p = {self.p_value:.2g}"
        if self.outcome == "better":
            what = "Use it" if self.decided is None else "Use the learned distance"
            return f"{what}: {figures}."
        finding = "Worse than" if self.outcome == "worse" else "No measurable gain over"
        what = finding if self.decided is None else f"The distance: {finding.lower()}"
        return f"{what} Euclidean ({figures}): keep the Euclidean distance."

    def _no_better_than_the_constant(self):
        """Said of what is recommended; where that is to stay with neighbours, of the whole table."""
        rows, what = [self.recommended], f"{self.recommended} shows no"
        if self.recommended == self._neighbours:
            deciding = [self.decided.name, *self.rivals] if self.decided else []
            rows, what = [EUCLIDEAN, str(self.options.method), *deciding], "nothing shows a"
        if CONSTANT not in self.judged[0] or any(self._better([row], CONSTANT) for row in rows):
            return ""
        always = f"{self.task.constant()[1]} ({self.task.measure} {self._figure(CONSTANT)})"
        return f" Yet {what} measurable gain over always predicting {always}: the columns may say little."

    def _figure(self, name):
        errors = self.errors(name)
        spread = f" ± {errors.std(ddof=1):.2%}" if len(errors) > 1 else ""
        return f"{errors.mean():.2%}{spread}"

    def table(self) -> list[dict[str, Any]]:
        """A row for every way to predict: its error on the first split with an interval, over all
        splits if there are several, and what learning took.
        """
        seconds = {str(self.options.method): self.seconds["learning"]}
        seconds |= self.decided.seconds if self.decided else {}
        rows = []
        for name, judgement in self.judged[0].items():
            if name == CONSTANT:
                continue
            row = {"method": name, **judgement.row()}
            if name in seconds:
                row["seconds"] = round(seconds[name], 3)
            if name == self.options.method:
                row |= self.fit_facts
            errors = [split[name].rate for split in self.judged if name in split]
            if len(errors) == len(self.judged) > 1:
                row |= {"mean": statistics.mean(errors), "std": statistics.stdev(errors)}
            rows.append(row)
        return rows

    @property
    def fit_facts(self) -> dict[str, Any]:
        """Results of the fit of the metric, as JSON values."""
        rank, certificate = {"rank": len(self.metric.components)}, self.metric.certificate
        if certificate is None:  # a blend
            return rank
        return rank | {
            "iterations": int(self.estimator.n_iter_),
            "objective": certificate.primal,
            "bound": certificate.dual,
            "relative_gap": certificate.relative_gap,
            "status": str(certificate.status),
        }

    @property
    def evidence(self) -> Any:
        """What the method found on held-out training rows (`AutoMetric`); else None."""
        return getattr(self.estimator, "evidence_", None)


def run_study(
    task: Task,
    options: Options | None = None,
    *,
    on_metric: Callable[[LearnedMetric, bool], None] | None = None,
    feature_names: Sequence[str] | None = None,
    decide: bool = False,
    refit: bool = False,
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
    decide : bool, default=False
        Whether a classifier or regressor, and what it is compared with, is learned too.
    refit : bool, default=False
        Whether metric and decision are learned again from all rows (pairs, triplets) once judged.

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
    options = options or Options()
    names = None if feature_names is None else list(feature_names)
    study = _study(task, options, on_metric, names, decide)
    for seed in range(options.seed + 1, options.seed + options.repeats):
        split = f"split {len(study.judged) + 1} of {options.repeats}"
        with all_or_nothing(), labelled(method=split):
            again = _study(task, replace(options, seed=seed), None, names, decide)
        study.judged.extend(again.judged)
    if options.repeats > 1:
        rates = ", ".join(f"{before:.1%} to {after:.1%}" for before, after in study.rates)
        study.notes.append(f"Before and after on each split: {rates}.")
    return _refitted(task, study, on_metric) if refit else study


def _study(task, options, on_metric, names, decide):
    """The study of one split."""
    seconds: dict[str, float] = {}
    compiled_before = seconds_compiling()
    method = find(options.method or methods_for(task.kind)[0].name, task.kind)
    options = replace(options, method=method.name)
    identity = data_id(task)
    task = task.split(options, np.random.default_rng(options.seed))
    notes = list(task.notes)
    with timed_stage("scaling", seconds):
        prepare = task.fitted(make_pipeline(*_preprocessing(task, options, notes)))
        task = task.prepared(prepare)
    decision = deciding.new_decision(task, options, names, notes) if decide else None
    with timed_stage("learning", seconds):
        estimator, alarm = _learned(task, prepare, options, decision, notes)
    metric = _folded(prepare, estimator, task, options, identity, names)
    if on_metric is not None:
        on_metric(metric, _interrupted(estimator))
    with timed_stage("judging", seconds):
        judged = {EUCLIDEAN: task.judge(None, options), method.name: task.judge(estimator, options)}
    decided = None
    if decision is not None:
        decided = deciding.judged(decision, task, options.seed, notes)
        judged |= decided.judgements
    if isinstance(task, Labelled):
        judged[CONSTANT] = task.judged(np.full(len(task.test), task.constant()[0]))
    compiling = seconds_compiling() - compiled_before
    if compiling > WORTH_SAYING:
        seconds[COMPILING] = compiling
    learned = (options, estimator, prepare, metric)
    return Study(*learned, task, [judged], seconds, notes, alarm, names, decided)


def _learned(task, prepare, options, decision, notes):
    """The fitted metric, and why it has collapsed, if it has. If a decision learns the same metric
    from the same rows on its way, both are fitted at once.
    """
    estimator, alarm = find(options.method, task.kind).with_options(options, task.n_features), ""
    shared = decision and deciding.shared_metric(decision, estimator, task, prepare, notes)
    if shared is not None:
        notes.extend(_evidence_in_words(shared))
        return shared, alarm
    with collected_warnings() as collected:
        task.fit(estimator)
    for warning in collected:
        if isinstance(warning, CollapsedMetricWarning):
            alarm = in_options(warning)
        elif not isinstance(warning, ScaleWarning):  # options.scale has decided
            notes.append(in_options(warning))
    searched = getattr(estimator, "n_references_", None)
    if searched is not None:
        notes.append(f"Neighbours searched among {searched:,} training rows.")
    if hasattr(estimator, "evidence_"):
        notes.extend(_evidence_in_words(estimator))
    return estimator, alarm


def _refitted(task, study, on_metric):
    """The study with a decision that takes all rows, and a metric learned again from all items,
    unless the metric is that of the decision.
    """
    options, decided, metric = study.options, study.decided, study.metric
    whole = task.whole(options, np.random.default_rng(options.seed))
    n = len(whole.train) if task.kind in ("pairs", "triplets") else len(whole.learn)
    again = decided is None or decided.decision.estimator.metric_ is not study.estimator
    with labelled(method="all rows"), timed_stage("learning from all rows", study.seconds):
        if again:
            prepare = whole.fitted(clone(study.prepare))
            whole = whole.prepared(prepare)
            estimator, _ = _learned(whole, prepare, options, None, [])
            metric = _folded(prepare, estimator, whole, options, data_id(task), study.names)
        if decided is not None:
            rows, final = whole.original(whole.learn), deepcopy(decided.decision.estimator)
            final.refit(decided.decision.X[rows], whole.y[whole.learn])
            decided = replace(decided, final=final, final_rows=rows)
    if again and on_metric is not None:
        on_metric(metric, _interrupted(estimator))
    saved = [f"metric learned again from {n:,} {task.items}" if again else "metric as judged"]
    saved += [f"decision refitted to all {n:,} rows, its metrics as judged"] if decided else []
    study.notes.append(f"Saved: {', '.join(saved)}.")
    return replace(study, refitted=metric, decided=decided)


def _folded(prepare, estimator, task, options, identity, names):
    """Preprocessing and learned map in one."""
    return LearnedMetric.from_estimator(
        make_pipeline(*(step for _, step in prepare.steps), estimator),
        feature_names=None if isinstance(prepare[0], TableEncoder) else names,
        notes={
            "data_id": identity,
            "rows": task.n_rows,
            "learned_from": task.kind,
            "seed": options.seed,
            "n_neighbors": options.n_neighbors,
            **task.fingerprint(),
        },
    )


def _preprocessing(task, options, notes):
    """The unfitted steps: encode or scale, reduce."""
    if options.scale not in ("auto", "standard", "none"):
        raise ValueError(f"scale='{options.scale}' is not known; use auto, standard or none.")
    if options.n_pca is not None:
        rows, columns = task.training_rows().shape
        if not 1 <= options.n_pca <= min(rows, columns):
            raise ValueError(
                f"n_pca={options.n_pca} must be from 1 to {min(rows, columns)} for {rows} training "
                f"rows of {columns} columns."
            )
    encoder = table_encoder(task.X, task.kinds)
    standard = options.scale == "standard" and encoder is None
    if options.scale == "auto" and encoder is None:
        # the Euclidean error after either step, within some of the training items
        trial = task.validation(SMALL, np.random.default_rng(options.seed))
        steps = (make_pipeline(step) for step in ("passthrough", StandardScaler()))
        fitted = (step.fit(trial.training_rows()) for step in steps)
        kept, scaled = (trial.prepared(step).judge(None, options).rate for step in fitted)
        standard = scaled < kept
        notes.append(
            f"Columns {'standardised' if standard else 'kept as they are'}: Euclidean "
            f"{task.measure} on training rows: as they are {kept:.1%}, standardised {scaled:.1%}."
        )
    first = StandardScaler() if standard else encoder
    pca = PCA(options.n_pca, random_state=options.seed) if options.n_pca is not None else None
    return [step for step in (first, pca) if step is not None] or ["passthrough"]


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
