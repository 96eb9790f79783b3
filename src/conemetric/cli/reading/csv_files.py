"""Tables from CSV files of any dialect; faults are named by line, column and value."""

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import polars as pl

from ...core.wording import first_few, listed, plural
from .columns import CODE
from .dialects import FORMULA, MISSING, MISSING_LABELS, UTF8, Dialect, sniff
from .layout import name_of
from .reading import DIALECT, Reading
from .separators import NAMED_SEPARATORS

INDEX = "index", "row index"  # the name of a first column without one, mostly that of the rows
MOST_NAMED = 4  # columns in a remark
MOST_SHOWN = 3  # first lines in an error
LONGEST_SHOWN = 60  # characters of a line in an error or a note


def scan_text(
    path: Path,
    given: Reading,
    notes: list[str],
    wanted: Sequence[str] = (),
    rewrite: bool = False,
) -> pl.LazyFrame:
    """A lazy frame of a CSV file, rewritten in memory if Polars cannot read it, or if it has to be; notes
    say how. ``wanted`` are names of columns, by which the header is found.
    """
    dialect = sniff(path, given, wanted)
    header = read_header(path, dialect, (given.label, given.id_column))
    names = header.names
    own = list(given.missing or ())  # markers of missing values that only this file has
    frame = partial(
        pl.scan_csv,
        glob=False,  # the path is that of one file, whatever its characters
        has_header=False,
        decimal_comma=dialect.decimal == ",",
        null_values=[*MISSING, *own],
    )
    direct = partial(frame, path, separator=dialect.separator, skip_lines=dialect.layout.data)
    tidy = _is_tidy(path, dialect, names, direct) and not rewrite
    kinds: list[Any] = []
    if tidy:
        # from all rows: what looks like whole numbers may have fractions further down
        kinds = _kinds(direct)
    # a header may have more fields than all rows
    if not tidy or 0 < len(kinds) < len(names) or _may_repeat_header(direct, names, kinds):
        text, n_headers = _rewritten(path, dialect, names)
        direct = partial(frame, text, separator="\t")
        kinds = _kinds(direct)
        header = header.with_repeats(n_headers)
    kinds += [pl.String] * (len(names) - len(kinds))  # of a table without rows
    schema = dict(zip(names, kinds, strict=False))
    read = _with_gaps_told(path, given, direct, schema, notes)
    read = _without_empty(read, header, notes)
    unusual = [*_in_words(path, dialect, names), *header.remarks]
    if unusual:
        change = [f"--{name}" for name in DIALECT if given.offers(name)]
        remedy = f" ({', '.join(change)} change that)" if change else ""
        notes.append(f"'{path.name}' read with {', '.join(unusual)}{remedy}.")
    return read


def _is_tidy(path, dialect, names, direct):
    """Whether Polars reads this file as it is; refuses one with quotation marks that is broken."""
    if dialect.quotes:
        n = refuse_broken(path, dialect, names, strict=True) - dialect.header
        # where Polars pairs the marks in another way, it finds another number of rows
        return dialect.tidy and _n_rows(direct(infer_schema=False)) == n
    return dialect.tidy and _most_separators(path, dialect) < len(names)


def _with_gaps_told(path, given, direct, schema, notes):
    """The frame with these types, and notes on the entries of the file that mean a missing value."""
    names = list(schema)
    own = list(given.missing or ())
    as_words = partial(direct, schema=dict.fromkeys(schema, pl.String))
    # names of its own, since Polars confuses those of the file with them
    column = _distinct("column", set(names))
    entry = _distinct("entry", set(names))
    wide = as_words(null_values=None)
    entries = wide.unpivot(variable_name=column, value_name=entry)
    # an empty entry, the first of `MISSING`, goes without saying
    gaps = entries.filter(pl.col(entry).is_in([*MISSING[1:], *own])).unique(maintain_order=True)
    # both in one reading of the file
    gaps, codes = pl.collect_all([gaps, _codes(wide, schema, own)], engine="streaming")
    column_and_word = gaps.rows()
    words_of_codes = {name: pl.String for name in codes.columns if codes[name][0]}
    read = direct(schema=schema | words_of_codes)
    words = [word for _, word in column_and_word]
    for marker in own:
        if marker not in words:
            notes.append(f"'{path.name}' has no entry '{marker}' (--missing).")
    # labels may have a file of their own, of one column
    label = names[0] if len(names) == 1 else given.label
    none_may_be_a_class = (label, "None") in column_and_word and "None" not in own
    if schema.get(label) == pl.String and none_may_be_a_class:
        labels = as_words(null_values=[*MISSING_LABELS, *own]).select(label)
        read = pl.concat([read.drop(label), labels], how="horizontal").select(names)
        column_and_word.remove((label, "None"))
    if column_and_word:
        in_columns = list(dict.fromkeys(name for name, _ in column_and_word))
        missing = list(dict.fromkeys(word for _, word in column_and_word))
        notes.append(
            f"'{path.name}' read with {listed(missing)} as missing, in {listed(in_columns)}."
        )
    return read


def _kinds(frame):
    """The types of the columns, from all rows; none of a table without rows."""
    try:
        return frame(infer_schema_length=None).collect_schema().dtypes()
    except pl.exceptions.NoDataError:
        return []


def _codes(words, schema, own):
    """Of each column of whole numbers whether an entry is a code such as 02134, which is no number."""
    is_code = []
    for name, kind in schema.items():
        if kind.is_integer():
            entry = pl.col(name)
            # a marker of missing values may look like one: 00000
            is_code.append((entry.str.contains(CODE) & ~entry.is_in(own)).any())
    return words.select(is_code)


def _may_repeat_header(frame, names, kinds):
    """Whether the header comes again between the rows, as where files were joined: then all columns hold
    words.
    """
    if not kinds or any(kind != pl.String for kind in kinds) or len(kinds) != len(names):
        return False
    words = frame(schema=dict.fromkeys(names, pl.String), null_values=None)
    again = words.filter(pl.all_horizontal(pl.col(name) == name for name in names))
    return again.select(pl.len()).collect().item() > 0


def _without_empty(frame, header, notes):
    """The frame without columns that have neither a name nor a value."""
    if not header.unnamed:
        return frame
    filled = frame.select(pl.col(header.unnamed).count()).collect().row(0, named=True)
    empty = [name for name, count in filled.items() if not count]
    if empty:
        notes.append(f"Dropped: {plural(len(empty), 'column')} without a name or a value.")
    named = [f"'{name}'" for name in header.unnamed if name not in empty]
    if named:
        notes.append(f"Columns without a name are called {first_few(named, MOST_NAMED)}.")
    return frame.drop(empty)


def _most_separators(path, dialect):
    """Of a line of a file without quotation marks. Polars refuses lines with too many, which may be at the
    end of the line.
    """
    lines = pl.scan_csv(
        path,
        glob=False,
        separator="\x01",
        quote_char=None,
        has_header=False,
        schema={"line": pl.String},
        truncate_ragged_lines=True,
    )
    # the whole line is one field: no file has the separator above
    marks = pl.col("line").str.count_matches(dialect.separator, literal=True)
    return lines.select(marks.max()).collect().item() or 0


def _n_rows(frame):
    """How many rows Polars finds; None if it fails."""
    with suppress(pl.exceptions.PolarsError):
        return frame.select(pl.len()).collect().item()


def explain(path: Path, given: Reading, error: Exception) -> NoReturn:
    """Raise an error that names the fault behind an error of Polars by line and column."""
    dialect = sniff(path, given)
    # most errors of Polars are of broken records, which it names less clearly
    refuse_broken(path, dialect, read_header(path, dialect).names)
    found = re.search(r"could not parse `(.*?)` as dtype .*? at column '(.*?)'", str(error), re.S)
    if found:
        value, column = found.groups()
        place = _place(path, dialect, column, value)
        raise ValueError(f"{place} cannot be read as a number; use the digits 0 to 9.") from error
    fault = str(error).partition("\n")[0]
    begins = first_lines(path, given)
    raise ValueError(f"'{path}' cannot be read as CSV: {fault}{begins}.") from error


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
    if not is_text(path):
        return "."
    return sniff(path, given).decimal


def refuse_broken(path: Path, dialect: Dialect, names: list[str], strict: bool = False) -> int:
    """Count the records; an error names the first broken one by its line."""
    count = 0
    for begins, row in dialect.records(path, strict):
        # an empty line is a missing value of a single column, and no row of several
        count += bool(row) or len(names) == 1
        if len(row) > len(names):
            _refuse_wide(path, dialect, names, begins, row)
    return count


def _refuse_wide(path, dialect, names, begins, row):
    """Refuse a record with more fields than there are columns, unless those are empty."""
    if not any(field.strip() for field in row[len(names) :]):
        return
    raise ValueError(
        f"'{path}', line {begins}: {plural(len(row), 'field')} in a table of "
        f"{plural(len(names), 'column')} ({dialect.separator.join(row)[:LONGEST_SHOWN]}); "
        f"correct the line, or quote fields that contain the separator{first_lines(path, Reading())}."
    )


class Header(NamedTuple):
    """The names of the columns, each once."""

    names: list[str]
    unnamed: list[str]  # those that the file does not name
    remarks: list[str]  # what is unusual about it

    def with_repeats(self, n: int) -> "Header":
        """The header, and that it came again, so many times."""
        if not n:
            return self
        again = f"the header left out where it comes again ({n} times)"
        return self._replace(remarks=[*self.remarks, again])


def read_header(path: Path, dialect: Dialect, single: Sequence[str | None] = ()) -> Header:
    """The names of the columns: of several with one name those of their group before it, if it has one,
    else numbers behind it; made up where there is none. Refuses two columns with a name that has to be
    ``single``.
    """
    layout = dialect.layout
    begins, first = next((each for each in dialect.records(path) if any(each[1])), (1, []))
    if not first:
        raise ValueError(f"'{path}' is empty.")
    if not dialect.header:
        return Header([f"column_{i}" for i in range(len(first))], [], [])
    fields = list(map(name_of, first))
    if layout.row_names:
        fields = ["", *fields]
    for name in single:
        if name and fields.count(name) > 1:
            raise ValueError(
                f"'{path}', line {begins}: {_repeated(name, fields)}; pass every column a name of "
                "its own."
            )
    return _named(fields, layout.groups)


def _repeated(name: str, fields: Sequence[str]) -> str:
    """How often, and where, a header has a name."""
    places = [str(i) for i, field in enumerate(fields, 1) if field == name]
    return f"the header has '{name}' {len(places)} times (fields {', '.join(places)})"


def _named(fields: Sequence[str], groups: Sequence[str]) -> Header:
    """The header with a name for each column, in which none is there twice."""
    counts = Counter(fields)
    names: list[str] = []
    unnamed: list[str] = []
    renamed: list[str] = []
    for place, (field, group) in enumerate(itertools.zip_longest(fields, groups)):
        if field is None:  # groups may be wider than the names below them
            break
        name = _full_name(place, fields, counts, group)
        taken = set(names)
        if name != field:
            taken.update(fields)  # a name made up is not one that another column has
        name = _distinct(name, taken)
        names.append(name)
        if not field:
            unnamed.append(name)
        elif name != field:
            renamed.append(f"'{name}'")
    remarks = []
    if renamed:
        remarks.append(f"names that occur twice as {first_few(renamed, MOST_NAMED)}")
    return Header(names, unnamed, remarks)


def _full_name(place, fields, counts, group):
    """The name of the column at a place: made up if it has none, that of its group in front if it is
    not the only one of this name.
    """
    field = fields[place]
    if field:
        return f"{group} {field}" if counts[field] > 1 and group else field
    if place:
        return f"column_{place}"
    return next((name for name in INDEX if name not in fields), INDEX[0])


def _distinct(name, taken):
    """The name, with a number behind it if it is taken."""
    distinct = name
    number = 0
    while distinct in taken:
        number += 1
        distinct = f"{name}.{number}"
    return distinct


def _rewritten(path, dialect, names):
    """The rows in the dialect that Polars reads, in memory, and how often the header came again."""
    text = io.StringIO(newline="")
    n_headers = 0
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    rows = dialect.records(path)
    header: list[str] | None = None
    if dialect.header:
        _, header = next(rows, (0, []))
    width = len(names)
    for begins, row in rows:
        if len(row) > width:
            _refuse_wide(path, dialect, names, begins, row)
        # files that were joined repeat their header
        if row == header:
            n_headers += 1
        elif row or width == 1:  # an empty line is a missing value of a single column
            missing = [""] * (width - len(row))
            writer.writerow([*map(_plain, row[:width]), *missing])
    return io.BytesIO(text.getvalue().encode()), n_headers


def _plain(field):
    """A field without spaces around it, and without the formula by which Excel is kept from reading text
    as a number: ="00123".
    """
    field = field.strip()
    is_formula = len(field) > len(FORMULA) and field.startswith(FORMULA) and field.endswith('"')
    if is_formula:
        return field[len(FORMULA) : -1]
    return field


def first_lines(path: str | Path, given: Reading) -> str:
    """How a file of text begins, in parentheses, for errors about what was not found in it."""
    path = Path(path)
    if not is_text(path):
        return ""
    dialect = sniff(path, given)
    shown: list[str] = []
    with dialect.lines(path) as lines:
        for line in itertools.islice(lines, 10 * MOST_SHOWN):
            if line.strip() and len(shown) < MOST_SHOWN:
                shown.append(line.strip()[:LONGEST_SHOWN])
    return f" (the file begins {' / '.join(map(repr, shown))})"


def _in_words(path, dialect, names):
    """What is unusual about a dialect."""
    mark = dialect.separator
    usual = "\t" if path.suffix.lower() == ".tsv" else ","
    layout = dialect.layout
    remarks = {
        f"{NAMED_SEPARATORS.get(mark, mark)} as separator": mark != usual,
        "decimal commas": dialect.decimal != ".",
        f"encoding {dialect.encoding}": dialect.encoding not in UTF8,
        f"no header (the columns are {listed(names, 3)})": not dialect.header,
        f"the header in line {layout.above + 1}": dialect.header and layout.above > 0,
        f"a header that ends in line {layout.data}": layout.data > layout.above + 1,
        "each row as a column, since the names stand in the first column": layout.on_side,
        "names of the rows in front, which the header does not name": layout.row_names,
        f"the end before {dialect.below[:LONGEST_SHOWN]!r}": bool(dialect.below),
        "quotation marks within fields after a backslash": dialect.escape is not None,
    }
    return [words for words, applies in remarks.items() if applies]
