"""What ``learn`` and ``compare`` share: their options, the task that a file makes, and
the lines of the result table.
"""

import csv
import io
import itertools
import re
from pathlib import Path
from typing import Annotated

import typer

from .. import datasets
from ..persistence import atomic_path
from ..workflow.supervision import Labelled, Paired, Ranked
from .relations import read_constraints, read_pairs
from .tables import Table, check_file, listed, read_table

DEFAULT_FOLDER = "conemetric-out"

DataArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, npy or npz file, or a named data set; digits when left out. A pattern "
        "(quoted) names many Parquet files, learned from partition by partition.",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column (or npz array) that holds the classes."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="npy, CSV or text file with one label per row, instead of --label."
    ),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column that names the rows; unique."),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated."),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Column to learn from although it looks like row numbers; may be repeated.",
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing or infinite values.")
]
Impute = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="Fill missing values by the mean or the median of their column in the training rows.",
    ),
]
OneHot = Annotated[
    bool,
    typer.Option("--one-hot", help="Learn from columns of words too: a feature for each value."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are there already.")
]
Pairs = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Learn from pairs: a file of id, id, same."),
]
Triplets = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Learn from triplets: a file of id, id, id; the first is nearer the second.",
    ),
]
Scale = Annotated[
    str, typer.Option(metavar="HOW", help="Standardise the columns: auto, standard or none.")
]
Pca = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Reduce to this many principal components first."),
]
Neighbours = Annotated[
    int,
    typer.Option(
        "-k", "--neighbors", metavar="K", min=1, help="Neighbours that vote when judging."
    ),
]
TestSize = Annotated[
    float, typer.Option(metavar="SHARE", min=0.01, max=0.9, help="Share held out to judge on.")
]
Tolerance = Annotated[
    float, typer.Option(metavar="GAP", min=0, help="Certified relative gap to stop at.")
]
MaxTestRows = Annotated[
    int, typer.Option(metavar="N", min=10, help="Judge on at most this many held-out rows.")
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=10,
        help="Learn from at most this many rows, drawn class by class; default: all, or as many "
        "as take minutes.",
    ),
]


def load_rows(data, label, labels, **reading):
    """The table of a file, or of a named data set, and a name for it."""
    if label and labels:
        raise ValueError("got --label and --labels; give one of them.")
    if data is None or (not Path(data).exists() and data in datasets.REGISTRY):
        named = datasets.load(data or "digits")
        return Table(named.X, labels=_class_names(named)), named.name
    path = check_file(data)
    return read_table(path, label=label, labels_file=labels, **reading), path.stem


def load_task(data, label, labels, pairs, triplets, *, impute, **reading):
    """The table, the task it makes, and a name for it."""
    drop_missing = reading["drop_missing"]
    if drop_missing and impute:
        raise ValueError("got --drop-missing and --impute; give one of them.")
    options = {"--label": label, "--labels": labels, "--pairs": pairs, "--triplets": triplets}
    given = [name for name, value in options.items() if value]
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
    return table, Labelled(table.X, table.labels), name


def _class_names(named):
    classes = named.extras.get("classes")
    return named.y if named.y is None or classes is None else classes.astype(str)[named.y]


def check_free(paths, overwrite):
    """Refuse to replace files, unless that is wanted."""
    taken = [path for path in paths if path.exists()]
    if taken and not overwrite:
        raise FileExistsError(
            f"'{taken[0]}' is there already; choose another place by --out, or replace it by "
            "--overwrite."
        )


def output_folder(chosen, names, overwrite):
    """The folder to write files of these names to, made now, so that a read-only place is
    found out before the work; where none was chosen, a new one.
    """
    if chosen is None:
        numbered = (Path(f"{DEFAULT_FOLDER}-{number}") for number in itertools.count(2))
        candidates = itertools.chain([Path(DEFAULT_FOLDER)], numbered)
        free = (path for path in candidates if not any((path / name).exists() for name in names))
        chosen = Path(DEFAULT_FOLDER) if overwrite else next(free)
    check_free([chosen / name for name in names], overwrite)
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        with atomic_path(chosen / names[0]) as probe:
            probe.touch()
            raise _Probed
    except _Probed:
        pass
    except OSError as error:
        raise OSError(
            f"cannot write to '{chosen}': {error.strerror}; choose another folder by --out."
        ) from error
    return chosen


class _Probed(Exception):
    pass


def row(name, judgement):
    """One line of the table: error with its interval."""
    low, high = judgement.interval
    return {
        "method": name,
        "error": judgement.rate,
        "low": low,
        "high": high,
        "held_out": judgement.n,
    }


def fit_facts(study):
    """What the fit itself has to say, for the table and for JSON."""
    certificate = study.metric.certificate
    facts = {
        "rank": len(study.metric.components),
        "seconds": round(study.seconds["learning"], 3),
    }
    if certificate is None:  # a blend
        return facts
    return {
        **facts,
        "iterations": int(study.estimator.n_iter_),
        "objective": certificate.primal,
        "bound": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "status": str(certificate.status),
    }


def write_csv(path, rows):
    """Write dictionaries as CSV, whole or not at all; a column missing from a row is empty."""
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for values in rows for name in values))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with atomic_path(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")


def in_options(message):
    """A warning of an estimator with its remedy in options of the command."""
    return re.sub(r"to go on, .*\.$", "to go on, raise --tol.", message)


def in_words(certificate):
    """One sentence a person can act on."""
    if certificate.relative_gap <= 0 or certificate.relative_gap != certificate.relative_gap:
        return f"gap {certificate.relative_gap:.1e} ({certificate.status})"
    missed = (
        f", constraints missed by {certificate.violation:.1e}" if certificate.violation > 0 else ""
    )
    return (
        f"proven within {certificate.relative_gap:.2g} (relative) of the best possible objective"
        f"{missed} ({certificate.status})"
    )
