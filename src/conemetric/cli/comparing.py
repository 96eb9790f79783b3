"""``conemetric compare``: every method on one data set, on the same rows."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..persistence import save_metric
from ..solvers.base import all_or_nothing
from ..workflow import Options, run_study
from ..workflow.methods import find, methods_for
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
from .tasks import load_task
from .wording import close, fit_facts, grid, in_options, interval_in_words, row


def compare(
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
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for table.csv and one metric file per method; default: conemetric-out, "
            "or with a number where that is taken.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    scale: Scale = "auto",
    pca: Pca = None,
    neighbors: Neighbours = 3,
    test_size: TestSize = 0.3,
    max_rows: MaxRows = 2_000,
    tol: Tolerance = 1e-3,
    seed: Seed = 0,
    as_json: Json = False,
    debug: Debug = False,
):
    """Learn with every method that fits the supervision, on the same rows, and set the
    results side by side.
    """
    with progress_bar() as progress:
        progress("reading")
        table, task, name = load_task(
            data,
            label,
            labels,
            pairs,
            triplets,
            id_column=id_column,
            ignore=ignore or (),
            keep=keep or (),
            drop_missing=drop_missing,
            impute=impute,
            one_hot=one_hot,
            target=target,
        )
        methods = (
            [find(choice, task.kind) for choice in method] if method else methods_for(task.kind)
        )
        files = {chosen.name: f"{chosen.name}.safetensors" for chosen in methods}
        out = output_folder(out, ["table.csv", *files.values()], overwrite)
        options = Options(
            parameters={"tol": tol},
            impute=impute,
            scale=scale,
            n_pca=pca,
            n_neighbors=neighbors,
            test_size=test_size,
            max_rows=max_rows,
            seed=seed,
        )
        studies = []
        for chosen in methods:

            def show_stage(stage, record, done, name=chosen.name):
                progress(f"{name}: {stage}", record, done)

            with all_or_nothing():
                study = run_study(
                    task,
                    replace(options, method=chosen.name),
                    progress=show_stage,
                    feature_names=table.names,
                    categories=table.categories,
                )
            save_metric(out / files[chosen.name], study.metric)
            studies.append(study)
    rows = [row("euclidean", studies[0].before)]
    for study in studies:
        p = p_value(study.before, study.after)
        facts = {"p_value": p, **fit_facts(study), "useless": bool(study.alarm)}
        rows.append({**row(study.options.method, study.after), **facts})
    write_csv(out / "table.csv", rows)
    said = [study.alarm for study in studies if study.alarm] + list(table.notes)
    said += [in_options(note) for study in studies for note in study.notes]
    notes = list(dict.fromkeys(said))
    values = {
        "data": name,
        "rows": studies[0].task.n_rows,
        "results": rows,
        "notes": notes,
        "table": str(out / "table.csv"),
    }

    def show(console):
        table = grid(
            f"{name}: {task.measure} on {studies[0].before.n:,} held-out {task.items}",
            *(
                "method",
                task.measure,
                "95 % interval",
                "p",
                "dimensions",
                "seconds",
                "certified gap",
            ),
        )
        for values in rows:
            cells = [
                f"{values['method']}{' (useless)' if values.get('useless') else ''}",
                f"{values['error']:.2%}",
                interval_in_words(values),
            ]
            if "rank" in values:
                cells += [
                    f"{values['p_value']:.2g}",
                    str(values["rank"]),
                    f"{values['seconds']:.1f}",
                    f"{values['relative_gap']:.1e}" if "relative_gap" in values else "",
                ]
            table.add_row(*cells)
        console.print(table)
        close(console, notes, out, "table.csv and one metric per method")

    state.answer(values, show)
