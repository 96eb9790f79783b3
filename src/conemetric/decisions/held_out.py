"""Rows held out from metrics and rules, in one metric.

Fold by fold, a metric learned from the other folds maps all rows, and a rule learned from the
other folds in that metric scores the rows of the fold. So neither has seen the rows that judge
them. Leave-one-out in the metrics of the other folds would cost ten times as much, one
factorisation of all rows for every setting and fold, and chose no better (docs/defaults.md).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any, Self

import numpy as np

from ..automatic.folds import Fold
from ..core.arrays import Array, namespace, take
from ..core.blas import side_by_side
from ..core.threads import n_threads
from ..engine.distance_kernels import KERNELS
from ..engine.kernel_ridge import in_blocks
from .rule import Judge, Rule, Training, Trial, mapped

# Rows of each fold that a rule learns from while decisions are compared. Kernels, of which hundreds of
# settings are tried, are first tried with fewer: a factorisation of those takes 10 ms.
MAX_ROWS_COMPARED = 2000
MAX_ROWS_TRIED = 1000
# numbers of kernel matrices that folds side by side may hold, 200 MB in single precision
MOST_HELD = 5e7


Map = np.ndarray | None  # L of a metric, in which x goes to L'x; None is the identity


@dataclass(frozen=True)
class Candidate:
    """A metric to decide in, and the kernels that suit it. If it has several rounds, as an iteration
    has, each is a metric that follows from the one before.
    """

    name: str
    # of each fold, its map round after round, learned without its held-out rows
    runs: Sequence[Iterator[Map]]
    learn: Callable[[int], Map]  # the map of a round, learned from all rows
    kernels: tuple[str, ...]
    n_rounds: int = 1
    round: int = 0
    maps: Sequence[Map] = ()  # of each fold, in this round

    def at(self, r: int, maps: Sequence[Map]) -> Self:
        """The metric of a round, whose maps are these."""
        name = f"{self.name} (round {r + 1})" if self.n_rounds > 1 else self.name
        return replace(self, name=name, round=r, maps=maps)

    def final(self) -> Map:
        """The map learned from all rows, once the metric is chosen."""
        return self.learn(self.round)

    @property
    def votes(self) -> bool:
        """Whether neighbours vote in it: rounds are learned by kernels, for kernels."""
        return self.n_rounds == 1


def in_folds(
    function: Callable[..., Any], items: Collection[Any], n_folds: int, Z: Array, held: int = 0
) -> list[list[Any]]:
    """``function(item, fold)``, which holds so many numbers, for every item a list with its folds."""
    jobs = list(product(items, range(n_folds)))
    # one after the other where the kernel matrices of all threads would take too much memory
    run = map if min(n_threads(), len(jobs)) * held > MOST_HELD else partial(side_by_side, X=Z)
    found = list(run(lambda job: function(*job), jobs))
    return [found[i : i + n_folds] for i in range(0, len(found), n_folds)]


class MappedFold:
    """A fold in its metric: rows to learn from, and rows that judge."""

    def __init__(self, rows: Training, fold: Fold, L: np.ndarray | None, most: int | None):
        self.train = rows.among(fold.train[:most]).mapped(L)
        self.held_out = mapped(take(rows.Z, fold.held_out), L)
        # not of a method, which would hold its own cache until garbage is looked for
        self._relative = cache(partial(_distances, self.train.Z, self.held_out))

    def kernel_matrices(self, kernel: str, width: float, n_rows: int | None) -> list[Array]:
        """Kernel values among the first training rows, and from held-out rows to them."""
        form = KERNELS[kernel]
        return [
            in_blocks(lambda t: form.values(namespace(t), t, 1 / width, None), each, each.shape[1])
            for each in self._relative(form.distances, form.mean, n_rows)
        ]


def _distances(train: Array, others: Array, of: Any, mean: Any, n_rows: int | None) -> list[Array]:
    """Distances over their mean: among training rows, and from others to training rows."""
    known, scale = train[:n_rows], mean(train)
    return [
        in_blocks(lambda rows: of(rows, known) / scale, A, len(known), namespace(A).float32)
        for A in (known, others)
    ]


class HeldOut:
    """The folds in the metrics of a candidate: what each rule would have decided."""

    def __init__(self, rows: Training, folds: Sequence[Fold], candidate: Candidate):
        self.candidate = candidate
        pairs = zip(folds, candidate.maps, strict=True)
        self.folds = [MappedFold(rows, fold, L, MAX_ROWS_COMPARED) for fold, L in pairs]
        self.nearest = cache(partial(_nearest, self.folds))
        self.coarse: dict[str, dict[Any, float]] = {}  # losses on few rows, kept by the rule

    def trial(self, rule: Rule, scores: np.ndarray, judge: Judge) -> Trial:
        """The rule in this metric, judged."""
        return Trial(self.candidate.name, rule, scores, judge(scores))


def _nearest(folds: Sequence[MappedFold], k: int) -> list[list[np.ndarray]]:
    """Places in ``train`` of the nearest rows of each held-out row, and distances, by fold."""
    k = min(k, *(len(fold.train.Y) for fold in folds))
    return [fold.train.in_voting_order().nearest(fold.held_out, k) for fold in folds]
