"""The table of all ways to predict, for the page and the screen, and a card for each of its rows."""

from typing import Any, NamedTuple

import numpy as np

from ..core.wording import figure
from ..studies import Study
from ..studies.verdict import Kind


def row_titles(study: Study) -> dict[str, str]:
    """What the rows of the table are called, by their name in the study."""
    titles = {}
    for row in study.table():
        name = row["method"]
        kind = study.kind(name)
        if kind is Kind.EUCLIDEAN:
            titles[name] = "Euclidean"
        elif kind is Kind.LEARNED:
            titles[name] = f"learned ({study.metric.method})"
        elif kind is Kind.CONSTANT:
            titles[name] = f"always {study.task.constant().name}"
        else:
            titles[name] = name
    return titles


def table_headings(study: Study) -> tuple[str, ...]:
    """Of the columns of `table_rows`."""
    n_splits = len(study.judged)
    error = study.task.measure
    spread = "95% interval"
    if n_splits > 1:
        error += f", mean of {n_splits} splits"
        spread = "standard deviation"
    headings = ["", error, spread]
    if study.task.kind == "quantity":
        headings.append("RMSE")
    return (*headings, "dimensions", "seconds")


def table_rows(study: Study) -> list[tuple[str, ...]]:
    """A row for every way to predict: its error on the held-out rows of all splits."""
    titles = row_titles(study)
    dimensions = {Kind.EUCLIDEAN: study.task.n_features, Kind.LEARNED: len(study.metric.components)}
    has_rmse = study.task.kind == "quantity"
    rows: list[tuple[str, ...]] = []
    for row in study.table():
        name = row["method"]
        cells = [titles[name], *_error_and_spread(row, study)]
        if has_rmse:
            cells.append(_rmse(name, study))
        cells.append(str(dimensions.get(study.kind(name), "")))
        seconds = ""
        if "seconds" in row:
            seconds = f"{row['seconds']:.1f}"
        cells.append(seconds)
        rows.append(tuple(cells))
    if study.decided:
        n_empty = len(table_headings(study)) - 3
        for name, why in study.decided.absent.items():
            rows.append((name, "-", why, *[""] * n_empty))
    return rows


def _error_and_spread(row: dict[str, Any], study: Study) -> tuple[str, str]:
    """Two cells: of one split error and interval, of several mean and standard deviation."""
    n_splits = len(study.judged)
    if n_splits == 1:
        return f"{row['error']:.2%}", f"{row['low']:.2%} - {row['high']:.2%}"
    if "mean" not in row:
        n = sum(row["method"] in split for split in study.judged)
        return "-", f"learned on {n} of {n_splits} splits"
    return f"{row['mean']:.2%}", f"{row['std']:.2%}"


def _rmse(name: str, study: Study) -> str:
    """The root mean squared error, the mean of all splits; empty if it lacks in one."""
    if not all(name in split for split in study.judged):
        return ""
    values = [split[name].detail["rmse"] for split in study.judged]
    return figure(float(np.mean(values)))


class Card(NamedTuple):
    """A figure at the top of the page; ``kind`` is "better" or "worse" where it is coloured."""

    title: str
    value: str
    note: str
    kind: str = ""


def cards(study: Study) -> list[Card]:
    """A card for every row of the table that was judged on all splits."""
    measure = study.task.measure
    n_splits = len(study.judged)
    titles = row_titles(study)
    found = []
    for row in study.table():
        name = row["method"]
        if n_splits > 1 and "mean" not in row:
            continue
        value, spread = _error_and_spread(row, study)
        note = f"± {spread} over {n_splits} splits"
        if n_splits == 1:
            note = f"{_counted(row, study)}; 95% interval {row['low']:.1%} to {row['high']:.1%}"
        if name == study.verdict.lowest.name:
            note = f"lowest {measure}; {note}"
        title = f"{measure[0].upper()}{measure[1:]}, {titles[name]}"
        found.append(Card(title, value, note, study.verdict.colour(name)))
    return found


def _counted(row: dict[str, Any], study: Study) -> str:
    """The error of one split in other units."""
    judgement = study.judged[0][row["method"]]
    if "rmse" in row:
        return f"RMSE {figure(row['rmse'])}"
    return f"{int(judgement.wrong.sum()):,} of {judgement.n:,} {study.task.items} wrong"
