"""What one pass over a column finds: weighted moments, counts of words. Summaries of parts of a
table merge into that of the whole: counts exactly, moments up to rounding.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .columns import DAY, Column

__all__ = ["DateSummary", "Moments", "NumberSummary", "Summary", "WordSummary", "summarize"]

MAX_WORDS = 100_000  # different words that are counted; a column of more is not one of categories
FEWEST_NUMBERED = 10  # rows; fewer integers may well rise by chance
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|nr|no|key|index)$|^id[_ .-])|[a-z](Id|ID)$")
PERIODS = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}  # seconds


@dataclass(frozen=True)
class Moments:
    """Weight, mean and sum of squared deviations of k numbers, in units of a power of two for each
    that keep them away from overflow and underflow; and their range.
    """

    weight: float
    exponent: np.ndarray  # (k,): the unit is 2 ** exponent
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> "Moments":
        """Those of complete rows (n, k)."""
        n, k = values.shape
        if not n:
            empty = np.zeros(k)
            return cls(0.0, np.zeros(k, int), empty, empty, empty + np.inf, empty - np.inf)
        low, high = values.min(0), values.max(0)
        exponent = np.frexp(np.maximum(abs(low), abs(high)))[1]
        scaled = np.ldexp(values, -exponent)
        weight = float(weights.sum())
        first = scaled[0]  # so that equal values have no spread by rounding
        mean = first + weights @ (scaled - first) / weight
        return cls(weight, exponent, mean, weights @ (scaled - mean) ** 2, low, high)

    def __add__(self, other: "Moments") -> "Moments":
        weight = self.weight + other.weight
        if not self.weight or not other.weight:
            return self if self.weight else other
        exponent = np.maximum(self.exponent, other.exponent)
        one, two = self.in_units(exponent), other.in_units(exponent)
        share, step = other.weight / weight, two.mean - one.mean
        return Moments(
            weight,
            exponent,
            one.mean + share * step,
            one.squares + two.squares + self.weight * share * step**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def in_units(self, exponent: np.ndarray) -> "Moments":
        """The same in units of other powers of two."""
        shift = self.exponent - exponent
        mean, squares = np.ldexp(self.mean, shift), np.ldexp(self.squares, 2 * shift)
        return replace(self, exponent=exponent, mean=mean, squares=squares)


@dataclass
class Summary(ABC):
    """What all columns have: rows, weight, and how much of it is missing."""

    name: str
    n_rows: int
    weight: float
    missing: float
    family: ClassVar[str]

    @abstractmethod
    def __add__(self, other: Any) -> Any:
        """The summary of both parts together."""

    @property
    def missing_share(self) -> float:
        return self.missing / self.weight

    def merged(self, other: Any) -> dict[str, Any]:
        """The common part of a merged summary."""
        if type(other) is not type(self):
            raise ValueError(
                f"column {self.name!r} is one of {self.family}s in one part of the table and of "
                f"{other.family}s in another; give it one dtype, or name its kind."
            )
        return {
            "name": self.name,
            "n_rows": self.n_rows + other.n_rows,
            "weight": self.weight + other.weight,
            "missing": self.missing + other.missing,
        }


@dataclass
class NumberSummary(Summary):
    """Moments of numbers, and whether they only number the rows."""

    moments: Moments
    rising: bool = False  # integers, each larger than the one before
    distinct: np.ndarray | None = None  # of a column with the name of an id
    first: float = np.nan
    last: float = np.nan
    family: ClassVar[str] = "number"

    def __add__(self, other: "NumberSummary") -> "NumberSummary":
        common = self.merged(other)
        distinct = None
        if self.distinct is not None and other.distinct is not None:
            distinct = np.union1d(self.distinct, other.distinct)
        return NumberSummary(
            **common,
            moments=self.moments + other.moments,
            rising=self.rising and other.rising and self.last < other.first,
            distinct=distinct,
            first=self.first,
            last=other.last,
        )

    @property
    def numbers_rows(self) -> bool:
        """Whether the values are distinct integers that count up by one from row to row, or have
        the name of an id.
        """
        n = self.n_rows
        if n < FEWEST_NUMBERED or self.missing:
            return False
        counts_up = self.rising and self.last - self.first == n - 1
        return counts_up or (self.distinct is not None and len(self.distinct) == n)


@dataclass
class DateSummary(Summary):
    """Moments of the elapsed seconds and of cosine and sine of each period."""

    moments: Moments
    timed: bool  # whether any date has a time of the day
    family: ClassVar[str] = "date"

    @classmethod
    def of(cls, seconds: np.ndarray, weights: np.ndarray, common: dict[str, Any]) -> "DateSummary":
        """The summary of these dates and what all columns have."""
        moments, timed = Moments.of(cycles(seconds), weights), bool((seconds % DAY != 0).any())
        # cosine and sine of a period are added up: in the same units
        exponent = np.where(np.arange(len(moments.exponent)) > 0, 0, moments.exponent)
        return cls(**common, moments=moments.in_units(exponent), timed=timed)

    def __add__(self, other: "DateSummary") -> "DateSummary":
        common = self.merged(other)
        return DateSummary(
            **common, moments=self.moments + other.moments, timed=self.timed or other.timed
        )


@dataclass
class WordSummary(Summary):
    """Rows and weights of each word; ``counts`` is None beyond `MAX_WORDS` different ones."""

    counts: Counter[str] | None
    weights: Counter[str]
    types: frozenset[str] = frozenset()
    order: tuple[str, ...] | None = None
    family: ClassVar[str] = "word"

    def __add__(self, other: "WordSummary") -> "WordSummary":
        common = self.merged(other)
        if self.counts is None or other.counts is None:
            counts, weights = None, Counter[str]()
        else:
            counts, weights = self.counts + other.counts, self.weights + other.weights
            if len(counts) > MAX_WORDS:
                counts, weights = None, Counter()
        return WordSummary(
            **common,
            counts=counts,
            weights=weights,
            types=self.types | other.types,
            order=self.order if self.order == other.order else None,
        )


def cycles(seconds: np.ndarray) -> np.ndarray:
    """Elapsed seconds, and cosine and sine of each period (n, 7)."""
    parts = [seconds]
    for period in PERIODS.values():
        angle = 2 * np.pi * (seconds / period % 1)
        parts += [np.cos(angle), np.sin(angle)]
    return np.column_stack(parts)


def summarize(column: Column, weights: np.ndarray) -> Summary:
    """The summary of a column whose rows have these weights, all positive."""
    values = column.values
    if column.family == "word":
        return _summarize_words(column, weights)
    gaps = np.isnan(values)
    common = (column.name, len(values), float(weights.sum()), float(weights[gaps].sum()))
    present, weights = values[~gaps], weights[~gaps]
    if column.family == "date":
        names = ("name", "n_rows", "weight", "missing")
        return DateSummary.of(present, weights, dict(zip(names, common, strict=True)))
    numbered = column.integers and not gaps.any() and len(values) > 0
    return NumberSummary(
        *common,
        Moments.of(present[:, None], weights),
        rising=numbered and bool((np.diff(values) > 0).all()),
        distinct=np.unique(values) if column.integers and ID_NAME.search(column.name) else None,
        first=values[0] if len(values) else np.nan,
        last=values[-1] if len(values) else np.nan,
    )


def _summarize_words(column, weights):
    values = column.values.tolist()
    number: dict[str, int] = {}
    codes = np.array([-1 if v is None else number.setdefault(v, len(number)) for v in values], int)
    gaps = codes < 0
    common = (column.name, len(values), float(weights.sum()), float(weights[gaps].sum()))
    if len(number) > MAX_WORDS:
        return WordSummary(*common, None, Counter(), column.types, column.order)
    codes, weights = codes[~gaps], weights[~gaps]
    rows = Counter(dict(zip(number, np.bincount(codes).tolist(), strict=True)))
    sums = Counter(dict(zip(number, np.bincount(codes, weights).tolist(), strict=True)))
    return WordSummary(*common, rows, sums, column.types, column.order)
