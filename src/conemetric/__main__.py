"""The ``conemetric`` command, also as ``python -m conemetric``."""

import sys
from importlib.util import find_spec

LIBRARIES = ("typer", "rich", "polars", "matplotlib", "jinja2")


def main() -> None:
    """Run the command line, or say what to install for it."""
    missing = [library for library in LIBRARIES if find_spec(library) is None]
    if missing:
        sys.exit(
            f"the conemetric command needs {', '.join(missing)}; install everything it needs by: "
            "python -m pip install 'conemetric[cli]'"
        )
    try:
        from .app.cli import main as run

        run()
    except KeyboardInterrupt:  # while importing; a command answers for itself
        sys.exit(130)


if __name__ == "__main__":
    main()
