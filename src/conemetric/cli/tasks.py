"""From the files that a command is given to the task they make."""

from pathlib import Path

from .. import datasets
from ..constraints import is_continuous
from ..workflow.supervision import Labelled, Measured, Paired, Ranked
from .relations import read_constraints, read_pairs
from .tables import Table, check_file, listed, read_table


def load_rows(data, label, labels, **reading):
    """The table of a file, or of a named data set, and a name for it."""
    if label and labels:
        raise ValueError("got --label and --labels; give one of them.")
    if data is None or (not Path(data).exists() and data in datasets.REGISTRY):
        named = datasets.load(data or "digits")
        return Table(named.X, labels=_class_names(named)), named.name
    path = check_file(data)
    return read_table(path, label=label, labels_file=labels, **reading), path.stem


def load_task(data, label, labels, pairs, triplets, *, impute, target="auto", **reading):
    """The table, the task it makes, and a name for it."""
    drop_missing = reading["drop_missing"]
    if drop_missing and impute:
        raise ValueError("got --drop-missing and --impute; give one of them.")
    options = {"--label": label, "--labels": labels, "--pairs": pairs, "--triplets": triplets}
    given = [name for name, value in options.items() if value]
    if target != "auto" and (pairs or triplets):
        raise ValueError(f"--target {target} goes with --label or --labels; leave it out.")
    if len(given) > 1:
        raise ValueError(f"got {' and '.join(given)}; give one kind of supervision.")
    if drop_missing and (pairs or triplets) and reading["id_column"] is None:
        raise ValueError(
            "--drop-missing would change the row numbers that pairs and triplets use; name the "
            "rows by --id."
        )
    table, name = load_rows(data, label, labels, allow_missing=impute is not None, **reading)
    if pairs is not None:
        indices, same = read_pairs(pairs, table)
        return table, Paired(table.X, indices, similar=same), name
    if triplets is not None:
        return table, Ranked(table.X, read_constraints(triplets, 3, table)[0]), name
    if table.labels is None:
        columns = f" (the columns are {listed(table.names)})" if table.names else ""
        raise ValueError(
            "nothing says what is alike: give --label COLUMN, --labels, --pairs or --triplets "
            f"FILE{columns}."
        )
    if is_continuous(table.labels, target):
        return table, Measured(table.X, table.labels.astype(float)), name
    return table, Labelled(table.X, table.labels), name


def _class_names(named):
    classes = named.extras.get("classes")
    return named.y if named.y is None or classes is None else classes.astype(str)[named.y]
