"""What all commands share: the application, common options, where messages go, and the
progress bar. A command's module is imported when the command runs.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ...core.progress import Event, watching

SETTINGS = {"help_option_names": ["-h", "--help"]}
# by name: module, and what help says of it (the first sentence of its docstring)
COMMANDS = {
    "learn": (
        "learning",
        "Learn a metric, compare it with the Euclidean distance on held-out rows, and write metric, "
        "report and table.",
    ),
    "compare": (
        "comparing",
        "Learn with every method that fits the supervision, on the same rows, and set the results "
        "side by side.",
    ),
    "adapt": (
        "adapting",
        "Adapt a frozen embedding to judged queries, judge it on held-out queries, and write the "
        "map, a report and a table.",
    ),
    "embed": (
        "using",
        "Map rows to the space where the learned metric is the Euclidean one, batch by batch.",
    ),
    "neighbors": ("using", "Find the nearest neighbours of every row by the learned distance."),
    "verify": (
        "verifying",
        "Are these two the same? Threshold, accuracy and ROC of the learned distance on pairs, "
        "beside the Euclidean one.",
    ),
    "compress": (
        "compressing",
        "Learn the linear map to the fewest dimensions that keeps the distances of all pairs of "
        "rows (NuMax).",
    ),
    "inspect": ("using", "Show what is in a metric file, after all checks of loading."),
    "export": (
        "exporting",
        "Write the learned map in the format of another system, where the learned distance is "
        "then the Euclidean one.",
    ),
}


def _without_types(params):
    """Remove the type that help would show for flags."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list:
        return _without_types(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """The commands together: names and summaries for the help page, the rest when one runs."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> typer.core.TyperCommand | None:
        if cmd_name in COMMANDS:
            return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name][1])
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest

    def get_params(self, ctx: Any) -> list:
        return _without_types(super().get_params(ctx))


def load_command(name: str) -> Any:
    """Import a command's module and return the command with all its options."""
    from .options import expanded

    module = import_module(f".{COMMANDS[name][0]}", __package__)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, cls=Command, context_settings=SETTINGS)(expanded(getattr(module, name)))
    return typer.main.get_command(alone)


app = typer.Typer(
    cls=Group,
    help="Learn a better distance for your data, with a proof of how good it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings=SETTINGS,
)


class Invocation:
    """Flags of this invocation, and its two consoles: results on stdout, everything
    else on stderr.
    """

    def reset(self) -> None:
        self.debug = self.json = False
        self.results = Console(highlight=False)
        self.messages = Console(stderr=True)
        self.at_end = ExitStack()  # closed when the command ends

    def say(self, text: str) -> None:
        """Print a remark for a person."""
        if not self.json:
            self.messages.print(text, highlight=False, soft_wrap=True)

    def answer(
        self,
        values: dict[str, Any],
        *shown: Any,
        notes: Iterable[str] = (),
        last: Iterable[str] = (),
    ) -> None:
        """Print the result on stdout: for machines values and notes as JSON; for people what is
        ``shown`` (tables, and lines in Rich's markup), the notes, and the last lines.
        """
        if self.json:
            values = {"notes": list(notes), **values}
            typer.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))
            return
        for part in (*shown, *(f"[dim]- {escape(note)}[/]" for note in notes), *last):
            self.results.print(part, soft_wrap=isinstance(part, str))


state = Invocation()
state.reset()


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
):
    if version:
        from conemetric import __version__

        typer.echo(f"conemetric {__version__}")
        raise typer.Exit


def _set(name: str) -> Callable[[bool], bool]:
    def remember(value: bool) -> bool:
        setattr(state, name, value)
        return value

    return remember


Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set("debug"))
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", callback=_set("json"))
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of every random choice.")]


@contextmanager
def progress_bar() -> Iterator[None]:
    """Show the events of the block as one line on a terminal, and nothing in a pipe."""
    # even a disabled Progress ends with an empty line in a pipe
    if state.json or not state.messages.is_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with (
        Progress(*columns, console=state.messages, transient=True) as bar,
        watching(ProgressLine(bar)),
    ):
        yield


class ProgressLine:
    """One line of a progress display: the stage and, within it, the certified gap or the share
    that is done.
    """

    def __init__(self, bar: Progress) -> None:
        self.bar, self.stage = bar, "starting"
        self.line = bar.add_task(self.stage, total=None, note="")

    def __call__(self, event: Event) -> None:
        kind, note, done = event["kind"], "", None
        prefix = f"{event['method']}: " if "method" in event else ""
        if kind == "stage":
            self.stage = f"{prefix}{event['stage']}"
        stage = f"{self.stage}, {event['candidate']}" if "candidate" in event else self.stage
        if kind == "solve":
            note = f"iteration {event['iteration']}, certified gap {event['relative_gap']:.1e}"
        elif kind == "search":
            stage, done = f"{stage}: finding neighbours", event["done"]
        elif kind == "compile" and event["begins"]:
            stage = "compiling, once"
        self.bar.tasks[self.line].total = None if done is None else 1.0
        self.bar.update(self.line, description=stage, note=note, completed=done or 0.0)
