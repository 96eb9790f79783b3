"""Commands that use a learned metric: ``embed``, ``neighbors``, ``verify``, ``inspect``."""

from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from rich.markup import escape

from ...core import spectral
from ...core.progress import emit
from ...evaluation.verification import best_threshold, cross_validate, distance_score
from ...neighbours import nearest
from ...storage import atomic_path, load_metric
from ..plotting import AFTER, BEFORE
from ..report.charts import Chart
from .batches import EmbeddedBatches, write_batches
from .constraint_files import read_pairs
from .invocation import progress_bar, state
from .options import DIALECT, Overwrite, Reading, Seed, option
from .outputs import check_free, output_folder, write_csv
from .tables import check_file, read_table
from .wording import grid, plural

Metric = Annotated[
    Path,
    option("FILE", "Metric file written by learn, compare or compress.", "--metric"),
]
Rows = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, npy or npz file.")]


SHOWN, SHOWN_NEIGHBOURS = 20, 5  # rows, and neighbours of each, that fit on a screen
NO_CERTIFICATE = "none: a blend, or a truncated metric, is not the optimum of a program"


def embed(
    reading: Annotated[Reading, ("drop_missing", *DIALECT)],
    data: Rows,
    metric: Metric,
    out: Annotated[Path, option("FILE", "File to write: CSV, Parquet or npy.")],
    dimensions: Annotated[
        int | None, option("N", "Keep only the leading directions.", min=1)
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Map rows to the space where the learned metric is the Euclidean one, batch by batch.

    Columns of a CSV or Parquet file that are not features (ids, labels) are carried
    over. Missing values and text columns are treated as when the metric was learned.
    """
    learned = load_metric(metric)
    learned = learned if dimensions is None else learned.truncated(dimensions)
    path, rank = check_file(data), len(learned.components)
    check_free([out], overwrite)
    batches = EmbeddedBatches(path, learned, reading)
    with progress_bar():
        n = write_batches(out, iter(batches), rank)
    if batches.n_dropped:
        batches.notes.append(f"Dropped: {plural(batches.n_dropped, 'row')} with missing values.")
    state.answer(
        {"rows": n, "dropped": batches.n_dropped, "dimensions": rank, "out": str(out)},
        f"{plural(n, 'row')} in {plural(rank, 'dimension')} written to {escape(str(out))}",
        notes=batches.notes,
    )


def neighbors(
    reading: Annotated[Reading, ("id_column", "drop_missing", *DIALECT)],
    data: Rows,
    metric: Metric,
    against: Annotated[
        Path | None,
        option("FILE", "Rows to search; default: DATA itself, each row without itself."),
    ] = None,
    k: Annotated[int, option("K", "Neighbours per row.", "-k", min=1)] = 5,
    out: Annotated[
        Path | None,
        option("FILE", "CSV file to write; default: print the first rows."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Find the nearest neighbours of every row by the learned distance."""
    learned = load_metric(metric).distance_or_refuse()
    check_free([out] if out is not None else [], overwrite)
    queries = read_table(data, reading, learned)
    searched = queries if against is None else read_table(against, reading, learned)
    findable = len(searched.X) - (against is None)
    if k > findable:
        raise ValueError(f"-k {k} is more than the {plural(findable, 'row')} there are to find.")
    with progress_bar():
        emit("stage", stage="searching")
        mapped = learned.transform(queries.X)
        references = None if against is None else learned.transform(searched.X)
        found, distance = nearest(mapped, references, k)
    names, targets = (t.row_names for t in (queries, searched))
    frame = pl.DataFrame(
        {
            "row": np.repeat(names, k),
            "rank": np.tile(np.arange(1, k + 1), len(names)),
            "neighbor": targets[found.ravel()],
            "distance": distance.ravel(),
        }
    )
    notes = dict.fromkeys((*queries.notes, *searched.notes))
    if out is None:
        _show_neighbours(frame, k, notes)
        return
    with atomic_path(out) as temporary:
        frame.write_csv(temporary)
    state.answer(
        {"rows": len(names), "neighbors": k, "out": str(out)},
        f"{plural(k, 'neighbour')} of {plural(len(names), 'row')} written to {escape(str(out))}",
        notes=notes,
    )


def _show_neighbours(frame, k, notes):
    """The first rows and their nearest neighbours."""
    columns = min(k, SHOWN_NEIGHBOURS)
    rows = [
        (
            str(line["row"][0]),
            *(f"{n} ({d:.3g})" for n, d in line[:columns].select("neighbor", "distance").rows()),
        )
        for line in frame[: SHOWN * k].iter_slices(k)
    ]
    n = len(frame) // k
    state.answer(
        {"neighbors": frame.to_dicts()},
        grid("", ("row", *(f"neighbour {i + 1} (distance)" for i in range(columns))), rows),
        notes=notes,
        last=[f"the first of {plural(n, 'row')}; all of them: --out FILE.csv"]
        if n > SHOWN or k > columns
        else [],
    )


def verify(
    reading: Annotated[Reading, ("id_column", *DIALECT)],
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="File of id, id, same (1 or 0).")],
    data: Annotated[
        Path,
        option("FILE", "Rows that the pairs name: CSV, Parquet, npy or npz file."),
    ],
    metric: Metric,
    folds: Annotated[
        int,
        option("N", "Folds; each is judged by the threshold of the others.", min=2),
    ] = 10,
    out: Annotated[Path | None, option("FOLDER", "Folder for roc.csv and roc.svg.")] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
) -> None:
    """Are these two the same? Threshold, accuracy and ROC of the learned distance on
    pairs, beside the Euclidean one.

    If the metric fills missing values, the Euclidean distance is that of the filled rows.
    """
    learned = load_metric(metric).distance_or_refuse()
    table, indices, same = read_pairs(pairs, read_table(data, reading, learned))
    _check_pairs(pairs, same, folds)
    if out is not None:
        output_folder(out, ["roc.csv", "roc.svg"], overwrite)
    X = learned.fill_missing(table.X)
    fold = np.random.default_rng(seed).permutation(len(same)) % folds
    scores = {
        "euclidean": distance_score(None, X, indices),
        "learned": distance_score(learned, X, indices),
    }
    found = {
        name: cross_validate(lambda train, score=score: score, same, fold)
        for name, score in scores.items()
    }
    if out is not None:
        _write_roc(out, found)
    results = {name: _verified(scores[name], same, found[name]) for name in scores}
    state.answer(
        {"pairs": len(same), **results},
        grid(
            "",
            ("", "threshold", "accuracy", "area under ROC", "equal error rate"),
            [(name, *_cells(values)) for name, values in results.items()],
        ),
        f"{plural(len(same), 'pair')}, {folds} folds; call a pair the same when its distance is at "
        "most the threshold",
        notes=table.notes,
    )


def _check_pairs(path, same, folds):
    """Refuse too few pairs, or pairs of one kind."""
    if len(same) < 2 * folds:
        raise ValueError(
            f"'{path}' has {plural(len(same), 'pair')}; {folds} folds need at least {2 * folds}: "
            "give more pairs, or fewer --folds."
        )
    if same.all() or not same.any():
        raise ValueError(
            f"'{path}' holds only {'same' if same.all() else 'different'} pairs; give some of both."
        )


def _verified(score, same, found):
    """Threshold and measures of verification by this score."""
    threshold = -float(best_threshold(score, same)[0])
    return {
        "threshold": threshold if np.isfinite(threshold) else None,
        "accuracy": found.mean,
        "standard_error": found.standard_error,
        "auc": found.auc,
        "equal_error_rate": found.equal_error_rate,
    }


def _cells(values):
    return (
        "-" if values["threshold"] is None else f"{values['threshold']:.4g}",
        f"{values['accuracy']:.2%} ± {values['standard_error']:.2%}",
        f"{values['auc']:.4f}",
        f"{values['equal_error_rate']:.2%}",
    )


def _write_roc(out, found):
    """The curves as a table and as a picture."""
    chart = Chart(
        (0, 1), (0, 1), x_label="false positive rate", y_label="true positive rate", square=True
    )
    for (name, rates), colour, place in zip(
        found.items(), (BEFORE, AFTER), (0.14, 0.06), strict=True
    ):
        chart.line(rates.false_positive_rate, rates.true_positive_rate, colour, dots=False)
        chart.box((0.5, 0.53), (place - 0.015, place + 0.015), colour)
        chart.text(0.55, place, f"{name}: area {rates.auc:.3f}", "start")
    with atomic_path(out / "roc.svg") as temporary:
        temporary.write_text(chart.svg(), encoding="utf-8")
    curves = {
        name: zip(of.false_positive_rate.tolist(), of.true_positive_rate.tolist(), strict=True)
        for name, of in found.items()
    }
    write_csv(
        out / "roc.csv",
        [
            {"method": name, "false_positive_rate": f, "true_positive_rate": t}
            for name, rates in curves.items()
            for f, t in rates
        ],
    )


def inspect(
    metric: Annotated[Path, typer.Argument(metavar="METRIC", help="Metric file.")],
) -> None:
    """Show what is in a metric file, after all checks of loading."""
    learned = load_metric(metric)
    certificate = learned.certificate
    values = {
        "file": str(metric),
        "method": learned.method,
        "features": learned.n_features_in_,
        "dimensions": len(learned.components),
        "feature_names": learned.feature_names,
        "preprocessing": list(learned.preprocessing),
        "words": learned.categories,
        "fills_missing_values": learned.fill is not None,
        "parameters": learned.parameters,
        "certificate": None
        if certificate is None
        else {**vars(certificate), "status": str(certificate.status)},
        "eigenvalues": spectral.eigenvalues_of(learned.components).tolist(),
        "notes": learned.notes,
    }
    shown = {**values, "certificate": values["certificate"] or NO_CERTIFICATE}
    table = grid("", ("", ""), [(name, escape(_entry(value))) for name, value in shown.items()])
    table.show_header, table.columns[1].justify = False, "left"
    state.answer(values, table)


def _entry(value):
    """A value for the screen: a dictionary as lines, a list by its beginning."""
    if isinstance(value, dict):
        return "\n".join(f"{key} = {_entry(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        more = f" ... ({len(value)})" if len(value) > 8 else ""
        return ", ".join(map(_entry, value[:8])) + more
    return f"{value:.6g}" if isinstance(value, float) else str(value)
