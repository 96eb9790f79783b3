"""The separator of a CSV file, from its first lines."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from .layout import MOSTLY, NUMBER, name_of

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
NAMED_SEPARATORS = {**SEPARATORS, " ": "space"}
COMMA = re.compile(
    r"(?<!\d),(?! )|,(?![\d ])"
)  # not within a number, nor before a space as in prose
DIVIDED = 0.8  # share of the records that a separator divides into equally many fields


def named_separator(given):
    """The separator that an option gives as a character or a word."""
    if given is None:
        return None
    words = {name: mark for mark, name in SEPARATORS.items()} | {"\\t": "\t", "space": " "}
    separator = words.get(given, given)
    if len(separator) != 1:
        raise ValueError(
            f"--separator '{given}' is not one character; use one, or a word: {', '.join(words)}."
        )
    return separator


def separator_of_lines(lines, wanted):
    """The separator of these lines; spaces if they divide most into equally many fields, mostly numbers."""
    text = "".join(lines)
    # spaces only where no mark divides the lines, since names and words hold them too
    mark = separator_of(text, default=None, wanted=wanted)
    if mark is not None:
        return mark
    rows = [record for record in _records(text, " ") if record]
    if _is_in_columns(rows):
        return " "
    return ","


def _is_in_columns(rows):
    """Whether most of these rows have equally many fields, mostly numbers below the first of them."""
    if not rows:
        return False
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if width == 1 or count < MOSTLY * len(rows):
        return False
    _, *below = (row for row in rows if len(row) == width)
    n_numbers = sum(map(_count_numbers, below))
    return 2 * n_numbers >= width * len(below) > 0


def _count_numbers(fields):
    return sum(bool(NUMBER.fullmatch(field)) for field in fields)


def _records(text, mark):
    lines = io.StringIO(text, newline="")
    return list(csv.reader(lines, delimiter=mark, skipinitialspace=True))


def separator_of(text: str, default: str | None = ",", wanted: Sequence[str] = ()) -> Any:
    """The mark that divides most records into equally many fields: one by which a record has the names that
    are ``wanted``; else the one that leaves no other mark within its fields, divides from an earlier line
    on, or into more numbers.
    """
    scores = {mark: _score(_records(text, mark), mark, wanted) for mark in SEPARATORS}
    best = max(scores, key=lambda mark: scores[mark] or NO_SCORE)
    if scores[best] is None:
        return default
    return best


class _Score(NamedTuple):
    """How well a mark divides the records, the first of these that differs deciding."""

    has_names: bool
    is_pure: bool
    begins: int  # minus the place of the first record with as many fields as most
    numbers: float  # share of the fields
    share: float  # of the records that have as many fields as most
    width: int


NO_SCORE = _Score(False, False, -(10**9), 0.0, 0.0, 0)


def _score(records, mark, wanted):
    """The score of a mark; None if it does not divide most records into equally many fields."""
    rows = list(filter(None, records))
    counts = Counter(map(len, rows))
    # of all widths the one with most fields in all, since titles have one field
    width = max(counts, key=lambda n_fields: n_fields * counts[n_fields], default=1)
    alike = [row for row in rows if len(row) == width]
    if width == 1 or len(alike) < 0.5 * len(rows):
        return None
    n_numbers = sum(_count_numbers(map(str.strip, row)) for row in alike)
    others = (other for other in SEPARATORS if other != mark)
    return _Score(
        has_names=_has_names(rows, set(wanted)),
        is_pure=not any(_divides_too(alike, other) for other in others),
        begins=-rows.index(alike[0]),
        numbers=n_numbers / (width * len(alike)),
        share=len(alike) / len(rows),
        width=width,
    )


def _has_names(rows, names):
    """Whether a row has at least half of these names, if there are any."""
    if not names:
        return False
    return any(2 * len(names.intersection(map(name_of, row))) >= len(names) for row in rows)


def _divides_too(rows, mark):
    """Whether another mark comes as often in nearly all records, but for commas within numbers and prose."""
    pattern = COMMA if mark == "," else re.compile(re.escape(mark))

    def count_in(row):
        return sum(len(pattern.findall(field)) for field in row)

    usual, n_rows = Counter(map(count_in, rows)).most_common(1)[0]
    return usual > 0 and n_rows >= DIVIDED * len(rows)
