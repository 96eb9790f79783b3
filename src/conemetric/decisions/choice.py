"""The choice of a decision by held-out rows: of each kind the best, and their blend."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.blas import side_by_side
from ..core.progress import emit
from ..estimators.folds import Fold
from .blend import Blended, blend_trials
from .candidates import PLAIN
from .held_out import MOST_ROWS, Candidate, HeldOut, MappedFold, in_folds
from .kernel import coarse_loss
from .neighbors import NeighborVote
from .rule import Judge, Rule, Training, Trial


def choose(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Sequence[Candidate]],
    rules: Sequence[type[Rule]],
    judge: Judge,
    n_landmarks: int,
    rng: np.random.RandomState,
) -> tuple[list[Trial], list[Blended]]:
    """Search every rule in the best metric of each family of ``candidates``, the plain one first,
    and blend what was found: (the usual rule and the best trial of each kind; the blend of each
    rule). ``rng`` draws the ``n_landmarks`` rows that a kernel sum is over at most.
    """
    first = HeldOut(rows, folds, candidates[0][0])
    trials = [NeighborVote.usual(first, judge)]

    def searched(family: Sequence[Candidate]) -> dict[type[Rule], list[list[Trial]]]:
        """What each rule finds in the best metric of the family."""
        emit("stage", stage=f"decision in the {family[0].name} metric")
        found = [HeldOut(rows, folds, each) for each in family if each.name != PLAIN] or [first]
        best = min(found, key=lambda each: coarse_loss(each, judge)) if found[1:] else found[0]
        return {rule: list(rule.search(best, judge)) for rule in rules}

    # few rows: one BLAS thread for each family, since their factorisations are too short to share
    run = partial(side_by_side, X=rows.Z) if len(rows.Y) <= MOST_ROWS else map
    by_family = list(run(searched, candidates))
    contests = {rule: [each for found in by_family for each in found[rule]] for rule in rules}
    trials += [contest[0] for of_rule in contests.values() for contest in of_rule]
    by_name = {each.name: each for family in candidates for each in family}
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
            jobs = [
                (t, [draw_landmarks(k, n_landmarks, rng) for k in keys]) for t in blended.trials
            ]
            by_trial = map(np.concatenate, in_folds(at_full_size, jobs, len(folds), rows.Z, held))
            judged = zip(blended.trials, by_trial, strict=True)
            full = [replace(trial, scores=each, loss=judge(each)) for trial, each in judged]
            trials += full
            blended = blend_trials([[trial] for trial in full], judge, held_out, rule.most_parts)
        blends.append(blended)
    return trials, blends


def draw_landmarks(keys: np.ndarray, most: int, rng: np.random.RandomState) -> np.ndarray:
    """Rows that a kernel sum is over, drawn whatever the order of the rows."""
    return np.sort(np.argsort(keys, kind="stable")[rng.permutation(len(keys))[:most]])
