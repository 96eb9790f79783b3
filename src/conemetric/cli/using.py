"""Commands that use a learned metric: ``embed``, ``neighbors``, ``verify``, ``inspect``."""

from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from rich.markup import escape
from rich.table import Table as Grid

from .. import spectral
from ..evaluation.verification import best_threshold, cross_validate, distance_score
from ..neighbours import nearest, watching_searches
from ..persistence import atomic_path, load_metric
from .app import Debug, Json, Seed, progress_bar, state
from .options import DropMissing, Id, Overwrite
from .outputs import check_free, output_folder, write_csv
from .relations import read_pairs
from .streams import embedded_batches, write_stream
from .tables import check_file, read_table

Metric = Annotated[
    Path,
    typer.Option(
        "--metric", metavar="FILE", help="Metric file written by learn, compare or compress."
    ),
]
Rows = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, npy or npz file.")]


def embed(
    data: Rows,
    metric: Metric,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write: CSV, Parquet or npy.")],
    dimensions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Keep only the leading directions.")
    ] = None,
    drop_missing: DropMissing = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
):
    """Map rows to the space where the learned metric is the Euclidean one, batch by
    batch, however many there are.

    Columns of a CSV or Parquet file that are not features (ids, labels) are carried
    over. Missing values and words are treated as when the metric was learned.
    """
    learned = load_metric(metric)
    learned = learned if dimensions is None else learned.truncated(dimensions)
    path = check_file(data)
    check_free([out], overwrite)
    seen = 0
    with progress_bar() as progress:

        def count(done):
            nonlocal seen
            seen = done
            progress(f"embedded {done:,} rows")

        rank = len(learned.components)
        n = write_stream(out, embedded_batches(path, learned, drop_missing, count), rank)
    values = {"rows": n, "dropped": seen - n, "dimensions": rank, "out": str(out)}
    left_out = f"; {seen - n:,} rows with missing values left out" if seen > n else ""
    state.answer(
        values,
        lambda console: console.print(
            f"{n:,} rows in {rank} dimensions written to {escape(str(out))}{left_out}"
        ),
    )


def neighbors(
    data: Rows,
    metric: Metric,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Rows to search; default: DATA itself, each row without itself."
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="K", min=1, help="Neighbours per row.")] = 5,
    id_column: Id = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file to write; default: print the first rows."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    debug: Debug = False,
):
    """Nearest neighbours of every row by the learned distance."""
    learned = load_metric(metric).distance_or_refuse()
    check_free([out] if out is not None else [], overwrite)
    queries = _table(data, learned, id_column)
    searched = queries if against is None else _table(against, learned, id_column)
    alone = against is None
    if k > len(searched.X) - alone:
        raise ValueError(
            f"-k {k} is more than the {len(searched.X) - alone} rows there are to find."
        )
    with progress_bar() as progress:
        mapped = learned.transform(queries.X)
        references = None if alone else learned.transform(searched.X)
        with watching_searches(lambda done: progress("searching", done=done)):
            found, distance = nearest(mapped, references, k)
    names, targets = (np.arange(len(t.X)) if t.ids is None else t.ids for t in (queries, searched))
    frame = pl.DataFrame(
        {
            "row": np.repeat(names, k),
            "rank": np.tile(np.arange(1, k + 1), len(names)),
            "neighbor": targets[found.ravel()],
            "distance": distance.ravel(),
        }
    )
    if out is not None:
        with atomic_path(out) as temporary:
            frame.write_csv(temporary)
        answer = {"rows": len(names), "neighbors": k, "out": str(out)}
        state.answer(
            answer,
            lambda console: console.print(
                f"{k} neighbours of {len(names):,} rows written to {escape(str(out))}"
            ),
        )
        return

    def show(console):
        grid = Grid("row", *(f"neighbour {rank} (distance)" for rank in range(1, min(k, 5) + 1)))
        for i in range(min(20, len(names))):
            grid.add_row(
                str(names[i]),
                *(f"{targets[found[i, j]]} ({distance[i, j]:.3g})" for j in range(min(k, 5))),
            )
        console.print(grid)
        if len(names) > 20 or k > 5:
            console.print(f"the first of {len(names):,} rows; all of them: --out FILE.csv")

    state.answer({"neighbors": frame.to_dicts()}, show)


def verify(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="File of id, id, same (1 or 0).")],
    data: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Rows that the pairs name: CSV, Parquet, npy or npz file."
        ),
    ],
    metric: Metric,
    id_column: Id = None,
    folds: Annotated[
        int,
        typer.Option(
            metavar="N", min=2, help="Folds; each is judged by the threshold of the others."
        ),
    ] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for roc.csv and roc.png.")
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
):
    """Are these two the same? Threshold, accuracy and ROC of the learned distance on
    pairs, beside the Euclidean one.
    """
    learned = load_metric(metric).distance_or_refuse()
    table = _table(data, learned, id_column)
    indices, same = read_pairs(pairs, table)
    if len(same) < 2 * folds:
        raise ValueError(
            f"'{pairs}' has {len(same)} pairs; {folds} folds need at least {2 * folds}."
        )
    if same.all() or not same.any():
        raise ValueError(
            f"'{pairs}' holds only {'same' if same.all() else 'different'} pairs; give some of "
            "both."
        )
    if out is not None:
        output_folder(out, ["roc.csv", "roc.png"], overwrite)
    fold = np.random.default_rng(seed).permutation(len(same)) % folds
    results, curves = {}, []
    for name, mapped in (("euclidean", None), ("learned", learned)):
        score = distance_score(mapped, table.X, indices)
        found = cross_validate(lambda train, score=score: score, same, fold)
        threshold = -float(best_threshold(score, same)[0])
        results[name] = {
            "threshold": threshold if np.isfinite(threshold) else None,
            "accuracy": found.mean,
            "standard_error": found.standard_error,
            "auc": found.auc,
            "equal_error_rate": found.equal_error_rate,
        }
        rates = zip(
            found.false_positive_rate.tolist(), found.true_positive_rate.tolist(), strict=True
        )
        curves += [
            {"method": name, "false_positive_rate": f, "true_positive_rate": t} for f, t in rates
        ]
    if out is not None:
        from matplotlib.figure import Figure

        from ..plotting import VerificationDisplay

        figure = Figure(figsize=(4.6, 4.4), layout="constrained")
        VerificationDisplay.from_estimator(learned, table.X, indices, same, ax=figure.subplots())
        with atomic_path(out / "roc.png") as temporary:
            figure.savefig(temporary, format="png", dpi=150)
        write_csv(out / "roc.csv", curves)

    def show(console):
        grid = Grid("", "threshold", "accuracy", "area under ROC", "equal error rate")
        for name, values in results.items():
            accuracy = f"{values['accuracy']:.2%} ± {values['standard_error']:.2%}"
            threshold = "-" if values["threshold"] is None else f"{values['threshold']:.4g}"
            grid.add_row(
                name,
                threshold,
                accuracy,
                f"{values['auc']:.4f}",
                f"{values['equal_error_rate']:.2%}",
            )
        console.print(grid)
        console.print(
            f"{len(same):,} pairs, {folds} folds; call a pair the same when its distance is at "
            "most the threshold"
        )

    state.answer({"pairs": len(same), **results}, show)


def inspect(
    metric: Annotated[Path, typer.Argument(metavar="METRIC", help="Metric file.")],
    as_json: Json = False,
    debug: Debug = False,
):
    """What is in a metric file; every check of loading is made."""
    learned = load_metric(metric)
    certificate = learned.certificate
    eigenvalues = spectral.eigenvalues_of(learned.components)
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
        "eigenvalues": eigenvalues.tolist(),
        "notes": learned.notes,
    }

    def show(console):
        grid = Grid(show_header=False)
        for name, value in values.items():
            if name == "certificate" and value is None:
                value = "none: a blend, or a metric cut later, is the optimum of no program"
            elif isinstance(value, dict):
                value = "\n".join(f"{key} = {_short(entry)}" for key, entry in value.items())
            elif name == "eigenvalues":
                value = ", ".join(f"{entry:.3g}" for entry in value[:8]) + (
                    " ..." if len(value) > 8 else ""
                )
            elif isinstance(value, list):
                value = ", ".join(map(str, value[:8])) + (
                    f" ... ({len(value)})" if len(value) > 8 else ""
                )
            grid.add_row(name, escape(str(value)))
        console.print(grid)

    state.answer(values, show)


def _short(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(path, learned, id_column):
    """The rows of a file in the columns the metric knows."""
    table = read_table(path, id_column=id_column, metric=learned, drop_missing=None)
    if table.X.shape[1] != learned.n_features_in_:
        raise ValueError(
            f"'{path}' has {table.X.shape[1]} columns; the metric was learned from "
            f"{learned.n_features_in_}."
        )
    return table
