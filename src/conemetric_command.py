"""The ``conemetric`` command, outside the package: Ctrl-C is answered from the first import on."""

import sys


def main() -> None:
    try:
        from conemetric.__main__ import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
