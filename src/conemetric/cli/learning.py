"""``conemetric learn``: one command from a file to a metric, a report and a table."""

import csv
import io
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from .. import datasets
from ..persistence import atomic_path, save_metric
from ..report import write_report
from ..solvers.base import Status
from ..study import Options
from ..study import learn as run_study
from ..study.supervision import Labelled, Paired, Ranked, p_value
from .app import Debug, Json, Seed, progress_bar, state
from .tables import Table, check_file, listed, read_constraints, read_pairs, read_table

IMAGES = {"digits": (8, 8), "mnist": (28, 28), "usps11000": (16, 16), "orl56x46": (56, 46), "optdigits": (8, 8)}

DataArgument = Annotated[
    str | None,
    typer.Argument(metavar="[DATA]", help="CSV, Parquet, npy or npz file, or a named data set; digits when left out."),
]
Label = Annotated[str | None, typer.Option(help="Column (or npz array) that holds the classes.")]
Labels = Annotated[Path | None, typer.Option(help="npy, CSV or text file with one label per row, instead of --label.")]
Id = Annotated[str | None, typer.Option("--id", help="Column that names the rows; unique.")]
Ignore = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows with missing or infinite values.")]
Pairs = Annotated[Path | None, typer.Option(help="Learn from pairs: a file of id, id, same.")]
Triplets = Annotated[Path | None, typer.Option(help="Learn from triplets: a file of id, id, id; the first is nearer the second.")]
Scale = Annotated[str, typer.Option(help="Standardise the columns: auto, standard or none.")]
Pca = Annotated[int | None, typer.Option(min=1, help="Reduce to this many principal components first.")]
Neighbours = Annotated[int, typer.Option("-k", "--neighbors", min=1, help="Neighbours that vote when judging.")]
TestSize = Annotated[float, typer.Option(min=0.01, max=0.9, help="Share held out to judge on.")]
MaxRows = Annotated[int, typer.Option(min=10, help="Learn from at most this many rows, drawn class by class.")]


def learn(
    data: DataArgument = None,
    label: Label = None,
    labels: Labels = None,
    pairs: Pairs = None,
    triplets: Triplets = None,
    id_column: Id = None,
    ignore: Ignore = None,
    drop_missing: DropMissing = False,
    method: Annotated[str, typer.Option(help="frob, boost, dml-eig, lmnn-eig, relative, numax or auto.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for metric.safetensors, report.html and table.csv.")] = Path("conemetric-out"),
    scale: Scale = "auto",
    pca: Pca = None,
    neighbors: Neighbours = 3,
    test_size: TestSize = 0.3,
    max_rows: MaxRows = 10_000,
    tol: Annotated[float, typer.Option(min=0, help="Certified relative gap to stop at.")] = 1e-3,
    image: Annotated[str | None, typer.Option(metavar="HxW", help="Rows are grey images of this size; show them.")] = None,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
):
    """Learn a metric, compare it with the Euclidean distance on held-out rows, and write metric, report and table.

    [dim]conemetric learn                                  the bundled digits
    conemetric learn cars.csv --label brand
    conemetric learn vectors.npy --labels classes.npy --pca 100
    conemetric learn people.parquet --id person --pairs pairs.csv[/]
    """
    shape = _image_shape(image, data)
    with progress_bar() as progress:
        progress("reading")
        table, task, name = load_task(data, label, labels, pairs, triplets, id_column, ignore or (), drop_missing)
        make_folder(out)
        options = Options(method, {"tol": tol}, scale, pca, neighbors, test_size, max_rows, seed=seed)
        saved = out / "metric.safetensors"
        study = run_study(
            task,
            options,
            progress=progress,
            feature_names=table.names,
            on_metric=lambda metric: _keep(metric, saved),
        )
        progress("writing the report")
        study.notes.extend(table.notes)
        write_report(out / "report.html", study, name=name, image_shape=shape, ids=table.ids)
        write_csv(
            out / "table.csv", [row("euclidean", study.before), {**row(study.options.method, study.after), **fit_facts(study)}]
        )
    _answer(study, name, out)


def _keep(metric, path):
    """Save the metric before anything else; after Ctrl-C, that is the end."""
    save_metric(path, metric)
    if metric.certificate.status is Status.INTERRUPTED:
        state.say(
            f"[yellow]interrupted[/] the best certified metric is in '{escape(str(path))}': {in_words(metric.certificate)}."
        )
        raise typer.Exit(130)


def load_task(data, label, labels, pairs, triplets, id_column, ignore, drop_missing):
    """The table, the task it makes, and a name for it."""
    given = [
        name for name, value in (("--label", label), ("--labels", labels), ("--pairs", pairs), ("--triplets", triplets)) if value
    ]
    if len(given) > 1:
        raise ValueError(f"got {' and '.join(given)}; give one kind of supervision.")
    if data is None or (not Path(data).exists() and data in datasets.REGISTRY):
        named = datasets.load(data or "digits")
        table, name = Table(named.X, labels=_class_names(named)), named.name
    else:
        path = check_file(data)
        table = read_table(path, label=label, labels_file=labels, id_column=id_column, ignore=ignore, drop_missing=drop_missing)
        name = path.stem
    if drop_missing and (pairs or triplets) and id_column is None:
        raise ValueError("--drop-missing would change the row numbers that pairs and triplets use; name the rows by --id.")
    if pairs is not None:
        indices, same = read_pairs(pairs, table)
        return table, Paired(table.X, indices, similar=same), name
    if triplets is not None:
        return table, Ranked(table.X, read_constraints(triplets, 3, table)[0]), name
    if table.labels is None:
        columns = f" (the columns are {listed(table.names)})" if table.names else ""
        raise ValueError(f"nothing says what is alike: give --label COLUMN, --labels, --pairs or --triplets FILE{columns}.")
    return table, Labelled(table.X, table.labels), name


def _class_names(named):
    if named.y is None:
        raise ValueError(f"data set '{named.name}' has no labels to learn from.")
    classes = named.extras.get("classes")
    return named.y if classes is None else classes.astype(str)[named.y]


def _image_shape(image, data):
    if image is None:
        return IMAGES.get(data or "digits")
    try:
        height, width = (int(part) for part in image.lower().split("x"))
        return height, width
    except ValueError:
        raise ValueError(f"--image '{image}' is not a size; give height and width in pixels, as 28x28.") from None


def make_folder(path):
    """Make the output folder now, so that a read-only place is found out before the work."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with atomic_path(path / "metric.safetensors") as probe:
            probe.touch()
            raise _Probed
    except _Probed:
        pass
    except OSError as error:
        raise OSError(f"cannot write to '{path}': {error.strerror}; choose another folder by --out.") from error


class _Probed(Exception):
    pass


def row(name, judgement):
    """One line of the table: error with its interval."""
    low, high = judgement.interval
    return {"method": name, "error": judgement.rate, "low": low, "high": high, "held_out": judgement.n}


def fit_facts(study):
    """What the fit itself has to say, for the table and for JSON."""
    certificate = study.metric.certificate
    return {
        "rank": len(study.metric.components),
        "seconds": round(study.seconds["learning"], 3),
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


def in_words(certificate):
    """One sentence a person can act on."""
    if certificate.relative_gap <= 0 or certificate.relative_gap != certificate.relative_gap:
        return f"gap {certificate.relative_gap:.1e} ({certificate.status})"
    missed = f", constraints missed by {certificate.violation:.1e}" if certificate.violation > 0 else ""
    return (
        f"proven within {certificate.relative_gap:.2g} (relative) of the best possible objective{missed} ({certificate.status})"
    )


def _answer(study, name, out):
    before, after = row("euclidean", study.before), row(study.options.method, study.after)
    files = {"metric": "metric.safetensors", "report": "report.html", "table": "table.csv"}
    values = {
        "data": name,
        "rows": study.task.n_rows,
        "features": study.metric.n_features_in_,
        "before": before,
        "after": {**after, **fit_facts(study)},
        "p_value": p_value(study.before, study.after),
        "notes": study.notes,
        "seconds": study.seconds,
        "files": {kind: str(out / file) for kind, file in files.items()},
    }

    def show(console):
        grid = Grid(
            title=f"{escape(name)}: {study.task.n_rows:,} rows, {study.metric.n_features_in_} features", title_justify="left"
        )
        for heading in ("", "error", "95 % interval", "dimensions", "seconds"):
            grid.add_column(heading, justify="left" if not heading else "right")
        dims = study.task.n_features
        grid.add_row("Euclidean", f"{before['error']:.2%}", f"{before['low']:.2%} - {before['high']:.2%}", str(dims), "")
        facts = values["after"]
        interval = f"{after['low']:.2%} - {after['high']:.2%}"
        grid.add_row(
            f"[bold]{study.metric.method}[/]",
            f"[bold]{after['error']:.2%}[/]",
            interval,
            str(facts["rank"]),
            f"{facts['seconds']:.1f}",
        )
        console.print(grid)
        console.print(f"held out: {study.before.n:,} {study.task.items}; could the change be chance? p = {values['p_value']:.2g}")
        console.print(f"certificate: {in_words(study.metric.certificate)}")
        for note in study.notes:
            console.print(f"[dim]- {escape(note)}[/]", soft_wrap=True)
        console.print(f"written to {escape(str(out))}: {', '.join(files.values())}", soft_wrap=True)

    state.answer(values, show)
