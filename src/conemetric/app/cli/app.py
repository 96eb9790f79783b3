"""The application and its commands; a command's module is imported when the command runs."""

from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

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
    "predict": (
        "predicting",
        "Predict class or number of new rows, with a set or interval that holds the true one and "
        "the training rows that decided.",
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
    "inspect": ("using", "Show what is in a metric or decision file, after all checks of loading."),
    "export": (
        "exporting",
        "Write the learned map in the format of another system, where the learned distance is "
        "then the Euclidean one.",
    ),
    "datasets": ("listing", "List the data sets that commands know by name."),
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


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
):
    if version:
        from conemetric import __version__

        typer.echo(f"conemetric {__version__}")
        raise typer.Exit
