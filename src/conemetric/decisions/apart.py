"""Rows kept apart from the choice of a decision, which then judge it at its full size.

Of many rows some thousands are enough to choose metrics and settings; they are divided into folds as few
rows are. To learn each part of the blend again from all rows of all folds but one would take three fits
for every one that is used. Instead some rows are kept apart from everything: the parts are learned once
from all others, in metrics learned from others, and these rows judge them. So neither metrics, settings
nor rules have seen the rows that give weights, evidence and promises; and the scores of each third of these
rows are weighed by what the other two thirds found best.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..automatic.folds import group_folds
from ..core.arrays import Array, take
from ..core.progress import emit
from .blend import Blended, blend_trials
from .choice import draw_landmarks
from .rule import Judge, Rule, Training, Trial, mapped

# Rows that are judged: the standard error of an error rate of 10 % is then half a percent.
MAX_JUDGED = 3000
N_PARTS = 3  # of the judged rows, each of which is weighed by the others
MAX_FOLDS = (
    10  # of groups, one of which is kept apart: dividing groups takes time with their number
)

Maps = Mapping[str, Array | None]  # of each metric, learned without the rows kept apart
Coefficients = dict[tuple[str, Rule], np.ndarray]  # of the sums by metric and rule


class KeptApart(NamedTuple):
    """Rows to learn from, every leading part of which represents the rest, and parts of those that
    judge.
    """

    learn: np.ndarray
    parts: list[np.ndarray]

    @property
    def judged(self) -> np.ndarray:
        """All rows that judge."""
        return np.concatenate(self.parts)


def keep_apart(
    drawn: np.ndarray, strata: np.ndarray, groups: np.ndarray | None
) -> KeptApart | None:
    """Divide the rows, ``drawn`` in a random order. The only row of a class (of ``strata``) judges nothing.
    The rows of one of the ``groups`` stay together; None if there are too few groups to choose by the
    others.
    """
    if groups is None:
        repeated = np.bincount(strata)[strata[drawn]] > 1
        judged = drawn[repeated][:MAX_JUDGED]
        learn = drawn[~np.isin(drawn, judged)]
        part_of = np.arange(len(judged)) % N_PARTS
    else:
        if len(np.unique(groups)) < N_PARTS:
            return None
        n_folds = int(np.clip(len(drawn) // MAX_JUDGED, 2, MAX_FOLDS))
        learn, held_out = group_folds(drawn, strata, n_folds, groups)[0]
        judged = held_out[np.isin(strata[held_out], strata[learn])][:MAX_JUDGED]
        part_of = np.unique(groups[judged], return_inverse=True)[1] % N_PARTS
        if not len(judged) or len(np.unique(groups[learn])) < 2:
            return None
    parts = [judged[part_of == k] for k in range(N_PARTS)]
    return KeptApart(learn, [part for part in parts if len(part)])


def judged_apart(
    rows: Training,
    apart: KeptApart,
    usual: Trial,
    blends: Mapping[type[Rule], Blended],
    maps: Maps,
    row_losses: Callable[[np.ndarray, np.ndarray], np.ndarray],
    n_landmarks: int,
    rng: np.random.RandomState,
) -> tuple[list[Trial], dict[type[Rule], Blended], Coefficients]:
    """The ``usual`` rule and the parts of each blend, learned from all rows that are not kept apart and
    judged by those that are; their blends; and the coefficients that were found, for fits to all rows.
    """
    emit("stage", stage="rows kept apart judge the rules learned from all others")
    judge = Judge(rows.Y[apart.judged], rows.weights[apart.judged], row_losses)
    learn = rows.among(apart.learn)
    new = take(rows.Z, apart.judged)
    landmarks = draw_landmarks(learn.keys, n_landmarks, rng)
    coefficients: Coefficients = {}

    def at_full_size(trial: Trial) -> Trial:
        L = maps[trial.metric]
        fitted = trial.rule.fit(learn.mapped(L), landmarks, certified=False)
        found = fitted.coefficients
        if found is not None and len(found) == len(apart.learn):
            of_all = np.zeros((len(rows.Y), found.shape[1]))
            of_all[apart.learn] = found
            coefficients[trial.metric, trial.rule] = of_all
        scores = fitted.scores(mapped(new, L))
        return replace(trial, scores=scores, loss=judge(scores))

    trials = [at_full_size(usual)]
    again = {}
    for rule, blended in blends.items():
        full = [at_full_size(trial) for trial in blended.trials]
        trials += full
        again[rule] = blend_trials([[trial] for trial in full], judge, apart.parts, rule.most_parts)
    return trials, again, coefficients
