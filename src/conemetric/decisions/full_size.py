"""The parts of a blend learned again from all rows of the other folds, once they are chosen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from ..automatic.folds import Fold
from ..core.progress import emit
from .blend import Blended, blend_trials
from .held_out import Candidate, MappedFold, in_folds
from .rule import Judge, Rule, Training, Trial

Blends = dict[type[Rule], Blended]


class Rejudged(NamedTuple):
    """The parts of the blends, learned from more rows than they were chosen with."""

    trials: list[Trial]
    blends: Blends


def draw_landmarks(keys: np.ndarray, n_most: int, rng: RandomState) -> np.ndarray:
    """Rows that a kernel sum is over, drawn whatever the order of the rows."""
    in_fixed_order = np.argsort(keys, kind="stable")
    drawn = rng.permutation(len(keys))[:n_most]
    return np.sort(in_fixed_order[drawn])


def blended_again(
    blends: Blends,
    learned_again: Callable[[Sequence[Trial]], list[Trial]],
    judge: Judge,
    held_out: Sequence[np.ndarray],
) -> tuple[list[Trial], Blends]:
    """Learn the parts of each blend again and weigh them by their new scores: (the parts, their blends).

    ``held_out`` numbers the rows that judge, in parts, each of which is weighed by the others.
    """
    all_trials: list[Trial] = []
    again: Blends = {}
    for rule, blended in blends.items():
        trials = learned_again(blended.trials)
        all_trials += trials
        contests = [[trial] for trial in trials]
        again[rule] = blend_trials(contests, judge, held_out, rule.most_parts)
    return all_trials, again


def judged_in_folds(
    rows: Training,
    folds: Sequence[Fold],
    blends: Blends,
    metrics: dict[str, Candidate],
    judge: Judge,
    *,
    n_landmarks: int,
    rng: RandomState,
) -> Rejudged:
    """Learn the parts of each blend from all rows of the other folds, and weigh them again. ``rng`` draws
    the ``n_landmarks`` rows that a kernel sum is over at most.
    """
    keys_of_folds = [rows.keys[fold.train] for fold in folds]
    largest = max(len(fold.train) for fold in folds)
    # entries of the kernel matrix of each fit, by which `in_folds` decides whether several fit
    # in memory
    numbers_held = min(largest, n_landmarks) ** 2

    def scores_of_fold(drawn: tuple[Trial, list[np.ndarray]], f: int) -> np.ndarray:
        """Scores of the rows of a fold by a rule learned from all rows of the others."""
        trial, landmarks = drawn
        fold = MappedFold(rows, folds[f], metrics[trial.metric].maps[f], None)
        fitted = trial.rule.fit(fold.train, landmarks[f], certified=False)
        return fitted.scores(fold.held_out)

    def learned_again(trials: Sequence[Trial]) -> list[Trial]:
        drawn = []
        for trial in trials:
            landmarks = [draw_landmarks(keys, n_landmarks, rng) for keys in keys_of_folds]
            drawn.append((trial, landmarks))
        again = []
        scored = in_folds(scores_of_fold, drawn, len(folds), rows.Z, numbers_held)
        for trial, by_fold in zip(trials, scored, strict=True):
            scores = np.concatenate(by_fold)
            again.append(replace(trial, scores=scores, loss=judge(scores)))
        return again

    emit("stage", stage="evaluating the rules on held-out rows")
    held_out = [fold.held_out for fold in folds]
    trials, again = blended_again(blends, learned_again, judge, held_out)
    return Rejudged(trials, again)
