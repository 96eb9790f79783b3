"""The ``conemetric`` command, also as ``python -m conemetric``."""

import sys
from importlib.util import find_spec

LIBRARIES = ("typer", "rich", "polars", "matplotlib", "plotly")


def main() -> None:
    """Run the command line, or say what to install for it."""
    lacking = [library for library in LIBRARIES if find_spec(library) is None]
    if lacking:
        sys.exit(
            f"the conemetric command needs {', '.join(lacking)}; get what it needs by: "
            "python -m pip install 'conemetric[cli]'"
        )
    from .app.cli import main as run

    run()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # while importing; a command answers for itself
        sys.exit(130)
