"""``conemetric compare``: every method on one data set, on the same rows."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..core.progress import all_or_nothing, labelled
from .files import output_folder, write_csv
from .invocation import progress_bar, state
from .options import Command, Judging, Names, Overwrite, Supervised, folder_for, most_rows, option
from .wording import filled_grid, written

if TYPE_CHECKING:
    from ..studies import Study

TABLE = "table.csv"
FEWER = "Learn from at most this many rows, drawn class by class, so that all methods take minutes."
ONLY = "Only this method; may be repeated."
COLUMNS = {
    "95% interval": "{low:.2%} - {high:.2%}",
    "p": "{p_value:.2g}",
    "dimensions": "{rank}",
    "seconds": "{seconds:.1f}",
    "certified gap": "{relative_gap:.1e}",
}


@dataclass(frozen=True, kw_only=True)
class Compare(Command, Supervised, Judging):
    """Options of `compare`."""

    methods: Annotated[Names, option("NAME", ONLY, "--method")] = None
    out: Annotated[Path | None, folder_for(f"{TABLE} and one metric file per method")] = None
    overwrite: Overwrite = False
    max_rows: Annotated[int | None, most_rows(FEWER)] = 2_000


def compare(given: Compare) -> None:
    """Learn with every method that fits the supervision, on the same rows, and set the
    results side by side.
    """
    given.check()

    from ..storage import save_metric
    from ..studies import run_study
    from ..studies.methods import find, methods_for
    from .reading.loading import load_task

    studies: list[Study] = []
    with progress_bar("reading"):
        table, task, name = load_task(given.data, given)
        given.check_for(task)
        chosen = [find(choice, task.kind) for choice in given.methods or ()]
        methods = chosen or methods_for(task.kind)
        files = {method.name: f"{method.name}.safetensors" for method in methods}
        out = output_folder(given.out, [TABLE, *files.values()], given.overwrite)
        for method in methods:
            options = replace(given, method=method.name)
            # a metric that Ctrl-C has cut short would not be compared fairly
            with all_or_nothing(), labelled(method=method.name):
                study = run_study(task, options, feature_names=table.names)
            save_metric(out / files[method.name], study.metric)
            studies.append(study)
    rows = _rows(studies)
    write_csv(out / TABLE, rows)
    notes = [study.alarm for study in studies if study.alarm]
    notes += table.notes
    for study in studies:
        notes += study.notes
    values = {
        "data": name,
        "rows": studies[0].task.n_rows,
        "results": rows,
        "table": str(out / TABLE),
    }
    title = f"{name}: {task.measure} on {studies[0].before.n:,} held-out {task.items}"
    state.answer(
        values,
        _grid(title, task, rows),
        notes=dict.fromkeys(notes),  # each once: those on the data are the same for every method
        last=[written(out, f"{TABLE} and one metric per method")],
    )


def _rows(studies):
    """The Euclidean distance, which is the same beside every method, and each learned one."""
    rows = [studies[0].table()[0]]
    for study in studies:
        _, learned, *_ = study.table()
        rows.append({**learned, "p_value": study.p_value, "collapsed": bool(study.alarm)})
    return rows


def _grid(title, task, rows):
    """The rows for the screen, with a mark at each metric that has collapsed."""
    columns = {"method": "{method}{mark}", task.measure: "{error:.2%}", **COLUMNS}
    shown = []
    for row in rows:
        mark = " (collapsed)" if row.get("collapsed") else ""
        shown.append({**row, "mark": mark})
    return filled_grid(title, columns, shown)
