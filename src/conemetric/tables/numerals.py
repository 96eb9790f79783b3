"""Numbers as people write them: money, percentages, units, separators of thousands, decimal commas,
parentheses for negative ones; and durations.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple, Self

from ..core.fields import Plain, Text
from .spelling import MOST_SLIPS, Spelling, is_missing

MINUS = "-\N{MINUS SIGN}\N{EN DASH}"
SIGN = rf"[+\{MINUS}]"
IS_NEGATIVE = rf"[\{MINUS}]"
SPACES = " \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"
APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
SYMBOLS = "$£€¥₹₽₩₺₫₦฿₪₴₱₡₲₵₸₼₾¢"
CODES = (
    "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|RMB|INR|RUB|BRL|ZAR|SEK|NOK|DKK|ISK|PLN|CZK|HUF|RON|BGN|TRY"
    "|MXN|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|VND|PKR|BDT|LKR|ILS|AED|SAR|QAR|NGN|KES|GHS|EGP|MAD|ARS|CLP"
    "|COP|PEN|UAH|BTC"
)
NATIONAL_DOLLARS = "US|AU|CA|NZ|HK|MX|NT|A|C|R|S"  # before the dollar sign
# longest first, so that none hides another; no lookaround, since polars reads these patterns too
CURRENCY = rf"(?:(?:{NATIONAL_DOLLARS})[$]|[{SYMBOLS}]|(?:{CODES})|Rs\.?|kr\.?|Fr\.?|zł|Kč|Ft|lei)"
THOUSAND = 1e3
MILLION = 1e6
BILLION = 1e9
TRILLION = 1e12
SCALES = {
    **dict.fromkeys(("k", "thousand", "thousands"), THOUSAND),
    **dict.fromkeys(("m", "mn", "mln", "mio", "mio.", "million", "millions"), MILLION),
    **dict.fromkeys(("b", "bn", "mrd", "mrd.", "billion", "billions"), BILLION),
    **dict.fromkeys(("t", "tn", "trillion", "trillions"), TRILLION),
    **dict.fromkeys(("lakh", "lakhs", "lac", "lacs"), 1e5),
    **dict.fromkeys(("crore", "crores", "cr", "cr."), 1e7),
}
SCALE = (
    "[Kk]|M|B|T|(?i:thousands?|mn|mln|mio\\.?|millions?|bn|mrd\\.?|billions?|tn|trillions?|lakhs?|lacs?"
    "|crores?|cr\\.?)"
)
SMALL_SCALE = "[mbt]"  # which may as well be metres, bytes or tons
FOOTNOTE = r"(?:\s?(?:\[[0-9A-Za-z ]{1,9}\]|[*†‡+]{1,3}))?"  # also "10,000+"
ORDINALS = ("st", "nd", "rd", "th")
ORDINAL = "th"  # stands for all of them
# that a warning names where a column mixes them; other text behind numbers may as well be a code
KNOWN_UNIT = re.compile(
    "%|‰|°[cf]?|mm|cm|m|km|in|ft|yd|mi|mile|g|kg|mg|t|lb|oz|stone|l|ml|cl|gal|s|sec|second|min|minute|h|hr|hour"
    "|day|week|month|year|km/kg|km/?l|kmpl|mpg|km/?h|mph|[kmgt]b|[kmg]?hz|k?wh?|mw|hp|bhp|ps|cc|nm|sq ?ft|m2|m²"
    "|ha|acre",
    re.IGNORECASE,
)
LONGEST_UNIT = 15  # characters
LEAST_SHARE = 0.5  # of the words that have the currency, or the unit, of a column
SPELLED_ZERO = "-"  # beside a currency, in accounts


def _digits(decimal: str, other: str) -> str:
    """The pattern of an unsigned number with this decimal mark; 007 is a code."""
    by_other = rf"(?:\{other}[0-9]{{2,3}})*\{other}[0-9]{{3}}"  # in India also by two digits
    by_space = rf"(?:[{SPACES}][0-9]{{3}})+"
    by_apostrophe = rf"(?:[{APOSTROPHES}][0-9]{{3}})+"
    grouped = rf"[1-9][0-9]{{0,2}}(?:{by_other}|{by_space}|{by_apostrophe})"
    whole = rf"(?:{grouped}|0|[1-9][0-9]*)"
    return rf"(?:{whole}(?:\{decimal}[0-9]*)?|\{decimal}[0-9]+)(?:[eE][+-]?[0-9]+)?"


# by decimal mark: what separates thousands, and the pattern of an unsigned number
GROUPING = {".": f"{SPACES}{APOSTROPHES},", ",": f"{SPACES}{APOSTROPHES}."}
NOT_DECIMAL = {mark: dict.fromkeys(map(ord, others)) for mark, others in GROUPING.items()}
DIGITS = {".": _digits(".", ","), ",": _digits(",", ".")}
NUMBER = {decimal: re.compile(pattern) for decimal, pattern in DIGITS.items()}
PLAIN = re.compile(r"[+-]?(0|[1-9][0-9]*|(?=\.[0-9]))(\.[0-9]*)?([eE][+-]?[0-9]+)?")
ANY_DIGITS = rf"[0-9.,](?:[0-9.,{SPACES}{APOSTROPHES}]*[0-9.,])?(?:[eE][+-]?[0-9]+)?"
ANY_NUMBER = re.compile(
    rf"{SIGN}?\s?(?P<prefix>{CURRENCY})?\s?{SIGN}?(?P<digits>{ANY_DIGITS})\s?(?P<rest>.*)", re.S
)
UNIT = re.compile(rf"[^\d\s](?:\D|(?<=[A-Za-z])\d){{0,{LONGEST_UNIT - 1}}}", re.ASCII)
AFTER = re.compile(
    rf"(?P<scale>(?:{SCALE}|{SMALL_SCALE})(?=$|[\s{SYMBOLS}]))?\s*(?P<suffix>{CURRENCY}(?=$))?(?P<unit>.*)"
)


class _Parts(NamedTuple):
    """A word that may be a number, taken apart."""

    currency: str
    digits: str
    scale: str
    unit: str


@dataclass(frozen=True)
class NumberSpelling(Spelling):
    """Numbers with one currency or unit, or none, and one decimal mark. A percentage is its number:
    51.3% is 51.3. Without a currency or unit a word is the number that it shows.
    """

    decimal: Annotated[str, Text((".", ","))] = "."
    currency: Annotated[str, Text()] = ""  # as written, such as $ or EUR
    unit: Annotated[str, Text()] = ""  # such as % or km, without the s of a plural
    scales: Annotated[bool, Plain(bool)] = False  # whether m is a million rather than a unit

    name = "number"
    kind = "number"

    @classmethod
    def found_in(cls, words: Sequence[str], decimal: str) -> Self | None:
        found = _all_parts(words)
        if len(found) < LEAST_SHARE * len(words):
            return None
        currency = _shared([parts.currency for parts in found])
        scales = {parts.scale for parts in found}
        # 5m may be five metres; beside 300k, or of money, it is five million
        ambiguous = {scale for scale in scales if len(scale) == 1 and scale.islower()} - {"k"}
        means_scale = bool(currency) or bool(scales - ambiguous - {""})
        units = []
        for parts in found:
            if parts.scale in ambiguous and not means_scale:
                units.append(_unit_name(parts.scale))
            else:
                units.append(parts.unit)
        mark = _decimal_of(found, decimal)
        return cls(mark, currency, _shared(units), scales=bool(ambiguous) and means_scale)

    @property
    def pattern(self) -> str:
        """What a word of digits fully matches, without parentheses; group 1 has the sign, 2 the digits,
        3 the scale.
        """
        scale = SCALE
        if self.scales or self.currency:
            scale += f"|{SMALL_SCALE}"
        suffixes = []
        before = ""
        if self.currency:
            currency = re.escape(self.currency)
            before = rf"(?:{currency}\s?)?"
            suffixes.append(currency)
        if self.unit:
            suffixes.append(_unit_pattern(self.unit))
        after = ""
        if suffixes:
            after = rf"(?:\s?(?:{'|'.join(suffixes)}))?"
        sign = rf"{SIGN}?\s?{before}{SIGN}?"
        return rf"^({sign})({DIGITS[self.decimal]})(?:\s?({scale}))?{after}{FOOTNOTE}$"

    @property
    def is_plain(self) -> bool:
        """Whether all words are numbers as computers write them."""
        return self == NumberSpelling()

    def value_of(self, word: str) -> float | None:
        word = word.strip()
        # most words are plain, and Python reads those faster
        if self.decimal == "." and PLAIN.fullmatch(word):
            return _finite(float(word))
        if is_missing(word):
            return math.nan
        word = _without_parentheses(word)
        found = _compiled(self).match(word)
        if found is None:
            if self.currency and word.replace(self.currency, "").strip() == SPELLED_ZERO:
                return 0.0
            return None
        sign, digits, scale = found.groups()
        digits = digits.translate(NOT_DECIMAL[self.decimal]).replace(",", ".")
        value = float(digits)
        if scale:
            value *= SCALES[scale.casefold()]
        if not set(MINUS).isdisjoint(sign):
            value = -value
        return _finite(value)

    @property
    def title(self) -> str:
        if self.currency:
            return "Money"
        if self.unit == "%":
            return "Percentages"
        if self.unit == ORDINAL:
            return "Ordinal numbers"
        if self.unit:
            return f"Numbers in {self.unit}"
        if self.decimal == ",":
            return "Numbers with decimal commas"
        return "Numbers"


@lru_cache(maxsize=256)
def _compiled(spelling: NumberSpelling) -> re.Pattern[str]:
    return re.compile(spelling.pattern)


def mixed_units(words: Sequence[str]) -> list[str]:
    """The different currencies or known units of words that are numbers but for these; none of others."""
    if any(map(is_missing, words)):
        return []
    found = _all_parts(words)
    if len(found) < len(words):
        return []
    currencies = Counter(parts.currency for parts in found)
    if len(currencies) > 1 and not currencies[""]:
        return _most_common_first(currencies)
    units = Counter(parts.unit for parts in found)
    if len(units) > 1 and all(map(KNOWN_UNIT.fullmatch, units)):
        return _most_common_first(units)
    return []


def _most_common_first(units: Counter[str]) -> list[str]:
    """The counted units by how common they are."""
    return [unit for unit, _ in units.most_common()]


# ---- parts of a word


def _all_parts(words: Iterable[str]) -> list[_Parts]:
    """The parts of those words that may be numbers."""
    found = []
    for word in words:
        parts = _parts_of(word)
        if parts is not None:
            found.append(parts)
    return found


def _parts_of(word: str) -> _Parts | None:
    """The parts of a word that may be a number in some spelling."""
    found = ANY_NUMBER.fullmatch(_without_parentheses(word.strip()))
    if found is None:
        return None
    rest = re.sub(rf"{FOOTNOTE}$", "", found["rest"].strip())
    after = AFTER.fullmatch(rest)
    if after is None:
        return None
    digits = found["digits"]
    if not any(each.fullmatch(digits) for each in NUMBER.values()):
        return None
    unit = after["unit"].strip()
    if unit and not UNIT.fullmatch(unit):
        return None
    currency = found["prefix"] or after["suffix"] or ""
    return _Parts(currency, digits, after["scale"] or "", _unit_name(unit))


def _without_parentheses(word: str) -> str:
    """The word with a minus for parentheses, as accounts write negative numbers, or for a minus behind."""
    if word.endswith("-") and len(word) > 1 and word[-2].isdigit():
        return f"-{word[:-1]}"
    if word.count("(") == word.count(")") == 1:
        before, _, rest = word.partition("(")
        inside, _, behind = rest.partition(")")
        # 5 (a) is no negative number, nor is (-5)
        has_word_outside = before.strip().isalnum() or behind.strip().isalnum()
        if inside[:1] not in MINUS and not has_word_outside:
            return f"{before}-{inside.strip()}{behind}"
    return word


def _unit_name(unit: str) -> str:
    """A unit without the s of its plural; of 1st, 2nd, ... "th"."""
    if unit in ORDINALS:
        return ORDINAL
    if len(unit) > 2:  # ms are milliseconds
        return unit.removesuffix("s")
    return unit


def _unit_pattern(unit: str) -> str:
    """The pattern of a unit, in any case, with the s of its plural or without."""
    if unit == ORDINAL:
        return "|".join(ORDINALS)
    pattern = re.escape(unit)
    if len(unit) > 1:
        pattern += "s?"
    return f"(?i:{pattern})"


def _shared(units: list[str]) -> str:
    """The most common of these if most words have it; else none."""
    by_case = Counter(unit.casefold() for unit in units if unit)
    if not by_case:
        return ""
    name, count = by_case.most_common(1)[0]
    if count < LEAST_SHARE * len(units):
        return ""
    return next(unit for unit in units if unit.casefold() == name)


def _decimal_of(found: Sequence[_Parts], preferred: str) -> str:
    """The decimal mark that reads more numbers; the preferred one if that reads all but slips, since
    among numbers like 23.001 a single 3,14 turns all marks into separators of thousands.
    """
    marked = [parts.digits for parts in found if "." in parts.digits or "," in parts.digits]
    n_read = {}
    for mark in (".", ","):
        fits = NUMBER[mark].fullmatch
        n_read[mark] = len(list(filter(fits, marked)))
    if n_read[preferred] >= (1 - MOST_SLIPS) * len(marked):
        return preferred
    if n_read[","] > n_read["."]:
        return ","
    return "."


def _finite(value: float) -> float | None:
    """The value; None of one beyond the range of floats."""
    if math.isfinite(value):
        return value
    return None
