"""What all commands share: the application, common options, where messages go, and the
progress display.
"""

import json
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer
import typer.core
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


def _untyped(params):
    """Options that are there or not: help shows no type for them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    """A command."""

    def get_params(self, ctx):
        return _untyped(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    """The commands together."""

    def get_params(self, ctx):
        return _untyped(super().get_params(ctx))


app = typer.Typer(
    cls=Group,
    help="Learn a better distance for your data, with a proof of how good it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class State:
    """Flags of this invocation, and its two consoles: results on stdout, everything
    else on stderr.
    """

    def reset(self):
        self.debug = self.json = False
        self.results = Console(highlight=False)
        self.messages = Console(stderr=True)
        self.at_end = ExitStack()  # closed when the command ends

    def say(self, text):
        """A remark for a person."""
        if not self.json:
            self.messages.print(text, highlight=False, soft_wrap=True)

    def answer(self, values, *shown, notes=(), last=()):
        """The result on stdout: for machines the values and notes as JSON; for people what is
        shown (tables, and lines in Rich's markup), the notes, and the last lines.
        """
        if self.json:
            values = {"notes": list(notes), **values}
            typer.echo(json.dumps(values, ensure_ascii=False, allow_nan=False))
            return
        for part in (*shown, *(f"[dim]- {escape(note)}[/]" for note in notes), *last):
            self.results.print(part, soft_wrap=isinstance(part, str))


state = State()
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


def _set(name):
    def remember(value: bool):
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
def progress_bar():
    """A line that shows stage and certified gap, or how much of a stage is done, on a
    terminal and nothing in a pipe; yields ``progress(stage, record, done)``.
    """
    # even a disabled Progress ends with an empty line in a pipe
    if state.json or not state.messages.is_terminal:
        yield lambda stage, record=None, done=None: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=state.messages, transient=True) as bar:
        line = bar.add_task("starting", total=None, note="")

        def progress(stage, record=None, done=None):
            note = (
                ""
                if record is None
                else f"iteration {record['iteration']}, certified gap {record['relative_gap']:.1e}"
            )
            bar.tasks[line].total = None if done is None else 1.0
            bar.update(line, description=stage, note=note, completed=done or 0.0)

        yield progress
