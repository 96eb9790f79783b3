"""The ``conemetric`` command: learn a metric from a file, see what it gained, and put it to use."""

import sys
import warnings

import polars as pl
from rich.markup import escape

from . import adapting, comparing, compressing, exporting, learning, using
from .app import Command, app, state
from .options import expanded
from .wording import in_options

__all__ = ["app", "main"]

# someone's data or files, not a bug
EXPECTED = (
    ValueError,
    TypeError,
    OSError,
    MemoryError,
    ImportError,  # an extra that is not installed
    pl.exceptions.PolarsError,
)
COMMANDS = (
    learning.learn,
    comparing.compare,
    adapting.adapt,
    using.embed,
    using.neighbors,
    using.verify,
    compressing.compress,
    using.inspect,
    exporting.export,
)

for command in COMMANDS:
    app.command(cls=Command)(expanded(command))


def _remark(message, *_):
    """A warning as one line on stderr."""
    state.messages.print(
        f"[yellow]warning[/] {escape(in_options(' '.join(str(message).split())))}",
        highlight=False,
        soft_wrap=True,
    )


def main(args=None):
    """Run the command line; an error is one line on stderr and exit code 2 (1 for a
    bug), a traceback with ``--debug``.
    """
    state.reset()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _remark
            app(args=args, prog_name="conemetric")
    except Exception as error:
        if state.debug:
            raise
        expected = isinstance(error, EXPECTED)
        text = in_options(" ".join(str(error).split())) or type(error).__name__
        if not expected:
            text = f"internal error, {type(error).__name__}: {text}; run again with --debug for the traceback"
        state.messages.print(f"[bold red]error[/] {escape(text)}", highlight=False, soft_wrap=True)
        sys.exit(2 if expected else 1)
    finally:
        state.at_end.close()
