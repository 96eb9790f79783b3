"""Tables from CSV files of any dialect; faults are named by line, column and value."""

import csv
import io
import re
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import polars as pl

from .dialects import MISSING, MISSING_LABELS, SEPARATORS, UTF8, Dialect, sniff
from .options import DIALECT, Reading
from .wording import listed, plural


def scan_text(path: Path, given: Reading, notes: list[str]) -> pl.LazyFrame:
    """A lazy frame of a CSV file, rewritten in memory if Polars cannot read it; notes say how."""
    dialect = sniff(path, given)
    names = _names(path, dialect)
    frame = partial(
        pl.scan_csv,
        has_header=dialect.header,
        decimal_comma=dialect.decimal == ",",
        null_values=MISSING,
    )
    tidy, mark = dialect.tidy, dialect.separator
    if dialect.quotes:
        n = refuse_broken(path, dialect, names, strict=True) - dialect.header
        tidy = tidy and _n_rows(frame(path, separator=mark, infer_schema=False)) == n
    source, mark = (path, mark) if tidy else (_rewritten(path, dialect, len(names)), "\t")
    frame = partial(frame, source, separator=mark)
    # from all rows: what looks like whole numbers may have fractions further down
    kinds = frame(infer_schema_length=None).collect_schema().dtypes()
    schema = dict(zip(names, kinds, strict=False))
    read, as_words = frame(schema=schema), partial(frame, schema=dict.fromkeys(schema, pl.String))
    gaps = as_words(null_values=None).unpivot().filter(pl.col("value").is_in(MISSING[1:]))
    found = gaps.unique(maintain_order=True).collect(engine="streaming").rows()  # (column, word)
    label = names[0] if len(names) == 1 else given.label or ""  # labels may have their own file
    if schema.get(label) == pl.String and (label, "None") in found:
        labels = as_words(null_values=MISSING_LABELS).select(label)
        read = pl.concat([read.drop(label), labels], how="horizontal").select(names)
        found.remove((label, "None"))
    if found:
        columns, words = (listed([*dict.fromkeys(each)]) for each in zip(*found, strict=True))
        notes.append(f"'{path.name}' read with {words} as missing, in {columns}.")
    unusual = _in_words(path, dialect, names)
    if unusual:
        options = [f"--{name}" for name in DIALECT if given.offers(name)]
        change = f" ({', '.join(options)} change that)" if options else ""
        notes.append(f"'{path.name}' read with {unusual}{change}.")
    return read


def _n_rows(frame):
    """How many rows Polars finds; None if it fails."""
    with suppress(pl.exceptions.PolarsError):
        return frame.select(pl.len()).collect().item()


def explain(path: Path, given: Reading, error: Exception) -> NoReturn:
    """Raise an error that names the fault behind an error of Polars by line and column."""
    dialect = sniff(path, given)
    refuse_broken(path, dialect, _names(path, dialect))
    found = re.search(r"could not parse `(.*?)` as dtype .*? at column '(.*?)'", str(error), re.S)
    if found:
        value, column = found.groups()
        place = _place(path, dialect, column, value)
        raise ValueError(f"{place} cannot be read as a number; use the digits 0 to 9.") from error
    raise ValueError(f"'{path}' cannot be read as CSV: {error}") from error


def _place(path, dialect, column, value):
    """Line, column and value of an entry."""
    lines = (line for line, row in dialect.records(path) if value in map(str.strip, row))
    return f"'{path}', line {next(lines, '?')}, column '{column}': {value!r}"


def is_text(path: Path) -> bool:
    """Whether a file is CSV, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def decimal_mark(path: str | Path, given: Reading) -> str:
    """The decimal mark of the numbers of a file, where words leave it open."""
    path = Path(path)
    return sniff(path, given).decimal if is_text(path) else "."


def refuse_broken(path: Path, dialect: Dialect, names: list[str], strict: bool = False) -> int:
    """Count the records; an error names the first broken one by its line."""
    count = 0
    for begins, row in dialect.records(path, strict):
        count += bool(row) or len(names) == 1
        if len(row) > len(names):
            raise ValueError(
                f"'{path}', line {begins}: {plural(len(row), 'field')} in a table of "
                f"{plural(len(names), 'column')} ({dialect.separator.join(row)[:60]}); "
                "correct the line, or quote fields that contain the separator."
            )
    return count


def _names(path, dialect):
    """The column names; an error if one occurs twice."""
    first: list[str] = next((row for _, row in dialect.records(path) if row), [])
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
    """The same records in the dialect that Polars reads, in memory."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    for _, row in dialect.records(path):
        if row or width == 1:  # an empty line is a missing value of a single column
            writer.writerow([field.strip() for field in row])
    return io.BytesIO(text.getvalue().encode())


def _in_words(path, dialect, names):
    """What is unusual about a dialect."""
    mark, usual = dialect.separator, "\t" if path.suffix.lower() == ".tsv" else ","
    said = {
        f"{SEPARATORS.get(mark, mark)} as separator": mark != usual,
        "decimal commas": dialect.decimal != ".",
        f"encoding {dialect.encoding}": dialect.encoding not in UTF8,
        f"no header (the columns are {listed(names, 3)})": not dialect.header,
    }
    return ", ".join(words for words, unusual in said.items() if unusual)
