"""``conemetric learn``: one command from a file to a metric, a report and a table."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ...core.progress import emit
from .files import as_rows, output_folder, write_csv
from .invocation import progress_bar, state
from .options import Command, Judging, Overwrite, Supervised, flag, folder_for, is_pattern, option
from .wording import grid, in_words, plural, use_in_python, written

FILES = {"metric": "metric.safetensors", "report": "report.html", "table": "table.csv"}
PREDICTIONS = "predictions.csv"  # of held-out rows with labels
DECISION = "decision.safetensors"
NAMES = [*FILES.values(), PREDICTIONS, DECISION]
METHOD = (
    "auto, frob, boost, dml-eig, lmnn-eig, relative, gradient or numax; default: auto, for pairs "
    "dml-eig, for triplets frob."
)
NO_DECISION = "Learn the metric only: no classifier or regressor, nor others to compare it with."
WORKERS = "Compute on a local cluster of this many processes, partition by partition."
SCHEDULER = "Compute on the Dask cluster of this scheduler, such as tcp://host:8786."


@dataclass(frozen=True, kw_only=True)
class Learn(Command, Supervised, Judging):
    """Options of `learn`."""

    method: Annotated[str | None, option("NAME", METHOD)] = None
    repeats: Annotated[int, option("N", "Judge on N random splits, one fit for each.", min=1)] = 1
    workers: Annotated[int | None, option("N", WORKERS, min=1)] = None
    scheduler: Annotated[str | None, option("ADDRESS", SCHEDULER)] = None
    out: Annotated[Path | None, folder_for(f"{', '.join(NAMES[:-1])} and {NAMES[-1]}")] = None
    overwrite: Overwrite = False
    image: Annotated[str | None, option("HxW", "Show rows as grey images of this size.")] = None
    no_decision: Annotated[bool, flag("--no-decision", NO_DECISION)] = False


def learn(given: Learn) -> None:
    """Learn a metric, compare it with the Euclidean distance on held-out rows, and
    write metric, report and table.

    From labels it also learns a classifier, or a regressor, for `conemetric predict`.

    [dim]conemetric learn                                  the bundled vehicle silhouettes
    conemetric learn --repeats 5                      judged on five splits
    conemetric learn cars.csv --label brand
    conemetric learn houses.csv --label price --target continuous
    conemetric learn vectors.npy --labels classes.npy --pca 100
    conemetric learn people.parquet --id person --pairs pairs.csv
    conemetric learn 'part-*.parquet' --label y --workers 4[/]
    """
    data, shape = given.data, _image_shape(given.image, given.data)
    many = is_pattern(data) or given.workers is not None or given.scheduler is not None
    if many and given.repeats > 1:
        raise ValueError("--repeats needs a single file, read into memory; leave it out.")
    if many and given.method is None:
        given = replace(given, method="frob")
    if not many:
        given.check()
    out = output_folder(given.out, NAMES, given.overwrite)

    from ...core.ahead import compiled_ahead

    by_default = None if given.pairs or given.triplets else "auto"
    if not many and (given.method or by_default) in ("auto", "relative"):  # they compile for long
        state.at_end.enter_context(compiled_ahead("solvers.newton_kernels", "advance"))
    from ..report.metric import write_report
    from ..studies import run_study
    from .loading import load_task
    from .partitions import computing, load_partitions

    kept: list[str] = []  # what is saved, in words
    try:
        with computing(given.workers, given.scheduler), progress_bar("reading"):
            table, task, name = (load_partitions if many else load_task)(data, given)
            study = run_study(
                task,
                given,
                feature_names=table.names,
                on_metric=partial(_keep, out / FILES["metric"], kept),
                decide=not (given.no_decision or many),
                refit=not many,
            )
            files = _write(study, table, out)
            emit("stage", stage="writing the report")
            page = {"name": name, "image_shape": shape, "ids": table.ids, "notes": table.notes}
            write_report(out / FILES["report"], study, **page)
    except KeyboardInterrupt:
        if kept:
            place = escape(str(out / FILES["metric"]))
            state.say(f"[yellow]interrupted[/] the {kept[-1]} is in '{place}'.")
        raise typer.Exit(130) from None
    _answer(study, table, name, out, files)


def _write(study, table, out):
    """Write decision, table and predictions; return the names of all files by kind."""
    from ...storage import save_decision

    files = dict(FILES)
    if study.decided is not None:
        files["decision"] = DECISION
        save_decision(out / DECISION, study.decided.final, notes=_reading(study, table))
    write_csv(out / FILES["table"], study.table())
    if study.task.kind in ("labels", "quantity"):
        files["predictions"] = PREDICTIONS
        write_csv(out / PREDICTIONS, _predictions(study, table.ids))
    return files


def _reading(study, table):
    """What `conemetric predict` calls the training rows."""
    ids, rows = table.ids, study.decided.final_rows
    if ids is None and len(rows) == study.task.n_rows:
        return {}
    names = rows if ids is None else ids[rows]
    return {"row_names": {str(i): str(name) for i, name in enumerate(names.tolist())}}


def _predictions(study, ids):
    """The held-out rows of the first split: true label, and what each row of the table predicts."""
    rows = study.task.original(study.task.test)
    # under the same headings whatever the method
    headings = {"euclidean": "before", study.options.method: "after"}
    columns = {"row": rows if ids is None else ids[rows], "true": study.task.y[study.task.test]}
    for name in (row["method"] for row in study.table()):
        columns[headings.get(name, name)] = study.judged[0][name].detail["predicted"]
    return as_rows({name: column.tolist() for name, column in columns.items()})


def _keep(path, kept, metric, interrupted):
    """Save the metric first of all; after Ctrl-C, stop there."""
    from ...storage import save_metric

    save_metric(path, metric)
    kept.append("metric, not the rest,")
    if interrupted:
        certified = metric.certificate and f"best certified metric ({in_words(metric.certificate)})"
        kept.append(certified or "blend of what was learned")
        raise KeyboardInterrupt


def _image_shape(image, data):
    if image is None:
        return (8, 8) if data == "digits" else None
    try:
        height, width = (int(part) for part in image.lower().split("x"))
        return height, width
    except ValueError:
        raise ValueError(
            f"--image '{image}' is not a size; give height and width in pixels, such as 28x28."
        ) from None


def _answer(study, table, name, out, files):
    from ..report.metric import table_headings, table_rows
    from ..studies.study import COMPILING

    before, after, *others = study.table()
    decided = study.decided
    values = {
        "data": name,
        "rows": study.task.n_rows,
        "features": study.task.raw.shape[1],
        "task": study.task.goal,
        "verdict": study.verdict,
        "recommended": study.recommended,
        "alarm": study.alarm,
        "before": before,
        "after": after,
        "decision": others[0] if others else None,
        "compared": others[1:],
        "p_value": study.p_value,
        "splits": [
            {name: judged.rate for name, judged in split.items()}
            | {"before": split["euclidean"].rate, "after": split[study.options.method].rate}
            for split in study.judged
        ],
        "evidence": None if study.evidence is None else vars(study.evidence),
        "seconds": study.seconds,
        "files": {kind: str(out / file) for kind, file in files.items()},
    }
    shown: list[Any] = [f"[bold red]{escape(study.alarm)}[/]"] if study.alarm else []
    notes = [note for note in table.notes if note != study.task.giveaway]  # that comes last
    shown += [f"[dim]- {escape(note)}[/]" for note in notes]
    size = f"{plural(study.task.n_rows, 'row')}, {plural(values['features'], 'column')}"
    goal = f"{study.task.goal}: " if study.task.goal else ""
    shown.append(grid(f"{name}: {goal}{size}", table_headings(study), table_rows(study)))
    if "r2" in before:
        figures = (f"R² {line['r2']:.3f}, RMSE {line['rmse']:.4g}" for line in (before, after))
        shown.append("{} before, {} after".format(*figures))
    if study.metric.certificate is not None:
        shown.append(f"certificate: {in_words(study.metric.certificate)}")
    if decided is not None:
        shown.append(f"decision: {escape(str(decided.final.blend_))}")
    if COMPILING in study.seconds:
        shown.append(f"{COMPILING}: {study.seconds[COMPILING]:.1f} s, not included above")
    last = [written(out, ", ".join(files.values())), f"[bold]{escape(study.verdict)}[/]"]
    if study.task.giveaway:
        last.append(f"[bold yellow]{escape(study.task.giveaway)}[/]")
    if state.json:
        study.notes[:0] = table.notes
    state.answer(values, *shown, notes=study.notes, last=[*last, *_next_steps(study, out)])


def _next_steps(study, out):
    """What to do now, by the verdict."""
    lines = []
    surer = [] if len(study.judged) > 1 else ["--repeats 5 for more splits"]
    if study.outcome == "better":
        lines = [f"Next, in Python{f' ({surer[0]})' if surer else ''}:"]
        lines += use_in_python(out / FILES["metric"])
    if study.decided is not None and study.recommended == study.decided.name:
        predict = f"conemetric predict NEW.csv --decision {out / DECISION}"
        lines.append(escape(f"To predict for new rows: {predict}"))
    ways = [*surer, "more rows", "`conemetric compare` for other methods"]
    return lines or [f"Next: {', '.join(ways[:-1])}, or {ways[-1]}."]
