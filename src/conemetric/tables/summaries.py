"""What one pass over a column finds: weighted moments, counts of words. Summaries of parts of a
table add up to that of the whole: counts exactly, moments up to rounding.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import add
from typing import Any, TypeVar

import numpy as np

from .columns import Column, Family
from .recognition import recognise
from .spelling import Spelling
from .times import DAY

MAX_WORDS = 100_000  # different words that are counted; a column of more is not one of categories
FEWEST_NUMBERED = 10  # rows; fewer integers may well count up by chance
# "Unnamed: 0" is what pandas calls the index of a file
ID_NAME = re.compile(r"(?i:(^|[_ .-])(id|nr|no|key|index)$|^id[_ .-]|^unnamed: \d+$)|[a-z](Id|ID)$")
# numbers of these names and sizes count years, not rows, though they go up by one row by row
YEAR_NAME = re.compile(
    r"(?i:(^|[_ .-])(years?|yr|time|date|season|jahr|ann[eé]e|a[nñ]o|anno)($|[_ .-]))"
)
YEARS = 1000, 2200
ID_WORD = re.compile(r"(?i:(^|[_ .-])id$)|[a-z](Id|ID)$")
MOST_TWICE = 0.1  # share of the rows whose identifier comes again, as where a person came twice
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
        scaled = np.ldexp(values, -exponent)
        weight = float(weights.sum())
        first = scaled[0]  # so that equal values have no spread by rounding
        mean = first + weights @ (scaled - first) / weight
        squares = weights @ (scaled - mean) ** 2
        return cls(weight, exponent, mean, squares, values.min(0), values.max(0))

    def __add__(self, other: "Moments") -> "Moments":
        if not self.weight:
            return other
        if not other.weight:
            return self
        weight = self.weight + other.weight
        exponent = max(self.exponent, other.exponent)
        one = self._in_units_of(exponent)
        two = other._in_units_of(exponent)
        share = two.weight / weight
        step = two.mean - one.mean
        return Moments(
            weight,
            exponent,
            one.mean + share * step,
            one.squares + two.squares + one.weight * share * step**2,
            np.minimum(one.low, two.low),
            np.maximum(one.high, two.high),
        )

    def _in_units_of(self, exponent: int) -> "Moments":
        """The same moments in units of another power of two."""
        shift = self.exponent - exponent
        mean = np.ldexp(self.mean, shift)
        squares = np.ldexp(self.squares, 2 * shift)
        return replace(self, exponent=exponent, mean=mean, squares=squares)


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
            return self._with(other.as_spelled(self.spelling))
        if other.spelling is not None and self.family == "word":
            return self.as_spelled(other.spelling)._with(other)
        return self._with(other)

    def _with(self, other: "Summary") -> "Summary":
        """The sum of two summaries with one spelling, or none."""
        if other.family != self.family or other.spelling != self.spelling:
            raise ValueError(
                f"column {self.name!r} is one of {self.family}s in one part of the table and of "
                f"{other.family}s in another; pass it one dtype, or name its kind."
            )
        order = None
        if self.order == other.order:
            order = self.order
        counts = _both(add, self.counts, other.counts)
        weights = self.weights + other.weights
        # a column with too many words in one part stays uncounted: `_both` passes None on
        if counts is None or len(counts) > MAX_WORDS:
            counts = None
            weights = Counter()
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            weight=self.weight + other.weight,
            missing=self.missing + other.missing,
            moments=_both(add, self.moments, other.moments),
            run=_both(_joined, self.run, other.run),
            ids=_both(np.union1d, self.ids, other.ids),
            counts=counts,
            weights=weights,
            booleans=self.booleans and other.booleans,
            category=self.category or other.category,
            order=order,
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
        # the weight of each row of a word is not known any more; their mean gives the same moments
        mean_weights = [self.weights[word] / n for word, n in self.counts.items()]
        spelled = Column(self.name, spelling.kind, np.repeat(np.array(values, float), n_rows))
        found = summarize(spelled, np.repeat(np.array(mean_weights), n_rows))
        return replace(
            found,
            n_rows=self.n_rows,
            weight=self.weight,
            missing=self.missing + found.missing,
            spelling=spelling,
        )

    @property
    def numbers_rows(self) -> bool:
        """Whether the values are integers that count up by one row by row, or distinct and named as an id."""
        if self.n_rows < FEWEST_NUMBERED or self.missing:
            return False
        if self.run is not None:
            return True
        if self.ids is None:
            return False
        twice = MOST_TWICE if ID_WORD.search(self.name) else 0.0
        return len(self.ids) >= (1 - twice) * self.n_rows


def summarize(column: Column, weights: np.ndarray) -> Summary:
    """The summary of a column whose rows have these weights, all positive."""
    gaps = column.gaps
    summary = Summary(
        column.name,
        column.family,
        n_rows=len(column.values),
        weight=float(weights.sum()),
        missing=float(weights[gaps].sum()),
        booleans=column.booleans,
        category=column.category,
        order=column.order,
    )
    if column.family == "word":
        return _with_words(summary, column, weights)
    return _with_numbers(summary, column, weights)


def _with_words(summary: Summary, column: Column, weights: np.ndarray) -> Summary:
    """The summary with the counted words; of too many words that spell values, that of the values."""
    known = ~column.gaps
    number: dict[str, int] = {}
    codes = np.array([number.setdefault(word, len(number)) for word in column.values[known]], int)
    if len(number) <= MAX_WORDS:
        counts = _by_word(number, np.bincount(codes))
        return replace(
            summary, counts=counts, weights=_by_word(number, np.bincount(codes, weights[known]))
        )
    if column.category or column.order is not None:
        return summary
    found = recognise(list(number))
    if found is None:
        return summary
    value_of = {None: np.nan} | found.values
    spelled = np.array([value_of[word] for word in column.values], float)
    typed = Column(column.name, found.spelling.kind, spelled)
    return replace(summarize(typed, weights), spelling=found.spelling)


def _by_word(words: Iterable[str], sums: np.ndarray) -> Counter[Any]:
    """Counts or sums of weights, one for each of the words."""
    return Counter(dict(zip(words, sums.tolist(), strict=True)))


def _with_numbers(summary: Summary, column: Column, weights: np.ndarray) -> Summary:
    """The summary with the moments of numbers, and with what tells numbers of rows from others."""
    known = ~column.gaps
    present = column.values[known]
    if column.family == "number":
        moments = Moments.of(present[:, None], weights[known])
    else:
        moments = Moments.of(cycles(present), weights[known])
    run = None
    ids = None
    if column.integers:
        if len(present) == len(column.values) > 0 and (np.diff(present) == 1).all():
            run = None if _are_years(column.name, present) else (present[0], present[-1])
        if ID_NAME.search(column.name):
            ids = np.unique(present)
    return replace(summary, moments=moments, run=run, ids=ids)


def _are_years(name: str, values: np.ndarray) -> bool:
    """Whether numbers are years by their name and size."""
    first, last = YEARS
    return bool(YEAR_NAME.search(name)) and first <= values[0] and values[-1] <= last


def cycles(seconds: np.ndarray) -> np.ndarray:
    """Elapsed seconds, and cosine and sine of each period (n, 7)."""
    columns = [seconds]
    for period in PERIODS.values():
        angles = 2 * np.pi * (seconds / period % 1)
        columns += [np.cos(angles), np.sin(angles)]
    return np.column_stack(columns)


def _both(merge: Callable[[T, T], T | None], one: T | None, two: T | None) -> T | None:
    """Both merged; None if either is not there."""
    if one is None or two is None:
        return None
    return merge(one, two)


def _joined(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float] | None:
    """The run of two parts; None if the second does not go on where the first ends."""
    if two[0] - one[1] != 1:
        return None
    return one[0], two[1]
