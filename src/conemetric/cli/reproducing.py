"""``conemetric reproduce``: a table of one of the papers, ours beside theirs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table as Grid

from .app import Debug, Json, progress_bar, state

STYLE = {"better": "green", "equal": "", "worse": "red"}


def _names(values):
    """Names given in one option by commas, in several, or both; None for none."""
    return [name.strip() for value in values for name in value.split(",")] if values else None


def _lines(summary):
    """Mappings of headings to values, as a table."""
    grid = Grid(*summary[0], title="All in all", title_justify="left")
    for line in summary:
        grid.add_row(*(escape(str(value)) for value in line.values()))
    return grid


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Experiment, as --list names it.")
    ] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Runs per cell; default: as many as the paper has."),
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Only these data sets, separated by commas."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method of the table; repeat for more."),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Folder for records, CSV and figure; a run found there is continued.",
        ),
    ] = Path("reproduce"),
    jobs: Annotated[int, typer.Option(metavar="N", help="Processes; -1 for one per core.")] = 1,
    as_json: Json = False,
    debug: Debug = False,
):
    """Measure a table of one of the papers and set it beside the published numbers;
    continues after an interruption.
    """
    from ..reproduce import list_experiments, run_experiment

    if show_list or name is None:
        known = [{"name": e.name, "title": e.title, "paper": e.paper} for e in list_experiments()]

        def show_known(console):
            grid = Grid("experiment", "what", "paper")
            for entry in known:
                grid.add_row(*(escape(value) for value in entry.values()))
            console.print(grid)

        state.answer({"experiments": known}) if state.json else show_known(state.results)
        return
    with progress_bar() as progress:
        progress(f"{name}: preparing")

        def callback(record):
            progress(
                f"{record['dataset']}, {record['method']}, run {record['run'] + 1}",
                done=record["done"] / record["total"],
            )

        table = run_experiment(name, runs, _names(datasets), out, jobs, callback, methods)
    values = {
        "experiment": name,
        "rows": [vars(row) for row in table.rows],
        "summary": table.summary,
        "skipped": table.skipped,
        "out": str(out),
    }

    def show(console):
        experiment = table.experiment
        grid = Grid(
            title=f"{escape(experiment.title)}: {escape(experiment.quantity)}", title_justify="left"
        )
        for heading in ("data set", "method", "runs", "ours", "published", "", "seconds"):
            grid.add_column(
                heading, justify="left" if heading in ("data set", "method", "") else "right"
            )
        for row in table.rows:
            ours = f"{row.mean:.2f}" + (f" ({row.std:.2f})" if row.runs > 1 else "")
            theirs = "" if row.published is None else f"{row.published:.2f}"
            theirs += "" if row.published_std is None else f" ({row.published_std:.2f})"
            verdict = (
                f"[{STYLE[row.verdict]}]{row.verdict}[/]" if STYLE.get(row.verdict) else row.verdict
            )
            grid.add_row(
                row.dataset, row.method, str(row.runs), ours, theirs, verdict, f"{row.seconds:.2f}"
            )
        console.print(grid)
        if table.summary:
            console.print(_lines(table.summary))
        for text in table.skipped:
            console.print(f"[dim]skipped {escape(text)}[/]", soft_wrap=True)
        console.print(f"written to {escape(str(out))}: {name}.csv, {name}.png", soft_wrap=True)

    state.answer(values) if state.json else show(state.results)
