"""The rows of a table in memory, and what must hold for them; no file is read here."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...constraints.labels import encode_labels, is_continuous
from .options import Reading
from .wording import plural


@dataclass(frozen=True)
class Table:
    """Numbers, and what is known about rows and columns."""

    X: np.ndarray  # float32 or float64
    names: list[str] | None = None  # of the columns, if the file has them
    labels: np.ndarray | None = None
    ids: np.ndarray | None = None  # None: rows go by their number
    categories: dict[str, list[str]] | None = None  # text columns: values that became features
    notes: tuple[str, ...] = ()  # what was ignored or dropped, in words

    @property
    def row_names(self) -> np.ndarray:
        """The ids, or numbers from 0."""
        return np.arange(len(self.X)) if self.ids is None else self.ids

    def column_name(self, i: int) -> str:
        return self.names[i] if self.names else f"column {i}"


def is_text(path: Path) -> bool:
    """Whether a file is CSV, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def without_missing(table: Table, path: Path, reading: Reading, fills: bool) -> Table:
    """Refuse missing and infinite values, or drop their rows. ``fills``: missing ones are filled
    in later.
    """
    bad = np.isinf(table.X) if fills else ~np.isfinite(table.X)
    no_label = _unlabelled(table.labels, len(bad))
    rows = bad.any(axis=1) | no_label
    if not rows.any():
        return table
    missing = _missing_in_words(table, reading, fills, bad, no_label)
    if not reading.drop_missing:
        name = table.column_name(int(np.argmax(bad.sum(axis=0))))
        advice = {} if fills else {"impute": "use --impute to fill them in"}
        if rows.all():
            advice |= {"ignore": f"leave the column out by --ignore {name}"}
        else:
            advice = {"drop_missing": "use --drop-missing to leave those rows out"} | advice
        raise ValueError(f"'{path}': {missing}; fill them in{reading.remedies(**advice)}.")
    if rows.all():
        raise ValueError(f"'{path}': {missing}; nothing is left when they are dropped.")
    labels, ids = (None if part is None else part[~rows] for part in (table.labels, table.ids))
    if labels is not None and labels.dtype.kind == "f" and (labels == labels.round()).all():
        labels = labels.astype(np.int64)
    notes = (*table.notes, f"Dropped: {missing}.")
    return replace(table, X=table.X[~rows], labels=labels, ids=ids, notes=notes)


def _missing_in_words(table, reading, fills, bad, no_label):
    """How many rows lack a value, and in which columns."""
    counts = bad.sum(axis=0)
    most_first = [i for i in np.argsort(-counts, kind="stable") if counts[i]]
    where = [f"'{table.column_name(i)}' in {plural(int(counts[i]), 'row')}" for i in most_first[:3]]
    if no_label.any():
        name = f"the label '{reading.label}'" if reading.label else "the label"
        which = " (-1 says that a row has none)" if table.labels.dtype.kind == "i" else ""
        where.append(f"{name} in {plural(int(no_label.sum()), 'row')}{which}")
    if len(most_first) > 3:
        where.append(f"and {plural(len(most_first) - 3, 'more column')}")
    n = int((bad.any(axis=1) | no_label).sum())
    kind = "infinite" if fills else "missing or infinite"
    return (
        f"{n:,} of {plural(len(bad), 'row')} {'has' if n == 1 else 'have'} {kind} values: "
        f"{', '.join(where)}"
    )


def refuse_huge(table: Table, path: Path, reading: Reading) -> None:
    """Refuse numbers so large that squared distances would overflow."""
    X = table.X
    most = np.sqrt(np.finfo(X.dtype).max / (4 * X.shape[1]))
    with np.errstate(invalid="ignore"):
        huge = np.isfinite(X) & (np.abs(X) > most)
    if not huge.any():
        return
    row, column = (int(i) for i in np.argwhere(huge)[0])
    name, where = table.column_name(column), f"row {row}"
    if is_text(path) and name in (table.names or ()):
        from .csv_files import place_of

        where = f"line {place_of(path, reading, row, name)[0]}"
    remedy = reading.remedies(ignore=f"leave the column out by --ignore {name}")
    raise ValueError(
        f"'{path}', {where}: column '{name}' has {X[row, column]:g}, too large to square in "
        f"{X.dtype}; correct it, or leave it empty if it stands for a missing value{remedy}."
    )


def _unlabelled(labels, n):
    """Which rows have no label: an empty one, or -1 next to two or more classes."""
    if labels is None:
        return np.zeros(n, bool)
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind == "i" and not is_continuous(labels):
        return encode_labels(labels) < 0
    return np.array([value is None for value in labels])


def check_ids(table: Table, path: Path, id_column: str | None) -> None:
    """Refuse ids that occur more than once."""
    if table.ids is None:
        return
    values, counts = np.unique(table.ids.astype(str), return_counts=True)
    twice = counts > 1
    if twice.any():
        raise ValueError(
            f"--id: '{path}' has {int(twice.sum()):,} ids more than once in column '{id_column}' "
            f"(first: '{values[twice][0]}', {int(counts[twice][0])} times); ids must be unique."
        )
