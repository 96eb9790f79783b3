"""The dialect of a CSV file: separator, decimal mark, encoding, header; detected unless given."""

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from .options import DIALECT, Reading

# what pandas reads as missing, and the question mark of the files of UCI
MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None", "?"]
MISSING += ["<NA>", "#NA", "#N/A", "#N/A N/A", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"]
MISSING_LABELS = [word for word in MISSING if word != "None"]  # which may well be a class
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SAMPLE = 200  # records to detect separator, decimal mark and header from
BLOCK = 1 << 20  # bytes read at a time
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
GROUPED = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)  # perhaps thousands
BYTE_ORDER_MARKS = dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")
BYTE_ORDER_MARKS[codecs.BOM_UTF8] = "utf-8-sig"
UTF8 = ("utf-8", "utf-8-sig")
# what is not UTF-8 is mostly Windows' Western encoding, which contains most of Latin-1
DETECTED = ("utf-8", "cp1252", "latin-1")


@dataclass(frozen=True)
class Dialect:
    """How a file is written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    header: bool = True  # whether the first record names the columns
    # whether Polars can read it: UTF-8, no spaces around separators, Unix or Windows line ends
    tidy: bool = True
    quotes: bool = False  # whether the file has quotation marks

    def lines(self, path: Path) -> TextIO:
        return path.open(encoding=self.encoding, newline="" if self.tidy else None)

    def reader(self, lines: Iterable[str], strict: bool = False) -> Any:
        return csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=strict)

    def records(self, path: Path, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """The records, each with the number of its first line."""
        with self.lines(path) as lines:
            rows, begins = self.reader(lines, strict), 1
            try:
                for row in rows:
                    yield begins, row
                    begins = rows.line_num + 1
            except csv.Error as error:
                fault = "text follows a closing quotation mark"
                if "end of data" in str(error):
                    fault = "a quotation mark is never closed"
                with self.lines(path) as again:
                    line = next(itertools.islice(again, begins - 1, None))
                quoted = line[line.rfind('"') :].strip()[:60]
                raise ValueError(
                    f"'{path}', line {begins}: {fault} ({quoted}); correct it "
                    "(within quotes, double the quotation mark)."
                ) from error


def sniff(path: Path, given: Reading) -> Dialect:
    """Detect what ``given`` leaves open, once for a file that is read in several steps."""
    if given.decimal not in (None, ".", ","):
        raise ValueError(f"--decimal '{given.decimal}' is not known; use . or a comma.")
    about = path.stat()
    choices = tuple(getattr(given, name) for name in DIALECT)
    key = (path, about.st_mtime_ns, about.st_size, choices)
    if key not in _sniffed:
        _sniffed.clear()
        _sniffed[key] = _detected(path, given)
    return _sniffed[key]


_sniffed: dict[tuple, Dialect] = {}  # of the last file, as it was when it last changed


def _detected(path, given):
    """The dialect of a file but for what is given."""
    encoding, quotes, newlines = _encoding(path, given)
    dialect = Dialect(encoding=encoding, quotes=quotes, tidy=newlines and encoding in UTF8)
    with dialect.lines(path) as lines:
        text = "".join(itertools.islice(lines, SAMPLE))
    separator = _named_separator(given.separator) or separator_of(text)
    dialect = replace(dialect, separator=separator)
    sample = [[field.strip() for field in row] for row in _sample(text, dialect) if row]
    header = _has_header(sample) if given.header is None else given.header
    cells = [field for row in sample[header:] for field in row]
    return replace(
        dialect,
        decimal=given.decimal or _decimal(cells, separator),
        header=header,
        tidy=dialect.tidy and not _untidy(path, dialect, len(sample[0]) if sample else 0),
    )


def decoded(path: Path) -> str:
    """The text of a small file."""
    return path.read_text(encoding=_encoding(path, Reading())[0])


def _encoding(path, given):
    """The encoding, whether there are quotation marks, and whether lines end in a newline."""
    with path.open("rb") as file:
        start = file.read(4)  # the longest byte order mark
    marked = (name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark))
    wanted = given.encoding or next(marked, None)
    for encoding in (wanted,) if wanted else DETECTED:
        try:
            with path.open(encoding=encoding, newline="") as file:
                quotes = newlines = False
                for text in iter(partial(file.read, BLOCK), ""):
                    quotes, newlines = quotes or '"' in text, newlines or "\n" in text
            return encoding, quotes, newlines
        except LookupError:
            raise ValueError(
                f"--encoding '{wanted}' is not known; use a name such as utf-8, latin-1 or cp1252."
            ) from None
        except UnicodeDecodeError as error:
            fault = f"byte {error.object[error.start]:#x} does not fit"
    remedy = given.remedies(encoding="give its --encoding")
    raise ValueError(f"'{path}' is not encoded in {wanted}: {fault}; save it in UTF-8{remedy}.")


def _untidy(path, dialect, width):
    """Whether there are spaces at separators, quotation marks within words, or empty lines."""
    mark = dialect.separator.encode()
    faults = [mark + b" ", b" " + mark, b" \n", b" \r\n"]
    faults += [b"\n\n", b"\n\r\n"] if width > 1 else []
    among = re.escape(mark)
    within = re.compile(b'[^\\s"%b]"[^"\\s%b]' % (among, among))
    with path.open("rb") as file:
        for lines in iter(partial(file.readlines, BLOCK), []):
            block = b"\n" + b"".join(lines)  # the end of the line before
            if any(fault in block for fault in faults) or (dialect.quotes and within.search(block)):
                return True
    return False


def _named_separator(given):
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


def _sample(text, dialect):
    return list(dialect.reader(io.StringIO(text, newline="")))


def separator_of(text: str, default: str | None = ",") -> Any:
    """The mark that divides most records into equally many fields, most of them numbers."""

    def score(mark):
        rows = [row for row in _sample(text, Dialect(mark)) if row]
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width == 1 or count < 0.5 * len(rows):
            return 0.0, 0.0, 0
        cells = [field for row in rows for field in row]
        numbers = sum(bool(NUMBER.fullmatch(field.strip())) for field in cells) / len(cells)
        return numbers, count / len(rows), width

    best = max(SEPARATORS, key=score)
    return best if score(best)[2] else default


def _decimal(cells, separator):
    """A comma if more numbers have one than have a point; 1,234 counts only between semicolons."""
    numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
    commas = [cell for cell in numbers if "," in cell]
    if separator != ";":
        commas = [cell for cell in commas if not GROUPED.fullmatch(cell)]
    return "," if len(commas) > sum("." in cell for cell in numbers) else "."


def _has_header(sample):
    """Whether the first record names the columns.

    It is data if it has numbers above numbers, unless those count the columns (0, 1, 2, ...) and
    none of its words recurs below; if it has words only, it is data if all of them recur.
    """
    if len(sample) < 2:
        return True
    first, below = sample[0], sample[1:]
    columns = [[row[i] for row in below if i < len(row)] for i in range(len(first))]
    known = list(zip(first, columns, strict=True))
    is_number = NUMBER.fullmatch
    again = [word in below for word, below in known if word not in MISSING and not is_number(word)]
    numbers = [text for text, below in known if is_number(text) and any(map(is_number, below))]
    if not numbers:
        return not (again and all(again))
    whole = [int(field) for field in numbers if field.isdigit()]
    counting = len(whole) == len(numbers) > 1 and whole == [*range(whole[0], whole[0] + len(whole))]
    return counting and not any(again)
