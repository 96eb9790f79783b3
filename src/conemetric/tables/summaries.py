"""What one pass over a column finds: weighted moments, counts of words. Summaries of parts of a
table add up to that of the whole: counts exactly, moments up to rounding.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import add
from typing import TypeVar

import numpy as np

from .columns import Column, Family
from .recognition import recognise
from .spelling import Spelling
from .times import DAY

MAX_WORDS = 100_000  # different words that are counted; a column of more is not one of categories
FEWEST_NUMBERED = 10  # rows; fewer integers may well count up by chance
# "Unnamed: 0" is what pandas calls the index of a file
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|nr|no|key|index)$|^id[_ .-]|^unnamed: \d+$)|[a-z](Id|ID)$")
PERIODS = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}  # seconds
T = TypeVar("T")


@dataclass(frozen=True)
class Moments:
    """Weight, mean and sum of squared deviations of k numbers, in units of a power of two that keeps
    them away from overflow and underflow; and their range.
    """

    weight: float
    exponent: int  # the unit is 2 ** exponent
    mean: np.ndarray  # (k,)
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> "Moments":
        """Those of complete rows (n, k)."""
        if not len(values):
            empty = np.zeros(values.shape[1])
            return cls(0.0, 0, empty, empty, empty + np.inf, empty - np.inf)
        exponent = int(np.frexp(abs(values).max())[1])
        scaled, weight = np.ldexp(values, -exponent), float(weights.sum())
        first = scaled[0]  # so that equal values have no spread by rounding
        mean = first + weights @ (scaled - first) / weight
        squares = weights @ (scaled - mean) ** 2
        return cls(weight, exponent, mean, squares, values.min(0), values.max(0))

    def __add__(self, other: "Moments") -> "Moments":
        if not self.weight or not other.weight:
            return self if self.weight else other
        weight = self.weight + other.weight
        exponent = max(self.exponent, other.exponent)
        shifts = self.exponent - exponent, other.exponent - exponent
        share = other.weight / weight
        start = np.ldexp(self.mean, shifts[0])
        step = np.ldexp(other.mean, shifts[1]) - start
        within = np.ldexp(self.squares, 2 * shifts[0]) + np.ldexp(other.squares, 2 * shifts[1])
        return Moments(
            weight,
            exponent,
            start + share * step,
            within + self.weight * share * step**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


@dataclass(frozen=True)
class Summary:
    """What one pass over a column finds."""

    name: str
    family: Family
    n_rows: int
    weight: float
    missing: float  # weight of the rows without a value
    moments: Moments | None = None  # of numbers; of dates and times, of their `cycles`
    run: tuple[float, float] | None = None  # first and last of integers that count up by one
    ids: np.ndarray | None = None  # different integers of a column with the name of an id
    counts: Counter[str] | None = None  # rows of each word; None of more than `MAX_WORDS`
    weights: Counter[str] = field(default_factory=Counter)  # of each word
    booleans: bool = False
    category: bool = False
    order: tuple[str, ...] | None = None
    spelling: Spelling | None = None  # of words that are too many to be counted, as values

    def __add__(self, other: "Summary") -> "Summary":
        if self.spelling is not None and other.family == "word":
            return self + other.as_spelled(self.spelling)
        if other.spelling is not None and self.family == "word":
            return self.as_spelled(other.spelling) + other
        if other.family != self.family or other.spelling != self.spelling:
            raise ValueError(
                f"column {self.name!r} is one of {self.family}s in one part of the table and of "
                f"{other.family}s in another; give it one dtype, or name its kind."
            )
        counts = _both(add, self.counts, other.counts)
        counted = counts is not None and len(counts) <= MAX_WORDS
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            missing=self.missing + other.missing,
            moments=_both(add, self.moments, other.moments),
            run=_both(_joined, self.run, other.run),
            ids=_both(np.union1d, self.ids, other.ids),
            counts=counts if counted else None,
            weights=self.weights + other.weights if counted else Counter(),
            booleans=self.booleans and other.booleans,
            category=self.category or other.category,
            order=self.order if self.order == other.order else None,
        )

    def as_spelled(self, spelling: Spelling) -> "Summary":
        """The summary of the values that counted words spell, as that of parts with more words has it; of
        words that spell none, as it is.
        """
        if self.counts is None:
            return self
        values = [spelling.value_of(word) for word in self.counts]
        if None in values:
            return self
        n_rows = list(self.counts.values())
        shares = [self.weights[word] / n for word, n in self.counts.items()]
        spelled = Column(self.name, spelling.kind, np.repeat(np.array(values, float), n_rows))
        found = summarize(spelled, np.repeat(np.array(shares), n_rows))
        return replace(
            found,
            n_rows=self.n_rows,
            weight=self.weight,
            missing=self.missing + found.missing,
            spelling=spelling,
        )

    @property
    def numbers_rows(self) -> bool:
        """Whether the values are distinct integers that count up by one row by row, or are named as an id."""
        if self.n_rows < FEWEST_NUMBERED or self.missing:
            return False
        return self.run is not None or (self.ids is not None and len(self.ids) == self.n_rows)


def summarize(column: Column, weights: np.ndarray) -> Summary:
    """The summary of a column whose rows have these weights, all positive."""
    values, gaps = column.values, column.gaps
    present, known, missing = values[~gaps], weights[~gaps], float(weights[gaps].sum())
    common = column.name, column.family, len(values), float(weights.sum()), missing
    if column.family == "word":
        number: dict[str, int] = {}
        codes = np.array([number.setdefault(word, len(number)) for word in present], int)
        counts, sums = (
            Counter(dict(zip(number, np.bincount(codes, each).tolist(), strict=True)))
            for each in (None, known)
        )
        counted = len(number) <= MAX_WORDS
        if not counted and not column.category and column.order is None:
            found = recognise(list(number))
            if found is not None:
                spelled = [np.nan if word is None else found.values[word] for word in values]
                typed = Column(column.name, found.spelling.kind, np.array(spelled, float))
                return replace(summarize(typed, weights), spelling=found.spelling)
        return Summary(
            *common,
            counts=counts if counted else None,
            weights=sums if counted else Counter(),
            booleans=column.booleans,
            category=column.category,
            order=column.order,
        )
    counts_up = column.integers and len(values) and not gaps.any() and (np.diff(values) == 1).all()
    of_moments = present[:, None] if column.family == "number" else cycles(present)
    return Summary(
        *common,
        moments=Moments.of(of_moments, known),
        run=(values[0], values[-1]) if counts_up else None,
        ids=np.unique(present) if column.integers and ID_NAME.search(column.name) else None,
    )


def cycles(seconds: np.ndarray) -> np.ndarray:
    """Elapsed seconds, and cosine and sine of each period (n, 7)."""
    angles = [2 * np.pi * (seconds / period % 1) for period in PERIODS.values()]
    return np.column_stack([seconds, *(wave(a) for a in angles for wave in (np.cos, np.sin))])


def _both(merge: Callable[[T, T], T | None], one: T | None, two: T | None) -> T | None:
    return None if one is None or two is None else merge(one, two)


def _joined(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float] | None:
    return (one[0], two[1]) if two[0] - one[1] == 1 else None
