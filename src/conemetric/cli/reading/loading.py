"""From files, or a bundled data set, to a task: rows and their labels, pairs or triplets."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...constraints.labels import MAX_CLASS_VALUES, is_continuous
from ...core.wording import listed, plural
from ...datasets import ALIASES, BUNDLED, load_bundled
from ...studies.constrained import Paired, Ranked
from ...studies.giveaway import find_giveaway
from ...studies.supervision import Labelled, Measured, Task
from .intake import Learned, Table
from .labels import row_numbers
from .reading import DIALECT, OPTION_NAMES, Reading, argument, as_given, check_file
from .tables import read_frame, read_table

# different whole numbers among the labels; fewer are hardly a quantity, and nothing is said
MIN_VALUES_OF_A_QUANTITY = 5
# fields of `Reading` that bundled data sets, which have labels and names of columns, leave no use for
ABOUT_FILES = (
    "label",
    "labels",
    "id_column",
    "ignore",
    "categorical",
    "numeric",
    *DIALECT,
    "missing",
)
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
        _refuse_options_of_files(name, reading)
        bunch = load_bundled(name)
        classes = bunch.target_names.astype(str)[bunch.target]
        return Table(np.ascontiguousarray(bunch.data), list(bunch.feature_names), classes), name
    path = check_file(data)
    return read_table(path, reading, learned), path.stem


def _refuse_options_of_files(name, reading):
    """Refuse what only a file has use for: most likely the file was forgotten."""
    for field in ABOUT_FILES:
        value = getattr(reading, field)
        if value is not None:
            option = as_given(OPTION_NAMES.get(field, field), value)
            raise ValueError(
                f"{option} is about a file, and the data are the bundled data set '{name}'; name the "
                "file, or leave the option out."
            )


def load_task(data: str | None, reading: Reading) -> tuple[Table, Task, str]:
    """The table, its task, and a name for it."""
    table, name = load_rows(data, reading)
    known: dict[str, Any] = {"groups": table.groups, "kinds": table.kinds}
    if reading.pairs is not None:
        indices, same = read_pairs(reading.pairs, table)
        return table, Paired(table.X, indices, similar=same, **known), name
    if reading.triplets is not None:
        indices, _ = _read_constraints(check_file(reading.triplets), 3, table)
        return table, Ranked(table.X, indices, **known), name
    if table.labels is None:
        columns = ""
        if table.names:
            columns = f" (the columns are {listed(table.names)})"
        raise ValueError(
            "no labels, pairs or triplets given: use --label COLUMN, or --labels, --pairs or "
            f"--triplets FILE{columns}."
        )
    if reading.target == "auto":  # else the user has said it
        table.notes.extend(_choice_of_task(table.labels))
    quantity = is_continuous(table.labels, reading.target)
    labels = table.labels
    kind: type[Labelled] = Labelled
    if quantity:
        labels = labels.astype(float)
        kind = Measured
    task = kind(
        table.X,
        labels,
        label=reading.label,
        **known,
        giveaway=giveaway_in_words(table.X, table.names, labels, reading.label, quantity),
    )
    if task.giveaway:
        table.notes.append(task.giveaway)
    return table, task, name


def giveaway_in_words(
    X: Any, names: list[str] | None, labels: np.ndarray, label: str | None, quantity: bool
) -> str:
    """A sentence about columns that give the label away; empty if there are none."""
    if names is None:
        return ""
    found = find_giveaway(X, names, labels, quantity)
    if found is None:
        return ""
    options = " ".join(f"--ignore {argument(name)}" for name in found.columns)
    return found.in_words(label, f"pass {options}")


def _choice_of_task(labels: np.ndarray) -> list[str]:
    """A line that says what numbers were taken for, and how to change that, unless it is obvious."""
    if labels.dtype.kind not in "if":
        return []
    n_values = len(np.unique(labels))
    whole = labels.dtype.kind == "i"
    if not is_continuous(labels):
        if n_values < MIN_VALUES_OF_A_QUANTITY:
            return []
        return [
            f"Labels: {n_values:,} whole numbers, taken as classes; --target continuous takes them as "
            "a quantity."
        ]
    if not whole and n_values > MAX_CLASS_VALUES:
        return []
    kind = "whole numbers" if whole else "numbers, some with a fraction"
    return [
        f"Labels: {n_values:,} {kind}, taken as a quantity; --target classes takes each as a class."
    ]


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
    # numbers and truth values too, as every file type spells them
    words = column.cast(pl.String).str.to_lowercase()
    same = words.replace_strict(SAME, default=None, return_dtype=pl.Boolean)
    if same.null_count():
        bad = words.filter(same.is_null())[0]
        raise ValueError(
            f"'{path}': column '{column.name}' has {bad!r}; use 1 or 0 (or true/false, yes/no) for "
            "same or not."
        )
    similar = same.to_numpy()
    pairs = np.sort(rows, axis=1)  # a pair is the same in either order
    alike = set(map(tuple, pairs[similar].tolist()))
    unlike = set(map(tuple, pairs[~similar].tolist()))
    both = alike & unlike
    if both:
        table.notes.append(
            f"{plural(len(both), 'pair')} in '{path.name}' marked both same and different."
        )
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
            fault = "does not hold row numbers (0, 1, ...); to use ids, pass --id COLUMN"
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
