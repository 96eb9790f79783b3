"""Rows kept apart from the choice of a decision, which then judge it at its full size.

Of many rows some thousands are enough to choose metrics and settings; they are divided into folds as few
rows are. To learn each part of the blend again from all rows of all folds but one would take three fits
for every one that is used. Instead some rows are kept apart from everything: the parts are learned once
from all others, in metrics learned from others, and these rows judge them. So neither metrics, settings
nor rules have seen the rows that give weights, evidence and promises; and the scores of each third of these
rows are weighed by what the other two thirds found best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from ..automatic.folds import group_folds
from ..core.arrays import Array, take
from ..core.progress import emit
from .full_size import Rejudged, blended_again, draw_landmarks
from .rule import Judge, RowLosses, Training, Trial, mapped
from .search import Search

# Rows that are kept apart: the standard error of an error rate of 10 % is then half a percent.
MAX_JUDGED = 3000
N_PARTS = 3  # of the rows kept apart, each of which is weighed by the others
# Folds of groups, one of which is kept apart: dividing groups takes time with their number.
MAX_FOLDS = 10

Maps = Mapping[str, Array | None]  # of each metric, learned without the rows kept apart


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
    if groups is not None:
        return _keep_groups_apart(drawn, strata, groups)
    repeated = np.bincount(strata)[strata[drawn]] > 1
    judged = drawn[repeated][:MAX_JUDGED]
    learn = drawn[~np.isin(drawn, judged)]
    return KeptApart(learn, _parts(judged, np.arange(len(judged))))


def _keep_groups_apart(
    drawn: np.ndarray, strata: np.ndarray, groups: np.ndarray
) -> KeptApart | None:
    if len(np.unique(groups)) < N_PARTS:
        return None
    n_folds = int(np.clip(len(drawn) // MAX_JUDGED, 2, MAX_FOLDS))
    learn, held_out = group_folds(drawn, strata, n_folds, groups)[0]
    judged = held_out[np.isin(strata[held_out], strata[learn])][:MAX_JUDGED]
    if not len(judged) or len(np.unique(groups[learn])) < 2:
        return None
    number_of_group = np.unique(groups[judged], return_inverse=True)[1]
    return KeptApart(learn, _parts(judged, number_of_group))


def _parts(rows: np.ndarray, numbers: np.ndarray) -> list[np.ndarray]:
    """The rows dealt out by their numbers; no part is empty."""
    dealt = [rows[numbers % N_PARTS == k] for k in range(N_PARTS)]
    return [part for part in dealt if len(part)]


def judged_apart(
    rows: Training,
    apart: KeptApart,
    found: Search,
    maps: Maps,
    *,
    row_losses: RowLosses,
    n_landmarks: int,
    rng: RandomState,
) -> Rejudged:
    """Learn the usual rule and the parts of each blend ``found`` from all rows that are not kept apart, and let
    those that are judge them.
    """
    emit("stage", stage="evaluating the rules on held-out rows")
    judge = Judge.of(rows, apart.judged, row_losses)
    learn = rows.among(apart.learn)
    new = take(rows.Z, apart.judged)
    landmarks = draw_landmarks(learn.keys, n_landmarks, rng)

    def at_full_size(trial: Trial) -> Trial:
        L = maps[trial.metric]
        # what only judges needs no certificate
        fitted = trial.rule.fit(learn.mapped(L), landmarks, certified=False)
        scores = fitted.scores(mapped(new, L))
        return replace(trial, scores=scores, loss=judge(scores))

    def learned_again(trials: Sequence[Trial]) -> list[Trial]:
        return [at_full_size(trial) for trial in trials]

    usual_again = at_full_size(found.usual)
    trials, again = blended_again(found.blends, learned_again, judge, apart.parts)
    return Rejudged([usual_again, *trials], again)
