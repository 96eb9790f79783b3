"""What a decision rule is.

A rule is a small frozen record of settings (how many neighbours vote; kernel, width and ridge). Its
class searches for settings that decide well for held-out rows, and an instance fitted to rows
scores new ones. To add a rule: one file with such a class, and a line in `rules.RULES`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from ..core.arrays import Array, like, take, to_numpy
from ..core.fields import State
from ..engine.certificate import Certificate
from ..neighbours.search import nearest
from ..neighbours.ties import commonest_first

if TYPE_CHECKING:
    from .held_out import HeldOut

# (scores, targets) to the loss of each row
RowLosses = Callable[[np.ndarray, np.ndarray], np.ndarray]

# What `explain` names of each training row: its term in the sum that is the score, or how much its
# target counts in the score.
WAYS_TO_EXPLAIN = ("terms", "targets")


class Training(NamedTuple):
    """Rows in a metric, with what a rule learns from them."""

    Z: Array  # (n, rank) array or tensor
    Y: np.ndarray  # (n, n_targets)
    weights: np.ndarray  # (n,)
    keys: np.ndarray  # (n,): hashes of the rows as given

    def among(self, rows: np.ndarray) -> "Training":
        """Some of the rows."""
        return Training(*(take(part, rows) for part in self))

    def mapped(self, L: np.ndarray | None) -> "Training":
        """The rows in the metric L L'."""
        return self._replace(Z=mapped(self.Z, L))

    def in_voting_order(self) -> "Training":
        """The rows with keys by which of equal ones the commonest class comes first; numbers are one."""
        return self._replace(keys=commonest_first(self.keys, self.Y.argmax(1)))

    def nearest(self, Z: Array, k: int) -> list[np.ndarray]:
        """The k rows nearest to each row of Z, and their distances; of ties the lower keys."""
        return [to_numpy(part) for part in nearest(like(Z, self.Z), self.Z, k, self.keys)]


class KeptRows(NamedTuple):
    """Training rows that predictions are made of."""

    numbers: np.ndarray  # increasing, in the X of ``fit``
    rows: Training


def mapped(Z: Array, L: np.ndarray | None) -> Array:
    """The rows in the metric L L', None for the plain one."""
    return Z if L is None else Z @ like(L, Z)


class FittedRule(Protocol):
    """A rule fitted to training rows."""

    @property
    def certificate(self) -> Certificate | None:
        """How far it is from the optimum of its program; None if it solves none."""

    def scores(self, Z: Array) -> np.ndarray:
        """Scores (n, n_targets) of new rows in the same metric, on the host."""

    def contributions(self, Z: Array, direction: np.ndarray, by: str) -> np.ndarray:
        """How much each row that it keeps moves the scores of each new row in its ``direction``
        (n, n_targets): (n, n_kept). ``by`` is one of `WAYS_TO_EXPLAIN`.
        """

    def state(self) -> State:
        """What `Rule.restored` needs beside the training rows: plain values and arrays."""


class Rule(Protocol):
    """Settings of a rule; instances are hashable and print as a phrase."""

    name: ClassVar[str]  # as in classifier="neighbors"
    many: ClassVar[bool]  # whether the fitted rule keeps all rows, however many
    most_parts: ClassVar[int]  # of a blend of such rules
    learns: ClassVar[bool]  # whether trying one takes a fit to the rows, whose time grows with them

    @classmethod
    def default(cls) -> Self:
        """The rule where there are too few rows to hold any out."""

    @classmethod
    def searches(cls, rows: "HeldOut", judge: "Judge") -> Iterator[Callable[[], list["Trial"]]]:
        """Searches for settings worth comparing in the metric of these rows, the best first: one for
        each kind (such as each kernel) that a blend may hold beside the others.
        """

    @staticmethod
    def held_out_scores_of(settings: "list[Any]", rows: "HeldOut") -> list[np.ndarray]:
        """Scores of the held-out rows by each of several rules of this class; of kernels, all have the
        same kernel.
        """

    def fit(
        self,
        rows: Training,
        landmarks: np.ndarray,
        certified: bool = True,
    ) -> FittedRule:
        """Fit to the rows, or if it cannot keep many the ``landmarks``; to judge, uncertified."""

    @property
    def by_columns(self) -> bool:
        """Whether distances are those of the city block, added up column by column."""

    def state(self) -> State:
        """The settings as plain values."""

    @classmethod
    def from_state(cls, state: State, within: str) -> Self:
        """The rule with these settings; an error that names the one that is out of range."""

    def restored(self, rows: Training, state: State) -> FittedRule:
        """The fitted rule of this state."""


@dataclass(frozen=True)
class Judge:
    """Held-out targets, and what a score costs on each of them."""

    Y: np.ndarray
    weights: np.ndarray
    row_losses: RowLosses

    @classmethod
    def of(cls, rows: Training, held_out: np.ndarray, row_losses: RowLosses) -> Self:
        """The judge that these held-out rows are."""
        return cls(rows.Y[held_out], rows.weights[held_out], row_losses)

    def __call__(self, scores: np.ndarray) -> float:
        """Weighted mean loss; infinite where there are no scores."""
        loss = float(self.losses(scores).sum() / self.weights.sum())
        return np.inf if np.isnan(loss) else loss

    def losses(self, scores: np.ndarray) -> np.ndarray:
        """The weighted loss of each row."""
        return self.weights * self.row_losses(scores, self.Y)

    def among(self, rows: np.ndarray | slice) -> "Judge":
        """The judge of some of the rows."""
        return Judge(self.Y[rows], self.weights[rows], self.row_losses)


@dataclass(frozen=True)
class Trial:
    """A rule in a metric, and its scores (n_rows, n_targets) of held-out rows."""

    metric: str
    rule: Rule
    scores: np.ndarray
    loss: float

    def __str__(self) -> str:
        return f"{self.rule}, in the {self.metric} metric"
