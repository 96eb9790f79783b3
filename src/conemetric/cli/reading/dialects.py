"""The dialect of a CSV file: separator, decimal mark, encoding, header; detected unless given."""

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from .layout import (
    MOST_BELOW,
    NUMBER,
    TAG,
    Layout,
    Record,
    find_layout,
    n_below,
    typical,
)
from .reading import DIALECT, Reading
from .separators import named_separator, separator_of_lines

# what pandas reads as missing, and the question mark of the files of UCI
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "?"]
MISSING += ["<NA>", "#NA", "#N/A", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
MISSING_LABELS = [word for word in MISSING if word != "None"]  # which may well be a class
LONGEST_FIELD = 1 << 30  # characters; the csv module takes more for a mistake in quoting
csv.field_size_limit(LONGEST_FIELD)
SAMPLE = 200  # records to detect separator, decimal mark and header from
BLOCK = 1 << 20  # bytes read at a time
GROUPED = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)  # perhaps thousands
BYTE_ORDER_MARKS = dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")
BYTE_ORDER_MARKS[codecs.BOM_UTF8] = "utf-8-sig"
UTF8 = ("utf-8", "utf-8-sig")
# what is not UTF-8 is mostly Windows' Western encoding, which contains most of Latin-1
DETECTED = ("utf-8", "cp1252", "latin-1")
EXCEL_SEPARATOR = re.compile('"?sep=(.)"?')  # the first line of a file for Excel
PAGE_BEGINS = re.compile(rf"\n(?={TAG.pattern})", re.IGNORECASE)
PAGE = "a web page"
FORMULA = '="'  # by which Excel is kept from reading text as a number
BACKSLASH = "\\"
ESCAPED = BACKSLASH + '"'  # a quotation mark in a field of databases and of JSON
LAST_BYTES = 1 << 16  # read to find notes below the table
DOWNLOAD = "a web page, not CSV; download the file itself (on GitHub by 'Raw')"
OTHER_KINDS = {  # by how a file begins that is not what its name says
    b"<!doctype": DOWNLOAD,
    b"<html": DOWNLOAD,
    b"pk\x03\x04": "an Excel workbook or a zip archive, not CSV; save its table as CSV, or unpack it",
    b"\xd0\xcf\x11\xe0": "an Excel workbook, not CSV; save its table as CSV",
    b"%pdf": "a PDF, not CSV; save its table as CSV",
    b"par1": "a Parquet file; rename it to end in .parquet",
    b"\x1f\x8b": "gzipped; rename it to end in .csv.gz",
    b"version https://git-lfs": "a pointer of Git LFS, not the data; fetch these by git lfs pull",
}


@dataclass(frozen=True)
class Dialect:
    """How a file is written, and where its table is."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    # whether Polars can read it: UTF-8, no spaces around separators, Unix or Windows line ends
    tidy: bool = True
    quotes: bool = False  # whether the file has quotation marks
    layout: Layout = field(default_factory=Layout)
    end: int | None = None  # lines up to the end of the table, if something follows it
    below: str = ""  # the first line after the table
    escape: str | None = (
        None  # the mark before quotation marks that belong to a field, if not doubled
    )

    @property
    def header(self) -> bool:
        """Whether the first record names the columns."""
        return self.layout.header

    def lines(self, path: Path) -> TextIO:
        # lines that end in a carriage return alone are not tidy, and need Python's own line ends
        return path.open(encoding=self.encoding, newline="" if self.tidy else None)

    def reader(self, lines: Iterable[str], strict: bool = False) -> Any:
        return csv.reader(
            lines,
            delimiter=self.separator,
            skipinitialspace=True,
            strict=strict,
            escapechar=self.escape,
        )

    def records(self, path: Path, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """The record with the names, if there is one, and those of the data, each with the number of its
        first line. Of a table on its side those of its columns, which have none.
        """
        if self.layout.on_side:
            rows = [row for _, row in self._records(path, strict) if row]
            yield from ((1, list(row)) for row in itertools.zip_longest(*rows, fillvalue=""))
            return
        names_are_next = self.layout.header
        for begins, row in self._records(path, strict):
            if names_are_next or begins > self.layout.data:
                yield begins, row
            names_are_next = names_are_next and not row

    def _records(self, path, strict):
        """All records from the header on, each with the number of its first line."""
        above = self.layout.above
        with self.lines(path) as lines:
            rows = self.reader(itertools.islice(lines, above, self.end), strict)
            begins = above + 1
            try:
                for row in rows:
                    yield begins, row
                    begins = above + rows.line_num + 1
            except csv.Error as error:
                raise self._fault_of_quoting(path, begins, error) from error

    def _fault_of_quoting(self, path, begins, error):
        """An error that names the line, and what is wrong with its quotation marks."""
        fault = "text follows a closing quotation mark"
        if "end of data" in str(error):
            fault = "a quotation mark is never closed"
        with self.lines(path) as lines:
            line = next(itertools.islice(lines, begins - 1, None))
        quoted = line[line.rfind('"') :].strip()[:60]
        return ValueError(
            f"'{path}', line {begins}: {fault} ({quoted}); correct it "
            "(within quotes, double the quotation mark)."
        )


def sniff(path: Path, given: Reading, wanted: Sequence[str] = ()) -> Dialect:
    """Detect what ``given`` leaves open, once for a file that is read in several steps; ``wanted`` are names
    of columns, by which the header is found, in place of that of the label.
    """
    if given.decimal not in (None, ".", ","):
        raise ValueError(f"--decimal '{given.decimal}' is not known; use . or a comma.")
    wanted = tuple(wanted) or tuple(filter(None, (given.label, given.id_column)))
    about = path.stat()
    choices = tuple(getattr(given, name) for name in DIALECT)
    # with time and size, since a file may be written anew between two commands of one process
    key = (path, about.st_mtime_ns, about.st_size, choices, wanted)
    if not wanted:  # then a dialect found by any names will do
        for known, dialect in _sniffed.items():
            if known[:-1] == key[:-1]:
                return dialect
    if key not in _sniffed:
        _sniffed.clear()  # commands read one file after the other
        _sniffed[key] = _detected(path, given, wanted)
    return _sniffed[key]


_sniffed: dict[tuple, Dialect] = {}  # of the last file, as it was when it last changed


def _detected(path, given, wanted):
    """The dialect of a file but for what is given."""
    _refuse_other_kinds(path)
    facts = _facts(path, given)
    # what is found first is needed to find the rest: encoding, separator, layout, decimal mark
    dialect = Dialect(
        encoding=facts.encoding,
        quotes=facts.quotes,
        tidy=facts.newlines and facts.encoding in UTF8,
        end=facts.page_begins,
    )
    with dialect.lines(path) as lines:
        head = list(itertools.islice(lines, 0, min(SAMPLE, facts.page_begins or SAMPLE)))
    excel = _separator_for_excel(head)
    separator = named_separator(given.separator) or excel or separator_of_lines(head, wanted)
    dialect = replace(dialect, separator=separator)
    if facts.escapes:
        dialect = _with_escapes(path, dialect)
    records = _first_records(head, dialect, 1 if excel else 0)
    layout = find_layout(records, given.header, _has_header, wanted)
    records = [record for record in records if record.begins > layout.data]
    dialect = replace(dialect, layout=layout)
    if records and not layout.on_side:
        dialect = _without_notes_below(path, dialect, facts, *typical(records))
    cells: list[str] = []
    for record in records:
        cells += record.fields
    width = max((len(record.fields) for record in records), default=0)
    return replace(
        dialect,
        decimal=given.decimal or _decimal(cells, separator),
        tidy=_is_tidy(path, dialect, cells, width),
    )


def _with_escapes(path, dialect):
    """The dialect with a backslash before quotation marks in a field, if only so the quotation marks agree:
    a field may also end in a backslash.
    """
    escaped = replace(dialect, escape=BACKSLASH, tidy=False)
    if _is_sound(path, dialect) or not _is_sound(path, escaped):
        return dialect
    return escaped


def _is_sound(path, dialect):
    """Whether the quotation marks of a file agree."""
    with dialect.lines(path) as lines, suppress(csv.Error):
        for _ in dialect.reader(itertools.islice(lines, dialect.end), strict=True):
            pass
        return True
    return False


def _separator_for_excel(head):
    """The separator that the first line names for Excel, which is no line of the table; else None."""
    if not head:
        return None
    found = EXCEL_SEPARATOR.fullmatch(head[0].strip())
    return found and found[1]


def _is_tidy(path, dialect, cells, width):
    """Whether Polars can read the file, by all that is known of it."""
    if not dialect.tidy or dialect.end is not None or dialect.layout.on_side:
        return False
    if any(cell.startswith(FORMULA) for cell in cells):
        return False
    return not _untidy(path, dialect, width)


def _first_records(head, dialect, skipped):
    """The records of the first lines that hold anything, but for an unfinished last one."""
    found = []
    reader = dialect.reader(head[skipped:])
    begins = skipped + 1
    with suppress(csv.Error):
        for row in reader:
            ends = skipped + reader.line_num
            fields = [field.strip() for field in row]
            if any(fields):
                found.append(Record(begins, ends, fields))
            begins = ends + 1
    return found


def _refuse_other_kinds(path):
    """Name what is no text although its name says so."""
    with path.open("rb") as file:
        start = file.read(512)
    for mark, what in OTHER_KINDS.items():
        # a byte order mark and empty lines may come before the tag of a page
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(mark):
            raise ValueError(f"'{path}' is {what}.")


def _without_notes_below(path, dialect, facts, width, n_filled):
    """The dialect with the end of the table before the notes below it."""
    lines = _last_lines(path, dialect, facts)
    if lines is None:
        return dialect
    count = n_below(lines, dialect.separator, width, n_filled)
    if not count and dialect.end is None:
        return dialect
    if not count:
        return replace(dialect, below=PAGE)
    end = (facts.page_begins or facts.n_lines) - count
    below = lines[len(lines) - count :]
    texts = (line.strip() for line in below if line.strip(f" \t{dialect.separator}"))
    return replace(dialect, end=end, below=next(texts, ""))


def _last_lines(path, dialect, facts):
    """Some of the last lines of the table, without their ends; None if they cannot be told."""
    # cut at any byte, the end of a file in UTF-16 cannot be decoded;
    # without newlines it has no lines
    if dialect.encoding == "utf-16" or not facts.newlines:
        return None
    if facts.page_begins is not None:
        ahead = max(0, facts.page_begins - 2 * MOST_BELOW)
        with dialect.lines(path) as lines:
            last = itertools.islice(lines, ahead, facts.page_begins)
            return [line.rstrip("\r\n") for line in last]
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LAST_BYTES))
        text = file.read().decode(dialect.encoding, "replace")
    lines = text.removesuffix("\n").split("\n")
    if size > LAST_BYTES:
        lines = lines[1:]  # the first one lacks its beginning
    first = max(0, dialect.layout.data - (facts.n_lines - len(lines)))
    return [line.rstrip("\r") for line in lines[first:]]


def decoded(path: Path) -> str:
    """The text of a small file."""
    return path.read_text(encoding=_facts(path, Reading()).encoding)


class _Facts(NamedTuple):
    """What one pass over the text of a file finds."""

    encoding: str
    quotes: bool = False  # whether there are quotation marks
    newlines: bool = False  # whether lines end in a newline
    n_lines: int = 0
    page_begins: int | None = None  # lines above those of a web page
    escapes: bool = False  # whether a quotation mark follows a backslash


def _facts(path, given):
    """The encoding, and what is in the text."""
    with path.open("rb") as file:
        start = file.read(4)  # the longest byte order mark
    marked = (name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark))
    wanted = given.encoding or next(marked, None)
    tried: tuple[str, ...] = DETECTED
    if wanted:
        tried = (wanted,)
    for encoding in tried:
        try:
            return _scanned(path, encoding)
        except LookupError:
            raise ValueError(
                f"--encoding '{wanted}' is not known; use a name such as utf-8, latin-1 or cp1252."
            ) from None
        except UnicodeDecodeError as error:
            fault = f"byte {error.object[error.start]:#x} does not fit"
    remedy = given.remedies(encoding="specify its --encoding")
    raise ValueError(f"'{path}' is not encoded in {wanted}: {fault}; save it in UTF-8{remedy}.")


def _scanned(path, encoding):
    n_quotes = 0
    n_lines = 0
    page_begins = None
    escapes = False
    last = ""  # character of the file
    with path.open(encoding=encoding, newline="") as file:
        for text in iter(partial(file.read, BLOCK), ""):
            if page_begins is None and "\n<" in text:  # a quick test: few files have one
                start = _page_in(text, n_quotes)
                if start is not None:
                    page_begins = n_lines + text.count("\n", 0, start) + 1
            across = last == BACKSLASH and text.startswith('"')  # two blocks
            escapes = escapes or across or ESCAPED in text
            n_quotes += text.count('"')
            n_lines += text.count("\n")
            last = text[-1]
    unfinished = last not in ("", "\n")
    return _Facts(encoding, n_quotes > 0, n_lines > 0, n_lines + unfinished, page_begins, escapes)


def _page_in(text, n_quotes):
    """Where a web page begins in a part of the text, with so many quotation marks before it; None: nowhere."""
    for page in PAGE_BEGINS.finditer(text):
        start = page.start()
        # a quoted field may hold a line of HTML: then the marks before it are odd in number
        is_within_quotes = (n_quotes + text.count('"', 0, start)) % 2
        if not is_within_quotes:
            return start
    return None


def _untidy(path, dialect, width):
    """Whether there are spaces at separators, quotation marks within words, or empty lines."""
    mark = dialect.separator.encode()
    faults = [mark + b" ", b" " + mark, b" \n", b" \r\n"]
    if width > 1:  # an empty line is a missing value of a single column
        faults += [b"\n\n", b"\n\r\n"]
    among = re.escape(mark)
    within = re.compile(b'[^\\s"%b]"[^"\\s%b]' % (among, among))
    with path.open("rb") as file:
        # whole lines, so that no fault is divided between two blocks
        for lines in iter(partial(file.readlines, BLOCK), []):
            block = b"\n" + b"".join(lines)  # the end of the line before
            if any(fault in block for fault in faults) or (dialect.quotes and within.search(block)):
                return True
    return False


def _decimal(cells, separator):
    """A comma if more numbers have one than have a point; 1,234 counts only between semicolons."""
    n_commas = 0
    n_points = 0
    for cell in filter(NUMBER.fullmatch, cells):
        if "." in cell:
            n_points += 1
        elif "," in cell and (separator == ";" or not GROUPED.fullmatch(cell)):
            n_commas += 1
    return "," if n_commas > n_points else "."


def _has_header(sample):
    """Whether the first record names the columns.

    It is data if it has numbers above numbers, unless those count the columns (0, 1, 2, ...) and
    none of its words recurs below; if it has words only, it is data if all of them recur.
    """
    if len(sample) < 2:
        return True
    first, *below = sample
    numbers = []  # the fields of the first record above numbers that are numbers
    again = []  # whether each of its words comes again
    for place, name in enumerate(first):
        column = [row[place] for row in below if place < len(row)]
        if not NUMBER.fullmatch(name):
            if name not in MISSING:
                again.append(name in column)
        elif any(map(NUMBER.fullmatch, column)):
            numbers.append(name)
    if not numbers:
        return not (again and all(again))
    return _count_on(numbers) and not any(again)


def _count_on(numbers):
    """Whether these are several whole numbers that count on from the first."""
    if len(numbers) < 2 or not all(map(str.isdigit, numbers)):
        return False
    first, *others = map(int, numbers)
    return others == list(range(first + 1, first + len(numbers)))
