"""``conemetric learn``: one command from a file to a metric, a report and a table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ..persistence import save_metric
from ..report import write_report
from ..workflow import Options, run_study
from ..workflow.learning import COMPILING
from ..workflow.partitioned import Partitioned
from ..workflow.supervision import p_value
from .app import Debug, Json, Seed, progress_bar, state
from .options import (
    DataArgument,
    DropMissing,
    Id,
    Ignore,
    Impute,
    Keep,
    Label,
    Labels,
    MaxRows,
    MaxTestRows,
    Neighbours,
    OneHot,
    Overwrite,
    Pairs,
    Pca,
    Scale,
    Target,
    TestSize,
    Tolerance,
    Triplets,
)
from .outputs import output_folder, write_csv
from .parts import computing, find_parts, is_pattern, refuse_with_many_files
from .tasks import load_task
from .wording import close, fit_facts, grid, in_options, in_words, interval_in_words, row

FILES = {"metric": "metric.safetensors", "report": "report.html", "table": "table.csv"}


def learn(
    data: DataArgument = None,
    label: Label = None,
    labels: Labels = None,
    target: Target = "auto",
    pairs: Pairs = None,
    triplets: Triplets = None,
    id_column: Id = None,
    ignore: Ignore = None,
    keep: Keep = None,
    drop_missing: DropMissing = False,
    impute: Impute = None,
    one_hot: OneHot = False,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="auto, frob, boost, dml-eig, lmnn-eig, relative or numax; default: auto, for "
            "pairs dml-eig, for triplets frob.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for metric.safetensors, report.html and table.csv; default: "
            "conemetric-out, or with a number where that is taken.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    time_budget: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="What auto may take for learning, compiling apart."
        ),
    ] = 20.0,
    scale: Scale = "auto",
    pca: Pca = None,
    neighbors: Neighbours = 3,
    test_size: TestSize = 0.3,
    max_rows: MaxRows = None,
    max_test_rows: MaxTestRows = 5_000,
    tol: Tolerance = 1e-3,
    image: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Rows are grey images of this size; show them."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Compute on a local cluster of this many processes, partition by partition.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Likewise on the dask cluster of this scheduler, as tcp://host:8786.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
):
    """Learn a metric, compare it with the Euclidean distance on held-out rows, and
    write metric, report and table.

    [dim]conemetric learn                                  the bundled digits
    conemetric learn cars.csv --label brand
    conemetric learn houses.csv --label price --target continuous
    conemetric learn vectors.npy --labels classes.npy --pca 100
    conemetric learn people.parquet --id person --pairs pairs.csv
    conemetric learn 'part-*.parquet' --label y --workers 4[/]
    """
    shape = _image_shape(image, data)
    many = is_pattern(data) or workers is not None or scheduler is not None
    if many:
        refuse_with_many_files(
            labels=labels,
            pairs=pairs,
            triplets=triplets,
            id=id_column,
            drop_missing=drop_missing,
            impute=impute,
            one_hot=one_hot,
            max_rows=max_rows,
        )
    with computing(workers, scheduler), progress_bar() as progress:
        progress("reading")
        options = Options(
            "frob" if many and method is None else method,
            {"tol": tol},
            impute=impute,
            scale=scale,
            n_pca=pca,
            n_neighbors=neighbors,
            test_size=test_size,
            max_rows=max_rows,
            max_test_rows=max_test_rows,
            seed=seed,
            time_budget=time_budget,
        )
        chosen = {"ignore": ignore or (), "keep": keep or ()}
        if many:
            table, name = find_parts(data, label, **chosen), str(data)
            task = Partitioned.of(table.read, table.sizes, options, target)
        else:
            table, task, name = load_task(
                data,
                label,
                labels,
                pairs,
                triplets,
                id_column=id_column,
                drop_missing=drop_missing,
                impute=impute,
                one_hot=one_hot,
                target=target,
                **chosen,
            )
        out = output_folder(out, list(FILES.values()), overwrite)
        saved = out / "metric.safetensors"
        study = run_study(
            task,
            options,
            progress=progress,
            feature_names=table.names,
            categories=table.categories,
            on_metric=lambda metric, interrupted: _keep(metric, interrupted, saved),
        )
        progress("writing the report")
        study.notes.extend(table.notes)
        write_report(out / "report.html", study, name=name, image_shape=shape, ids=table.ids)
        write_csv(
            out / "table.csv",
            [
                row("euclidean", study.before),
                {**row(study.options.method, study.after), **fit_facts(study)},
            ],
        )
    _answer(study, name, out)


def _keep(metric, interrupted, path):
    """Save the metric before anything else; after Ctrl-C, that is the end."""
    save_metric(path, metric)
    if interrupted:
        best = (
            "blend of what was learned"
            if metric.certificate is None
            else f"best certified metric ({in_words(metric.certificate)})"
        )
        state.say(f"[yellow]interrupted[/] the {best} is in '{escape(str(path))}'.")
        raise typer.Exit(130)


def _image_shape(image, data):
    if image is None:
        return (8, 8) if data in (None, "digits") else None
    try:
        height, width = (int(part) for part in image.lower().split("x"))
        return height, width
    except ValueError:
        raise ValueError(
            f"--image '{image}' is not a size; give height and width in pixels, as 28x28."
        ) from None


def _in_figures(line):
    return f"R² {line['r2']:.3f}, RMSE {line['rmse']:.4g}"


def _answer(study, name, out):
    before, after = row("euclidean", study.before), row(study.options.method, study.after)
    values = {
        "data": name,
        "rows": study.task.n_rows,
        "features": study.metric.n_features_in_,
        "alarm": study.alarm,
        "before": before,
        "after": {**after, **fit_facts(study)},
        "p_value": p_value(study.before, study.after),
        "evidence": None if study.evidence is None else vars(study.evidence),
        "notes": [in_options(note) for note in study.notes],
        "seconds": study.seconds,
        "files": {kind: str(out / file) for kind, file in FILES.items()},
    }

    def show(console):
        if study.alarm:
            console.print(f"[bold red]{escape(study.alarm)}[/]", soft_wrap=True)
        facts = values["after"]
        table = grid(
            f"{name}: {study.task.n_rows:,} rows, {study.metric.n_features_in_} features",
            *("", study.task.measure, "95 % interval", "dimensions", "seconds"),
        )
        table.add_row(
            "Euclidean",
            f"{before['error']:.2%}",
            interval_in_words(before),
            str(study.task.n_features),
        )
        table.add_row(
            f"[bold]{study.metric.method}[/]",
            f"[bold]{after['error']:.2%}[/]",
            interval_in_words(after),
            str(facts["rank"]),
            f"{facts['seconds']:.1f}",
        )
        console.print(table)
        if study.before.figures:
            console.print(f"{_in_figures(before)} before, {_in_figures(after)} after")
        console.print(
            f"held out: {study.before.n:,} {study.task.items}; could the change be chance? p = "
            f"{values['p_value']:.2g}"
        )
        if study.metric.certificate is not None:
            console.print(f"certificate: {in_words(study.metric.certificate)}")
        compiling = study.seconds.get(COMPILING)
        if compiling is not None:
            console.print(f"{COMPILING}: {compiling:.1f} s, not in the seconds above")
        close(console, values["notes"], out, ", ".join(FILES.values()))

    state.answer(values, show)
