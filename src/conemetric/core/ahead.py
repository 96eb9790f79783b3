"""Kernels that another process compiles while this one has other work to do: a thread could not,
since compiling keeps the GIL most of the time.
"""

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
def compiled_ahead(module: str) -> Iterator[None]:
    """Within the block another process compiles what ``compile_kernels`` of the module does, if none of
    its kernels is in Numba's cache and a core is free.
    """
    global _compiler
    *rooms, name = module.split(".")
    beside = Path(__file__).parents[1].joinpath(*rooms)
    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or beside)
    if n_threads() > 1 and not any(cache.rglob(f"{name}.*.nbi")):
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
    if process is not None:
        interrupted = process.wait() == -signal.SIGINT
        if interrupted or _compiler is not process:
            raise KeyboardInterrupt
