"""``conemetric compress``: the fewest dimensions that keep every distance within 1 +- delta."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from sklearn.decomposition import PCA

from ..evaluation.retrieval import neighbour_recall
from ..evaluation.verification import distance_score
from ..persistence import LearnedMetric, save_metric
from ..solvers.base import Status, watching
from ..workflow.methods import find
from ..workflow.supervision import sample_by_class
from .app import Debug, Json, Seed, progress_bar, state
from .options import DataArgument, DropMissing, Id, Ignore, Keep, Label, Labels, Overwrite
from .outputs import output_folder, write_csv
from .tables import Table
from .tasks import load_rows
from .wording import close, grid, in_words

N_PAIRS = 20_000


def compress(
    data: DataArgument = None,
    delta: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=0.999,
            help="Squared distances change by at most this share.",
        ),
    ] = 0.2,
    label: Label = None,
    labels: Labels = None,
    id_column: Id = None,
    ignore: Ignore = None,
    keep: Keep = None,
    drop_missing: DropMissing = False,
    class_aware: Annotated[
        bool, typer.Option("--class-aware", help="Keep classes apart and close; needs labels.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for metric.safetensors and table.csv; default: conemetric-out, or with a "
            "number where that is taken.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    max_rows: Annotated[
        int,
        typer.Option(
            metavar="N", min=10, help="Learn from at most this many rows, drawn at random."
        ),
    ] = 500,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
):
    """Learn the linear map to the fewest dimensions that keeps the distances of all
    pairs of rows (NuMax).
    """
    method = find("numax", "labels" if class_aware else "none")
    with progress_bar() as progress:
        progress("reading")
        table, name = load_rows(
            data,
            label,
            labels,
            id_column=id_column,
            ignore=ignore or (),
            keep=keep or (),
            drop_missing=drop_missing,
        )
        if class_aware and table.labels is None:
            raise ValueError("--class-aware needs labels; give --label COLUMN or --labels FILE.")
        out = output_folder(out, ["metric.safetensors", "table.csv"], overwrite)
        rows, test = _split(table, max_rows, np.random.default_rng(seed))
        estimator = method.make(delta=delta, class_aware=class_aware, random_state=seed)
        with watching(lambda record: progress("learning", record)):
            estimator.fit(table.X[rows], table.labels[rows] if class_aware else None)
        metric = LearnedMetric.from_estimator(
            estimator, feature_names=table.names, notes={"rows": len(rows), "delta": delta}
        )
        save_metric(out / "metric.safetensors", metric)
        interrupted = metric.certificate.status is Status.INTERRUPTED
        rank = len(metric.components)
        progress("judging")
        pca = PCA(min(rank, len(rows), table.X.shape[1]), random_state=seed).fit(table.X[rows])
        results = [
            {"method": "numax", "dimensions": rank, **_judge(metric, table.X, rows, test, seed)},
            {
                "method": "pca",
                "dimensions": pca.n_components_,
                **_judge(pca, table.X, rows, test, seed),
            },
        ]
    write_csv(out / "table.csv", results)
    files = {"metric": str(out / "metric.safetensors"), "table": str(out / "table.csv")}
    status = str(metric.certificate.status)
    values = {
        "data": name,
        "features": table.X.shape[1],
        "delta": delta,
        "results": results,
        "status": status,
        "files": files,
    }

    def show(console):
        lines = grid(
            f"{name}: {table.X.shape[1]} dimensions to {rank} at delta = {delta:g}",
            *("", "dimensions", "worst change", "99 % of changes below", "neighbours kept"),
        )
        for line in results:
            changes = f"{line['worst_change']:.1%}", f"{line['change_99']:.1%}"
            lines.add_row(
                line["method"], str(line["dimensions"]), *changes, f"{line['neighbours_kept']:.1%}"
            )
        console.print(lines)
        console.print(
            f"learned from {len(rows):,} rows; changes of squared distance between {len(test):,} "
            "other rows"
        )
        console.print(f"certificate: {in_words(metric.certificate)}")
        close(console, (), out, "metric.safetensors, table.csv")

    state.answer(values, show)
    if interrupted:
        raise typer.Exit(130)


def _split(table: Table, max_rows, rng):
    """Rows to learn from, and up to 2,000 others to judge on (the same ones when there
    are no others).
    """
    n = len(table.X)
    y = np.zeros(n, int) if table.labels is None else table.labels
    rows = sample_by_class(y, min(max_rows, n), rng)
    others = np.setdiff1d(np.arange(n), rows)
    test = np.sort(rng.permutation(others)[:2000])
    return rows, test if len(test) >= 20 else rows


def _judge(metric, X, rows, test, seed):
    pairs = test[np.random.default_rng(seed).integers(len(test), size=(N_PAIRS, 2))]
    before, after = (distance_score(mapped, X, pairs) ** 2 for mapped in (None, metric))
    change = np.abs(after[before > 0] / before[before > 0] - 1)
    half = len(test) // 2
    kept = neighbour_recall(metric, X[test[half:]], X[test[:half]], k=min(10, len(test) - half))
    return {
        "worst_change": float(change.max()),
        "change_99": float(np.quantile(change, 0.99)),
        "neighbours_kept": kept,
    }
