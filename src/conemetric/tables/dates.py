"""Dates as people write them, with one order of day and month for a whole column."""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated, ClassVar, Self

from ..core.fields import Each, State, Text
from ..core.warn import warn_user
from .spelling import MOST_SLIPS, Spelling, is_missing

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAME = (
    "(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\\.?"
)
WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
OF_DAY = (
    r"(?:[\sT,:]+(?:at\s+)?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?)?"
)
DAY = r"(?P<day>\d{1,2})"
MONTH = r"(?P<month>\d{1,2})"
LONG_YEAR = r"(?P<year>\d{4})"
SHORT_YEAR = r"'?(?P<short>\d{2})"
NAMED_DAY = rf"{DAY}(?:st|nd|rd|th)?"
GAP = r"[\s,./-]*"  # between the parts of a date with the name of a month
# of the last century; earlier ones are of this one: the window of Windows, so of most files with such
# years. That of POSIX, from 69, puts births of 1963 into 2063
FIRST_SHORT_YEAR = 50

# by the name that is stored; where one text fits several, the first is taken
PATTERNS = {
    "iso": rf"{LONG_YEAR}-{MONTH}-{DAY}",
    "%m/%d/%Y": rf"{MONTH}\s?/\s?{DAY}\s?/\s?{LONG_YEAR}",
    "%d/%m/%Y": rf"{DAY}\s?/\s?{MONTH}\s?/\s?{LONG_YEAR}",
    "%d.%m.%Y": rf"{DAY}\.\s?{MONTH}\.\s?{LONG_YEAR}",
    "%Y/%m/%d": rf"{LONG_YEAR}[/.]{MONTH}[/.]{DAY}",
    "%d-%m-%Y": rf"{DAY}-{MONTH}-{LONG_YEAR}",
    "%m-%d-%Y": rf"{MONTH}-{DAY}-{LONG_YEAR}",
    "%m/%d/%y": rf"{MONTH}/{DAY}/{SHORT_YEAR}",
    "%d/%m/%y": rf"{DAY}/{MONTH}/{SHORT_YEAR}",
    "%d.%m.%y": rf"{DAY}\.{MONTH}\.{SHORT_YEAR}",
    "%d-%m-%y": rf"{DAY}-{MONTH}-{SHORT_YEAR}",
    "%m-%d-%y": rf"{MONTH}-{DAY}-{SHORT_YEAR}",
    "%d %b %Y": rf"{WEEKDAY}{NAMED_DAY}{GAP}(?:of\s)?{MONTH_NAME}{GAP}{LONG_YEAR}",
    "%d %b %y": rf"{NAMED_DAY}[\s-]?{MONTH_NAME}[\s-]?{SHORT_YEAR}",
    "%b %d %Y": rf"{WEEKDAY}{MONTH_NAME}{GAP}{NAMED_DAY}[\s,-]+{LONG_YEAR}",
    "%b %d %y": rf"{MONTH_NAME}{GAP}{NAMED_DAY}\s?,\s?{SHORT_YEAR}",
    "%Y %b %d": rf"{LONG_YEAR}{GAP}{MONTH_NAME}{GAP}{NAMED_DAY}",
    "%b %Y": rf"{MONTH_NAME}{GAP}{LONG_YEAR}",
    "%b-%y": rf"{MONTH_NAME}(?:-|\s?')(?P<short>\d{{2}})",
    "%Y-%m": rf"{LONG_YEAR}[-/M]{MONTH}",
    "%m/%Y": rf"{MONTH}/{LONG_YEAR}",
    "%Y Q%q": rf"{LONG_YEAR}\s?-?Q(?P<quarter>[1-4])",
    "Q%q %Y": rf"Q(?P<quarter>[1-4])[\s/-]?{LONG_YEAR}",
    "%Y%m%d": r"(?P<year>(?:19|20)\d{2})(?P<month>\d{2})(?P<day>\d{2})",
    "%m%d%Y": r"(?P<month>\d{2})(?P<day>\d{2})(?P<year>(?:19|20)\d{2})",
    "%d%m%Y": r"(?P<day>\d{2})(?P<month>\d{2})(?P<year>(?:19|20)\d{2})",
}
COMPILED = {
    name: re.compile(pattern + OF_DAY, re.ASCII | re.IGNORECASE)
    for name, pattern in PATTERNS.items()
}
DATE_FORMATS = tuple(PATTERNS)
# formats with the month first, and those that differ by the day being first
TURNED = {
    "%m/%d/%Y": "%d/%m/%Y",
    "%m/%d/%y": "%d/%m/%y",
    "%m-%d-%Y": "%d-%m-%Y",
    "%m-%d-%y": "%d-%m-%y",
    "%m%d%Y": "%d%m%Y",
}
MONTH_FIRST = frozenset(TURNED)
DAY_FIRST = frozenset(TURNED.values())
OTHER_ORDER = TURNED | {day_first: month_first for month_first, day_first in TURNED.items()}
LIKE_ISO = re.compile(r"\d{8}|\d{4}-?W|\d{4}-\d\d-\d\d", re.ASCII)
NO_DATE = re.compile(
    r"0000-00-00([T ]00:00:00(\.0+)?)?"
)  # what MySQL writes where there is no date
COMPACT = ("%Y%m%d", "%m%d%Y", "%d%m%Y")  # of whole numbers that are dates
# of text; eight digits in a row are a number, unless a file or `fromisoformat` says otherwise
TEXT_FORMATS = tuple(form for form in DATE_FORMATS if form not in COMPACT)


@dataclass(frozen=True)
class DateSpelling(Spelling):
    """Dates in any of these formats, in seconds since 1970."""

    formats: Annotated[Sequence[str], Each(Text(DATE_FORMATS), distinct=True)]

    name: ClassVar = "date"
    kind: ClassVar = "date"

    def __post_init__(self) -> None:
        object.__setattr__(self, "formats", tuple(self.formats))  # lists in files

    @classmethod
    def found_in(cls, words: Sequence[str], decimal: str) -> Self | None:
        if all(word.isdigit() for word in words):
            return None  # numbers; `compact_format` is for those that are known to be dates
        formats = date_formats(words, 0.5)
        if not formats:
            return None
        return cls(formats)

    def value_of(self, word: str) -> float | None:
        return seconds_of_word(word, self.formats)

    def state(self) -> State:
        return super().state() | {"formats": list(self.formats)}

    @property
    def title(self) -> str:
        return "Dates"


def seconds_of_word(word: str, formats: Iterable[str] = TEXT_FORMATS) -> float | None:
    """The seconds since 1970 of a date in one of these formats; NaN for a missing value, None for no
    date.
    """
    word = word.strip()
    if is_missing(word) or NO_DATE.fullmatch(word):
        return math.nan
    for form in formats:
        if form == "iso":
            seconds = _seconds_of_iso(word)
            if seconds is not None:
                return seconds
        found = COMPILED[form].fullmatch(word)
        if found is not None:
            seconds = _seconds(found.groupdict())
            if seconds is not None:
                return seconds
    return None


def _seconds_of_iso(word: str) -> float | None:
    """The seconds since 1970 of a date that Python reads as one of ISO 8601, without a zone in UTC."""
    if not LIKE_ISO.match(word):
        return None
    with suppress(ValueError):
        at = datetime.fromisoformat(word)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        return at.timestamp()
    return None


def _seconds(parts: dict[str, str | None]) -> float | None:
    """The seconds since 1970 of the parts of a date; None if there is no such day."""
    hour = _hour(int(parts["hour"] or 0), parts["half"] or "")
    if hour is None:
        return None
    fraction = float(f"0.{parts['fraction'] or 0}")
    with suppress(ValueError):  # of the 30th of February, or of 25 o'clock
        at = datetime(
            _year(parts),
            _month(parts),
            int(parts.get("day") or 1),
            hour,
            int(parts["minute"] or 0),
            int(parts["second"] or 0),
            tzinfo=_zone(parts["zone"]),
        )
        return at.timestamp() + fraction
    return None


def _year(parts: dict[str, str | None]) -> int:
    """The year, with its century if it has two digits."""
    year = parts.get("year")
    if year is not None:
        return int(year)
    short = int(parts["short"] or 0)
    if short >= FIRST_SHORT_YEAR:
        return 1900 + short
    return 2000 + short


def _month(parts: dict[str, str | None]) -> int:
    """The month by its name, by its number, or the first of a quarter."""
    if parts.get("name"):
        return 1 + MONTHS.index(str(parts["name"])[:3].casefold())
    if parts.get("quarter"):
        return 3 * int(str(parts["quarter"])) - 2
    return int(str(parts["month"]))


def _hour(shown: int, half: str) -> int | None:
    """The hour of the day; None if a half of the day is given and has no such hour."""
    if not half:
        return shown
    # 13:05 PM and 0:30 AM are slips, not times
    if not 1 <= shown <= 12:
        return None
    hour = shown % 12  # 12 am is midnight
    if half.casefold().startswith("p"):
        hour += 12
    return hour


def _zone(text: str | None) -> timezone:
    """The time zone of such a text as +01:00; UTC without digits."""
    if not text or not text[-1].isdigit():
        return UTC
    offset = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    if text.startswith("-"):
        return timezone(-offset)
    return timezone(offset)


def date_formats(words: Iterable[str], others: float = 0.0) -> tuple[str, ...]:
    """The formats of words that are dates, but for a share of ``others``; one if one reads all."""
    present = [word for word in words if not is_missing(word)]
    if not present:
        return ()
    read = {form: _n_read(present, [form]) for form in TEXT_FORMATS}
    best = max(read, key=lambda form: read[form])
    # one format for all words leaves no second order of day and month
    if read[best] == len(present):
        return (best,)
    other_order = _rarer_order(read, best)
    mixed = tuple(form for form in TEXT_FORMATS if read[form] and form not in other_order)
    missed = len(present) - _n_read(present, mixed)
    if missed > others * len(present):
        return ()
    return mixed


def _rarer_order(read: dict[str, int], best: str) -> frozenset[str]:
    """The formats with the order of day and month in which fewer words are dates; if as many are in
    either, those with the order that the ``best`` format has not.
    """
    n_month_first = sum(map(read.__getitem__, MONTH_FIRST & read.keys()))
    n_day_first = sum(map(read.__getitem__, DAY_FIRST & read.keys()))
    if n_day_first == n_month_first:
        day_first = best in DAY_FIRST
    else:
        day_first = n_day_first > n_month_first
    if day_first:
        return MONTH_FIRST
    return DAY_FIRST


def compact_format(numbers: Collection[int]) -> str | None:
    """The format in which all these whole numbers are dates, such as 20141107 or 11072014."""
    # a number has lost its leading zero: 1052018 is 01052018
    words = [f"{number:08d}" for number in numbers]
    for form in COMPACT:
        if _n_read(words, [form]) == len(words):
            return form
    return None


def _n_read(words: Iterable[str], formats: Sequence[str]) -> int:
    """How many of the words are dates in one of these formats."""
    n = 0
    for word in words:
        if seconds_of_word(word, formats) is not None:
            n += 1
    return n


def formats_of(name: str, words: Iterable[str], known: Sequence[str] = ()) -> list[str]:
    """The formats to read the dates of a column in: the known ones if they read all, else its own, with
    one order of day and month. If any would do, that is an error beside known ones, else a warning,
    as is an order unlike the known one.
    """
    words = list(words)
    if known and _n_read(words, known) == len(words):
        return list(known)
    # without a slip if possible, else with a few; if no word is a date, the caller, who reads the
    # words in these formats, names the first of them
    formats = list(date_formats(words) or date_formats(words, MOST_SLIPS) or TEXT_FORMATS)
    order = order_of(formats)
    either = is_ambiguous(words, formats)
    turned = {order, order_of(known)} == {"day", "month"}
    if not (either or turned):
        return formats
    first = min(word for word in words if seconds_of_word(word, known) is None)
    dates = f"column {name!r}: dates such as {first!r}"
    # guessing could swap day and month in a whole block of new rows unseen
    if known and either:
        raise ValueError(f"{dates} were not in fit; write them as 2021-12-31.")
    reading = f"are read with the {order} first"
    if known:
        reading += ", unlike during fit"
    warn_user(f"{dates} {reading}; write them as 2021-12-31.")
    return formats


def order_of(formats: Collection[str]) -> str:
    """Which of day and month is first in these formats: "day" or "month"; "" if they leave no choice."""
    month_first = not MONTH_FIRST.isdisjoint(formats)
    day_first = not DAY_FIRST.isdisjoint(formats)
    if month_first and not day_first:
        return "month"
    if day_first and not month_first:
        return "day"
    return ""


def is_ambiguous(words: Iterable[str], formats: Collection[str]) -> bool:
    """Whether dates in these formats could as well have the other order of day and month."""
    if not order_of(formats):
        return False
    turned = [OTHER_ORDER.get(form, form) for form in formats]
    return all(seconds_of_word(word, turned) is not None for word in words)
