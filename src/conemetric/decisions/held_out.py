"""Rows held out from metrics and rules, in one metric.

Fold by fold, a metric learned from the other folds maps all rows, and a rule learned from the
other folds in that metric scores the rows of the fold. So neither has seen the rows that judge
them. Leave-one-out in the metrics of the other folds would cost ten times as much, one
factorisation of all rows for every setting and fold, and chose no better (docs/defaults.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import like, namespace, take, to_numpy
from ..estimators.folds import Fold
from ..neighbours.search import nearest
from ..solvers.kernel_ridge import KERNELS
from .rule import Judge, Rule, Training, Trial

__all__ = ["MOST_ROWS", "Candidate", "HeldOut", "mapped"]

MOST_ROWS = 2000  # rows of each fold that a rule learns from in the search


@dataclass(frozen=True)
class Candidate:
    """A metric to decide in: the map L of each fold, learned without its held-out rows (x goes to
    L'x; None is the identity), and the kernels that suit it.
    """

    name: str
    maps: Sequence[np.ndarray | None]
    final: Callable[[], np.ndarray | None]  # the map learned from all rows, once it is chosen
    kernels: tuple[str, ...]
    votes: bool = True


class Near(NamedTuple):
    """Nearest training rows of each held-out row, by place in ``train``, and their distances."""

    rows: np.ndarray
    distances: np.ndarray


def mapped(X: Any, L: np.ndarray | None) -> Any:
    """The rows in the metric L L', None for the plain one."""
    return X if L is None else X @ like(L, X)


class MappedFold:
    """A fold in its metric."""

    def __init__(self, fold: Fold, X: Any, L: np.ndarray | None, most_rows: int | None) -> None:
        self.train = fold.train[:most_rows]
        self.Z, self.held_out = (mapped(take(X, rows), L) for rows in (self.train, fold.held_out))
        self.relative = cache(self._relative)

    def _relative(self, distances: Callable, mean: Callable) -> tuple[Any, Any]:
        """What a kernel is a function of, relative to its mean: among the training rows, and
        from held-out to training rows.
        """
        scale = mean(self.Z)
        return tuple(
            like(distances(A, self.Z) / scale, A, namespace(A).float32)
            for A in (self.Z, self.held_out)
        )


class HeldOut:
    """The folds in the metrics of a candidate: what each rule would have decided."""

    def __init__(
        self,
        X: Any,
        Y: np.ndarray,
        weights: np.ndarray,
        keys: np.ndarray,
        folds: Sequence[Fold],
        candidate: Candidate,
        most_rows: int | None = MOST_ROWS,
    ) -> None:
        self.Y, self.weights, self._keys = Y, weights, keys
        self.name, self.kernels, self.votes = candidate.name, candidate.kernels, candidate.votes
        self.folds = [
            MappedFold(fold, X, L, most_rows) for fold, L in zip(folds, candidate.maps, strict=True)
        ]
        self.nearest = cache(self._nearest)
        self.coarse: dict[str, dict[Rule, float]] = {}  # losses on few rows, kept by the rule

    @property
    def n_train(self) -> int:
        """Rows of the largest fold to learn from."""
        return max(len(fold.train) for fold in self.folds)

    def trial(self, rule: Rule, scores: np.ndarray, judge: Judge) -> Trial:
        """The rule in this metric, judged."""
        return Trial(self.name, rule, scores, judge(scores))

    def _nearest(self, k: int) -> list[Near]:
        k = min(k, *(len(fold.train) for fold in self.folds))
        found = (nearest(f.held_out, f.Z, k, self._keys[f.train]) for f in self.folds)
        return [Near(*(to_numpy(part) for part in each)) for each in found]

    def kernel_matrices(
        self, kernel: str, width: float, n_rows: int | None
    ) -> list[tuple[Any, Any]]:
        """Of each fold: kernel values among the training rows, and from held-out rows to them."""
        chosen, matrices, kept = KERNELS[kernel], [], slice(0, n_rows)
        for fold in self.folds:
            among, across = fold.relative(chosen.distances, chosen.mean)
            xp = namespace(among)
            matrices.append(
                (
                    chosen.values(xp, among[kept, kept] / width),
                    chosen.values(xp, across[:, kept] / width),
                )
            )
        return matrices

    def training(self, fold: MappedFold) -> Training:
        """The rows of a fold that a rule learns from."""
        rows = fold.train
        return Training(fold.Z, self.Y[rows], self.weights[rows], self._keys[rows])
