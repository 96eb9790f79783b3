"""How loops are compiled, and mapped over the cores.

A kernel is a module-level function beside the code that calls it: plain loops over
arrays, no Python objects. It releases the GIL and works on a range ``start:stop`` of
rows, over which `threaded` spreads it. Sums use four running totals instead of
fast-math, so that they vectorise while infinities and NaN keep their meaning.
"""

import itertools
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
from numba import njit
from numba.core import event

from .progress import emit


def _compiler(**options):
    """Numba's decorator, with a cache on disk where one can be written."""
    options["no_cfunc_wrapper"] = True  # nothing in C calls kernels; saves a tenth of compiling

    def compiled(function):
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # neither the package nor the home can be written
            return njit(nogil=True, **options)(function)

    return compiled


jit = _compiler()
# long sums may be reordered to vectorise; infinities and NaN keep their meaning. Never
# for a certificate.
SUMS = {"reassoc", "contract", "nsz"}
jit_sums = _compiler(fastmath=SUMS)
# for what only kernels call: the way in from Python is not compiled
jit_inner = _compiler(no_cpython_wrapper=True)
jit_inner_sums = _compiler(no_cpython_wrapper=True, fastmath=SUMS)
SMALL = 1 << 18  # below this many scalar operations one thread is faster than waking others
_pool: ThreadPoolExecutor | None = None
_thread = threading.local()


def alone(function, *args):
    """Call ``function`` in this thread only: loops in it are not spread over the cores."""
    _thread.alone = True
    try:
        return function(*args)
    finally:
        _thread.alone = False


class _Compiling(event.Listener):
    """Seconds that Numba spent compiling kernels, or fetching them from its cache."""

    def __init__(self):
        self.seconds, self.depth, self.began = 0.0, 0, 0.0
        self.lock = threading.Lock()  # several threads may ask for a kernel at once

    def on_start(self, event):
        with self.lock:
            if self.depth == 0:
                self.began = time.perf_counter()
            self.depth += 1

    def on_end(self, event):
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.began


_compiling = _Compiling()
event.register("numba:compiler_lock", _compiling)


def seconds_compiling() -> float:
    """Seconds that this process has spent compiling kernels, or fetching them from the
    cache, so far.
    """
    return _compiling.seconds


class _Announcing(event.Listener):
    """Tells whoever watches when a kernel is compiled that the cache does not have."""

    def on_start(self, event):
        emit("compile", begins=True)

    def on_end(self, event):
        emit("compile", begins=False)


event.register("numba:compile", _Announcing())


def stopwatch() -> float:
    """Seconds from some moment on, standing still while Numba compiles: what a fit takes
    is not what its first call in a new environment takes.
    """
    return time.perf_counter() - seconds_compiling()


def n_threads():
    """Threads to use: one within `alone`; ``OMP_NUM_THREADS`` where set (joblib's workers
    set it), else the cores we may run on.
    """
    if getattr(_thread, "alone", False):
        return 1
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    # Linux tells which cores we may use; macOS and Windows only how many there are
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threaded(kernel, n_rows, work, *args):
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)`` in contiguous chunks,
    one or more per core.
    """
    global _pool
    workers = n_threads()
    if work < SMALL or workers == 1:
        kernel(0, n_rows, *args)
        return
    if _pool is None or _pool._max_workers < workers:
        _pool = ThreadPoolExecutor(workers, thread_name_prefix="conemetric")
    edges = np.linspace(0, n_rows, 4 * workers + 1).astype(np.int64)
    # each in this context, so that watchers see what is compiled there
    jobs = [
        _pool.submit(copy_context().run, kernel, lo, hi, *args)
        for lo, hi in itertools.pairwise(edges)
    ]
    for job in jobs:
        job.result()


def _forget_pool():
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # Windows never forks
    os.register_at_fork(after_in_child=_forget_pool)
