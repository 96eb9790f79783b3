"""The best round of every metric: metrics that are learned round after round compete on few rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..automatic.folds import Fold
from ..core.progress import emit
from .held_out import Candidate, HeldOut, in_folds
from .kernel import coarse_loss
from .rule import Judge, Training

# A candidate whose loss on few rows is larger than that of the best by this factor learns no more
# rounds: each changes the loss by less, as a rule.
FALLEN_BEHIND = 1.25

# ``run(function, jobs)`` yields ``function(job)`` of every job in order, as `map` does
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


def best_rounds(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    judge: Judge,
    run: Run,
) -> list[HeldOut]:
    """The best round of each candidate: rounds are learned side by side, as long as they help and
    the candidate has not fallen behind the others.
    """
    growing = list(range(len(candidates)))
    first: dict[int, HeldOut] = {}
    best: dict[int, HeldOut] = {}
    loss: dict[int, float] = {}
    n_rounds = max(candidate.n_rounds for candidate in candidates)
    for r in range(n_rounds):
        emit("stage", stage=f"metrics to decide in, round {r + 1}")
        metrics = _learned_round(rows, folds, candidates, growing, r)
        if r == 0:
            first = metrics
        competing = [i for i in growing if candidates[i].n_rounds > 1]
        jobs = [(metrics[i], judge, first[i]) for i in competing]
        losses_of_round = list(run(lambda job: coarse_loss(*job), jobs))
        better = {}
        for i, loss_of_round in zip(competing, losses_of_round, strict=True):
            if loss_of_round < loss.get(i, np.inf):
                better[i] = metrics[i]
            loss[i] = loss_of_round
        best |= better
        growing = _not_behind({i: loss[i] for i in better})
    # candidates of a single round have not competed: their only metric is the best
    return [best.get(i, metric) for i, metric in first.items()]


def _learned_round(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    growing: list[int],
    r: int,
) -> dict[int, HeldOut]:
    """The folds in the next metric of each of the candidates that are ``growing``, by their numbers."""
    learned = in_folds(lambda i, f: next(candidates[i].runs[f]), growing, len(folds), rows.Z)
    metrics = {}
    for i, maps in zip(growing, learned, strict=True):
        metrics[i] = HeldOut(rows, folds, candidates[i].at(r, maps))
    return metrics


def _not_behind(losses: dict[int, float]) -> list[int]:
    """The candidates that have not fallen behind the best of these."""
    if not losses:
        return []
    limit = FALLEN_BEHIND * min(losses.values())
    return [i for i, loss in losses.items() if not loss > limit]
