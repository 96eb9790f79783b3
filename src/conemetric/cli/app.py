"""The application; its commands import NumPy, Polars and the library only where work starts."""

from typing import Annotated, Any

import typer
import typer.core

from .adapt import adapt
from .comparing import compare
from .compressing import compress
from .exporting import export
from .learn import learn
from .options import as_command
from .predicting import predict
from .using import datasets, embed, inspect, neighbors
from .verifying import verify

SETTINGS = {"help_option_names": ["-h", "--help"]}
# in the order that help lists them
COMMANDS = (
    *(learn, compare, adapt, embed, predict, neighbors, verify, compress, inspect, export),
    datasets,
)


def _without_types(params):
    """Remove the type that help would show for flags."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(typer.core.TyperCommand):
    def get_params(self, ctx: Any) -> list:
        return _without_types(super().get_params(ctx))


class Group(typer.core.TyperGroup):
    def get_params(self, ctx: Any) -> list:
        return _without_types(super().get_params(ctx))


app = typer.Typer(
    cls=Group,
    help="Learn a distance from labelled data, and test whether it helps.",
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


for command in COMMANDS:
    app.command(cls=Command, context_settings=SETTINGS)(as_command(command))
