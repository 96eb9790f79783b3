"""The rule of nearest neighbours: the mean of their targets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated, ClassVar, Self

import numpy as np

from ..core.arrays import Array
from ..core.fields import Number, State, Stored, Text, check
from .held_out import HeldOut
from .rule import Judge, Training, Trial

NEIGHBOURS = (1, 3, 5, 9, 15)
VOTE_WEIGHTS = ("uniform", "distance")
TIE = 1e-9  # by which the nearest row counts more, the next half of that and so on


@dataclass(frozen=True)
class NeighborVote(Stored):
    """The mean over the ``n_neighbors`` nearest rows, weighted alike or by 1 / distance."""

    n_neighbors: Annotated[int, Number(1, whole=True)]
    weights: Annotated[str, Text(VOTE_WEIGHTS)] = "uniform"
    name: ClassVar[str] = "neighbors"
    many: ClassVar[bool] = True
    learns: ClassVar[bool] = False
    most_parts: ClassVar[int] = 1
    by_columns: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{self.n_neighbors} nearest neighbours, {self.weights} weights"

    @classmethod
    def default(cls) -> Self:
        """The nearest row."""
        return cls(1)

    @classmethod
    def searches(cls, rows: HeldOut, judge: Judge) -> Iterator[Callable[[], list[Trial]]]:
        """For the number of neighbours and their weights."""
        if rows.candidate.votes:
            yield partial(cls._search, rows, judge)

    @classmethod
    def _search(cls, rows: HeldOut, judge: Judge) -> list[Trial]:
        # fewer than asked for where a fold has fewer rows to learn from
        n_nearest = rows.nearest(max(NEIGHBOURS))[0][0].shape[1]
        possible = [k for k in NEIGHBOURS if k <= n_nearest]
        trials = []
        for k, weights in product(possible, VOTE_WEIGHTS):
            rule = cls(k, weights)
            trials.append(rows.trial(rule, rule.held_out_scores(rows), judge))
        return sorted(trials, key=lambda trial: trial.loss)

    @classmethod
    def usual(cls, rows: HeldOut, judge: Judge) -> Trial:
        """The vote of the three nearest rows, which every decision is compared with."""
        rule = cls(min(3, rows.nearest(max(NEIGHBOURS))[0][0].shape[1]))
        return rows.trial(rule, rule.held_out_scores(rows), judge)

    def held_out_scores(self, rows: HeldOut) -> np.ndarray:
        """Scores of the held-out rows, fold by fold."""
        pairs = zip(rows.nearest(max(NEIGHBOURS)), rows.folds, strict=True)
        found = [(d, fold.train.Y[near], fold.train.weights[near]) for (near, d), fold in pairs]
        return np.concatenate([self.mean(*each) for each in found])

    @staticmethod
    def held_out_scores_of(settings: "list[NeighborVote]", rows: HeldOut) -> list[np.ndarray]:
        """Scores of the held-out rows by each of the votes."""
        return [rule.held_out_scores(rows) for rule in settings]

    def shares(self, distances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """How much each of the nearest rows (m, k) counts; rows that coincide count alone. Of
        classes with equal votes the one of the nearest row wins.
        """
        if self.weights == "distance":
            at_zero = distances == 0
            inverse = np.divide(1.0, distances, where=~at_zero, out=np.zeros_like(distances))
            weights = weights * np.where(at_zero.any(1, keepdims=True), at_zero, inverse)
        weights = weights * (1 + TIE * 0.5 ** np.arange(weights.shape[1]))
        return weights / weights.sum(1, keepdims=True)

    def mean(self, distances: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Mean of the targets Y (m, max k, n_targets) of the nearest rows."""
        k = self.n_neighbors
        return np.einsum("ij,ijt->it", self.shares(distances[:, :k], weights[:, :k]), Y[:, :k])

    def fit(
        self,
        rows: Training,
        landmarks: np.ndarray,
        certified: bool = True,
    ) -> "FittedVote":
        """Keep all rows."""
        return FittedVote(self, rows.in_voting_order())

    def restored(self, rows: Training, state: State) -> "FittedVote":
        """The vote of these rows."""
        check(state, {}, "fitted")
        return FittedVote(self, rows.in_voting_order())


@dataclass(frozen=True)
class FittedVote:
    """A vote of training rows."""

    rule: NeighborVote
    rows: Training
    certificate: None = None

    def scores(self, Z: Array) -> np.ndarray:
        """The mean of the targets of the nearest rows."""
        near, distances = self._nearest(Z)
        return self.rule.mean(distances, self.rows.Y[near], self.rows.weights[near])

    def contributions(self, Z: Array, direction: np.ndarray, by: str) -> np.ndarray:
        """Share of each row in the vote, times its target: the terms of a vote are its targets."""
        near, distances = self._nearest(Z)
        influence = np.zeros((len(Z), len(self.rows.Y)))
        shares = self.rule.shares(distances, self.rows.weights[near])
        np.put_along_axis(influence, near, shares, axis=1)
        return influence * (direction @ self.rows.Y.T)

    def state(self) -> State:
        """Nothing: the rows are all."""
        return {}

    def _nearest(self, Z: Array) -> list[np.ndarray]:
        return self.rows.nearest(Z, min(self.rule.n_neighbors, len(self.rows.Y)))
