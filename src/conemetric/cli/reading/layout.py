"""Where the table is in a CSV file: titles above it, a header of several lines, notes below it, or a table
that lies on its side.
"""

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from ...tables.spelling import is_missing

NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
MOST_ABOVE = 50  # records above the header
MOST_HEADER_LINES = 4  # of groups of columns, from the first full line to the one with the names
MOST_BELOW = 50  # lines below the table that are looked at
RULE = re.compile(r"[-=_+]{2,}")  # of dashes, below the names
LIKE_A_NAME = re.compile(r"[A-Za-z%°(#{]")  # what the text of a header begins with; $5 is a value
MOSTLY_NUMBERS = 0.8  # share of the fields of a column of numbers; the others may be notes below it
MOSTLY = 0.9  # share of the rows, or of the names, that decides
FEWEST_ON_SIDE = 10  # rows of a table on its side
TOTAL = re.compile(r"(grand |sub)?totals?|sum(me)?|average|mean|overall", re.IGNORECASE)
NOTE = re.compile(
    r"[*†‡©#(\[]|https?:|(sources?|notes?|data|(last )?updated?|copyright|generated|exported|downloaded|created"
    r"|retrieved|report|footnotes?|legend|disclaimer)\b",
    re.IGNORECASE,
)
# of a page around the table; a value may well start with < and a number
TAG = re.compile(r"\s*<(!doctype|!--|/?[a-z][a-z0-9]*[\s/>])", re.IGNORECASE)


class Record(NamedTuple):
    """A record of a file."""

    begins: int  # the number of its first line, from 1
    ends: int  # of its last line
    fields: list[str]  # without spaces around them

    @property
    def n_filled(self) -> int:
        return sum(1 for field in self.fields if field)


@dataclass(frozen=True)
class Layout:
    """Lines above the header, or above the data if there is none, and above the data."""

    above: int = 0
    data: int = 0
    header: bool = True  # whether there is one
    groups: tuple[str, ...] = ()  # above the names of columns, as wide as their columns
    row_names: bool = False  # whether rows have one field more than the header, in front
    on_side: bool = False  # whether the first field of each record is the name of a column


def name_of(field: str) -> str:
    """The name of a column: a field of the header with single spaces, without a comment mark."""
    return " ".join(field.replace("\N{NO-BREAK SPACE}", " ").split()).removeprefix("# ")


def find_layout(
    records: Sequence[Record],
    header: bool | None,
    has_header: Callable[[list[list[str]]], bool],
    wanted: Sequence[str],
) -> Layout:
    """The layout of a table with these first records. ``header`` says whether there is a line of names, if
    that is known, and else ``has_header`` of the first full line and those below; ``wanted`` are names
    that a header has.
    """
    if not records:
        return Layout(header=header is not False)
    if header is not False and _lies_on_side(records, wanted):
        return Layout(on_side=True)
    first = _first_full(records)
    place = first
    if header is not False:
        named = _with_names(records, first, wanted)
        if named is not None:
            place = named
            header = True
    found = records[place]
    if header is None:
        header = has_header([record.fields for record in records[place:]])
    if not header:
        return Layout(found.begins - 1, found.begins - 1, header=False)
    width, _ = typical(records)
    below = [record for record in records[place + 1 :] if len(record.fields) >= width - 1]
    n_more = _n_more_header_lines(found, below)
    header_ends = [found, *below][n_more].ends
    groups: tuple[str, ...] = ()
    if place > 0:
        groups = _groups(records[place - 1].fields)
    row_names = _has_row_names(found, below[n_more:])
    return Layout(found.begins - 1, header_ends, True, groups, row_names)


def _has_row_names(header, rows):
    """Whether most rows have one field more than the header, which is in front of them."""
    n_wider = sum(len(row.fields) == len(header.fields) + 1 for row in rows)
    if not rows or n_wider < MOSTLY * len(rows):
        return False
    # if all end in an empty field, the lines end in a separator
    return any(row.fields[-1] for row in rows if row.fields)


def typical(records: Sequence[Record]) -> tuple[int, float]:
    """The number of fields of most records, long ones counting more, and how many of these are filled."""
    counts = Counter(len(record.fields) for record in records)

    def n_fields(width):
        """In all records of this width together; of as many, the wider ones count."""
        return width * counts[width], width

    width = max(counts, key=n_fields)
    return width, median(r.n_filled for r in records if len(r.fields) == width)


def _first_full(records):
    """The place of the first record that is no title, comment or group of columns."""
    width, n_filled = typical(records)
    for place, record in enumerate(records[:MOST_ABOVE]):
        # one field less than most: rows may have names in front, which the header does not name
        wide = len(record.fields) >= width - 1
        if wide and 2 * record.n_filled >= n_filled and not record.fields[0].startswith("#"):
            return place
    return 0


def _with_names(records, first, wanted):
    """The place of the record that has the names, unless it is one of the data."""
    names = set(wanted)
    if not names:
        return None
    last = min(first + MOST_HEADER_LINES, len(records) - 1)
    from_first = range(first, last + 1)
    above = range(first)  # looked at last, since a title may have the name too
    for place in (*from_first, *above):
        found = names.intersection(map(name_of, records[place].fields))
        if 2 * len(found) < len(names):
            continue
        if place > first and _are_data(records[first : place + 1], records[place + 1 :]):
            return None
        return place
    return None


def _are_data(upper, below):
    """Whether some records hold the same as those below them: numbers, or else the same words."""
    numbers = _number_columns(below)
    fields = [(i, field) for i, field in _placed(upper) if field]
    if not numbers:
        return not set(_placed(below)).isdisjoint(fields)
    are_numbers = [bool(NUMBER.fullmatch(field)) for i, field in fields if i in numbers]
    return 2 * sum(are_numbers) > len(are_numbers)


def _placed(records):
    """All fields of the records, each with the number of its column."""
    for record in records:
        yield from enumerate(record.fields)


def _number_columns(records):
    """The columns in which nearly all fields are numbers."""
    columns: dict[int, list[str]] = defaultdict(list)  # the fields that hold a value
    for i, field in _placed(records):
        if field and not is_missing(field):
            columns[i].append(field)
    of_numbers = set()
    for i, fields in columns.items():
        n_numbers = sum(bool(NUMBER.fullmatch(field)) for field in fields)
        if len(fields) > 1 and n_numbers >= MOSTLY_NUMBERS * len(fields):
            of_numbers.add(i)
    return of_numbers


def _n_more_header_lines(header, below):
    """How many records after the one with the names belong to the header: rules, units, types, questions.
    They have text, or nothing, where all others have numbers, and nothing that comes again.
    """
    for count, record in enumerate(below[:MOST_HEADER_LINES]):
        rest = below[count + 1 :]
        if all(map(RULE.fullmatch, record.fields)):
            continue
        numbers = _number_columns(rest)
        if not numbers or len(record.fields) > len(header.fields):
            return count
        in_numbers = [field for i, field in enumerate(record.fields) if i in numbers and field]
        texts = [field for field in in_numbers if not is_missing(field)]
        if not texts or not all(map(LIKE_A_NAME.match, texts)):
            return count
        filled = [(i, field) for i, field in enumerate(record.fields) if field]
        if not set(_placed(rest)).isdisjoint(filled):
            return count
    return 0


def _groups(fields):
    """The names above columns, each as wide as its columns: empty fields go on."""
    names: list[str] = []
    name = ""
    for field in fields:
        name = name_of(field) or name
        names.append(name)
    return tuple(names)


def _lies_on_side(records, wanted):
    """Whether the first field of each record is a name: that of the label, in front of labels that come
    again, or most of the names that are wanted.
    """
    if len(wanted) == 1:
        for record in records[:MOST_ABOVE]:
            values = record.fields[1:]
            is_label = name_of(record.fields[0]) == wanted[0] and len(values) >= FEWEST_ON_SIDE
            if is_label and 2 * len(set(values)) <= len(values):
                return True
        return False
    names = set(wanted)
    if not names or any(2 * len(names.intersection(r.fields)) >= len(names) for r in records):
        return False
    known = sum(name_of(record.fields[0]) in names for record in records)
    return known >= MOSTLY * min(len(records), len(names))


# ---- below the table


def n_below(lines: Sequence[str], separator: str, width: int, n_filled: float) -> int:
    """How many of the last lines of a file are no rows of a table with so many columns, so many of them
    filled in most rows: notes, sources, totals, and empty lines among them.
    """
    count = 0
    # from the last line up, until one may be a row: notes among the rows are left alone
    for line in reversed(lines[-MOST_BELOW:]):
        if line.count('"') % 2:
            break  # the end of a field of several lines
        fields = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
        fields = [field.strip() for field in fields]
        if not _is_below(fields, width, n_filled, lines[: -count - 1]):
            break
        count += 1
    while count and not lines[-count].strip(" "):
        count -= 1  # empty lines above the notes are no rows anyway
    return count


def _is_below(fields, width, n_filled, above):
    filled = [field for field in fields if field]
    if not filled:
        return True
    first = filled[0]
    if TOTAL.fullmatch(first.rstrip(":")):
        # a category called Total recurs above; the sum below a table stands there once
        return not any(line.lstrip().startswith(first) for line in above)
    if NUMBER.fullmatch(first) or is_missing(first):
        return False
    is_short = len(fields) < width
    is_single = len(filled) == 1
    if width < 3:
        # a row of so few columns may be a single word, so a note has to have a space or a colon
        has_words = bool(re.search(r"[\s:]", first))
        return is_short and is_single and has_words
    if is_single:
        is_in_front = bool(fields[0])
        return is_in_front and (is_short or n_filled > 2)
    # in several fields, as where a note has commas: it has no numbers, unless it begins like a note
    reads_like_a_note = bool(NOTE.match(first)) or not any(map(NUMBER.fullmatch, filled))
    return is_short and 2 * len(filled) <= n_filled and reads_like_a_note
