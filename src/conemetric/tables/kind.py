"""What every kind of column has: how it is learned, what it stores, and how it encodes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from ..core.fields import Each, Stored, Text
from .columns import Column
from .spelling import Spelling
from .summaries import Summary

MISSING = "(missing)"
Settings = Mapping[str, Any]  # the parameters of the encoder
Known = Spelling | None  # how words spell the values of a column, if that is known
Words = Annotated[list[str], Each(Text(), distinct=True)]


@dataclass(frozen=True)
class Kind(Stored, ABC):
    """A column of one kind, learned. A subclass names its ``kind``, declares its stored fields, and
    says how it is learned from a summary and how it encodes.
    """

    name: Annotated[str, Text()]
    kind: ClassVar[str]
    words: ClassVar[bool] = False  # whether the column is read as words even if it holds numbers

    @classmethod
    @abstractmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        """The column, or why it is left out. ``spelling`` is that of its words, if it is known."""

    @property
    @abstractmethod
    def suffixes(self) -> dict[str, list[str]]:
        """By block, what is added to the column's name to name each feature."""

    @abstractmethod
    def encode(self, column: Column) -> tuple[Any, np.ndarray]:
        """Features of these rows (n, k), many of them zero, and the row (k,) to add to each to centre them."""

    def gaps(self, column: Column) -> np.ndarray:
        """Which rows are missing."""
        return column.gaps

    def unseen(self, column: Column) -> list[str]:
        """Words that were not in training."""
        return []

    def validate(self, within: str) -> None:
        """Refuse stored fields that do not fit together."""

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind} | super().state()
