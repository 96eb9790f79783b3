"""How the words of a column spell numbers, dates or times of day: what is recognised in them once, and
a column learned from them keeps, so that new rows are read in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from ..core.fields import State, Stored

# words among numbers, dates or times that mean a missing value, in any case
MISSING_WORDS = frozenset(
    [
        *("?", "na", "n/a", "n.a.", "n.a", "nan", "null", "none", "nil", "missing", "unknown"),
        *("-", "--", "---", "\N{EN DASH}", "\N{EM DASH}", "\N{HORIZONTAL ELLIPSIS}"),
        *(".", "..", "...", ":", "*", "**", "tbd", "tba", "(blank)"),
        *("not available", "not applicable", "not reported"),
        *("#n/a", "#value!", "#ref!", "#div/0!", "#null!", "#num!", "#name?"),
    ]
)
MOST_SLIPS = 0.05  # share of a column's different words that may be slips among numbers or dates
FEWEST_VALUES = 20  # different words of such a column; of few, any may be a category


class Spelling(Stored, ABC):
    """How words spell values. A subclass is a frozen dataclass of declared fields."""

    name: ClassVar[str]
    kind: ClassVar[Literal["number", "date", "time"]]  # of the columns that it spells

    @classmethod
    @abstractmethod
    def found_in(cls, words: Sequence[str], decimal: str) -> Self | None:
        """The spelling of this class that fits these words best, which may well not fit all; ``decimal``
        is the decimal mark where they leave it open. None if hardly any fits.
        """

    @abstractmethod
    def value_of(self, word: str) -> float | None:
        """The value that a word spells: NaN for a missing value, None for no value at all."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What is spelled, in a word or two."""

    def state(self) -> State:
        return {"name": self.name} | super().state()


def is_missing(word: str) -> bool:
    """Whether a word among numbers or dates means a missing value."""
    return word.casefold() in MISSING_WORDS
