"""From files, or a bundled data set, to a task: rows and their labels, pairs or triplets."""

from pathlib import Path

import numpy as np
import polars as pl

from ...constraints.labels import MAX_CLASS_VALUES, is_continuous
from ..datasets import ALIASES, BUNDLED, load_bundled
from ..studies.constrained import Paired, Ranked
from ..studies.supervision import Labelled, Measured, Task
from .files import check_file
from .intake import Learned, Table, row_numbers
from .options import Reading
from .tables import read_frame, read_table
from .wording import listed, plural

SAME = {
    **dict.fromkeys(["1", "1.0", "true", "yes", "same"], True),
    **dict.fromkeys(["0", "0.0", "-1", "false", "no", "different"], False),
}


def load_rows(
    data: str | None, reading: Reading, learned: Learned | None = None
) -> tuple[Table, str]:
    """The table of a file, or of a bundled data set, and a name for it; as an encoder or a metric
    expects it, if there is one.
    """
    data = data or next(iter(BUNDLED))
    name = ALIASES.get(data, data)
    if name in BUNDLED and not Path(data).exists():
        if reading.groups is not None:
            raise ValueError(
                f"--groups names a column of a file; the data set '{name}' has no groups."
            )
        bunch = load_bundled(name)
        classes = bunch.target_names.astype(str)[bunch.target]
        return Table(np.ascontiguousarray(bunch.data), list(bunch.feature_names), classes), name
    path = check_file(data)
    return read_table(path, reading, learned), path.stem


def load_task(data: str | None, reading: Reading) -> tuple[Table, Task, str]:
    """The table, its task, and a name for it."""
    table, name = load_rows(data, reading)
    if reading.pairs is not None:
        indices, same = read_pairs(reading.pairs, table)
        return table, Paired(table.X, indices, similar=same, groups=table.groups), name
    if reading.triplets is not None:
        indices, _ = _read_constraints(check_file(reading.triplets), 3, table)
        return table, Ranked(table.X, indices, groups=table.groups), name
    if table.labels is None:
        columns = f" (the columns are {listed(table.names)})" if table.names else ""
        raise ValueError(
            "no labels, pairs or triplets given: use --label COLUMN, or --labels, --pairs or "
            f"--triplets FILE{columns}."
        )
    quantity = is_continuous(table.labels, reading.target)
    many = table.labels.dtype.kind == "i" and len(np.unique(table.labels)) > MAX_CLASS_VALUES
    if many and reading.target == "auto":
        taken, other = ("a quantity", "classes") if quantity else ("classes", "continuous")
        table.notes.append(f"Labels: whole numbers, taken as {taken}; --target {other} changes it.")
    labels = table.labels.astype(float) if quantity else table.labels
    kind = Measured if quantity else Labelled
    return table, kind(table.X, labels, groups=table.groups), name


# ---- pairs and triplets


def read_pairs(path: Path, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (m, 2) of a file of id, id, same, and which pairs are similar."""
    path = check_file(path)
    rows, rest = _read_constraints(path, 2, table)
    if rest.width == 0:
        raise ValueError(
            f"'{path}' has two columns; a third must say whether the pair is the same (1 or 0)."
        )
    column = rest.to_series(0)
    words = column.cast(pl.String).str.to_lowercase()
    same = words.replace_strict(SAME, default=None, return_dtype=pl.Boolean)
    if same.null_count():
        bad = words.filter(same.is_null())[0]
        raise ValueError(
            f"'{path}': column '{column.name}' has {bad!r}; use 1 or 0 (or true/false, yes/no) for "
            "same or not."
        )
    similar = same.to_numpy()
    pairs = np.sort(rows, axis=1)
    alike, unlike = ({*map(tuple, pairs[which].tolist())} for which in (similar, ~similar))
    if alike & unlike:
        both = plural(len(alike & unlike), "pair")
        table.notes.append(f"{both} in '{path.name}' marked both same and different.")
    return rows, similar


def _read_constraints(path, width, table):
    """Row numbers (m, width), and the rest of the columns, of an npy (integers), CSV or Parquet
    file, whose first ``width`` columns hold row numbers, or ids of the table.
    """
    frame = read_frame(path, table.notes)
    if frame.width < width:
        raise ValueError(
            f"'{path}' has {plural(frame.width, 'column')}; the first {width} must name rows."
        )
    find = _by_number if table.ids is None else _by_id
    return find(path, frame[:, :width], table), frame[:, width:]


def _by_number(path, frame, table):
    for column in frame.iter_columns():
        fault = ""
        if not column.dtype.is_integer():
            fault = "does not hold row numbers (0, 1, ...); to use ids, give --id COLUMN"
        elif column.null_count():
            fault = f"has {plural(column.null_count(), 'missing row number')}; fill them in"
        elif len(outside := column.filter((column < 0) | (column >= len(table.X)))):
            fault = f"has {outside[0]}; the data have rows 0 to {len(table.X) - 1}"
        if fault:
            raise ValueError(f"'{path}': column '{column.name}' {fault}.")
    return frame.to_numpy().astype(np.int64)


def _by_id(path, frame, table):
    wanted = frame.cast(pl.String).to_numpy()
    rows = row_numbers(table.ids.astype(str), wanted.ravel()).reshape(wanted.shape)
    unknown = wanted[rows < 0]
    if len(unknown):
        raise ValueError(
            f"'{path}' names {plural(len(unknown), 'id')} not in the data (first: '{unknown[0]}')."
        )
    return rows
