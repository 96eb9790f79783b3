"""Kinds of columns. Each turns a column into a block of numbers: centred, and with a mean squared
distance of two random training rows of 2, as that of a standardised column.

A new kind is a class here and a line in `KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from ..core.fields import Array, Field, FieldError, Flag, Number, Text, Texts, check, expect
from .columns import DATE_FORMATS, DAY, Column, date_formats, number_of_word, seconds_of_word
from .summaries import (
    PERIODS,
    DateSummary,
    Moments,
    NumberSummary,
    Summary,
    WordSummary,
    cycles,
)

__all__ = ["KINDS", "IgnoredColumn", "Kind", "Settings", "kind_from_state", "learn_kind"]

MISSING, RARE = "(missing)", "(rare)"
MISSING_SHARES = (0.01, 0.99)  # within which a block says what is missing
# of a column of free text: the mean number of words in a value, and the share of different values
FREE_TEXT = (4, 0.5)
# periods that must pass before a date is seen as part of a cycle
CYCLES_NEEDED = 2
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

    A subclass names its ``kind``, declares its stored ``FIELDS``, which are its attributes, and
    says which summaries it ``recognizes``, how it is learned from one, and how it encodes.
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
    def suffixes(self) -> list[str]:
        """What is added to the column's name to name each feature."""

    @abstractmethod
    def encode(self, column: Column, out: np.ndarray) -> None:
        """Write the block of these rows (n, k) to ``out``."""

    @property
    def missing_share(self) -> float | None:
        """Share of rows whose value is missing, if a block of its own says which."""
        return None

    def sparse(self, column: Column) -> csr_array:
        """The block moved by a constant row so that most of it is zero."""
        out = np.empty((len(column.values), len(self.suffixes)))
        self.encode(column, out)
        return csr_array(out)

    def gaps(self, column: Column) -> np.ndarray:
        """Which rows are missing."""
        return np.isnan(self.numbers(column))

    def numbers(self, column: Column) -> np.ndarray:
        """The values as numbers, NaN where missing."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """The column as JSON values and arrays."""
        return {"kind": self.kind} | {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "column") -> Self:
        """The column of such a state, checked."""
        check(state, {"kind": Text(), "name": Text(), **cls.FIELDS}, within)
        return cls(**{key: value for key, value in state.items() if key != "kind"})


SHARE = Number(0, 1, strict=True, optional=True)


@dataclass(frozen=True)
class NumberColumn(Kind):
    """A number x: (x - mean) / std; a gap is at the mean."""

    mean: float  # in units of 2 ** exponent, as std
    std: float
    exponent: int
    missing: float | None
    kind = "number"
    FIELDS: ClassVar[dict[str, Field]] = {
        "mean": Number(-1, 1),
        "std": Number(0, 1, strict=True),
        "exponent": Number(-1100, 1100, whole=True),
        "missing": SHARE,
    }

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        if isinstance(summary, WordSummary):
            return _all_read(summary, number_of_word)
        return isinstance(summary, NumberSummary)

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        if isinstance(summary, WordSummary):
            summary = _numbers_of_words(summary, number_of_word, cls.kind)
        moments, constant = summary.moments, _constant(summary.moments)
        missing = _missing_block(summary, settings)
        if constant and missing is None:
            return IgnoredColumn(summary.name, "one value only")
        std = 1.0 if constant else float((moments.squares[0] / summary.weight) ** 0.5)
        exponent = int(moments.exponent[0])
        return cls(summary.name, float(moments.mean[0]), min(std, 1.0), exponent, missing)

    @property
    def suffixes(self) -> list[str]:
        return [""]

    @property
    def missing_share(self) -> float | None:
        return self.missing

    def encode(self, column: Column, out: np.ndarray) -> None:
        values = np.ldexp(self.numbers(column), -self.exponent)
        out[:, 0] = np.nan_to_num((values - self.mean) / self.std, nan=0.0, posinf=np.inf)

    def numbers(self, column: Column) -> np.ndarray:
        return _numbers(column, number_of_word, "number")


@dataclass(frozen=True)
class OrderedColumn(NumberColumn):
    """An ordered category: its rank as a number; an unknown one is at the mean."""

    order: list[str]
    kind = "ordered"
    words = True
    FIELDS: ClassVar[dict[str, Field]] = {**NumberColumn.FIELDS, "order": Texts()}

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        return isinstance(summary, WordSummary) and summary.order is not None

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        order = list(summary.order or sorted(summary.weights))
        rank = {word: float(i) for i, word in enumerate(order)}
        summary = _numbers_of_words(summary, rank.get, cls.kind)
        learned = NumberColumn.learn(summary, settings)
        if isinstance(learned, IgnoredColumn):
            return learned
        return cls(**vars(learned), order=order)

    def numbers(self, column: Column) -> np.ndarray:
        rank = {word: float(i) for i, word in enumerate(self.order)}
        return np.array([rank.get(word, np.nan) for word in column.values], np.float64)


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
        "values": Texts("v"),
        "rare": Texts(),
        "shares": Array("f", ("levels",), low=0, high=1, strict=True),
        "gap": Flag(),
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
        weights, rows = summary.weights, summary.counts
        if rows is None:
            return IgnoredColumn(summary.name, "too many different words")
        least = settings.min_frequency
        share = least if isinstance(least, float) else 0.0
        fewest = 2 if isinstance(least, float) else least
        rare = [
            word
            for word in sorted(rows)
            if rows[word] < fewest or weights[word] < share * summary.weight
        ]
        rare = rare if len(rare) > 1 else []
        pooled = set(rare)
        values = [word for word in sorted(rows) if word not in pooled]
        levels = [weights[word] for word in values]
        if rare:
            levels.append(sum(weights[word] for word in rare))
        if summary.missing:
            levels.append(summary.missing)
        if len(levels) < 2:
            return IgnoredColumn(summary.name, "every value is rare" if rare else "one value only")
        shares = np.array(levels) / summary.weight
        return cls(summary.name, values, rare, shares, summary.missing > 0)

    @property
    def levels(self) -> list[str]:
        """The values that are told apart."""
        return [*self.values, *([RARE] if self.rare else []), *([MISSING] if self.gap else [])]

    @property
    def suffixes(self) -> list[str]:
        names = [f"={level}" for level in self.levels]
        return names[1:] if len(names) == 2 else names

    def encode(self, column: Column, out: np.ndarray) -> None:
        codes, first, scale, shares = self._codes(column)
        out[:] = -shares / scale
        rows = np.flatnonzero(codes >= first)
        out[rows, codes[rows] - first] += 1 / scale
        out[codes < 0] = 0

    def sparse(self, column: Column) -> csr_array:
        codes, first, scale, shares = self._codes(column)
        n, k = len(codes), len(shares)
        rows, unknown = np.flatnonzero(codes >= first), np.flatnonzero(codes < 0)
        entries = np.concatenate(
            [np.full(len(rows), 1 / scale), np.tile(shares / scale, len(unknown))]
        )
        where = (
            np.concatenate([rows, np.repeat(unknown, k)]),
            np.concatenate([codes[rows] - first, np.tile(np.arange(k), len(unknown))]),
        )
        return csr_array((entries, where), shape=(n, k))

    def _codes(self, column):
        """The level of each row (-1: unknown), the first with a feature, the scale, the shares."""
        number: dict[str | None, int] = {word: i for i, word in enumerate(self.values)}
        number |= dict.fromkeys(self.rare, len(self.values))
        if self.gap:
            number[None] = len(self.shares) - 1
        words = self.read(column)
        codes = np.array([number.get(word, -1) for word in words], int)
        first = 1 if len(self.shares) == 2 else 0
        spread = float(self.shares @ (1 - self.shares))
        return codes, first, (spread / (1 + first)) ** 0.5, self.shares[first:]

    def read(self, column: Column) -> Iterable[str | None]:
        """The words of a column, None where missing."""
        return column.values


@dataclass(frozen=True)
class BooleanColumn(WordColumn):
    """A truth value; "yes", "t" and 1 are also read as true."""

    kind = "boolean"

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        return isinstance(summary, WordSummary) and summary.types == {"bool"}

    def read(self, column: Column) -> Iterable[str | None]:
        known = dict.fromkeys(TRUE, "True") | dict.fromkeys(FALSE, "False")
        return [word and known.get(word.casefold(), word) for word in column.values]


@dataclass(frozen=True)
class DateColumn(Kind):
    """A date: the time that has passed, and its place in the day, the week and the year where the
    data span them, all parts with the same weight.
    """

    formats: list[str]  # of dates that are words
    periods: list[str]
    mean: np.ndarray
    std: np.ndarray  # by feature, the number of parts included
    missing: float | None
    kind = "date"
    FIELDS: ClassVar[dict[str, Field]] = {
        "formats": Texts(),
        "periods": Texts(),
        "mean": Array("f", ("k",)),
        "std": Array("f", ("k",), low=0, strict=True),
        "missing": SHARE,
    }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "column") -> Self:
        column = super().from_state(state, within)
        for name, known in (("formats", DATE_FORMATS), ("periods", PERIODS)):
            given = getattr(column, name)
            expect(set(given) <= set(known), f"{within}.{name}", given, f"some of {list(known)}")
        k = 1 + 2 * len(column.periods)
        expect(len(column.mean) == k, f"{within}.mean", column.mean, f"{k} numbers")
        return column

    @classmethod
    def recognizes(cls, summary: Summary) -> bool:
        if isinstance(summary, WordSummary):
            return bool(date_formats(summary.weights))
        return isinstance(summary, DateSummary)

    @classmethod
    def learn(cls, summary: Any, settings: Settings) -> "Self | IgnoredColumn":
        formats: list[str] = []
        if settings.dates == "ignore":
            return IgnoredColumn(summary.name, "dates are ignored")
        if isinstance(summary, WordSummary):
            formats = list(date_formats(summary.weights)) or list(DATE_FORMATS)
            summary = _dates_of_words(summary, formats)
        moments, missing = summary.moments, _missing_block(summary, settings)
        if moments.low[0] == moments.high[0]:
            return IgnoredColumn(summary.name, "one value only")
        mean, squares = moments.in_units(np.zeros_like(moments.exponent))
        variance = squares / summary.weight
        span = moments.high[0] - moments.low[0]
        parts, periods = [[0]], []
        for i, (period, seconds) in enumerate(PERIODS.items()):
            pair = [1 + 2 * i, 2 + 2 * i]
            seen = span >= CYCLES_NEEDED * seconds and (period != "day" or summary.timed)
            if settings.dates == "auto" and seen and variance[pair].sum() > 1e-12:
                parts.append(pair)
                periods.append(period)
        std = np.concatenate(
            [np.full(len(part), (len(parts) * variance[part].sum()) ** 0.5) for part in parts]
        )
        return cls(summary.name, formats, periods, mean[np.concatenate(parts)], std, missing)

    @property
    def suffixes(self) -> list[str]:
        return ["", *(f":{p}_{wave}" for p in self.periods for wave in ("cos", "sin"))]

    @property
    def missing_share(self) -> float | None:
        return self.missing

    def encode(self, column: Column, out: np.ndarray) -> None:
        kept = [0]
        for i, period in enumerate(PERIODS):
            kept += [1 + 2 * i, 2 + 2 * i] if period in self.periods else []
        out[:] = np.nan_to_num((cycles(self.numbers(column))[:, kept] - self.mean) / self.std)

    def numbers(self, column: Column) -> np.ndarray:
        formats = (*self.formats, *(each for each in DATE_FORMATS if each not in self.formats))
        return _numbers(column, lambda word: seconds_of_word(word, formats), "date")


KINDS: dict[str, type[Kind]] = {  # in the order in which they are asked
    each.kind: each for each in (OrderedColumn, BooleanColumn, NumberColumn, DateColumn, WordColumn)
}


def learn_kind(summary: Summary, settings: Settings, kind: str | None) -> Kind | IgnoredColumn:
    """The column as the given kind, or as the first that recognizes it; or why it is left out."""
    if kind == "ignore":
        return IgnoredColumn(summary.name, "as asked")
    if not summary.weight > summary.missing:
        return IgnoredColumn(summary.name, "no values")
    if kind is None:
        found = next(each for each in KINDS.values() if each.recognizes(summary))
        reason = _not_a_feature(summary) if found in (NumberColumn, WordColumn) else None
        if reason:
            return IgnoredColumn(summary.name, reason)
        return found.learn(summary, settings)
    return KINDS[kind].learn(summary, settings)


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


def _missing_block(summary, settings):
    low, high = MISSING_SHARES
    share = summary.missing_share
    return share if settings.missing == "auto" and low <= share <= high else None


def _constant(moments: Moments) -> bool:
    return bool(moments.low[0] == moments.high[0])


def _all_read(summary, read):
    """Whether every word is read, and some as a value."""
    if summary.counts is None:
        return False
    values = [read(word) for word in summary.counts]
    return None not in values and any(value == value for value in values)


def _read_words(summary, read, kind):
    """The values of words, their weights, and the common part of a summary of them."""
    if summary.counts is None:
        raise ValueError(f"column {summary.name!r} has too many different words.")
    words = list(summary.weights)
    values = np.array([_or_refuse(read(word), word, summary.name, kind) for word in words])
    weights, gaps = np.array([summary.weights[word] for word in words]), np.isnan(values)
    common = {
        "name": summary.name,
        "n_rows": summary.n_rows,
        "weight": summary.weight,
        "missing": summary.missing + float(weights[gaps].sum()),
    }
    return values[~gaps], weights[~gaps], common


def _numbers_of_words(summary, read, kind):
    values, weights, common = _read_words(summary, read, kind)
    return NumberSummary(**common, moments=Moments.of(values[:, None], weights))


def _dates_of_words(summary, formats):
    values, weights, common = _read_words(
        summary, lambda word: seconds_of_word(word, formats), "date"
    )
    timed = bool((values % DAY != 0).any())
    return DateSummary(**common, moments=Moments.of(cycles(values), weights), timed=timed)


def _numbers(column, read, kind):
    """The values of a column as numbers, words read."""
    if column.family != "word":
        if column.family != kind:
            raise ValueError(
                f"column {column.name!r} was one of {kind}s in fit and now holds {column.family}s."
            )
        return column.values
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
