"""The search for a decision: of each kind the settings that held-out rows find best.

Settings compete in rounds, and what clearly loses a round is dropped. Kernels are tried in every metric
with some rows of each fold (`held_out.MAX_ROWS_TRIED`); the best settings of the best kinds with more of
them (`held_out.MAX_ROWS_COMPARED`); and what the blend of those is made of with all.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from ..automatic.folds import Fold
from ..core.blas import side_by_side
from ..core.progress import emit
from .blend import blend_trials
from .full_size import Blends
from .held_out import MAX_ROWS_COMPARED, MAX_ROWS_TRIED, Candidate, HeldOut
from .neighbors import NeighborVote
from .rounds import Run, best_rounds
from .rule import Judge, Rule, Training, Trial

# Kinds of one rule, each a kernel in a metric, that are compared with more rows, and settings of each:
# a blend has at most three parts. On 13 tables, four kinds of three settings err as much.
MAX_KINDS_COMPARED = 3
MAX_SETTINGS_COMPARED = 2
# A kind whose loss is larger than that of the best by this factor is not compared: it would weigh little.
CLEARLY_WORSE = 1.15

Contest = list[Trial]  # trials of one kind, the best first
Item = TypeVar("Item")


class Search(NamedTuple):
    """What a search has found."""

    usual: Trial  # the vote that every decision is compared with
    best: list[Trial]  # of each kind
    blends: Blends
    metrics: dict[str, Candidate]

    @property
    def trials(self) -> list[Trial]:
        """The usual vote, and the best trial of each kind."""
        return [self.usual, *self.best]


def search_settings(
    rows: Training,
    folds: Sequence[Fold],
    candidates: Sequence[Candidate],
    rules: Sequence[type[Rule]],
    judge: Judge,
) -> Search:
    """Search every rule in the best round of each of the ``candidates``, the Euclidean metric first,
    and blend what was found.
    """
    run: Run = map
    if len(rows.Y) <= MAX_ROWS_COMPARED:
        # one BLAS thread for each job, since factorisations of few rows are too short to share
        run = partial(side_by_side, X=rows.Z)
    metrics = best_rounds(rows, folds, candidates, judge, run)
    by_name = {metric.candidate.name: metric.candidate for metric in metrics}
    usual = NeighborVote.usual(metrics[0], judge)
    contests = _contests(metrics, rules, judge, run)
    if max(len(fold.train) for fold in folds) > MAX_ROWS_TRIED:
        emit("stage", stage="the best decisions compared with more rows")
        for rule in rules:
            if rule.learns:
                contests[rule] = _compared(rows, folds, contests[rule], by_name, judge)
    held_out = [fold.held_out for fold in folds]
    best = []
    blends = {}
    for rule, contests_of_rule in contests.items():
        best += [contest[0] for contest in contests_of_rule]
        blends[rule] = blend_trials(contests_of_rule, judge, held_out, rule.most_parts)
    return Search(usual, best, blends, by_name)


def _contests(
    metrics: list[HeldOut], rules: Sequence[type[Rule]], judge: Judge, run: Run
) -> dict[type[Rule], list[Contest]]:
    """The trials of every kind of each rule. The ``metrics`` are used up: they hold kernel matrices."""

    def searches() -> Iterator[tuple[type[Rule], Callable[[], Contest]]]:
        for metric in _released(metrics):
            emit("stage", stage=f"decision in the {metric.candidate.name} metric")
            for rule in rules:
                for search in rule.searches(metric, judge):
                    yield rule, search

    contests: dict[type[Rule], list[Contest]] = {rule: [] for rule in rules}
    for rule, contest in run(lambda job: (job[0], job[1]()), searches()):
        contests[rule].append(contest)
    return contests


def _released(items: list[Item]) -> Iterator[Item]:
    """Yield the items in order, and hold none that was yielded."""
    while items:
        yield items.pop(0)


def _compared(
    rows: Training,
    folds: Sequence[Fold],
    contests: list[Contest],
    metrics: dict[str, Candidate],
    judge: Judge,
) -> list[Contest]:
    """The best settings of the best kinds, judged with more rows to learn from."""
    contests = sorted(contests, key=lambda contest: contest[0].loss)[:MAX_KINDS_COMPARED]
    least = contests[0][0].loss
    compared = []
    for contest in contests:
        best = contest[0]
        if best.loss > CLEARLY_WORSE * least:
            continue
        metric = HeldOut(rows, folds, metrics[best.metric])
        settings = [trial.rule for trial in contest[:MAX_SETTINGS_COMPARED]]
        scored = best.rule.held_out_scores_of(settings, metric)
        again = []
        for setting, scores in zip(settings, scored, strict=True):
            again.append(metric.trial(setting, scores, judge))
        compared.append(sorted(again, key=lambda trial: trial.loss))
    return compared
