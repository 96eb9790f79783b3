"""Pairs and triplets from files, by row number or by id."""

import numpy as np
import polars as pl

from .tables import check_file, load_arrays, scan


def read_constraints(path, width, table):
    """Row numbers (m, width) of a pairs or triplets file, and the rest of its columns;
    ids are looked up in ``table``.

    The file is npy (integers) or a table with a header, ids in its first ``width``
    columns.
    """
    path = check_file(path)
    frame = (
        pl.DataFrame(np.asarray(load_arrays(path)["X"]))
        if path.suffix.lower() == ".npy"
        else scan(path).collect()
    )
    if frame.width < width:
        raise ValueError(f"'{path}' has {frame.width} columns; the first {width} must name rows.")
    if table.ids is None:
        for name in frame.columns[:width]:
            if not frame[name].dtype.is_integer():
                raise ValueError(
                    f"'{path}': column '{name}' does not hold row numbers (0, 1, ...); to use "
                    "ids, say --id COLUMN."
                )
            if frame[name].null_count():
                raise ValueError(
                    f"'{path}': column '{name}' has {frame[name].null_count():,} missing row "
                    "numbers; fill them in."
                )
            numbers = frame[name].to_numpy()
            low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
            if len(frame) and not 0 <= low <= high < len(table.X):
                wrong = low if low < 0 else high
                raise ValueError(
                    f"'{path}': column '{name}' has {wrong}; the data have rows 0 to "
                    f"{len(table.X) - 1}."
                )
        rows = frame[:, :width].to_numpy().astype(np.int64)
    else:
        ids = table.ids.astype(str)
        order = np.argsort(ids)
        wanted = frame[:, :width].cast(pl.String).to_numpy().astype(str)
        position = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
        unknown = ids[order][position] != wanted
        if unknown.any():
            raise ValueError(
                f"'{path}' names {int(unknown.sum()):,} ids that are not in the data (first: "
                f"'{wanted[unknown][0]}')."
            )
        rows = order[position]
    return rows, frame[:, width:]


def read_pairs(path, table):
    """Row numbers (m, 2) and whether each pair is the same, from a pairs file (id, id, same)."""
    rows, rest = read_constraints(path, 2, table)
    if rest.width == 0:
        raise ValueError(
            f"'{path}' has two columns; a third must say whether the pair is the same (1 or 0)."
        )
    same = rest.to_series(0)
    words = same.cast(pl.String).str.to_lowercase()
    yes = words.is_in(["1", "1.0", "true", "yes", "same"])
    no = words.is_in(["0", "0.0", "-1", "false", "no", "different"])
    if not (yes | no).fill_null(False).all():
        bad = words.filter(~(yes | no).fill_null(False))
        raise ValueError(
            f"'{path}': column '{same.name}' has {bad[0]!r}; use 1 or 0 (or true/false, yes/no) "
            "for same or not."
        )
    return rows, yes.to_numpy()
