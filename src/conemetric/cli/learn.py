"""``conemetric learn``: one command from a file to a metric, a report and a table."""

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ..core.progress import emit
from ..datasets import BUNDLED
from ..studies.methods import KERNELS, KNOWN
from .files import DECISION, as_rows, output_folder, write_csv
from .invocation import TimeLimit, progress_bar, state
from .options import (
    Command,
    Judging,
    Overwrite,
    Supervised,
    choice,
    flag,
    folder_for,
    is_pattern,
    option,
)
from .wording import command_line, grid, in_words, places, plural, use_in_python, written

FILES = {"metric": "metric.safetensors", "report": "report.html", "table": "table.csv"}
PREDICTIONS = "predictions.csv"  # of held-out rows with labels
NAMES = [*FILES.values(), PREDICTIONS, DECISION]
BUNDLED_IMAGES = {"digits": (8, 8)}  # height and width of the images that a bundled data set holds
METHODS = tuple(method.name for method in KNOWN)
METHOD = f"{', '.join(METHODS[:-1])} or {METHODS[-1]}; default: auto; for pairs and triplets frob."
KERNEL = (
    f"Learn in the coordinates of a kernel: {', '.join(KERNELS)}, or auto, which takes one where it is "
    "better than the columns by a standard error (--method auto); default: none."
)
NO_DECISION = "Learn the metric only: no classifier or regressor, and no comparison models."
WORKERS = "Compute on a local cluster of this many processes, partition by partition."
TIME_LIMIT = (
    "End after this many seconds with the best metric so far: its file alone, without table, report or "
    "classifier; default: none."
)
SCHEDULER = "Compute on the Dask cluster of this scheduler, such as tcp://host:8786."


@dataclass(frozen=True, kw_only=True)
class Learn(Command, Supervised, Judging):
    """Options of `learn`."""

    method: Annotated[str | None, choice("NAME", METHOD, among=METHODS)] = None
    kernel: Annotated[str | None, choice("NAME", KERNEL, among=("auto", *KERNELS))] = None
    repeats: Annotated[
        int, option("N", "Evaluate on N random splits, one fit for each.", min=1)
    ] = 1
    workers: Annotated[int | None, option("N", WORKERS, min=1)] = None
    scheduler: Annotated[str | None, option("ADDRESS", SCHEDULER)] = None
    time_limit: Annotated[float | None, option("SECONDS", TIME_LIMIT, min=1)] = None
    out: Annotated[Path | None, folder_for(f"{', '.join(NAMES[:-1])} and {NAMES[-1]}")] = None
    overwrite: Overwrite = False
    image: Annotated[str | None, option("HxW", "Show rows as grey images of this size.")] = None
    no_decision: Annotated[bool, flag("--no-decision", NO_DECISION)] = False


def learn(given: Learn) -> None:
    """Learn a metric, compare it with the Euclidean distance on held-out rows, and
    write metric, report and table.

    From labels it also learns a classifier, or a regressor, for `conemetric predict`.

    [dim]conemetric learn                                  the bundled vehicle silhouettes
    conemetric learn --repeats 5                      five random splits
    conemetric learn cars.csv --label brand
    conemetric learn houses.csv --label price --target continuous
    conemetric learn vectors.npy --labels classes.npy --pca 100
    conemetric learn people.parquet --id person --pairs pairs.csv
    conemetric learn 'part-*.parquet' --label y --workers 4[/]
    """
    shape = _image_shape(given.image, given.data)
    many = is_pattern(given.data) or given.workers is not None or given.scheduler is not None
    if many and given.repeats > 1:
        raise ValueError("--repeats needs a single file, read into memory; leave it out.")
    if many and given.kernel is not None:
        raise ValueError("--kernel needs a single file, read into memory; leave it out.")
    if many and given.method is None:
        # that of a single file, auto, holds all rows in memory
        given = replace(given, method="frob")
    # a pattern is no file to look for; `load_partitions` refuses the options that need one file
    if not many:
        given.check()
    out = output_folder(given.out, NAMES, given.overwrite)

    from .reading.partitions import computing

    kept: list[str] = []  # what is saved, in words
    limit = TimeLimit(given.time_limit)
    try:
        with limit, computing(given.workers, given.scheduler, state.say), progress_bar("reading"):
            table, task, name = _load(given, many)
            study = _studied(table, task, given, many, partial(_keep, out / FILES["metric"], kept))
            files = _write(study, table, out)
            _write_report(study, table, name, shape, out)
    except KeyboardInterrupt:
        if limit.is_over:
            _answer_in_time(limit, kept, out)
            return
        if kept:
            place = escape(str(out / FILES["metric"]))
            state.say(f"[yellow]interrupted[/] the {kept[-1]} is in '{place}'.")
        raise typer.Exit(130) from None
    _answer(study, table, name, given, out, files)


def _load(given, many) -> tuple[Any, Any, str]:
    """The table (partitions of many files), its task and its name; refuses what that has no use for."""
    from .reading.loading import load_task
    from .reading.partitions import load_partitions

    table: Any
    task: Any
    if many:
        table, task, name = load_partitions(given.data, given, given)
    else:
        table, task, name = load_task(given.data, given)
    _refuse_gap(given, task.kind)
    given.check_for(task)
    return table, task, name


def _studied(table, task, given, many, on_metric):
    """What was learned; partitions are not read again for a decision or for a fit to all rows."""
    from ..studies import run_study

    return run_study(
        task,
        given,
        feature_names=table.names,
        on_metric=on_metric,
        decide=not (given.no_decision or many),
        refit=not many,
    )


def _write_report(study, table, name, shape, out):
    from ..report.metric import write_report

    emit("stage", stage="writing the report")
    write_report(
        out / FILES["report"],
        study,
        name=name,
        image_shape=shape,
        ids=table.ids,
        row_numbers=table.row_numbers,
        notes=table.notes,
    )


def _refuse_gap(given, kind):
    """Refuse a gap to stop at for `AutoMetric`, which tries several methods to gaps of its own."""
    from ..studies.methods import methods_for

    method = given.method or methods_for(kind)[0].name
    if method == "auto" and given.is_chosen("tol"):
        raise ValueError(
            f"--tol {given.tol:g} is the gap that one method stops at, and --method auto tries several; "
            "name a --method, or leave --tol out."
        )


def _write(study, table, out):
    """Write decision, table and predictions; return the names of all files by kind."""
    from ..storage import save_decision

    files = dict(FILES)
    if study.decided is not None:
        files["decision"] = DECISION
        save_decision(out / DECISION, study.decided.final, notes=_reading(study, table))
    write_csv(out / FILES["table"], study.table())
    if study.task.kind in ("labels", "quantity"):
        files["predictions"] = PREDICTIONS
        write_csv(out / PREDICTIONS, _predictions(study, table))
    return files


def _reading(study, table):
    """What `conemetric predict` calls the training rows, where that is not their number among them."""
    names = table.row_names[study.decided.final_rows].tolist()
    if names == list(range(study.task.n_rows)):
        return {}
    row_names = {}
    for number, name in enumerate(names):
        # the file holds JSON, which knows numbers and text only
        row_names[str(number)] = name if isinstance(name, int) else str(name)
    return {"row_names": row_names}


def _predictions(study, table):
    """The held-out rows of the first split: true label, and what each row of the table predicts."""
    # under the same headings whatever the method
    headings = {"euclidean": "before", study.options.method: "after"}
    columns = table.row_columns(study.task.held_out_rows)
    columns["true"] = study.task.y[study.task.test].tolist()
    for row in study.table():
        predicted = study.judged[0][row["method"]].detail["predicted"]
        columns[headings.get(row["method"], row["method"])] = predicted.tolist()
    return as_rows(columns)


def _keep(path, kept, metric, interrupted):
    """Save the metric first of all; after Ctrl-C, stop there."""
    from ..storage import save_metric

    # before it is judged, so that nothing later can lose what took long to learn
    save_metric(path, metric)
    kept.append("metric, not the rest,")
    if interrupted:
        if metric.certificate:
            kept.append(f"best certified metric ({in_words(metric.certificate)})")
        else:
            kept.append("blend of what was learned")
        raise KeyboardInterrupt


def _image_shape(image, data):
    if image is None:
        return BUNDLED_IMAGES.get(data)
    try:
        height, width = map(int, image.lower().split("x"))
        return height, width
    except ValueError:
        raise ValueError(
            f"--image '{image}' is not a size; pass height and width in pixels, such as 28x28."
        ) from None


def _answer_in_time(limit, kept, out):
    """Say what there is where the time was over before all was done."""
    if not kept:
        raise ValueError(
            f"--time-limit {limit.seconds:g}: no metric was learned in that time; pass a longer one, or "
            "--max-rows to learn from fewer rows."
        )
    files = {"metric": FILES["metric"]}
    place = escape(str(out / FILES["metric"]))
    state.answer(
        {"time_limit": limit.seconds, "files": places(out, files)},
        f"The {limit.seconds:g} seconds of --time-limit are over: the {kept[-1]} is in '{place}'.",
        last=["In Python:", *use_in_python(out / FILES["metric"])],
    )


def _answer(study, table, name, given, out, files):
    from ..report.table import table_headings, table_rows
    from ..studies.study import COMPILING

    task = study.task
    values = {"data": name, **_values(study)}
    values["files"] = places(out, files)
    shown: list[Any] = []
    if study.alarm:
        shown.append(f"[bold red]{escape(study.alarm)}[/]")
    for note in table.notes:
        if note != task.giveaway:  # which comes last, where it is not overlooked
            shown.append(f"[dim]- {escape(note)}[/]")
    title = f"{plural(task.n_rows, 'row')}, {plural(values['features'], 'column')}"
    if task.goal:
        title = f"{task.goal}: {title}"
    rows = (map(escape, row) for row in table_rows(study))
    shown.append(grid(f"{name}: {title}", table_headings(study), rows))
    if study.metric.certificate is not None:
        shown.append(f"certificate: {in_words(study.metric.certificate)}")
    if study.decided is not None:
        shown.append(f"{study.decided.name}: {escape(str(study.decided.final.blend_))}")
    if COMPILING in study.seconds:
        shown.append(f"{COMPILING}: {study.seconds[COMPILING]:.1f} s, not included above")
    last = [written(out, ", ".join(files.values())), f"[bold]{escape(study.verdict_in_words)}[/]"]
    if task.giveaway:
        last.append(f"[bold yellow]{escape(task.giveaway)}[/]")
    if state.json:  # for people those of the table are shown above it
        study.notes[:0] = table.notes
    state.answer(values, *shown, notes=study.notes, last=[*last, *_next_steps(study, given, out)])


def _values(study):
    """What the study found, for `--json`."""
    from ..studies.verdict import Kind

    verdict = study.verdict
    by_kind = defaultdict(list)
    for row in study.table():
        by_kind[study.kind(row["method"])].append(row)
    # None where the study has none
    decision = next(iter(by_kind[Kind.DECISION]), None)
    constant = next(iter(by_kind[Kind.CONSTANT]), None)
    evidence = None
    if study.evidence is not None:
        evidence = vars(study.evidence)
    return {
        "rows": study.task.n_rows,
        "features": study.task.raw.shape[1],
        "task": study.task.goal,
        "verdict": study.verdict_in_words,
        "lowest": verdict.lowest.name,
        "level": [each.row.name for each in verdict.level],
        "distance": verdict.distances.outcome.value,
        "alarm": study.alarm,
        "before": by_kind[Kind.EUCLIDEAN][0],
        "after": by_kind[Kind.LEARNED][0],
        "decision": decision,
        "compared": by_kind[Kind.OTHER],
        "constant": constant,
        "p_value": study.p_value,
        "shared_rows": study.task.n_shared,
        "splits": list(_errors_by_split(study)),
        "evidence": evidence,
        "seconds": study.seconds,
    }


def _errors_by_split(study):
    """The errors of every split by row of the table, and of the two distances as "before" and "after"."""
    learned = str(study.options.method)
    for split in study.judged:
        errors = {name: judged.rate for name, judged in split.items()}
        yield {**errors, "before": errors["euclidean"], "after": errors[learned]}


def _predict_command(given, out):
    """The command that predicts for the rows that were learned from, read as they were."""
    words = ["conemetric", "predict", given.data or next(iter(BUNDLED))]
    if given.id_column is not None:
        words += ["--id", given.id_column]
    for name in ("separator", "decimal", "encoding"):
        value = getattr(given, name)
        if value is not None:
            words += [f"--{name}", value]
    for entry in given.missing or ():
        words += ["--missing", entry]
    if given.header is not None:
        option = "--header" if given.header else "--no-header"
        words.append(option)
    return command_line(*words, "--decision", out / DECISION)


def _next_steps(study, given, out):
    """What to do now, by the verdict."""
    lines = []
    surer = []  # than a single split
    if len(study.judged) == 1:
        surer = ["--repeats 5 for more splits"]
    if study.outcome == "better":
        remark = f" ({surer[0]})" if surer else ""
        lines = [f"Next, in Python{remark}:", *use_in_python(out / FILES["metric"])]
    if study.decided is not None and not study.verdict.is_worse(study.decided.name):
        command = escape(_predict_command(given, out))
        lines.append(f"To predict new rows (here the training file itself): {command}")
    if lines:
        return lines
    ways = ", ".join([*surer, "more rows"])
    return [f"Next: {ways}, or `conemetric compare` for other methods."]
