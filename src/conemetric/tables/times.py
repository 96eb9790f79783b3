"""Times of day, durations, and heights in feet and inches, as people write them."""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from .spelling import Spelling, is_missing

# in seconds
MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0
INCHES = 12.0  # in a foot
HALF_OF_DAY = r"(?P<half>[ap])\.?m\.?"
CLOCK = re.compile(
    rf"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d+)?))?(?:\s*{HALF_OF_DAY})?"
    rf"|(?P<whole>1[0-2]|0?[1-9])\s*{HALF_OF_DAY.replace('half', 'side')}",
    re.ASCII | re.IGNORECASE,
)
# minutes and seconds, with hours or days before them
STOPPED = re.compile(
    r"(?P<sign>-)?(?:(?P<days>\d+)\s*d(?:ays?)?,?\s*\+?)?"
    r"(?:(?P<hours>\d+):(?P<minutes>[0-5]\d)|(?P<first>\d+)):(?P<seconds>[0-5]\d(?:\.\d+)?)",
    re.ASCII | re.IGNORECASE,
)
COUNTED = re.compile(
    r"(?:(?P<days>\d+(?:\.\d+)?)\s*d(?:ays?)?)?,?\s*(?:(?P<hours>\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?)?,?\s*"
    r"(?:(?P<minutes>\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?)?,?\s*"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?",
    re.ASCII | re.IGNORECASE,
)
FEET = re.compile(
    "(?P<feet>[0-9])\\s?(?:ft\\.?|['\N{PRIME}\N{RIGHT SINGLE QUOTATION MARK}])"
    "\\s?(?:(?P<inches>(?:1[01]|[0-9])(?:\\.[0-9]+)?)\\s?"
    "(?:in\\.?|''|[\"\N{DOUBLE PRIME}\N{RIGHT DOUBLE QUOTATION MARK}])?)?",
    re.IGNORECASE,
)


class _Fixed(Spelling):
    """A spelling without fields: all its words look alike."""

    @classmethod
    def found_in(cls, words: Sequence[str], decimal: str) -> Self | None:
        spelling = cls()
        n_unread = [spelling.value_of(word) for word in words].count(None)
        if len(words) - n_unread > len(words) / 2:
            return spelling
        return None

    def value_of(self, word: str) -> float | None:
        if is_missing(word):
            return math.nan
        return self.read(word.strip())

    @abstractmethod
    def read(self, word: str) -> float | None:
        """The value of a word that is none for a missing value."""


@dataclass(frozen=True)
class TimeSpelling(_Fixed):
    """A time of day: 13:08, 13:08:30, 1:08 PM, 1 pm; in seconds since midnight."""

    name: ClassVar = "time"
    kind: ClassVar = "time"

    def read(self, word: str) -> float | None:
        found = CLOCK.fullmatch(word)
        if found is None:
            return None
        hour = int(found["hour"] or found["whole"])
        half = (found["half"] or found["side"] or "").casefold()
        if half:
            if hour > 12:
                return None
            hour %= 12  # 12 am is midnight
            if half == "p":
                hour += 12
        return hour * HOUR + int(found["minute"] or 0) * MINUTE + float(found["second"] or 0)

    @property
    def title(self) -> str:
        return "Times of day"


@dataclass(frozen=True)
class DurationSpelling(_Fixed):
    """A duration: 27:15:00, 95:30 (minutes and seconds), 2 days 03:00:00, 2h 50m; in seconds."""

    name: ClassVar = "duration"
    kind: ClassVar = "number"

    def read(self, word: str) -> float | None:
        found = STOPPED.fullmatch(word) or COUNTED.fullmatch(word)
        if found is None or not word:
            return None
        parts = found.groupdict()
        minutes = parts["minutes"] or parts.get("first")
        seconds = _number(parts["days"]) * DAY + _number(parts["hours"]) * HOUR
        seconds += _number(minutes) * MINUTE + _number(parts["seconds"])
        if parts.get("sign"):
            return -seconds
        return seconds

    @property
    def title(self) -> str:
        return "Durations in seconds"


@dataclass(frozen=True)
class HeightSpelling(_Fixed):
    """Feet and inches: 5'11", 5 ft 11 in; in inches."""

    name: ClassVar = "height"
    kind: ClassVar = "number"

    def read(self, word: str) -> float | None:
        found = FEET.fullmatch(word)
        if found is None:
            return None
        return int(found["feet"]) * INCHES + _number(found["inches"])

    @property
    def title(self) -> str:
        return "Heights in inches"


def _number(digits: str | None) -> float:
    """The number of a part of a duration or height, 0 of one that is not there."""
    return float(digits or 0)
