"""Kinds of columns. Each turns a column into a block of numbers: centred, and with a mean squared
distance of two random training rows of 2, as that of a standardised column.

A new kind is a class here, a line in `KINDS`, and one in `recognized` if it is found by itself; how
words spell its values is a class of `recognition`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from ..core.fields import ArrayField, Each, Field, Number, Plain, Stored, Text, expect
from .columns import Column
from .dates import DATE_FORMATS, DateSpelling, formats_of, seconds_of_word
from .numerals import NumberSpelling
from .recognition import NUMBER_CLASSES, recognise, spelling_from_state, spelling_of
from .spelling import Spelling
from .summaries import PERIODS, Summary, cycles, summarize
from .times import HOUR, TimeSpelling

MISSING, RARE = "(missing)", "(rare)"
MISSING_SHARES = (0.01, 0.99)  # within which a block says what is missing
# of a column of free text: the mean number of words in a value, and the share of different values
FREE_TEXT = (4, 0.5)
CYCLES_NEEDED = 2  # periods that must pass before a date is seen as part of a cycle
FARTHEST = 1e60  # standard deviations; the squares of more leave the range of floats
LEAST_CYCLE = 1e-12  # variance of a cycle that is told apart
LONGEST_SHIFT = (
    18 * HOUR
)  # between the first and the last time of day that do not go round the clock
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")
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
        kept = None if spelling == NumberSpelling() else spelling
        return cls.scaled(summary, settings, [[0]], spelling=kept)

    @classmethod
    def scaled(
        cls, summary: Any, settings: Settings, parts: list[list[int]], **more: Any
    ) -> Self | str:
        """The column whose features are in parts, each with the same weight."""
        moments, (low, high) = summary.moments, MISSING_SHARES
        share = summary.missing / summary.weight
        missing = share if settings["missing"] == "auto" and low <= share <= high else None
        constant = (moments.low == moments.high).all()
        if constant and missing is None:
            return "one value only"
        variance = moments.squares / summary.weight
        std = [np.full(len(part), (len(parts) * variance[part].sum()) ** 0.5) for part in parts]
        kept = np.concatenate(parts)
        return cls(
            summary.name,
            moments.mean[kept],
            np.ones(len(kept)) if constant else np.concatenate(std),
            np.full(len(kept), moments.exponent),
            missing,
            **more,
        )

    @property
    def suffixes(self) -> dict[str, list[str]]:
        gap = {} if self.missing is None else {"missing": [f"={MISSING}"]}
        return {self.kind: self.feature_suffixes} | gap

    @property
    def feature_suffixes(self) -> list[str]:
        return [""]

    def encode(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        numbers = self.numbers(column)
        scaled = (np.ldexp(self.features(numbers), -self.exponent) - self.mean) / self.std
        if (abs(scaled) > FARTHEST).any():
            far = f"{numbers[(abs(scaled) > FARTHEST).any(1)][0]:g}, far beyond the values in fit"
            raise _misfit(self.name, far)
        scaled, centre = np.nan_to_num(scaled), np.zeros(len(self.mean))
        if self.missing is None:
            return scaled, centre
        scale = (self.missing * (1 - self.missing)) ** -0.5
        gaps = np.isnan(numbers) * scale
        return np.column_stack([scaled, gaps]), np.append(centre, -self.missing * scale)

    def gaps(self, column: Column) -> np.ndarray:
        return np.isnan(self.numbers(column))

    def numbers(self, column: Column) -> np.ndarray:
        """The values as numbers, NaN where missing."""
        if column.family == "word":
            return _values(column.values, self.value_of(column), self.name, self.kind)
        if column.family != self.kind:
            raise _misfit(self.name, f"{column.family}s, not {self.kind}s")
        return column.values

    def value_of(self, column: Column) -> Callable[[str], float | None]:
        """The value that a word of a column stands for: NaN for a missing value, None if for none."""
        if column.booleans:
            return {"True": 1.0, "False": 0.0}.get
        return (self.spelling or NumberSpelling()).value_of

    def state(self) -> dict[str, Any]:
        spelling = None if self.spelling is None else self.spelling.state()
        return super().state() | {"spelling": spelling}

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

    def value_of(self, column: Column) -> Callable[[str], float | None]:
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
        if isinstance(spelling, DateSpelling) and summary.family == cls.kind:
            formats = list(spelling.formats)
        elif summary.weights:
            formats = formats_of(summary.name, summary.weights)
        summary = _of_values(summary, lambda word: seconds_of_word(word, formats), cls.kind)
        moments: Any = summary.moments
        span = moments.high[0] - moments.low[0]
        variance = np.ldexp(moments.squares, 2 * moments.exponent) / summary.weight
        periods = [
            period
            for period, pair in CYCLES.items()
            if span >= CYCLES_NEEDED * PERIODS[period] and variance[pair].sum() > LEAST_CYCLE
        ]
        periods = periods if settings["dates"] == "auto" else []
        parts = [[0], *(CYCLES[period] for period in periods)]
        return cls.scaled(summary, settings, parts, formats=formats, periods=periods)

    @property
    def feature_suffixes(self) -> list[str]:
        return ["", *(f":{p}_{wave}" for p in self.periods for wave in ("cos", "sin"))]

    def features(self, numbers: np.ndarray) -> np.ndarray:
        pairs = [CYCLES[period] for period in self.periods]
        return cycles(numbers)[:, np.concatenate([[0], *pairs])]

    def value_of(self, column: Column) -> Callable[[str], float | None]:
        formats = formats_of(self.name, set(column.values[~column.gaps]), self.formats)
        return lambda word: seconds_of_word(word, formats)


CYCLES = {period: [1 + 2 * i, 2 + 2 * i] for i, period in enumerate(PERIODS)}  # among `cycles`


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
        part = CYCLES["day"] if periodic else [0]
        return cls.scaled(summary, settings, [part], periodic=periodic)

    @property
    def feature_suffixes(self) -> list[str]:
        return [":day_cos", ":day_sin"] if self.periodic else [""]

    def features(self, numbers: np.ndarray) -> np.ndarray:
        return cycles(numbers)[:, CYCLES["day"] if self.periodic else [0]]

    def value_of(self, column: Column) -> Callable[[str], float | None]:
        return TimeSpelling().value_of


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
    kind = "word"
    words = True

    def validate(self, within: str) -> None:
        n, shares = len(self.levels), self.shares
        expect(len(shares) == n >= 2, f"{within}.shares", shares, f"one for each of {n} values")
        total = float(shares.sum())
        expect(abs(total - 1) < 1e-6, f"the sum of {within}.shares", total, "1")
        both = set(self.values) & set(self.rare)
        expect(not both, f"{within}.rare", sorted(both)[:3], "words not among the values")

    @classmethod
    def learn(cls, summary: Summary, settings: Settings, spelling: Known = None) -> Self | str:
        weights, rows, least = summary.weights, summary.counts, settings["min_frequency"]
        if rows is None:
            return "too many different words"
        fewest, share = (2, least) if isinstance(least, float) else (least, 0.0)
        seldom = {w for w in rows if rows[w] < fewest or weights[w] < share * summary.weight}
        rare = sorted(seldom) if len(seldom) > 1 else []
        values = sorted(set(rows).difference(rare))
        levels: list[float] = [weights[word] for word in values]
        levels += [sum(weights[word] for word in rare)] if rare else []
        levels += [summary.missing] if summary.missing else []
        if len(levels) < 2:
            return "every value is rare" if rare else "one value only"
        shares = np.array(levels) / summary.weight
        return cls(summary.name, values, rare, shares, summary.missing > 0)

    @property
    def levels(self) -> list[str]:
        """The values that are told apart."""
        return [*self.values, *([RARE] if self.rare else []), *([MISSING] if self.gap else [])]

    @property
    def suffixes(self) -> dict[str, list[str]]:
        names = [f"={level}" for level in self.levels]
        return {self.kind: names[1:] if len(names) == 2 else names}

    def encode(self, column: Column) -> tuple[csr_array, np.ndarray]:
        number: dict[str | None, int] = {word: i for i, word in enumerate(self.values)}
        number |= dict.fromkeys(self.rare, len(self.values))
        if self.gap:
            number[None] = len(self.shares) - 1
        codes = np.array([number.get(word, -1) for word in self.read(column)], int)
        first = 1 if len(self.shares) == 2 else 0
        scale = float(self.shares @ (1 - self.shares) / (1 + first)) ** 0.5
        centre = self.shares[first:] / scale
        k, known, unknown = len(centre), np.flatnonzero(codes >= first), np.flatnonzero(codes < 0)
        entries = np.concatenate([np.full(len(known), 1 / scale), np.tile(centre, len(unknown))])
        rows = np.concatenate([known, np.repeat(unknown, k)])
        at = np.concatenate([codes[known] - first, np.tile(np.arange(k), len(unknown))])
        return csr_array((entries, (rows, at)), shape=(len(codes), k)), -centre

    def unseen(self, column: Column) -> list[str]:
        """None if no more rows hold them than held rare words in training: some of those are new in
        any rows.
        """
        known = {*self.values, *self.rare, None}
        new = [word for word in self.read(column) if word not in known]
        expected = self.shares[len(self.values)] * len(column.values) if self.rare else 0
        return sorted({word for word in new if word}) if len(new) > expected else []

    def read(self, column: Column) -> Iterable[str | None]:
        """The words of a column, None where missing."""
        # a file may have truth values as true or TRUE
        known = {value.casefold(): value for value in self.values} if column.booleans else {}
        return [word and known.get(word.casefold(), word) for word in column.values]


@dataclass(frozen=True)
class BooleanColumn(WordColumn):
    """A truth value; "yes", "t" and 1 are also read as true."""

    kind = "boolean"

    def read(self, column: Column) -> Iterable[str | None]:
        known = dict.fromkeys(TRUE, "True") | dict.fromkeys(FALSE, "False")
        return [word and known.get(word.casefold(), word) for word in column.values]


KINDS: dict[str, type[Kind]] = {
    each.kind: each
    for each in (OrderedColumn, BooleanColumn, NumberColumn, DateColumn, TimeColumn, WordColumn)
}


def learn_kind(summary: Summary, settings: Settings, kind: str | Spelling | None) -> Kind | str:
    """The column as the given kind or spelling, or as the one recognized; or why it is left out."""
    if kind == "ignore":
        return "as asked"
    if not summary.weight > summary.missing:
        return "no values"
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
    return (WordColumn if spelling is None else KINDS[spelling.kind]), spelling


def kind_from_state(state: Any, within: str) -> Kind:
    """The column of a state, checked."""
    kind = state.get("kind") if isinstance(state, dict) else None
    known = isinstance(kind, str) and kind in KINDS
    expect(known, f"{within}.kind", kind, f"one of {', '.join(KINDS)}")
    fields = {name: value for name, value in state.items() if name != "kind"}
    if issubclass(KINDS[str(kind)], NumberColumn):
        fields["spelling"] = spelling_from_state(fields.get("spelling"), f"{within}.spelling")
    column = KINDS[str(kind)].from_state(fields, within)
    column.validate(within)
    return column


# ---- helpers


def _not_a_feature(summary, kind):
    """Why numbers or words say nothing about their row; None if they may."""
    if summary.numbers_rows:
        return "looks like a row number"
    if kind is not WordColumn or summary.counts is None:
        return None
    distinct, rows = len(summary.counts), summary.counts.total()
    length = sum(word.count(" ") + 1 for word in summary.counts) / distinct
    if length >= FREE_TEXT[0] and distinct > FREE_TEXT[1] * rows:
        return "free text"
    return "all values are different" if distinct == rows > 1 else None


def _number_spelling(summary):
    """The spelling of words that are to be numbers."""
    if summary.spelling is not None or summary.family != "word" or not summary.counts:
        return summary.spelling or NumberSpelling()
    found = recognise(summary.counts, classes=NUMBER_CLASSES)
    return NumberSpelling() if found is None else found.spelling


def _of_values(summary, read, kind):
    """The summary of words as that of the values they stand for; that of others as it is."""
    if summary.family == kind:
        return summary
    if summary.family != "word":
        raise _misfit(summary.name, f"{summary.family}s, not {kind}s")
    if summary.counts is None:
        raise ValueError(f"column {summary.name!r} has too many different words for a {kind}.")
    values = _values(list(summary.weights), read, summary.name, kind)
    weights = np.array(list(summary.weights.values()))
    found = summarize(Column(summary.name, kind, values), weights)
    return replace(found, weight=summary.weight, missing=summary.missing + found.missing)


def _values(words, read, name, kind):
    """The values that words stand for, NaN where they are missing."""
    known = {word: np.nan if word is None else read(word) for word in dict.fromkeys(words)}
    for word, value in known.items():
        if value is None:
            raise _misfit(name, f"{word[:80]!r}, which is not a {kind}")
    return np.array([known[word] for word in words], np.float64)


def _misfit(name, found):
    advice = "correct it, leave it empty, or fit with another kind for the column (kinds=)"
    return ValueError(f"column {name!r} holds {found}; {advice}.")


def _rank(order):
    """The function from a word to its place, NaN if it has none."""
    rank = {word: float(i) for i, word in enumerate(order)}
    return lambda word: rank.get(word, np.nan)
