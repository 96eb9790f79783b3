"""The choice of a decision by held-out rows: of each kind the best, and their blend."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..automatic.folds import Fold
from ..core.blas import side_by_side
from ..core.progress import emit
from .blend import Blended, blend_trials
from .held_out import MOST_ROWS, Candidate, HeldOut, MappedFold, in_folds
from .kernel import coarse_loss
from .neighbors import NeighborVote
from .rule import Judge, Rule, Training, Trial


def choose(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    rules: Sequence[type[Rule]],
    judge: Judge,
    n_landmarks: int,
    rng: np.random.RandomState,
) -> tuple[list[Trial], list[Blended], dict[str, Candidate]]:
    """Search every rule in the best round of each of the ``candidates``, the plain metric first,
    and blend what was found: (the usual rule and the best trial of each kind; the blend of each
    rule; their metrics). ``rng`` draws the ``n_landmarks`` rows that a kernel sum is over at most.
    """
    # few rows: one BLAS thread for each job, since its factorisations are too short to share
    run = partial(side_by_side, X=rows.Z) if len(rows.Y) <= MOST_ROWS else map
    metrics = _best_metrics(rows, folds, candidates, judge, run)
    by_name = {each.candidate.name: each.candidate for each in metrics}
    trials = [NeighborVote.usual(metrics[0], judge)]

    def searches() -> Iterator[tuple[type[Rule], Callable[[], list[Trial]]]]:
        while metrics:  # what is searched is let go: it holds kernel matrices
            best = metrics.pop(0)
            emit("stage", stage=f"decision in the {best.candidate.name} metric")
            for rule in rules:
                yield from ((rule, search) for search in rule.searches(best, judge))

    contests: dict[type[Rule], list[list[Trial]]] = {rule: [] for rule in rules}
    for rule, contest in run(lambda job: (job[0], job[1]()), searches()):
        contests[rule].append(contest)
    trials += [contest[0] for of_rule in contests.values() for contest in of_rule]
    held_out = [fold.held_out for fold in folds]
    largest = max(len(fold.train) for fold in folds)
    again = largest > min(MOST_ROWS, n_landmarks)

    def at_full_size(drawn: tuple[Trial, list[np.ndarray]], f: int) -> np.ndarray:
        """Scores of the rows of a fold by a rule learned from all rows of the others."""
        trial, landmarks = drawn
        fold = MappedFold(rows, folds[f], by_name[trial.metric].maps[f], None)
        return trial.rule.fit(fold.train, landmarks[f], certified=False).scores(fold.held_out)

    blends = []
    for rule, of_rule in contests.items():
        blended = blend_trials(of_rule, judge, held_out, rule.most_parts)
        if again:
            emit("stage", stage="held-out rows judge the rules learned from all others")
            keys, held = [rows.keys[fold.train] for fold in folds], min(largest, n_landmarks) ** 2
            drawn = [
                (t, [draw_landmarks(k, n_landmarks, rng) for k in keys]) for t in blended.trials
            ]
            by_trial = map(np.concatenate, in_folds(at_full_size, drawn, len(folds), rows.Z, held))
            judged = zip(blended.trials, by_trial, strict=True)
            full = [replace(trial, scores=each, loss=judge(each)) for trial, each in judged]
            trials += full
            blended = blend_trials([[trial] for trial in full], judge, held_out, rule.most_parts)
        blends.append(blended)
    return trials, blends, by_name


def _best_metrics(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    judge: Judge,
    run: Any,
) -> list[HeldOut]:
    """The best round of each candidate: rounds are learned side by side, as long as they help."""
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
        best |= {i: metrics[i] for i in growing}
        least |= losses
    return [best.get(i, metric) for i, metric in first.items()]


def draw_landmarks(keys: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows that a kernel sum is over, drawn whatever the order of the rows."""
    return np.sort(np.argsort(keys, kind="stable")[rng.permutation(len(keys))[:most]])
