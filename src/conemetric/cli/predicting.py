"""``conemetric predict``: classes or numbers of new rows, by a decision that ``learn`` saved."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ..core.slices import slices
from ..core.wording import figure
from .files import DECISION, DEFAULT_FOLDER, as_rows, check_free, latest_written, write_csv
from .invocation import progress_bar, state
from .options import Command, Dialect, DropMissing, IdColumn, Out, Overwrite, check_data, option
from .reading.reading import check_file
from .using import SHOWN
from .wording import all_of_them, grid, plural

PREDICTED = "CSV, Parquet, npy or npz file, or a bundled data set, such as vehicle."
SAVED = f"Decision file; default: what learn wrote last to {DEFAULT_FOLDER}, or that with a number."
ALPHA = "Share of sets or intervals that may miss the true value."
NO_PROMISE = (
    "No sets or intervals, and uncalibrated probabilities: there were too few training rows "
    "to hold any out."
)
EXPLAIN = (
    "How deciding rows are chosen: by their terms in the score; or by the weights of their targets, "
    "which takes a decomposition of the kernel matrix of all training rows."
)
LATEST = "Predicted by '{}', which learn wrote last; --decision FILE names another."
LEAST_SHARE = 0.05  # of the score, by which the rows named are worth calling deciding
# rows predicted at a time, between which the progress bar moves
ROWS_AT_A_TIME = 1000


class Explained(StrEnum):
    """What deciding rows are chosen by; the values are those of `MetricClassifier.explain`."""

    TERMS = "terms"
    TARGETS = "targets"


@dataclass(frozen=True, kw_only=True)
class Predict(Command, Dialect):
    """Options of `predict`."""

    data: Annotated[str, typer.Argument(metavar="DATA", help=PREDICTED)]
    decision: Annotated[Path | None, option("FILE", SAVED)] = None
    id_column: IdColumn = None
    drop_missing: DropMissing = False
    alpha: Annotated[float, option("SHARE", ALPHA)] = 0.1
    explained: Annotated[int, option("N", "Deciding training rows to list.", "--rows", min=0)] = 3
    explain: Annotated[Explained, option("WAY", EXPLAIN)] = Explained.TERMS
    out: Out = None
    overwrite: Overwrite = False


def predict(given: Predict) -> None:
    """Predict the class or number of new rows, with a set or interval that should hold the true
    one, and the training rows that decided.

    A training row's share is positive if it supports the prediction; the absolute shares of all
    training rows add up to 1.

    [dim]conemetric predict new.csv                      by what learn wrote last
    conemetric predict new.csv --decision conemetric-out/decision.safetensors --out predicted.csv[/]
    """
    if given.explain is Explained.TARGETS and given.explained == 0:
        raise ValueError(
            "--explain targets says how deciding rows are chosen, and --rows 0 lists none; leave one of "
            "them out."
        )
    # all that can be refused without reading rows comes first
    path, notes = _decision_file(given.decision)
    check_data(given.data)
    if given.out is not None:
        check_free([given.out], given.overwrite)

    from ..storage import load_decision
    from .reading.loading import load_rows

    estimator = load_decision(path)
    if _promises(estimator):
        estimator.held_out_for(given.alpha)  # an error before any row is read
    try:
        table, _ = load_rows(given.data, given, estimator.encoder_ or _columns(estimator))
    except ValueError as error:
        if given.decision is not None:
            raise
        raise ValueError(f"{error} {LATEST.format(path)}") from error
    rows = []
    with progress_bar("predicting"):
        found = predicted_rows(estimator, table.X, given.alpha, given.explained, str(given.explain))
        for name, predicted in zip(table.row_names.tolist(), found, strict=True):
            rows.append({"row": name, **predicted})
    values = {
        "rows": len(rows),
        "decision": str(estimator.blend_),
        "file": str(path),
        "alpha": given.alpha,
    }
    notes += table.notes
    if not _promises(estimator):
        notes.append(NO_PROMISE)
    if given.explain == Explained.TERMS:
        notes += _on_small_shares(rows)
    if given.out is None:
        _show(rows, values, notes)
        return
    write_csv(given.out, list(map(_flat, rows)))
    state.wrote(given.out, values, f"{plural(len(rows), 'row')} predicted,", notes)


def _decision_file(chosen: Path | None) -> tuple[Path, list[str]]:
    """The file to predict by, and a note if it was not named."""
    if chosen is not None:
        return check_file(chosen, "decision"), []
    path = latest_written(DECISION)
    if path is None:
        raise FileNotFoundError(
            f"--decision: there is no {DEFAULT_FOLDER} with a {DECISION} in this folder; name the file "
            "that `conemetric learn` has written."
        )
    return path, [LATEST.format(path)]


def _on_small_shares(rows):
    """A note if the rows that are named say little of why."""
    shares = []  # of each prediction, by all rows that are named for it
    for row in rows:
        shares.append(sum(abs(named["share"]) for named in row["decided_by"]))
    if not any(shares):
        return []
    typical = statistics.median(shares)
    if typical >= LEAST_SHARE:
        return []
    return [
        f"The training rows named make up {typical:.1%} of the score: many decide together, none by itself. "
        "--explain targets names rows by the weight of their own label, more slowly."
    ]


def _columns(estimator):
    """The columns of a decision without an encoder, as `read_table` takes them from a metric."""
    import numpy as np

    from ..storage import LearnedMetric

    if hasattr(estimator, "feature_names_in_"):
        names = list(estimator.feature_names_in_)
    else:
        names = estimator.notes_.get("feature_names")
    components = estimator.components_
    return LearnedMetric(components, np.zeros(len(components)), feature_names=names)


def predicted_rows(
    estimator: Any, X: Any, alpha: float, n: int, by: str
) -> Iterator[dict[str, Any]]:
    """For each row class, probability and set, or number and interval, and n deciding rows."""
    import numpy as np
    import polars as pl

    names = estimator.notes_.get("row_names") or {}
    rows_at_a_time = ROWS_AT_A_TIME
    if by == Explained.TARGETS:
        # each block of these would decompose the kernel matrix of all training rows again
        rows_at_a_time = len(X)
    for part in slices(len(X), 1, max(1, rows_at_a_time)):
        block = X[part]
        if isinstance(block, np.ndarray) and hasattr(estimator, "feature_names_in_"):
            block = pl.DataFrame(block, schema=list(estimator.feature_names_in_))
        decided = estimator.decide(block, alpha=alpha, n_rows=n, by=by)
        rows = as_rows(_columns_of(decided, estimator))
        for values, deciding in zip(rows, _deciding_rows(decided, names), strict=True):
            yield {**values, "decided_by": deciding}


def _columns_of(decided, estimator):
    """The columns of the answer."""
    if decided.probabilities is None:
        columns = {"value": decided.values.tolist()}
        if decided.intervals is not None:
            columns["low"], columns["high"] = decided.intervals.T.tolist()
        return columns
    classes = estimator.classes_
    known = classes.tolist()
    probabilities = decided.probabilities.tolist()
    columns = {
        "class": decided.values.tolist(),
        "probability": [max(each) for each in probabilities],
        "probabilities": [dict(zip(known, each, strict=True)) for each in probabilities],
    }
    if decided.sets is not None:
        columns["set"] = [classes[included].tolist() for included in decided.sets]
    return columns


def _deciding_rows(decided, names):
    """The training rows that decided each row, by name, with their shares."""
    if decided.explanation is None:
        return [[] for _ in decided.values]

    def entry(row, share):
        return {"row": names.get(str(row), row), "share": share}

    numbers = decided.explanation.rows.tolist()
    shares = decided.explanation.shares.tolist()
    return [list(map(entry, *each)) for each in zip(numbers, shares, strict=True)]


def _promises(estimator):
    """Whether the decision has held-out rows, which sets and intervals rest on."""
    return estimator.n_held_out_ > 0


def _flat(row):
    """A row of the file: classes of the set joined by '|', a column for each deciding row."""
    flat = dict(row)
    deciding = flat.pop("decided_by")
    if "set" in flat:
        flat["set"] = "|".join(map(str, flat["set"]))
    if "probabilities" in flat:
        for name, probability in flat.pop("probabilities").items():
            flat[f"probability of {name}"] = probability
    for i, decided in enumerate(deciding, start=1):
        flat[f"decided_by_{i}"] = decided["row"]
        flat[f"share_{i}"] = decided["share"]
    return flat


def _show(rows, values, notes):
    """The first rows on the screen."""
    shown = [_cells(row, f"{1 - values['alpha']:.0%}") for row in rows[:SHOWN]]
    state.answer(
        {**values, "predictions": rows},
        grid("", shown[0], (map(escape, cells.values()) for cells in shown)),
        notes=notes,
        last=all_of_them(len(rows), len(rows) <= SHOWN),
    )


def _cells(row, covered):
    """The prediction of a row as text, by heading."""
    cells = {"row": str(row["row"])}
    if "class" in row:
        cells["class"] = str(row["class"])
        cells["probability"] = f"{row['probability']:.1%}"
    else:
        cells["prediction"] = figure(row["value"])
    if "set" in row:
        cells[f"{covered} set"] = ", ".join(map(str, row["set"]))
    if "low" in row:
        cells[f"{covered} interval"] = f"{figure(row['low'])} - {figure(row['high'])}"
    deciding = [f"{each['row']} ({each['share']:+.1%})" for each in row["decided_by"]]
    if deciding:
        cells["decided by (share)"] = ", ".join(deciding)
    return cells
