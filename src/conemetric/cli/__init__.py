"""The ``conemetric`` command: learn a metric from a file, see what it gained, and put it to use."""

import sys
import warnings

from rich.markup import escape

from ..studies.advice import in_options
from .app import app
from .invocation import state

__all__ = ["app", "main"]

# the user's data, files or installation (an extra that is missing), not a bug
EXPECTED = (ValueError, TypeError, OSError, MemoryError, ImportError)


def _line(message):
    return " ".join(in_options(message).split())


def _is_expected(error):
    """Whether an error is no bug; it is one of Polars only if that was imported."""
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(error, polars.exceptions.PolarsError):
        return True
    return isinstance(error, EXPECTED)


def main(args: list[str] | None = None) -> None:
    """Run the command line; an error is one line on stderr and exit code 2 (1 for a
    bug), a traceback with ``--debug``.
    """
    state.reset()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: state.message(
                f"[yellow]warning[/] {escape(_line(message))}"
            )
            warnings.filterwarnings(
                "ignore", "X has categories not seen during fit"
            )  # a note says so
            app(args=args, prog_name="conemetric")
    except Exception as error:
        if state.debug:
            raise
        text = _line(error) or type(error).__name__
        if _is_expected(error):
            state.message(f"[bold red]error[/] {escape(text)}")
            sys.exit(2)
        text = f"internal error, {type(error).__name__}: {text}; run again with --debug for the traceback"
        state.message(f"[bold red]error[/] {escape(text)}")
        sys.exit(1)
    finally:
        # unlocks the folder, and removes it if nothing was written, after an error too
        state.at_end.close()
