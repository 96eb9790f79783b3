"""Columns of words: each different word is a value, but for the rare ones, which share one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from scipy.sparse import csr_array

from ..core.fields import ArrayField, Plain, expect
from .columns import Column
from .kind import MISSING, Kind, Known, Settings, Words
from .summaries import Summary

RARE = "(rare)"
TRUE = ("true", "yes", "t", "y", "1")
FALSE = ("false", "no", "f", "n", "0")


@dataclass(frozen=True)
class WordColumn(Kind):
    """A word: its one-hot vector minus the shares p, divided by sqrt(sum p (1 - p)); a gap is a
    value of its own, rare words are one value, and an unknown word is at the centre. Of two values
    the second is the only feature, at the same distances.
    """

    values: Words
    rare: Words
    # of values, then of rare words and of gaps if there are any
    shares: Annotated[np.ndarray, ArrayField("f", ("levels",), low=0, high=1, strict=True)]
    gap: Annotated[bool, Plain(bool)]
    kind = "category"
    words = True

    def validate(self, within: str) -> None:
        n = len(self.levels)
        fits = len(self.shares) == n >= 2
        expect(fits, f"{within}.shares", self.shares, f"one for each of {n} values")
        total = float(self.shares.sum())
        expect(abs(total - 1) < 1e-6, f"the sum of {within}.shares", total, "1")
        both = set(self.values) & set(self.rare)
        expect(not both, f"{within}.rare", sorted(both)[:3], "categories not among the values")

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        if summary.counts is None:
            return "too many different categories"
        weights = summary.weights
        rare = _rare_words(summary.counts, summary, settings["min_frequency"])
        # sorted, so that parts of a table in any order give the same features
        values = sorted(set(summary.counts).difference(rare))
        levels: list[float] = [weights[word] for word in values]
        if rare:
            levels.append(sum(weights[word] for word in rare))
        if summary.missing:
            levels.append(summary.missing)
        if len(levels) < 2 and rare:
            return "every value is rare"
        if len(levels) < 2:
            return "constant"
        shares = np.array(levels) / summary.weight
        return cls(summary.name, values, rare, shares, summary.missing > 0)

    @property
    def levels(self) -> list[str]:
        """The values that are told apart."""
        levels = list(self.values)
        if self.rare:
            levels.append(RARE)
        if self.gap:
            levels.append(MISSING)
        return levels

    @property
    def suffixes(self) -> dict[str, list[str]]:
        names = [f"={level}" for level in self.levels]
        return {self.kind: names[self.first :]}

    @property
    def first(self) -> int:
        """The first value with a feature: the second of two, which tells them apart."""
        return int(len(self.shares) == 2)

    def encode(self, column: Column) -> tuple[csr_array, np.ndarray]:
        codes = self._codes(column)
        first = self.first
        # two one-hot features put different values sqrt(2) apart, one feature that stands for both
        # only 1: so the scale of a column of two values is smaller by that factor
        scale = float(self.shares @ (1 - self.shares) / (1 + first)) ** 0.5
        centre = self.shares[first:] / scale
        k = len(centre)
        # of two values the first has no entry: such a row is the centring alone
        known = np.flatnonzero(codes >= first)
        unknown = np.flatnonzero(codes < 0)  # at the centre, so all of their entries are stored
        entries = np.concatenate([np.full(len(known), 1 / scale), np.tile(centre, len(unknown))])
        rows = np.concatenate([known, np.repeat(unknown, k)])
        at = np.concatenate([codes[known] - first, np.tile(np.arange(k), len(unknown))])
        return csr_array((entries, (rows, at)), shape=(len(codes), k)), -centre

    def _codes(self, column: Column) -> np.ndarray:
        """The number of each row's value among the levels; -1 for an unknown word."""
        number: dict[str | None, int] = {word: i for i, word in enumerate(self.values)}
        number |= dict.fromkeys(self.rare, len(self.values))
        if self.gap:
            number[None] = len(self.shares) - 1
        return np.array([number.get(word, -1) for word in self.read(column)], int)

    def unseen(self, column: Column) -> list[str]:
        """None if no more rows hold them than held rare words in training: some of those are new in
        any rows.
        """
        known = {*self.values, *self.rare, None}
        new = [word for word in self.read(column) if word not in known]
        expected = 0.0
        if self.rare:
            expected = self.shares[len(self.values)] * len(column.values)
        if len(new) <= expected:
            return []
        return sorted(filter(None, set(new)))

    def read(self, column: Column) -> Iterable[str | None]:
        """The words of a column, None where missing."""
        if not column.booleans:
            return column.values
        # a file may have truth values as true or TRUE
        return _in_any_case(column.values, {value.casefold(): value for value in self.values})


@dataclass(frozen=True)
class BooleanColumn(WordColumn):
    """A truth value; "yes", "t" and 1 are also read as true."""

    kind = "boolean"

    def read(self, column: Column) -> Iterable[str | None]:
        known = dict.fromkeys(TRUE, "True") | dict.fromkeys(FALSE, "False")
        return _in_any_case(column.values, known)


def _rare_words(rows: Mapping[str, int], summary: Summary, least: float) -> list[str]:
    """The words that are to be one value: those of few rows or of little weight, if they are several."""
    fewest = least
    share = 0.0
    if isinstance(least, float):  # in a small table any share is reached by one row
        fewest = 2
        share = least
    rare = []
    for word, n in rows.items():
        if n < fewest or summary.weights[word] < share * summary.weight:
            rare.append(word)
    if len(rare) == 1:  # it may keep its name
        return []
    return sorted(rare)


def _in_any_case(words: Iterable[str | None], known: Mapping[str, str]) -> list[str | None]:
    """The words, each that is ``known`` in small letters as it is known; None stays None."""
    read: list[str | None] = []
    for word in words:
        if word is not None:
            word = known.get(word.casefold(), word)
        read.append(word)
    return read
