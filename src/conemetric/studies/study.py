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

from ..core.clock import seconds_compiling, timed_stage
from ..core.progress import all_or_nothing, labelled
from ..core.warn import collected_warnings
from ..engine.certificate import Status
from ..estimators.fit_warnings import CollapsedMetricWarning, ScaleWarning
from ..storage import LearnedMetric
from ..tables import TableEncoder
from . import deciding
from .advice import in_options
from .constrained import Paired
from .methods import check_kernel, find, methods_for
from .options import Options
from .supervision import Labelled
from .task import Judgement, Task, data_id, table_encoder
from .verdict import Kind, Outcome, Row, Terms, Verdict, find_verdict, verdict_in_words

EUCLIDEAN, CONSTANT = "euclidean", "constant"
SMALL = 2000  # rows that scaling is judged on: an error's standard error is then about 1 %
COMPILING = "compiling, once"
LEAST_WEIGHT_SHOWN = 0.01  # of a part of a blend
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
        learned one (by its method), of a decision and what it is compared with, and of always
        predicting the most common label or the mean ("constant").
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
        JASA 104, 2009). A t-test over few splits takes equal differences for certainty. A split in
        which the row with the lower mean error does not err less counts with p = 1.
        """
        better, worse = sorted((one, other), key=lambda name: self.errors(name).mean())
        p_values = []
        for split in self.judged:
            if split[better].rate < split[worse].rate:
                p_values.append(split[better].p_value(split[worse]))
            else:
                p_values.append(1.0)
        if len(p_values) == 1:
            return p_values[0]
        return min(1.0, 2 * float(np.median(p_values)))

    @property
    def p_value(self) -> float:
        """Of the difference between the Euclidean and the learned distance."""
        return self.verdict.distances.p_value

    @property
    def outcome(self) -> str:
        """ "better" or "worse" than the Euclidean distance on the held-out items, or "" if the
        difference may well be chance, or the metric has collapsed.
        """
        outcome = self.verdict.distances.outcome
        if outcome in (Outcome.BETTER, Outcome.WORSE):
            return outcome.value
        return ""

    def kind(self, name: str) -> Kind:
        """What a row of the table predicts by."""
        kinds = {
            EUCLIDEAN: Kind.EUCLIDEAN,
            str(self.options.method): Kind.LEARNED,
            CONSTANT: Kind.CONSTANT,
        }
        if self.decided is not None:
            kinds[self.decided.name] = Kind.DECISION
        return kinds.get(name, Kind.OTHER)

    @cached_property
    def verdict(self) -> Verdict:
        """On the rows that have an error on every split."""
        rows = []
        for name in self.judged[0]:
            if len(self._rates_where_judged(name)) == len(self.judged):
                rows.append(Row(name, self.kind(name), float(self.errors(name).mean())))
        return find_verdict(rows, self.p_of, collapsed=bool(self.alarm))

    @property
    def verdict_in_words(self) -> str:
        """What the table shows, in a few sentences."""
        n_splits = len(self.judged)
        where = f" on {self.after.n:,} held-out {self.task.items}{self.task.sharing}"
        judges = self.task.items
        if n_splits > 1:
            where = f", mean and standard deviation of {n_splits} random splits"
            judges = "splits"
        constant = ""
        if CONSTANT in self.judged[0]:
            constant = self.task.constant().words
        terms = Terms(
            measure=self.task.measure,
            figures={name: self._figure(name) for name in self.judged[0]},
            where=where,
            judges=judges,
            constant=constant,
        )
        return verdict_in_words(self.verdict, terms)

    def _rates_where_judged(self, name):
        """Errors of a row of the table on the splits that judged it: what could not be learned on
        another one has none there.
        """
        return [split[name].rate for split in self.judged if name in split]

    def _figure(self, name):
        """The error as the table shows it."""
        errors = np.array(self._rates_where_judged(name))
        if len(errors) == 1:
            return f"{errors.mean():.2%}"
        return f"{errors.mean():.2%} ± {errors.std(ddof=1):.2%}"

    def table(self) -> list[dict[str, Any]]:
        """A row for every way to predict: its error on the first split with an interval, over all
        splits if there are several, and what learning took.
        """
        seconds = {}
        if not self.learns_with_decision:
            seconds[str(self.options.method)] = self.seconds["learning"]
        if self.decided is not None:
            seconds |= self.decided.seconds
        rows = []
        for name, judgement in self.judged[0].items():
            row = {"method": name, **judgement.row()}
            if name in seconds:
                row["seconds"] = round(seconds[name], 3)
            if name == self.options.method:
                row |= self.fit_facts
            errors = self._rates_where_judged(name)
            if len(errors) == len(self.judged) > 1:
                row |= {"mean": statistics.mean(errors), "std": statistics.stdev(errors)}
            rows.append(row)
        return rows

    @property
    def learns_with_decision(self):
        """Whether the decision learned the metric on its way: the seconds are then those of both."""
        return self.decided is not None and self.decided.metric is self.estimator

    @property
    def fit_facts(self) -> dict[str, Any]:
        """Results of the fit of the metric, as JSON values."""
        certificate = self.metric.certificate
        rank = len(self.metric.components)
        if certificate is None:  # a blend
            return {"rank": rank}
        return {
            "rank": rank,
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
    """Split, scale, reduce, learn and evaluate, again on as many other splits as
    ``options.repeats`` wants; `conemetric.watching` shows the progress.

    Parameters
    ----------
    task : supervision.Task
        Rows with labels, pairs or triplets.
    options : Options
    on_metric : callable, default=None
        ``on_metric(metric, interrupted)``: called as soon as the `LearnedMetric` exists, before
        it is evaluated; ``interrupted`` says whether Ctrl-C ended its fit.
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
    >>> from conemetric.studies import Options, run_study
    >>> from conemetric.studies.supervision import Labelled
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
        # a metric that Ctrl-C has cut short would spoil the mean of the splits
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
    check_kernel(method.name, options.kernel)
    options = replace(options, method=method.name)
    # of the data as they were read, whatever is held out of them
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
    judged, decided = _judged(task, estimator, options, decision, seconds, notes)
    compiling = seconds_compiling() - compiled_before
    if compiling > WORTH_SAYING:
        seconds[COMPILING] = compiling
    return Study(
        options,
        estimator,
        prepare,
        metric,
        task,
        [judged],
        seconds,
        notes,
        alarm=alarm,
        names=names,
        decided=decided,
    )


def _judged(task, estimator, options, decision, seconds, notes):
    """The judgements of all rows of the table, and the decision with what it is compared with."""
    judged = {}
    with timed_stage("evaluating", seconds):
        judged[EUCLIDEAN] = task.judge(None, options)
        judged[options.method] = task.judge(estimator, options)
    decided = None
    if decision is not None:
        decided = deciding.judged(decision, task, options.seed, notes)
        judged |= decided.judgements
    if isinstance(task, Labelled | Paired):
        judged[CONSTANT] = task.judged(np.full(len(task.test), task.constant().prediction))
    return judged, decided


def _learned(task, prepare, options, decision, notes):
    """The fitted metric, and why it has collapsed, if it has. If a decision learns the same metric
    from the same rows on its way, both are fitted at once.
    """
    estimator = find(options.method, task.kind).with_options(options, task.n_features)
    if decision is not None:
        shared = deciding.shared_metric(decision, estimator, task, prepare, notes)
        if shared is not None:
            notes.extend(_evidence_in_words(shared))
            return shared, ""
    alarm = ""
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
    if task.kind in ("pairs", "triplets"):
        n = len(whole.train)
    else:
        n = len(whole.learn)
    again = decided is None or decided.metric is not study.estimator
    with labelled(method="all rows"), timed_stage("learning from all rows", study.seconds):
        if again:
            prepare = whole.fitted(clone(study.prepare))
            whole = whole.prepared(prepare)
            estimator, _ = _learned(whole, prepare, options, None, [])
            metric = _folded(prepare, estimator, whole, options, data_id(task), study.names)
        if decided is not None:
            rows = whole.original(whole.learn)
            # a copy, since the report explains the decision as it was judged
            final = deepcopy(decided.decision.estimator)
            final.refit(decided.decision.X[rows], whole.y[whole.learn])
            decided = replace(decided, final=final, final_rows=rows)
    if again and on_metric is not None:
        on_metric(metric, _interrupted(estimator))
    saved = "the metric as evaluated"
    if again:
        saved = f"the metric, learned again from {n:,} {task.items}"
    if decided is not None:
        saved += f", and the {decided.name}, refitted to all {n:,} rows in its evaluated metrics"
    study.notes.append(f"Saved: {saved}.")
    return replace(study, refitted=metric, decided=decided)


def _folded(prepare, estimator, task, options, identity, names):
    """Preprocessing and learned map in one."""
    if isinstance(prepare[0], TableEncoder):
        names = None  # the encoder has them
    return LearnedMetric.from_estimator(
        make_pipeline(*(step for _, step in prepare.steps), estimator),
        feature_names=names,
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
        # within some of the training items
        trial = task.validation(SMALL, np.random.default_rng(options.seed))
        kept = _euclidean_error(trial, "passthrough", options)
        scaled = _euclidean_error(trial, StandardScaler(), options)
        standard = scaled < kept
        done = "standardised" if standard else "kept as they are"
        notes.append(
            f"Columns {done}: Euclidean {task.measure} on training rows: as they are {kept:.1%}, "
            f"standardised {scaled:.1%}."
        )
    steps: list[Any] = []
    if encoder is not None:
        steps.append(encoder)
    if standard:
        steps.append(StandardScaler())
    if options.n_pca is not None:
        steps.append(PCA(options.n_pca, random_state=options.seed))
    return steps or ["passthrough"]


def _euclidean_error(trial, step, options):
    """The error of the Euclidean distance after a step of preprocessing."""
    step = make_pipeline(step).fit(trial.training_rows())
    return trial.prepared(step).judge(None, options).rate


def _evidence_in_words(estimator):
    """How a blend did on its training rows."""
    yield f"Cross-validated on {estimator.evidence_.n_rows:,} training rows: {estimator.evidence_}."
    parts = sorted(estimator.weights_.items(), key=lambda part: -part[1])
    main = [f"{name} {weight:.0%}" for name, weight in parts if weight >= LEAST_WEIGHT_SHOWN]
    yield f"Weights of 1% or more in the blend: {', '.join(main)}."
    if len(estimator.space_errors_) > 1:
        yield _space_in_words(estimator)
    for name, reason in estimator.shortened_.items():
        yield f"Candidate {name} learned from {reason}."
    for name, reason in estimator.left_out_.items():
        yield f"Candidate {name} is left out: {reason}."


def _space_in_words(estimator):
    """Where a blend was learned, and how it did in the spaces that were tried."""
    errors = []
    for space, error in estimator.space_errors_.items():
        name = "the columns" if space == "linear" else f"a {space} kernel"
        errors.append(f"{error:.1%} with {name}")
    chosen = "columns"
    if estimator.space_ != "linear":
        chosen = f"the {estimator.space_} kernel, better by at least one standard error"
    return f"Learned in {chosen}: held-out error {' and '.join(errors)}."


def _interrupted(estimator):
    """Whether Ctrl-C has ended the fit."""
    certificate = getattr(estimator, "certificate_", None)
    if certificate is None:
        return getattr(estimator, "interrupted_", False)
    return certificate.status is Status.INTERRUPTED
