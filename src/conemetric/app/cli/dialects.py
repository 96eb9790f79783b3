"""How a CSV file is written: separator, decimal mark, encoding and header, detected unless
given; faults of the file named by line, column and value.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TextIO

import polars as pl

from .options import DIALECT, Reading
from .wording import listed, plural

MISSING = ["", "NA", "NaN", "nan", "null", "?"]
SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SAMPLE = 200  # records that separator, decimal mark and header are judged by
BLOCK = 1 << 20  # bytes read at a time
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
GROUPED = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)  # thousands, as likely as not
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UTF8 = ("utf-8", "utf-8-sig")


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Attributes
    ----------
    separator, decimal, encoding : str
    header : bool
        Whether the first record names the columns.
    tidy : bool
        Whether the fields are as Polars reads them: UTF-8, no spaces around separators,
        lines that end as on Unix or Windows.
    quotes : bool
        Whether there is a quotation mark in the file.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    header: bool = True
    tidy: bool = True
    quotes: bool = False

    def lines(self, path: Path) -> TextIO:
        return path.open(encoding=self.encoding, newline="" if self.tidy else None)

    def records(self, lines: Iterable[str], strict: bool = False) -> Any:
        return csv.reader(lines, delimiter=self.separator, skipinitialspace=True, strict=strict)


def sniff(path: Path, given: Reading) -> Dialect:
    """How the file is written; what ``given`` (`options.Reading`) says is taken for granted."""
    if given.decimal not in (None, ".", ","):
        raise ValueError(f"--decimal '{given.decimal}' is not known; use . or a comma.")
    encoding, quotes, newlines = _encoding(path, given)
    dialect = Dialect(encoding=encoding, quotes=quotes, tidy=newlines and encoding in UTF8)
    with dialect.lines(path) as lines:
        text = "".join(line for line, _ in zip(lines, range(SAMPLE), strict=False))
    separator = _named_separator(given.separator) or _separator(text)
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


def scan_text(path: Path, given: Reading, notes: list[str]) -> pl.LazyFrame:
    """A lazy frame of a CSV file; how it was read goes to the notes where that is unusual.

    A file that Polars cannot read as it is, is rewritten in memory first.
    """
    dialect = sniff(path, given)
    names = _names(path, dialect)

    def frame(source, separator, **types):
        return pl.scan_csv(
            source,
            separator=separator,
            has_header=dialect.header,
            decimal_comma=dialect.decimal == ",",
            null_values=MISSING,
            **types,
        )

    tidy = dialect.tidy
    if dialect.quotes:
        n = refuse_broken(path, dialect, names, strict=True) - dialect.header
        tidy = tidy and _n_rows(frame(path, dialect.separator, infer_schema=False)) == n
    source = (path, dialect.separator) if tidy else (_rewritten(path, dialect, len(names)), "\t")
    # by all rows, once: what looks like whole numbers may be none further down
    kinds = frame(*source, infer_schema_length=None).collect_schema().dtypes()
    read = frame(*source, schema=dict(zip(names, kinds, strict=False)))
    unusual = _in_words(path, dialect, names)
    if unusual:
        options = [f"--{name}" for name in DIALECT if name in given.offered]
        change = f" ({', '.join(options)} change that)" if options else ""
        notes.append(f"'{path.name}' read with {unusual}{change}.")
    return read


def _n_rows(frame):
    """How many rows Polars finds; None where it cannot tell."""
    try:
        return frame.select(pl.len()).collect().item()
    except pl.exceptions.PolarsError:
        return None


def explain(path: Path, given: Reading, error: Exception) -> NoReturn:
    """Raise, for an error of Polars, one that names the fault by line and column."""
    dialect = sniff(path, given)
    refuse_broken(path, dialect, _names(path, dialect))
    found = re.search(r"could not parse `(.*?)` as dtype .*? at column '(.*?)'", str(error), re.S)
    if found:
        value, column = found.groups()
        with dialect.lines(path) as lines:
            number = next((i for i, line in enumerate(lines, 1) if value in line), "?")
        raise ValueError(
            f"'{path}', line {number}, column '{column}': {value!r} cannot be read as a number; "
            "write numbers in the digits 0 to 9."
        ) from error
    raise ValueError(f"'{path}' cannot be read as CSV: {error}") from error


def decoded(path: Path) -> str:
    """The text of a small file."""
    return path.read_text(encoding=_encoding(path, Reading())[0])


def refuse_broken(path: Path, dialect: Dialect, names: list[str], strict: bool = False) -> int:
    """Name the first record that has more fields than there are columns, or a quotation mark
    where none can be; else count the records.
    """
    count = 0
    with dialect.lines(path) as lines:
        rows, begins = dialect.records(lines, strict), 1
        try:
            for row in rows:
                count += bool(row) or len(names) == 1
                if len(row) > len(names):
                    raise ValueError(
                        f"'{path}', line {begins}: {plural(len(row), 'field')} in a table of "
                        f"{plural(len(names), 'column')} ({dialect.separator.join(row)[:60]}); "
                        "mend the line, or quote fields that hold the separator."
                    )
                begins = rows.line_num + 1
        except csv.Error as error:
            fault = (
                "a quotation mark opens and is never closed"
                if "end of data" in str(error)
                else "a quoted field goes on after its closing quotation mark"
            )
            raise ValueError(
                f"'{path}', line {begins}: {fault} ({_from_quote(path, dialect, begins)}); mend "
                "it (within quotes, a quotation mark is written twice)."
            ) from error
    return count


def place_of(path: Path, given: Reading, row: int, column: str) -> tuple[int, str]:
    """Line number and text of a field, by number of the data row and name of the column."""
    dialect = sniff(path, given)
    column = _names(path, dialect).index(column)
    with dialect.lines(path) as lines:
        rows = dialect.records(lines)
        begins = 1
        records = (record for record in rows if record)
        for number, record in enumerate(records, -1 if dialect.header else 0):
            if number == row:
                return begins, record[column].strip() if column < len(record) else ""
            begins = rows.line_num + 1
    raise AssertionError("the file has changed while it was read")


def _encoding(path, given):
    """The encoding, whether there are quotation marks, and whether lines end by a newline."""
    wanted = given.encoding
    with path.open("rb") as file:
        start = file.read(4)
    try:
        known = next(
            (name for mark, name in BYTE_ORDER_MARKS.items() if start.startswith(mark)), ""
        )
        decode = codecs.getincrementaldecoder(wanted or known or "utf-8")()
    except LookupError:
        raise ValueError(
            f"--encoding '{wanted}' is not known; use a name such as utf-8, latin-1 or cp1252."
        ) from None
    quotes = newlines = False
    try:
        with path.open("rb") as file:
            for block in iter(partial(file.read, BLOCK), b""):
                text = decode.decode(block)
                quotes, newlines = quotes or '"' in text, newlines or "\n" in text
            decode.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if wanted or known:
            raise ValueError(
                f"'{path}' is not written in {wanted or known}: byte {error.object[error.start]:#x} "
                f"does not fit; save it in UTF-8{given.remedies(encoding='give its --encoding')}."
            ) from None
        # what is not UTF-8 is mostly Windows' Western encoding, of which Latin-1 is a part
        return _encoding(path, replace(given, encoding="cp1252" if _is_cp1252(path) else "latin-1"))
    return wanted or known or "utf-8", quotes, newlines


def _is_cp1252(path):
    with path.open("rb") as file:
        blocks = iter(partial(file.read, BLOCK), b"")
        return not any(block.translate(None, _CP1252) for block in blocks)


_CP1252 = bytes(set(range(256)) - {0x81, 0x8D, 0x8F, 0x90, 0x9D})


def _untidy(path, dialect, width):
    """Whether there are spaces beside separators, quotation marks within words, or, in a table
    of several columns, empty lines.
    """
    mark = dialect.separator.encode()
    faults = [mark + b" ", b" " + mark, *([b"\n\n", b"\n\r\n"] if width > 1 else [])]
    among = re.escape(mark)
    within = re.compile(b'[^\\s"%b]"[^"\\s%b]' % (among, among))
    with path.open("rb") as file:
        for lines in iter(partial(file.readlines, BLOCK), []):
            block = b"".join(lines)
            if any(fault in block for fault in faults):
                return True
            if dialect.quotes and within.search(block):
                return True
    return False


def _named_separator(given):
    """The separator that an option names, by itself or in words."""
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
    return list(dialect.records(io.StringIO(text, newline="")))


def _separator(text):
    """What divides most records into the same number of fields, of which most are numbers."""

    def score(mark):
        rows = [row for row in _sample(text, Dialect(mark)) if row]
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (1, 0)
        if width == 1 or count < 0.5 * len(rows):
            return 0.0, 0.0, 0
        cells = [field for row in rows for field in row]
        numbers = sum(bool(NUMBER.fullmatch(field.strip())) for field in cells) / len(cells)
        return numbers, count / len(rows), width

    best = max(SEPARATORS, key=score)
    return best if score(best)[2] else ","


def _decimal(cells, separator):
    """A comma where more numbers have one than have a point; 1,234 alone is a decimal only
    between semicolons.
    """
    numbers = [cell for cell in cells if NUMBER.fullmatch(cell)]
    commas = [cell for cell in numbers if "," in cell]
    if separator != ";":
        commas = [cell for cell in commas if not GROUPED.fullmatch(cell)]
    return "," if len(commas) > sum("." in cell for cell in numbers) else "."


def _has_header(sample):
    """Whether the first record names the columns, rather than being data like those below.

    Data are numbers over numbers, unless they count the columns (0, 1, 2, ...) and no word
    beside them comes again; of words alone, all come again.
    """
    if len(sample) < 2:
        return True
    first, below = sample[0], sample[1:]
    columns = [[row[i] for row in below if i < len(row)] for i in range(len(first))]
    again = [
        field in column
        for field, column in zip(first, columns, strict=True)
        if field not in MISSING and not NUMBER.fullmatch(field)
    ]
    numbers = [
        field
        for field, column in zip(first, columns, strict=True)
        if NUMBER.fullmatch(field) and any(NUMBER.fullmatch(entry) for entry in column)
    ]
    if not numbers:
        return not (again and all(again))
    whole = [int(field) for field in numbers if field.isdigit()]
    counting = len(whole) == len(numbers) > 1 and whole == [*range(whole[0], whole[0] + len(whole))]
    return counting and not any(again)


def _names(path, dialect):
    """The columns, every name once."""
    with dialect.lines(path) as lines:
        first: list[str] = next((row for row in dialect.records(lines) if row), [])
    if not dialect.header:
        return [f"column_{i}" for i in range(len(first))]
    names = [field.strip() for field in first]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        places = [str(i + 1) for i, name in enumerate(names) if name == twice[0]]
        named = f"'{twice[0]}'" if twice[0] else "an empty name"
        raise ValueError(
            f"'{path}', line 1: the header has {named} {len(places)} times (fields "
            f"{', '.join(places)}); give every column a name of its own."
        )
    return names


def _rewritten(path, dialect, width):
    """The same records in the one way Polars reads, in memory."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    with dialect.lines(path) as lines:
        for row in dialect.records(lines):
            if row or width == 1:  # an empty line is a missing value of a single column
                writer.writerow([field.strip() for field in row])
    return io.BytesIO(text.getvalue().encode())


def _from_quote(path, dialect, number):
    """A line from its last quotation mark on."""
    with dialect.lines(path) as lines:
        line = next(line for i, line in enumerate(lines, 1) if i == number)
    return line[line.rfind('"') :].strip()[:60]


def _in_words(path, dialect, names):
    """What is unusual about it."""
    said = []
    if dialect.separator != ("\t" if path.suffix.lower() == ".tsv" else ","):
        said.append(f"{SEPARATORS.get(dialect.separator, dialect.separator)} as separator")
    if dialect.decimal != ".":
        said.append("decimal commas")
    if dialect.encoding not in UTF8:
        said.append(f"encoding {dialect.encoding}")
    if not dialect.header:
        said.append(f"no header (the columns are {listed(names, 3)})")
    return ", ".join(said)
