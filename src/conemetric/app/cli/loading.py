"""From files to a task: rows with labels, pairs or triplets."""

from pathlib import Path

import numpy as np

from ...constraints.in_memory import is_continuous
from ..datasets import ALIASES, BUNDLED
from ..studies.supervision import Labelled, Measured, Paired, Ranked, Task
from .constraint_files import read_pairs, read_triplets
from .options import Reading
from .tables import Table, check_file, read_table
from .wording import listed


def load_rows(data: str | None, reading: Reading) -> tuple[Table, str]:
    """The table of a file, or of a bundled data set, and a name for it."""
    if reading.label and reading.labels:
        raise ValueError("got --label and --labels; give one of them.")
    data = data or next(iter(BUNDLED))
    name = ALIASES.get(data, data)
    if name in BUNDLED and not Path(data).exists():
        bunch = BUNDLED[name][0]()
        classes = bunch.target_names.astype(str)[bunch.target]
        return Table(np.ascontiguousarray(bunch.data), list(bunch.feature_names), classes), name
    path = check_file(data)
    return read_table(path, reading), path.stem


def load_task(data: str | None, reading: Reading) -> tuple[Table, Task, str]:
    """The table, its task, and a name for it."""
    if reading.drop_missing and reading.impute:
        raise ValueError("got --drop-missing and --impute; give one of them.")
    if reading.target != "auto" and (reading.pairs or reading.triplets):
        raise ValueError(f"--target {reading.target} goes with --label or --labels; leave it out.")
    kinds = ("label", "labels", "pairs", "triplets")
    given = [f"--{name}" for name in kinds if getattr(reading, name)]
    if len(given) > 1:
        raise ValueError(f"got {' and '.join(given)}; give one kind of supervision.")
    by_number = (reading.pairs or reading.triplets) and reading.id_column is None
    if reading.drop_missing and by_number:
        raise ValueError(
            "--drop-missing would change the row numbers that pairs and triplets use; name the "
            "rows by --id."
        )
    table, name = load_rows(data, reading)
    if reading.pairs is not None:
        table, indices, same = read_pairs(reading.pairs, table)
        return table, Paired(table.X, indices, similar=same), name
    if reading.triplets is not None:
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
