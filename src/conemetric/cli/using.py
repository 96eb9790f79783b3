"""Commands that use a metric: ``embed``, ``neighbors``, ``inspect``; and ``datasets``."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ..datasets import ALIASES, BUNDLED, load_bundled
from .files import check_free
from .invocation import progress_bar, state
from .options import Command, Dialect, DropMissing, IdColumn, Metric, Out, Overwrite, Rows, option
from .reading.reading import check_file
from .wording import all_of_them, grid, plural, promise_values

SHOWN, SHOWN_NEIGHBOURS = 20, 5  # rows, and neighbours of each, that fit on a screen
MOST_ENTRIES = 8  # of a list that a file holds
AGAINST = "Rows to search; default: DATA itself, each row without itself."
NO_CERTIFICATE = "none: a blend, or a truncated metric, is not the optimum of a program"


@dataclass(frozen=True, kw_only=True)
class Embed(Command, Dialect):
    """Options of `embed`."""

    data: Rows
    metric: Metric
    out: Annotated[Path, option("FILE", "File to write: CSV, Parquet or npy.")]
    dimensions: Annotated[int | None, option("N", "Keep N leading directions only.", min=1)] = None
    drop_missing: DropMissing = False
    overwrite: Overwrite = False


def embed(given: Embed) -> None:
    """Map rows to the space where the learned metric is the Euclidean one, batch by batch.

    Columns of a CSV or Parquet file that are not features (ids, labels) are carried
    over. Missing values and text columns are treated as when the metric was learned.
    """
    check_file(given.metric, "metric")
    check_file(given.data)
    check_free([given.out], given.overwrite)

    from ..storage import load_metric
    from .reading.batches import embedded_batches, write_batches

    learned = load_metric(given.metric)
    if given.dimensions is not None:
        learned = learned.truncated(given.dimensions)
    rank = len(learned.components)
    notes: list[str] = []
    dropped: list[int] = []
    with progress_bar("starting"):
        # lazy: notes and counts are complete once all batches are written
        batches = embedded_batches(given.data, learned, given, notes, dropped)
        n = write_batches(given.out, batches, rank)
    if sum(dropped):
        notes.append(f"Dropped: {plural(sum(dropped), 'row')} with missing values.")
    values = {"rows": n, "dropped": sum(dropped), "dimensions": rank}
    state.wrote(given.out, values, f"{plural(n, 'row')} in {plural(rank, 'dimension')}", notes)


@dataclass(frozen=True, kw_only=True)
class Neighbors(Command, Dialect):
    """Options of `neighbors`."""

    data: Rows
    metric: Metric
    id_column: IdColumn = None
    drop_missing: DropMissing = False
    against: Annotated[Path | None, option("FILE", AGAINST)] = None
    k: Annotated[int, option("K", "Neighbours per row.", "-k", min=1)] = 5
    out: Out = None
    overwrite: Overwrite = False


def neighbors(given: Neighbors) -> None:
    """Find the nearest neighbours of every row by the learned distance."""
    k = given.k
    check_file(given.metric, "metric")
    check_file(given.data)
    if given.against is not None:
        check_file(given.against)
    if given.out is not None:
        check_free([given.out], given.overwrite)

    from ..neighbours.search import nearest
    from ..storage import LearnedMetric, atomic_path, load_metric

    # refuses a map of queries, which defines no distance
    learned = LearnedMetric.from_estimator(load_metric(given.metric))
    queries, searched = _queries_and_searched(given, learned)
    findable = len(searched.X)
    if given.against is None:
        findable -= 1  # a row is no neighbour of itself
    if k > findable:
        raise ValueError(f"-k {k} exceeds the {plural(findable, 'row')} that can be found.")
    with progress_bar("searching"):
        references = None
        if given.against is not None:
            references = learned.transform(searched.X)
        found, distance = nearest(learned.transform(queries.X), references, k)
    frame = _as_frame(queries.row_names, searched.row_names[found], distance)
    # each once: both may be the same table
    notes = dict.fromkeys((*queries.notes, *searched.notes))
    if given.out is None:
        _show_neighbours(frame, k, notes)
        return
    with atomic_path(given.out) as temporary:
        frame.write_csv(temporary)
    n = len(queries.X)
    what = f"{plural(k, 'neighbour')} of {plural(n, 'row')}"
    state.wrote(given.out, {"rows": n, "neighbors": k}, what, notes)


def _as_frame(names, neighbours, distance):
    """Rows, ranks, neighbours and distances, a line for each neighbour."""
    import numpy as np
    import polars as pl

    n, k = distance.shape
    columns = {
        "row": np.repeat(names, k),
        "rank": np.tile(np.arange(1, k + 1), n),
        "neighbor": neighbours.ravel(),
        "distance": distance.ravel(),
    }
    return pl.DataFrame(columns)


def _queries_and_searched(given, learned):
    """The table of the rows, and that of those to search, which may be the same."""
    from .reading.tables import read_table

    data = given.data
    against = given.against
    if against is None:
        table = read_table(data, given, learned)
        return table, table
    queries = read_table(data, _reading_of(data, against, given), learned)
    return queries, read_table(against, _reading_of(against, data, given), learned)


def _reading_of(path, other, given):
    """The options for one of two files: those about CSV files are not for it if only the other is CSV."""
    if _is_csv(other) and not _is_csv(path):
        return given.without_dialect()
    return given


def _is_csv(path):
    from .reading.csv_files import is_text

    if path.suffix.lower() == ".gz":
        path = Path(path.stem)
    return is_text(path)


def _show_neighbours(frame, k, notes):
    """The first rows and their nearest neighbours."""
    n = len(frame) // k
    columns = min(k, SHOWN_NEIGHBOURS)
    headings = ["row"]
    for number in range(1, columns + 1):
        headings.append(f"neighbour {number} (distance)")
    rows = []
    for of_row in frame[: SHOWN * k].iter_slices(k):
        cells = [str(of_row["row"][0])]
        for name, distance in of_row[:columns].select("neighbor", "distance").rows():
            cells.append(f"{name} ({distance:.3g})")
        rows.append(cells)
    state.answer(
        {"neighbors": frame.to_dicts()},
        grid("", headings, rows),
        notes=notes,
        last=all_of_them(n, n <= SHOWN and k <= columns),
    )


@dataclass(frozen=True, kw_only=True)
class Inspect(Command):
    """Options of `inspect`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Metric or decision file.")]


def inspect(given: Inspect) -> None:
    """Show what is in a metric or decision file, after all checks of loading."""
    file = given.file
    check_file(file, "metric or decision")

    from ..storage import load_decision, load_metric
    from ..storage.checked import kind_of

    if kind_of(file) == "decision":
        values, shown = _inside_decision(load_decision(file))
    else:
        values, shown = _inside_metric(load_metric(file))
    shown = {"file": str(file), **values, **shown}
    table = grid("", ("", ""), [(name, escape(_entry(value))) for name, value in shown.items()])
    table.show_header = False
    table.columns[1].justify = "left"  # words rather than numbers
    state.answer({"file": str(file), **values}, table)


def _inside_metric(learned):
    """What the file holds, and what is shown of it in other words."""
    from ..core import spectral
    from ..storage import certificate_values
    from ..storage.checked import json_value

    promise = getattr(learned, "threshold_promise_", None)
    if promise is not None:
        promise = promise_values(promise)
    kernel = None
    if learned.kernel is not None:
        kernel = learned.kernel.kernel
    values = {
        "method": learned.method,
        "features": learned.n_features_in_,
        "dimensions": len(learned.components),
        "feature_names": learned.feature_names,
        "preprocessing": list(learned.preprocessing),
        "kernel": kernel,
        "columns": _kinds(learned.encoder),
        "fills_missing_values": learned.fill is not None or learned.encoder is not None,
        "parameters": learned.parameters,
        "certificate": certificate_values(learned.certificate),
        "threshold": json_value(getattr(learned, "threshold_", None)),
        "promise": promise,
        "scores": learned.scores,
        "eigenvalues": spectral.eigenvalues_of(learned.components).tolist(),
        "notes": learned.notes,
    }
    return values, {"certificate": values["certificate"] or NO_CERTIFICATE}


def _kinds(encoder):
    """The kind of each column, and why others are ignored; None without an encoder."""
    if encoder is None:
        return None
    kinds = {column.name: column.kind for column in encoder.columns_}
    for name, why in encoder.ignored_.items():
        kinds[name] = f"ignored: {why}"
    return kinds


def _inside_decision(estimator):
    """What the file holds, and what is shown of it in other words."""
    from ..storage import certificate_values

    notes = dict(estimator.notes_)
    notes.pop("row_names", None)  # of all training rows: too many to show
    if hasattr(estimator, "feature_names_in_"):
        names = estimator.feature_names_in_.tolist()
    else:
        names = notes.pop("feature_names", None)
    classes = None
    if hasattr(estimator, "classes_"):
        classes = estimator.classes_.tolist()
    evidence = estimator.evidence_
    values = {
        "method": type(estimator).__name__,
        "decision": str(estimator.blend_),
        "features": estimator.n_features_in_,
        "feature_names": names,
        "classes": classes,
        "training_rows": estimator.n_kept_,
        "held_out_rows": estimator.n_held_out_,
        "columns": _kinds(estimator.encoder_),
        "certificate": certificate_values(estimator.certificate_),
        "evidence": None if evidence is None else asdict(evidence),
        "notes": notes,
    }
    certificate: Any = "none: neighbours solve no system"
    if values["certificate"] is not None:
        proven = {"proves": "how well the systems were solved, not how few errors are made"}
        certificate = proven | values["certificate"]
    return values, {
        "certificate": certificate,
        "evidence": evidence or "none: there were too few rows to hold any out",
    }


def _entry(value):
    """A value for the screen: a dictionary as lines, a list by its beginning."""
    if isinstance(value, dict):
        return "\n".join(f"{key} = {_entry(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        beginning = ", ".join(map(_entry, value[:MOST_ENTRIES]))
        if len(value) <= MOST_ENTRIES:
            return beginning
        return f"{beginning} ... ({len(value)})"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def datasets(given: Command) -> None:
    """List the data sets that commands know by name."""
    rows = []
    for name, about in BUNDLED.items():
        bunch = load_bundled(name)
        n, n_features = bunch.data.shape
        sizes = {"rows": n, "features": n_features, "classes": len(bunch.target_names)}
        rows.append({"name": name, **sizes, "about": about})
    others = ", ".join(f"{alias} is {name}" for alias, name in ALIASES.items())
    state.answer(
        {"datasets": rows, "aliases": ALIASES},
        grid("", rows[0], (map(str, row.values()) for row in rows)),
        last=[f"{others}; try: conemetric learn {rows[0]['name']}"],
    )
