"""Kinds of columns. Each turns a column into a block of numbers: centred, and with a mean squared
distance of two random training rows of 2, as that of a standardised column.

A new kind is a class here and a line in `KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from ..core.fields import Array, Each, Field, FieldError, Number, Plain, Text, check, expect
from .columns import DATE_FORMATS, Column, date_formats, number_of_word, seconds_of_word
from .summaries import PERIODS, DateSummary, Moments, NumberSummary, Summary, WordSummary, cycles

__all__ = ["KINDS", "IgnoredColumn", "Kind", "Settings", "kind_from_state", "learn_kind"]

MISSING, RARE = "(missing)", "(rare)"
MISSING_SHARES = (0.01, 0.99)  # within which a block says what is missing
# of a column of free text: the mean number of words in a value, and the share of different values
FREE_TEXT = (4, 0.5)
CYCLES_NEEDED = 2  # periods that must pass before a date is seen as part of a cycle
LEAST_CYCLE = 1e-12  # variance of a cycle that is told apart
TRUE, FALSE = ("true", "yes", "t", "y", "1"), ("false", "no", "f", "n", "0")


@dataclass(frozen=True)
class Settings:
    """The parameters of the encoder that kinds depend on."""

    min_frequency: float | int
    missing: str
    dates: str


@dataclass(frozen=True)
class IgnoredColumn:
    """A column that is left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Kind(ABC):
    """A column of one kind, learned.

    A subclass names its ``kind``, declares its stored ``FIELDS``, which are its attributes, and says
    which summaries it ``recognizes``, how it is learned from one, and how it encodes.
    """

    name: str
    kind: ClassVar[str]
    words: ClassVar[bool] = False  # whether the column is read as words even if it holds numbers
    FIELDS: ClassVar[dict[str, Field]]

    @classmethod
    @abstractmethod
    def recognizes(cls, summary: Summary) -> bool:
        """Whether a column with this summary is of this kind by itself."""

    @classmethod
    @abstractmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        """The column, or why it is left out."""

    @property
    @abstractmethod
    def suffixes(self) -> dict[str, list[str]]:
        """By block, what is added to the column's name to name each feature."""

    @abstractmethod
    def encode(self, column: Column) -> np.ndarray:
        """The features of these rows (n, k)."""

    @abstractmethod
    def gaps(self, column: Column) -> np.ndarray:
        """Which rows are missing."""

    def sparse(self, column: Column) -> csr_array:
        """The features moved by a constant row so that most of them are zero."""
        return csr_array(self.encode(column))

    def state(self) -> dict[str, Any]:
        """The column as JSON values and arrays."""
        return {"kind": self.kind} | {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "column") -> Self:
        """The column of such a state, checked."""
        check(state, {"kind": Text(), "name": Text(), **cls.FIELDS}, within)
        return cls(**{key: value for key, value in state.items() if key != "kind"})


@dataclass(frozen=True)
class NumberColumn(Kind):
    """A number x: (x - mean) / std; a gap is at the mean."""

    mean: np.ndarray  # by feature, in units of 2 ** exponent, as std
    std: np.ndarray
    exponent: np.ndarray
    missing: float | None  # the share of gaps, if a block says where they are
    kind = "number"
    FIELDS: ClassVar[dict[str, Field]] = {
        "mean": Array("f", ("k",)),
        "std": Array("f", ("k",), low=0, strict=True),
        "exponent": Array("i", ("k",), low=-1100, high=1100),
        "missing": Number(0, 1, strict=True, optional=True),
    }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "column") -> Self:
        column = super().from_state(state, within)
        k = len(column.suffixes[cls.kind])
        expect(len(column.mean) == k, f"{within}.mean.shape", column.mean.shape, f"({k},)")
        return column

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        if isinstance(summary, WordSummary):
            return _all_read(summary, number_of_word)
        return isinstance(summary, NumberSummary)

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        if isinstance(summary, WordSummary):
            values, weights, common = _read_words(summary, number_of_word, cls.kind)
            summary = NumberSummary(**common, moments=Moments.of(values[:, None], weights))
        return cls.scaled(summary, settings, [[0]])

    @classmethod
    def scaled(
        cls, summary: Any, settings: Settings, parts: list[list[int]], **more: Any
    ) -> "Self | IgnoredColumn":
        """The column whose features are in parts, each with the same weight."""
        moments, (low, high), share = summary.moments, MISSING_SHARES, summary.missing_share
        missing = share if settings.missing == "auto" and low <= share <= high else None
        constant = moments.low[0] == moments.high[0]
        if constant and missing is None:
            return IgnoredColumn(summary.name, "one value only")
        squares = moments.squares / summary.weight
        std = [np.full(len(part), (len(parts) * squares[part].sum()) ** 0.5) for part in parts]
        kept = np.concatenate(parts)
        return cls(
            summary.name,
            moments.mean[kept],
            np.ones(len(kept)) if constant else np.concatenate(std),
            moments.exponent[kept].astype(np.int64),
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

    def encode(self, column: Column) -> np.ndarray:
        numbers = self.numbers(column)
        scaled = (np.ldexp(self.features(numbers), -self.exponent) - self.mean) / self.std
        if np.isinf(scaled).any():
            raise ValueError(f"column {self.name!r} holds values far beyond those in fit.")
        scaled = np.nan_to_num(scaled)
        if self.missing is None:
            return scaled
        p = self.missing
        return np.column_stack([scaled, (np.isnan(numbers) - p) / (p * (1 - p)) ** 0.5])

    def sparse(self, column: Column) -> csr_array:
        out = self.encode(column)
        if self.missing is not None:
            out[~self.gaps(column), -1] = 0
            out[self.gaps(column), -1] = (self.missing * (1 - self.missing)) ** -0.5
        return csr_array(out)

    def gaps(self, column: Column) -> np.ndarray:
        return np.isnan(self.numbers(column))

    def numbers(self, column: Column) -> np.ndarray:
        """The values as numbers, NaN where missing."""
        return _numbers(column, number_of_word, self.kind)

    def features(self, numbers: np.ndarray) -> np.ndarray:
        """What is standardised (n, k)."""
        return numbers[:, None]


@dataclass(frozen=True)
class OrderedColumn(NumberColumn):
    """An ordered category: its rank as a number; an unknown one is at the mean."""

    order: list[str]
    kind = "ordered"
    words = True
    FIELDS: ClassVar[dict[str, Field]] = {
        **NumberColumn.FIELDS,
        "order": Each(Text(), distinct=True),
    }

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        return isinstance(summary, WordSummary) and summary.order is not None

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        order = list(summary.order or sorted(summary.weights))
        rank = {word: float(i) for i, word in enumerate(order)}
        values, weights, common = _read_words(summary, rank.get, cls.kind)
        ranks = NumberSummary(**common, moments=Moments.of(values[:, None], weights))
        return cls.scaled(ranks, settings, [[0]], order=order)

    def numbers(self, column: Column) -> np.ndarray:
        rank = {word: float(i) for i, word in enumerate(self.order)}
        return np.array([rank.get(word, np.nan) for word in column.values], np.float64)


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A date: the time that has passed, and its place in the day, the week and the year where the
    data span them, all parts with the same weight.
    """

    formats: list[str]  # of dates that are words
    periods: list[str]
    kind = "date"
    FIELDS: ClassVar[dict[str, Field]] = {
        **NumberColumn.FIELDS,
        "formats": Each(Text(DATE_FORMATS), distinct=True),
        "periods": Each(Text(tuple(PERIODS)), distinct=True),
    }

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        if isinstance(summary, WordSummary):
            return "category" not in summary.types and bool(date_formats(summary.weights))
        return isinstance(summary, DateSummary)

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        formats: list[str] = []
        if settings.dates == "ignore":
            return IgnoredColumn(summary.name, "dates are ignored")
        if isinstance(summary, WordSummary):
            formats = list(date_formats(summary.weights) or DATE_FORMATS)
            read = _read_words(summary, lambda word: seconds_of_word(word, formats), cls.kind)
            summary = DateSummary.of(*read)
        moments = summary.moments
        span, variance = moments.high[0] - moments.low[0], moments.squares / summary.weight
        parts, periods = [[0]], []
        for i, (period, seconds) in enumerate(PERIODS.items()):
            pair = [1 + 2 * i, 2 + 2 * i]
            seen = span >= CYCLES_NEEDED * seconds and (period != "day" or summary.timed)
            if settings.dates == "auto" and seen and variance[pair].sum() > LEAST_CYCLE:
                parts.append(pair)
                periods.append(period)
        return cls.scaled(summary, settings, parts, formats=formats, periods=periods)

    @property
    def feature_suffixes(self) -> list[str]:
        return ["", *(f":{p}_{wave}" for p in self.periods for wave in ("cos", "sin"))]

    def features(self, numbers: np.ndarray) -> np.ndarray:
        kept = [0]
        for i, period in enumerate(PERIODS):
            kept += [1 + 2 * i, 2 + 2 * i] if period in self.periods else []
        return cycles(numbers)[:, kept]

    def numbers(self, column: Column) -> np.ndarray:
        formats = (*self.formats, *(each for each in DATE_FORMATS if each not in self.formats))
        return _numbers(column, lambda word: seconds_of_word(word, formats), self.kind)


@dataclass(frozen=True)
class WordColumn(Kind):
    """A word: its one-hot vector minus the shares p, divided by sqrt(sum p (1 - p)); a gap is a
    value of its own, rare words are one value, and an unknown word is at the centre. Of two values
    the second is the only feature, at the same distances.
    """

    values: list[str]
    rare: list[str]
    shares: np.ndarray  # of values, then of rare words and of gaps if there are any
    gap: bool
    kind = "word"
    words = True
    FIELDS: ClassVar[dict[str, Field]] = {
        "values": Each(Text(), distinct=True),
        "rare": Each(Text(), distinct=True),
        "shares": Array("f", ("levels",), low=0, high=1, strict=True),
        "gap": Plain(bool),
    }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "column") -> Self:
        column = super().from_state(state, within)
        n, shares = len(column.levels), column.shares
        expect(len(shares) == n >= 2, f"{within}.shares", shares, f"one for each of {n} values")
        total = float(shares.sum())
        expect(abs(total - 1) < 1e-6, f"the sum of {within}.shares", total, "1")
        shared = set(column.values) & set(column.rare)
        expect(not shared, f"{within}.rare", sorted(shared)[:3], "words not among the values")
        return column

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        return isinstance(summary, WordSummary)

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        weights, rows, least = summary.weights, summary.counts, settings.min_frequency
        if rows is None:
            return IgnoredColumn(summary.name, "too many different words")
        fewest, share = (2, least) if isinstance(least, float) else (least, 0.0)
        seldom = {w for w in rows if rows[w] < fewest or weights[w] < share * summary.weight}
        rare = sorted(seldom) if len(seldom) > 1 else []
        values = sorted(set(rows).difference(rare))
        levels = [weights[word] for word in values]
        levels += [sum(weights[word] for word in rare)] if rare else []
        levels += [summary.missing] if summary.missing else []
        if len(levels) < 2:
            reason = "every value is rare" if rare else "one value only"
            return IgnoredColumn(summary.name, reason)
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

    def encode(self, column: Column) -> np.ndarray:
        return self.sparse(column).toarray() - self._centre

    @property
    def _scale(self):
        return float(self.shares @ (1 - self.shares) / (2 if len(self.shares) == 2 else 1)) ** 0.5

    @property
    def _centre(self):
        return (self.shares[1:] if len(self.shares) == 2 else self.shares) / self._scale

    def sparse(self, column: Column) -> csr_array:
        codes, centre = self._codes(column), self._centre
        k, first = len(centre), len(self.shares) - len(centre)
        known, unknown = np.flatnonzero(codes >= first), np.flatnonzero(codes < 0)
        entries = [np.full(len(known), 1 / self._scale), np.tile(centre, len(unknown))]
        rows = np.concatenate([known, np.repeat(unknown, k)])
        at = np.concatenate([codes[known] - first, np.tile(np.arange(k), len(unknown))])
        return csr_array((np.concatenate(entries), (rows, at)), shape=(len(codes), k))

    def gaps(self, column: Column) -> np.ndarray:
        return np.array([word is None for word in column.values], bool)

    def _codes(self, column):
        """The level of each row; -1 if unknown."""
        number: dict[str | None, int] = {word: i for i, word in enumerate(self.values)}
        number |= dict.fromkeys(self.rare, len(self.values))
        if self.gap:
            number[None] = len(self.shares) - 1
        return np.array([number.get(word, -1) for word in self.read(column)], int)

    def read(self, column: Column) -> np.ndarray | list[str | None]:
        """The words of a column, None where missing."""
        return column.values


@dataclass(frozen=True)
class BooleanColumn(WordColumn):
    """A truth value; "yes", "t" and 1 are also read as true."""

    kind = "boolean"

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        return isinstance(summary, WordSummary) and summary.types == {"bool"}

    def read(self, column: Column) -> np.ndarray | list[str | None]:
        known = dict.fromkeys(TRUE, "True") | dict.fromkeys(FALSE, "False")
        return [word and known.get(word.casefold(), word) for word in column.values]


KINDS: dict[str, type[Kind]] = {  # in the order in which they are asked
    each.kind: each for each in (OrderedColumn, BooleanColumn, NumberColumn, DateColumn, WordColumn)
}


def learn_kind(summary: Summary, settings: Settings, kind: str | None) -> Kind | IgnoredColumn:
    """The column as the given kind, or as the first that recognizes it; or why it is left out."""
    if kind == "ignore":
        return IgnoredColumn(summary.name, "as asked")
    if not summary.weight > summary.missing:
        return IgnoredColumn(summary.name, "no values")
    if kind is not None:
        return KINDS[kind].learn(summary, settings)
    found = next(each for each in KINDS.values() if each.recognizes(summary))
    reason = _not_a_feature(summary) if found in (NumberColumn, WordColumn) else None
    return IgnoredColumn(summary.name, reason) if reason else found.learn(summary, settings)


def kind_from_state(state: Any, within: str) -> Kind:
    """The column of a state, checked."""
    kind = state.get("kind") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise FieldError(f"{within}.kind", kind, f"one of {', '.join(KINDS)}")
    return KINDS[kind].from_state(state, within)


# ---- helpers


def _not_a_feature(summary):
    """Why numbers or words say nothing about their row; None if they may."""
    if isinstance(summary, NumberSummary):
        return "looks like a row number" if summary.numbers_rows else None
    if summary.counts is None:
        return "too many different words"
    if _all_read(summary, number_of_word):
        return None
    distinct, rows = len(summary.counts), summary.counts.total()
    length = sum(word.count(" ") + 1 for word in summary.counts) / distinct
    if length >= FREE_TEXT[0] and distinct > FREE_TEXT[1] * rows:
        return "free text"
    return "all values are different" if distinct == rows > 1 else None


def _all_read(summary, read):
    """Whether every word is read, and some as a value, unless they are said to be categories."""
    if summary.counts is None or "category" in summary.types:
        return False
    values = [read(word) for word in summary.counts]
    return None not in values and any(value == value for value in values)


def _read_words(summary, read, kind):
    """The values of words, their weights, and the common part of a summary of them."""
    if summary.counts is None:
        raise ValueError(f"column {summary.name!r} has too many different words for a {kind}.")
    words = list(summary.weights)
    values = np.array([_or_refuse(read(word), word, summary.name, kind) for word in words])
    weights, gaps = np.array([summary.weights[word] for word in words]), np.isnan(values)
    missing = summary.missing + float(weights[gaps].sum())
    common = {"name": summary.name, "n_rows": summary.n_rows, "weight": summary.weight}
    return values[~gaps], weights[~gaps], {**common, "missing": missing}


def _numbers(column, read, kind):
    """The values of a column as numbers, words read."""
    if column.family == kind:
        return column.values
    if column.family != "word":
        raise ValueError(
            f"column {column.name!r} was one of {kind}s in fit and now holds {column.family}s."
        )
    if kind == "number" and column.types == {"bool"}:
        read = {"True": 1.0, "False": 0.0}.get
    known: dict[str | None, float] = {None: np.nan}
    for word in column.values:
        if word not in known:
            known[word] = _or_refuse(read(word), word, column.name, kind)
    return np.array([known[word] for word in column.values], np.float64)


def _or_refuse(value, word, name, kind):
    if value is None:
        raise ValueError(
            f"column {name!r} holds {word[:80]!r}, which is not a {kind}; correct it, leave it empty, "
            "or fit with another kind for the column (kinds=)."
        )
    return value
