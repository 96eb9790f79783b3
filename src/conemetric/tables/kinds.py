"""Kinds of columns. Each turns a column into a block of numbers: centred, and with a mean squared
distance of two random training rows of 2, as that of a standardised column.

A new kind is a class here, a line in `KINDS`, and one in `recognized` if it is found by itself; how
words spell its values is a class of `recognition`. Those of words as such are in `categories`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np

from ..core.fields import ArrayField, Each, Field, Number, Plain, Text, expect, named_class
from .categories import BooleanColumn, WordColumn
from .columns import Column
from .dates import DATE_FORMATS, DateSpelling, formats_of, seconds_of_word
from .kind import MISSING, Kind, Known, Settings, Words
from .numerals import NumberSpelling
from .recognition import NUMBER_CLASSES, recognise, spelling_from_state, spelling_of
from .spelling import Spelling
from .summaries import PERIODS, Summary, cycles, summarize
from .times import HOUR, TimeSpelling

MISSING_SHARES = (0.01, 0.99)  # within which a block says what is missing
WORDS_OF_FREE_TEXT = 4  # the least mean number of words in a value
SHARE_OF_FREE_TEXT = 0.5  # more of the values than this are different
CYCLES_NEEDED = 2  # periods that must pass before a date is seen as part of a cycle
FARTHEST = 1e60  # standard deviations; the squares of more leave the range of floats
LEAST_CYCLE = 1e-12  # variance of a cycle that is told apart
# between the first and the last time of day that do not go round the clock
LONGEST_SHIFT = 18 * HOUR
# gives the value that a word stands for: NaN for a missing value, None if for none
Reader = Callable[[str], float | None]


@dataclass(frozen=True)
class NumberColumn(Kind):
    """A number x: (x - mean) / std; a gap is at the mean."""

    # by feature, mean and std in units of 2 ** exponent
    mean: Annotated[np.ndarray, ArrayField("f", ("k",))]
    std: Annotated[np.ndarray, ArrayField("f", ("k",), low=0, strict=True)]
    exponent: Annotated[np.ndarray, ArrayField("i", ("k",), low=-1100, high=1100)]
    # the share of gaps, if a block says where they are
    missing: Annotated[float | None, Number(0, 1, strict=True, optional=True)]
    # of words that are numbers; None: as computers write them
    spelling: Annotated[Spelling | None, Field(optional=True)] = field(default=None, kw_only=True)
    kind = "number"

    def validate(self, within: str) -> None:
        k = len(self.feature_suffixes)
        expect(len(self.mean) == k, f"{within}.mean.shape", self.mean.shape, f"({k},)")

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        spelling = spelling or _number_spelling(summary)
        summary = _of_values(summary, spelling.value_of, cls.kind)
        if spelling == NumberSpelling():
            return cls.scaled(summary, settings, [[0]])
        return cls.scaled(summary, settings, [[0]], spelling=spelling)

    @classmethod
    def scaled(
        cls, summary: Any, settings: Settings, parts: list[list[int]], **more: Any
    ) -> Self | str:
        """The column whose features are in parts, each with the same weight."""
        moments = summary.moments
        missing = None
        low, high = MISSING_SHARES
        share = summary.missing / summary.weight
        if settings["missing"] == "auto" and low <= share <= high:
            missing = share
        kept = np.concatenate(parts)
        std = np.ones(len(kept))
        # by the range, which is exact: the squares of tiny deviations may vanish
        constant = (moments.low == moments.high).all()
        if constant and missing is None:
            return "constant"
        # where gaps lie may say something even of a constant
        if not constant:
            std = _std_by_part(moments.squares / summary.weight, parts)
        exponent = np.full(len(kept), moments.exponent)
        return cls(summary.name, moments.mean[kept], std, exponent, missing, **more)

    @property
    def suffixes(self) -> dict[str, list[str]]:
        suffixes = {self.kind: self.feature_suffixes}
        if self.missing is not None:
            suffixes["missing"] = [f"={MISSING}"]
        return suffixes

    @property
    def feature_suffixes(self) -> list[str]:
        return [""]

    def encode(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        numbers = self.numbers(column)
        # first the power of two, which is exact and keeps the rest within the range of floats
        scaled = (np.ldexp(self.features(numbers), -self.exponent) - self.mean) / self.std
        far = (abs(scaled) > FARTHEST).any(1)
        if far.any():
            raise _misfit(self.name, f"{numbers[far][0]:g}, far beyond the values in fit")
        scaled = np.nan_to_num(scaled)  # gaps lie at the mean
        centring = np.zeros(len(self.mean))
        if self.missing is None:
            return scaled, centring
        # the indicator of missing values is standardised too: its variance in training is p (1 - p)
        scale = (self.missing * (1 - self.missing)) ** -0.5
        gaps = np.isnan(numbers) * scale
        return np.column_stack([scaled, gaps]), np.append(centring, -self.missing * scale)

    def gaps(self, column: Column) -> np.ndarray:
        return np.isnan(self.numbers(column))

    def numbers(self, column: Column) -> np.ndarray:
        """The values as numbers, NaN where missing."""
        if column.family == "word":
            return _values(column.values, self.value_of(column), self.name, self.kind)
        if column.family != self.kind:
            raise _misfit(self.name, f"{column.family}s, not {self.kind}s")
        return column.values

    def value_of(self, column: Column) -> Reader:
        """The value that a word of a column stands for: NaN for a missing value, None if for none."""
        if column.booleans:
            return {"True": 1.0, "False": 0.0}.get
        return (self.spelling or NumberSpelling()).value_of

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self.spelling is not None:
            state["spelling"] = self.spelling.state()
        return state

    def features(self, numbers: np.ndarray) -> np.ndarray:
        """What is standardised (n, k)."""
        return numbers[:, None]


@dataclass(frozen=True)
class OrderedColumn(NumberColumn):
    """An ordered category: its rank as a number; an unknown one is at the mean."""

    order: Words
    kind = "ordered"
    words = True

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        order = list(summary.order or sorted(summary.weights))
        return cls.scaled(_of_values(summary, _rank(order), "number"), settings, [[0]], order=order)

    def value_of(self, column: Column) -> Reader:
        return _rank(self.order)

    def unseen(self, column: Column) -> list[str]:
        return sorted(set(column.values[~column.gaps]).difference(self.order))


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A date: the time that has passed, and its place in the day, the week and the year where the
    data span them, all parts with the same weight.
    """

    formats: Annotated[list[str], Each(Text(DATE_FORMATS), distinct=True)]  # of dates as words
    periods: Annotated[list[str], Each(Text(tuple(PERIODS)), distinct=True)]
    kind = "date"

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        if settings["dates"] == "ignore":
            return "dates are ignored"
        formats: list[str] = []
        # the words were read as dates before: only their formats are kept, to read new rows by
        if isinstance(spelling, DateSpelling) and summary.family == cls.kind:
            formats = list(spelling.formats)
        elif summary.weights:
            formats = formats_of(summary.name, summary.weights)
        summary = _of_values(summary, lambda word: seconds_of_word(word, formats), cls.kind)
        periods: list[str] = []
        if settings["dates"] == "auto":
            periods = _periods_spanned(summary)
        parts = _parts_of(periods)
        return cls.scaled(summary, settings, parts, formats=formats, periods=periods)

    @property
    def feature_suffixes(self) -> list[str]:
        suffixes = [""]
        for period in self.periods:
            suffixes += [f":{period}_cos", f":{period}_sin"]
        return suffixes

    def features(self, numbers: np.ndarray) -> np.ndarray:
        return cycles(numbers)[:, np.concatenate(_parts_of(self.periods))]

    def value_of(self, column: Column) -> Reader:
        # new rows may have dates in further formats, which are recognised in all of them at once
        formats = formats_of(self.name, set(column.values[~column.gaps]), self.formats)
        return lambda word: seconds_of_word(word, formats)


CYCLES = {period: [1 + 2 * i, 2 + 2 * i] for i, period in enumerate(PERIODS)}  # among `cycles`


def _parts_of(periods: Sequence[str]) -> list[list[int]]:
    """Where the parts of a date are among `cycles`: the time passed, and the place in each period."""
    return [[0], *map(CYCLES.__getitem__, periods)]


def _periods_spanned(summary: Summary) -> list[str]:
    """The periods that the dates span often enough to tell the places in them apart."""
    moments: Any = summary.moments
    span = moments.high[0] - moments.low[0]
    variance = np.ldexp(moments.squares, 2 * moments.exponent) / summary.weight
    periods = []
    for period, pair in CYCLES.items():
        # dates of one weekday or of one hour have no spread in the week or in the day
        if span >= CYCLES_NEEDED * PERIODS[period] and variance[pair].sum() > LEAST_CYCLE:
            periods.append(period)
    return periods


@dataclass(frozen=True)
class TimeColumn(NumberColumn):
    """A time of day: as a number, or, where the times go round the clock, as a place on it, so that
    23:50 is near 0:10.
    """

    periodic: Annotated[bool, Plain(bool)]
    kind = "time"

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        summary = _of_values(summary, TimeSpelling().value_of, cls.kind)
        moments: Any = summary.moments
        span = moments.high[0] - moments.low[0]
        periodic = settings["dates"] == "auto" and bool(span > LONGEST_SHIFT)
        part = cls._part(periodic)
        return cls.scaled(summary, settings, [part], periodic=periodic)

    @staticmethod
    def _part(periodic: bool) -> list[int]:
        """Where the features are among `cycles`."""
        if periodic:
            return CYCLES["day"]
        return [0]

    @property
    def feature_suffixes(self) -> list[str]:
        if self.periodic:
            return [":day_cos", ":day_sin"]
        return [""]

    def features(self, numbers: np.ndarray) -> np.ndarray:
        return cycles(numbers)[:, self._part(self.periodic)]

    def value_of(self, column: Column) -> Reader:
        return TimeSpelling().value_of


KINDS: dict[str, type[Kind]] = {
    each.kind: each
    for each in (OrderedColumn, BooleanColumn, NumberColumn, DateColumn, TimeColumn, WordColumn)
}


def learn_kind(summary: Summary, settings: Settings, kind: str | Spelling | None) -> Kind | str:
    """The column as the given kind or spelling, or as the one recognized; or why it is left out."""
    if kind == "ignore":
        return "ignored by request"
    if not summary.weight > summary.missing:
        return "all missing"
    if isinstance(kind, Spelling):
        return KINDS[kind.kind].learn(summary, settings, kind)
    if kind is not None:
        return KINDS[kind].learn(summary, settings)
    found, spelling = recognized(summary)
    return _not_a_feature(summary, found) or found.learn(summary, settings, spelling)


def recognized(summary: Summary) -> tuple[type[Kind], Spelling | None]:
    """The kind of a column by itself, and the spelling of its words."""
    if summary.family != "word":
        return KINDS[summary.family], summary.spelling
    if summary.order is not None:
        return OrderedColumn, None
    if summary.booleans:
        return BooleanColumn, None
    if summary.category or summary.counts is None:
        return WordColumn, None
    spelling = spelling_of(summary.name, summary.counts)
    if spelling is None:
        return WordColumn, None
    return KINDS[spelling.kind], spelling


def kind_from_state(state: Any, within: str) -> Kind:
    """The column of a state, checked."""
    kind, fields = named_class(state, "kind", KINDS, within)
    if issubclass(kind, NumberColumn):
        fields["spelling"] = spelling_from_state(fields.get("spelling"), f"{within}.spelling")
    column = kind.from_state(fields, within)
    column.validate(within)
    return column


# ---- helpers


def _not_a_feature(summary: Summary, kind: type[Kind]) -> str | None:
    """Why numbers or words say nothing about their row; None if they may."""
    if summary.numbers_rows:
        return "looks like a row number"
    if kind is not WordColumn or summary.counts is None:
        return None  # numbers and dates may well be all different
    distinct = len(summary.counts)
    rows = summary.counts.total()
    length = sum(word.count(" ") + 1 for word in summary.counts) / distinct
    if length >= WORDS_OF_FREE_TEXT and distinct > SHARE_OF_FREE_TEXT * rows:
        return "free text"
    if distinct == rows > 1:
        return "all values are different"
    return None


def _number_spelling(summary: Summary) -> Spelling:
    """The spelling of a column that is to be one of numbers."""
    if summary.spelling is not None:
        return summary.spelling
    if summary.counts:
        found = recognise(summary.counts, classes=NUMBER_CLASSES)
        if found is not None:
            return found.spelling
    return NumberSpelling()


def _std_by_part(variance: np.ndarray, parts: list[list[int]]) -> np.ndarray:
    """By feature, the scale with which each part has the same share of a variance of 1."""
    std = []
    for part in parts:
        scale = (len(parts) * variance[part].sum()) ** 0.5
        std += [scale] * len(part)
    return np.array(std)


def _of_values(summary: Summary, read: Reader, kind: Any) -> Summary:
    """The summary of words as that of the values they stand for; that of others as it is."""
    if summary.family == kind:
        return summary
    if summary.family != "word":
        raise _misfit(summary.name, f"{summary.family}s, not {kind}s")
    if summary.counts is None:
        raise ValueError(f"column {summary.name!r} has too many different entries for a {kind}.")
    # each different word is read once, with the weight of all its rows
    values = _values(list(summary.weights), read, summary.name, kind)
    weights = np.array(list(summary.weights.values()))
    found = summarize(Column(summary.name, kind, values), weights)
    # gaps among the words were not counted as words
    return replace(found, weight=summary.weight, missing=summary.missing + found.missing)


def _values(words: Iterable[str | None], read: Reader, name: str, kind: str) -> np.ndarray:
    """The values that words stand for, NaN where they are missing."""
    value_of: dict[str | None, float] = {None: np.nan}
    for word in words:
        if word is not None and word not in value_of:
            value = read(word)
            if value is None:
                raise _misfit(name, f"{word[:80]!r}, which is not a {kind}")
            value_of[word] = value
    return np.array([value_of[word] for word in words], np.float64)


def _misfit(name: str, found: str) -> ValueError:
    """The error that a column holds what its kind cannot be."""
    advice = "correct it, leave it empty, or fit with another kind for the column (kinds=)"
    return ValueError(f"column {name!r} holds {found}; {advice}.")


def _rank(order: Iterable[str]) -> Reader:
    """The function from a word to its place, NaN if it has none."""
    rank = {word: float(i) for i, word in enumerate(order)}
    return lambda word: rank.get(word, np.nan)
