"""Kernels that another process compiles meanwhile; a thread could not, since compiling keeps the GIL."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .threads import n_threads

_compiler: subprocess.Popen[bytes] | None = None


@contextmanager
def compiled_ahead(module: str, last: str) -> Iterator[None]:
    """Another process compiles a module's kernels during the block, if the last is not cached."""
    global _compiler
    *rooms, name = module.split(".")
    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parents[1].joinpath(*rooms))
    if n_threads() > 1 and not any(cache.rglob(f"{name}.{last}-*.nbi")):
        command = f"from conemetric.{module} import compile_kernels; compile_kernels()"
        arguments, null = [sys.executable, "-P", "-c", command], subprocess.DEVNULL
        with suppress(OSError):  # then they are compiled at their first call
            _compiler = subprocess.Popen(arguments, stdin=null, stdout=null, stderr=null)
    try:
        yield
    finally:
        process, _compiler = _compiler, None
        if process is not None:
            process.kill()
            process.wait()


def wait_for_kernels() -> None:
    """Wait for the other process, if there is one; if it fails, kernels are compiled at their first call.
    Ctrl-C ends it, or the block around it: then nobody needs them.
    """
    process = _compiler
    if process is None or process.poll() == 0:
        return
    from numba.core.event import trigger_event  # slow, and whoever starts the process is in a hurry

    # the clock stops and watchers are told, as if it were compiled here
    with trigger_event("numba:compiler_lock"), trigger_event("numba:compile"):
        process.wait()
    if process.returncode == -signal.SIGINT or _compiler is not process:
        raise KeyboardInterrupt
