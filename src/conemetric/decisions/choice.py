"""The choice of a decision by held-out rows: which blend of which rules is fitted to all rows.

Metrics learned without each fold (`candidates`) are searched for good settings (`search`), whose blends are
learned again from more rows: from all rows of the other folds (`full_size`), or, of many rows, from all but
some that were kept apart from the choice (`apart`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState

from ..automatic.folds import CrossFitted
from ..core.arrays import Array
from ..core.blas import side_by_side
from ..engine.certificate import Certificate
from .apart import KeptApart, judged_apart
from .blend import Blended
from .candidates import BASELINE, candidates_for
from .full_size import Blends, judged_in_folds
from .held_out import MAX_ROWS_COMPARED, Candidate
from .kernel import KernelRule
from .learned import LearnedMetric
from .rule import Judge, RowLosses, Rule, Training, Trial
from .rules import RULES
from .search import Search, search_settings


class PlannedPart(NamedTuple):
    """A part of a blend before it is fitted to all rows."""

    trial: Trial
    weight: float
    L: Array | None


@dataclass(frozen=True)
class Choice:
    """What is fitted to all rows, and how held-out rows chose it.

    Attributes
    ----------
    parts : sequence of PlannedPart
        The heaviest first.
    certificate : Certificate or None
        Of their weights.
    trials : list of Trial
        What was tried, the usual vote first, with its scores of the held-out rows.
    held_out : array (n_held_out,)
        Numbers of the held-out rows that evidence rests on, each once.
    scores : array (n_held_out, n_targets)
        Their crossed scores by the blend.
    """

    parts: Sequence[PlannedPart]
    certificate: Certificate | None = None
    trials: list[Trial] = field(default_factory=list)
    held_out: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def is_judged(self) -> bool:
        """Whether any rows could be held out."""
        return len(self.held_out) > 0


@dataclass(frozen=True)
class Preferences:
    """What may be tried, and what makes one decision better than another.

    Attributes
    ----------
    rules : list of Rule types
    gradients : bool
        Whether metrics are learned from the gradients of kernel fits too.
    blocks : integer array (n_features,) or None
        Which features encode one column, and share a weight.
    row_losses : RowLosses
    better : callable
        (blends in the order of ``RULES``, judge) to the best of them.
    n_landmarks : int
        Rows that a kernel sum is over at most.
    """

    rules: list[type[Rule]]
    gradients: bool
    blocks: np.ndarray | None
    row_losses: RowLosses
    better: Callable[[list[Blended], Judge], Blended]
    n_landmarks: int


def rules_named(name: str) -> list[type[Rule]]:
    """The rules to choose from: all for "auto"."""
    if name == "auto":
        return list(RULES.values())
    return [RULES[name]]


def unjudged_choice(name: str, n_targets: int) -> Choice:
    """The default rule in the Euclidean metric, where no rows can be held out."""
    rule = RULES[KernelRule.name if name == "auto" else name].default()
    trial = Trial(BASELINE, rule, np.empty((0, n_targets)), np.nan)
    return Choice([PlannedPart(trial, 1.0, None)])


class _Finalists(NamedTuple):
    """Blends of parts that were learned from about all rows."""

    trials: list[Trial]
    blends: Blends
    maps: dict[str, Array | None]  # learned from the rows of all folds, by metric
    held_out: np.ndarray  # the rows that evidence and promises rest on
    judge: Judge  # of these and, of several partitions into folds, of the same rows again


def choose(
    rows: Training,
    learned: LearnedMetric,
    apart: KeptApart | None,
    preferences: Preferences,
    rng: RandomState,
) -> Choice:
    """Choose metrics, rules and weights by held-out rows: those of the folds, or those kept ``apart``."""
    in_folds = learned.in_folds
    candidates = candidates_for(
        rows, in_folds, learned.L, preferences.blocks, preferences.gradients
    )
    judge = Judge.of(rows, in_folds.judged, preferences.row_losses)
    found = search_settings(rows, in_folds.folds, candidates, preferences.rules, judge)
    if apart is None:
        finalists = _judged_by_folds(rows, in_folds, found, judge, preferences, rng)
    else:
        finalists = _judged_by_rows_apart(rows, apart, found, preferences, rng)

    blends = list(finalists.blends.values())
    if len(blends) == 1:
        chosen = blends[0]
    else:
        chosen = preferences.better(blends, finalists.judge)
    parts = []
    for trial, weight in zip(chosen.trials, chosen.weights, strict=True):
        parts.append(PlannedPart(trial, weight, finalists.maps[trial.metric]))
    once = slice(len(finalists.held_out))
    return Choice(
        parts,
        chosen.certificate,
        [replace(trial, scores=trial.scores[once]) for trial in finalists.trials],
        finalists.held_out,
        chosen.scores[once],
    )


def _judged_by_folds(
    rows: Training,
    in_folds: CrossFitted,
    found: Search,
    judge: Judge,
    preferences: Preferences,
    rng: RandomState,
) -> _Finalists:
    """Learn the parts again from all rows of the other folds, unless the search has used those."""
    trials = found.trials
    blends = found.blends
    largest = max(len(fold.train) for fold in in_folds.folds)
    if largest > min(MAX_ROWS_COMPARED, preferences.n_landmarks):
        rejudged = judged_in_folds(
            rows,
            in_folds.folds,
            blends,
            found.metrics,
            judge,
            n_landmarks=preferences.n_landmarks,
            rng=rng,
        )
        trials = trials + rejudged.trials
        blends = rejudged.blends
    maps = _final_maps(blends, found.metrics, rows.Z)
    # of several partitions into folds the first gives evidence and promises: each row once
    n_held_out = len(np.unique(in_folds.judged))
    return _Finalists(trials, blends, maps, in_folds.judged[:n_held_out], judge)


def _judged_by_rows_apart(
    rows: Training, apart: KeptApart, found: Search, preferences: Preferences, rng: RandomState
) -> _Finalists:
    """Learn the parts again from all rows that are not kept apart."""
    maps = _final_maps(found.blends, found.metrics, rows.Z)
    rejudged = judged_apart(
        rows,
        apart,
        found,
        maps,
        row_losses=preferences.row_losses,
        n_landmarks=preferences.n_landmarks,
        rng=rng,
    )
    judge = Judge.of(rows, apart.judged, preferences.row_losses)
    return _Finalists(rejudged.trials, rejudged.blends, maps, apart.judged, judge)


def _final_maps(
    blends: Blends, metrics: Mapping[str, Candidate], Z: Array
) -> dict[str, Array | None]:
    """The maps that the parts of the blends decide by, learned from the rows of all folds, by metric."""
    names: list[str] = []
    for blended in blends.values():
        names += [trial.metric for trial in blended.trials]
    names.append(BASELINE)  # in which the usual vote is judged
    names = list(dict.fromkeys(names))
    maps = side_by_side(lambda name: metrics[name].final(), names, Z)
    return dict(zip(names, maps, strict=True))
