"""From files, or a bundled data set, to a task."""

from pathlib import Path

import numpy as np

from ...constraints.labels import is_continuous
from ..datasets import ALIASES, BUNDLED, load_bundled
from ..studies.supervision import Labelled, Measured, Paired, Ranked, Task
from .files import check_file
from .intake import Table
from .options import Reading
from .wording import listed


def load_rows(data: str | None, reading: Reading) -> tuple[Table, str]:
    """The table of a file, or of a bundled data set, and a name for it."""
    data = data or next(iter(BUNDLED))
    name = ALIASES.get(data, data)
    if name in BUNDLED and not Path(data).exists():
        bunch = load_bundled(name)
        classes = bunch.target_names.astype(str)[bunch.target]
        return Table(np.ascontiguousarray(bunch.data), list(bunch.feature_names), classes), name
    from .tables import read_table

    path = check_file(data)
    return read_table(path, reading), path.stem


def load_task(data: str | None, reading: Reading) -> tuple[Table, Task, str]:
    """The table, its task, and a name for it."""
    table, name = load_rows(data, reading)
    if reading.pairs is not None:
        from .pairs import read_pairs

        table, indices, same = read_pairs(reading.pairs, table)
        return table, Paired(table.X, indices, similar=same), name
    if reading.triplets is not None:
        from .pairs import read_triplets

        table, indices = read_triplets(reading.triplets, table)
        return table, Ranked(table.X, indices), name
    if table.labels is None:
        columns = f" (the columns are {listed(table.names)})" if table.names else ""
        raise ValueError(
            "no labels, pairs or triplets given: use --label COLUMN, or --labels, --pairs or "
            f"--triplets FILE{columns}."
        )
    if is_continuous(table.labels, reading.target):
        return table, Measured(table.X, table.labels.astype(float)), name
    return table, Labelled(table.X, table.labels), name
