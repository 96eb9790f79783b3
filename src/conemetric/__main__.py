"""The ``conemetric`` command, also as ``python -m conemetric``."""

import sys
from importlib.util import find_spec

LIBRARIES = ("typer", "rich", "polars", "jinja2")


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends it quietly."""
    try:
        missing = [library for library in LIBRARIES if find_spec(library) is None]
        if missing:
            sys.exit(
                f"the conemetric command needs {', '.join(missing)}; install everything it needs "
                "by: python -m pip install 'conemetric[cli]'"
            )
        from .cli import main as run

        run()
    except KeyboardInterrupt:  # a running command answers for itself
        sys.exit(130)


if __name__ == "__main__":
    main()
