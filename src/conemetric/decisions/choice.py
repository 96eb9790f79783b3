"""The choice of a decision by held-out rows: of each kind the best, and their blend.

Settings compete in rounds, and what clearly loses a round is dropped. Kernels are tried in every metric
with some rows of each fold (`held_out.MAX_ROWS_TRIED`); the best settings of the best kinds with more of
them (`held_out.MAX_ROWS_COMPARED`); and what the blend of those is made of with all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..automatic.folds import Fold
from ..core.blas import side_by_side
from ..core.progress import emit
from .blend import Blended, blend_trials
from .held_out import MAX_ROWS_COMPARED, MAX_ROWS_TRIED, Candidate, HeldOut, MappedFold, in_folds
from .kernel import coarse_loss
from .neighbors import NeighborVote
from .rule import Judge, Rule, Training, Trial

# Kinds of one rule, each a kernel in a metric, that are compared with more rows, and settings of each:
# a blend has at most three parts, and on 28 tables its parts were among these in all but a few.
MAX_KINDS_COMPARED = 4
MAX_SETTINGS_COMPARED = 3
# A candidate whose loss on few rows is larger than that of the best by this factor learns no more
# rounds: each changes the loss by less, as a rule.
FALLEN_BEHIND = 1.25
# A kind whose loss is larger than that of the best by this factor is not compared: it would weigh little.
CLEARLY_WORSE = 1.15

Contests = dict[type[Rule], list[list[Trial]]]  # trials of each kind, the best first


def choose(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    rules: Sequence[type[Rule]],
    judge: Judge,
) -> tuple[list[Trial], dict[type[Rule], Blended], dict[str, Candidate]]:
    """Search every rule in the best round of each of the ``candidates``, the Euclidean metric
    first, and blend what was found: (the usual rule and the best trial of each kind; the blend of
    each rule; the metrics).
    """
    # few rows: one BLAS thread for each job, since its factorisations are too short to share
    run = partial(side_by_side, X=rows.Z) if len(rows.Y) <= MAX_ROWS_COMPARED else map
    metrics = _best_metrics(rows, folds, candidates, judge, run)
    by_name = {each.candidate.name: each.candidate for each in metrics}
    trials = [NeighborVote.usual(metrics[0], judge)]

    def searches() -> Iterator[tuple[type[Rule], Callable[[], list[Trial]]]]:
        while metrics:  # what is searched is let go: it holds kernel matrices
            best = metrics.pop(0)
            emit("stage", stage=f"decision in the {best.candidate.name} metric")
            for rule in rules:
                yield from ((rule, search) for search in rule.searches(best, judge))

    contests: Contests = {rule: [] for rule in rules}
    for rule, contest in run(lambda job: (job[0], job[1]()), searches()):
        contests[rule].append(contest)
    if max(len(fold.train) for fold in folds) > MAX_ROWS_TRIED:
        emit("stage", stage="the best decisions compared with more rows")
        for rule, of_rule in contests.items():
            if rule.learns:
                contests[rule] = _compared(rows, folds, of_rule, by_name, judge)
    trials += [contest[0] for of_rule in contests.values() for contest in of_rule]
    held_out = [fold.held_out for fold in folds]
    blends = {
        rule: blend_trials(of_rule, judge, held_out, rule.most_parts)
        for rule, of_rule in contests.items()
    }
    return trials, blends, by_name


def _compared(
    rows: Training,
    folds: Sequence[Fold],
    contests: list[list[Trial]],
    by_name: dict[str, Candidate],
    judge: Judge,
) -> list[list[Trial]]:
    """The best settings of the best kinds, judged with more rows to learn from."""
    contests = sorted(contests, key=lambda contest: contest[0].loss)[:MAX_KINDS_COMPARED]
    least = contests[0][0].loss
    compared = []
    for contest in contests:
        if contest[0].loss > CLEARLY_WORSE * least:
            continue
        metric = HeldOut(rows, folds, by_name[contest[0].metric])
        settings = [trial.rule for trial in contest[:MAX_SETTINGS_COMPARED]]
        scored = contest[0].rule.held_out_scores_of(settings, metric)
        again = [metric.trial(*each, judge) for each in zip(settings, scored, strict=True)]
        compared.append(sorted(again, key=lambda trial: trial.loss))
    return compared


def judged_in_folds(
    rows: Training,
    folds: Sequence[Fold],
    blends: dict[type[Rule], Blended],
    by_name: dict[str, Candidate],
    judge: Judge,
    n_landmarks: int,
    rng: np.random.RandomState,
) -> tuple[list[Trial], dict[type[Rule], Blended]]:
    """The parts of each blend, learned from all rows of the other folds, and their blend. ``rng`` draws
    the ``n_landmarks`` rows that a kernel sum is over at most.
    """
    largest = max(len(fold.train) for fold in folds)
    held_out = [fold.held_out for fold in folds]

    def at_full_size(drawn: tuple[Trial, list[np.ndarray]], f: int) -> np.ndarray:
        """Scores of the rows of a fold by a rule learned from all rows of the others."""
        trial, landmarks = drawn
        fold = MappedFold(rows, folds[f], by_name[trial.metric].maps[f], None)
        return trial.rule.fit(fold.train, landmarks[f], certified=False).scores(fold.held_out)

    emit("stage", stage="held-out rows judge the rules learned from all others")
    keys, held = [rows.keys[fold.train] for fold in folds], min(largest, n_landmarks) ** 2
    judged: list[Trial] = []
    again = {}
    for rule, blended in blends.items():
        drawn = [(t, [draw_landmarks(k, n_landmarks, rng) for k in keys]) for t in blended.trials]
        by_trial = map(np.concatenate, in_folds(at_full_size, drawn, len(folds), rows.Z, held))
        full = [
            replace(trial, scores=scores, loss=judge(scores))
            for trial, scores in zip(blended.trials, by_trial, strict=True)
        ]
        judged += full
        again[rule] = blend_trials([[trial] for trial in full], judge, held_out, rule.most_parts)
    return judged, again


def _best_metrics(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    judge: Judge,
    run: Any,
) -> list[HeldOut]:
    """The best round of each candidate: rounds are learned side by side, as long as they help and
    the candidate has not fallen behind the others.
    """
    growing = list(range(len(candidates)))
    first: dict[int, HeldOut] = {}
    best: dict[int, HeldOut] = {}
    least: dict[int, float] = {}
    for r in range(max(candidate.n_rounds for candidate in candidates)):
        emit("stage", stage=f"metrics to decide in, round {r + 1}")
        learned = in_folds(lambda i, f: next(candidates[i].runs[f]), growing, len(folds), rows.Z)
        metrics = {
            i: HeldOut(rows, folds, candidates[i].at(r, maps))
            for i, maps in zip(growing, learned, strict=True)
        }
        first = first or metrics
        several = [i for i in growing if candidates[i].n_rounds > 1]
        jobs = [(metrics[i], judge, first[i]) for i in several]
        losses = dict(zip(several, run(lambda job: coarse_loss(*job), jobs), strict=True))
        growing = [i for i in several if losses[i] < least.get(i, np.inf)]
        if growing:
            leading = min(losses[i] for i in growing)
            behind = [i for i in growing if losses[i] > FALLEN_BEHIND * leading]
        else:
            behind = []
        best |= {i: metrics[i] for i in growing}
        least |= losses
        growing = [i for i in growing if i not in behind]
    return [best.get(i, metric) for i, metric in first.items()]


def draw_landmarks(keys: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows that a kernel sum is over, drawn whatever the order of the rows."""
    return np.sort(np.argsort(keys, kind="stable")[rng.permutation(len(keys))[:most]])
