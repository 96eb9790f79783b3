"""The ``conemetric`` command, also as ``python -m conemetric``."""

import atexit
import ctypes
import gc
import sys
from importlib.util import find_spec

LIBRARIES = ("typer", "rich", "polars", "jinja2")


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends it quietly."""
    gc.set_threshold(10_000)  # the default looks for garbage for 5 % of the time of `learn`
    atexit.register(gc.freeze)  # nor is it looked for at the end, among all imports: 0.5 s
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # glibc: freed memory is kept, which saves 200,000 page faults
        mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD
        mallopt(-1, 1 << 29)  # M_TRIM_THRESHOLD
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
