"""Compiled loops, and how many threads they and BLAS may use.

A kernel is a module-level function beside the code that calls it: plain loops over arrays, no
Python objects. It releases the GIL and works on a range ``start:stop`` of rows, over which
`threaded` spreads it. Sums use four running totals instead of fast-math, so that they vectorise
while infinities and NaN keep their meaning.
"""

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from threadpoolctl import ThreadpoolController

from .progress import emit

__all__ = [
    "alone",
    "blas_threads",
    "few_blas_threads",
    "half_the_cores",
    "jit",
    "jit_inner",
    "jit_inner_sums",
    "jit_sums",
    "n_threads",
    "one_blas_thread",
    "seconds_compiling",
    "stopwatch",
    "threaded",
]

# reorderings that fast-math may make in long sums, so that they vectorise; infinities and
# NaN keep their meaning. Never for a certificate.
SUMS = {"reassoc", "contract", "nsz"}
SMALL = 1 << 18  # scalar operations below which one thread is faster than waking others
CHUNKS = 4  # per thread, so that a slow one holds up the others for a quarter of its share


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
jit_sums = _compiler(fastmath=SUMS)
# for functions that only kernels call: no entry point from Python is compiled
jit_inner = _compiler(no_cpython_wrapper=True)
jit_inner_sums = _compiler(no_cpython_wrapper=True, fastmath=SUMS)
_pool: ThreadPoolExecutor | None = None
_thread = threading.local()


def alone(function: Callable, *args: Any) -> Any:
    """Call ``function`` without spreading its loops over the cores."""
    _thread.alone = True
    try:
        return function(*args)
    finally:
        _thread.alone = False


# re-entrant, since collecting garbage may close a block of `blas_threads` while another one opens
_blas_lock = threading.RLock()
_blas_limits: list[int] = []  # of the open blocks, after the number that the first one found
_blas_found: list[Any] = []  # the libraries at the first one, and what restores their numbers


@lru_cache
def _blas_libraries(with_torch: bool) -> ThreadpoolController:
    """The libraries loaded so far (PyTorch brings more); cached, since finding them takes long."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def blas_threads(most: int) -> Iterator[None]:
    """Let BLAS use at most so many threads per call within the block. BLAS has one setting per
    process, so the smallest limit of all open blocks holds.
    """
    with _blas_lock:
        if not _blas_limits:
            libraries = _blas_libraries("torch" in sys.modules)
            numbers = [library.num_threads for library in libraries.lib_controllers]
            _blas_limits.append(max(numbers, default=most))
            _blas_found[:] = libraries, libraries.limit(limits=None)
        _blas_limits.append(most)
        _blas_found[0].limit(limits=min(_blas_limits))
    try:
        yield
    finally:
        with _blas_lock:
            _blas_limits.remove(most)
            if len(_blas_limits) > 1:
                _blas_found[0].limit(limits=min(_blas_limits))
            else:
                _blas_limits.clear()
                _blas_found[1].restore_original_limits()


def one_blas_thread() -> AbstractContextManager[None]:
    """Let BLAS use one thread per call within the block, where we run several ourselves."""
    return blas_threads(1)


def few_blas_threads(size: int) -> AbstractContextManager[None]:
    """`one_blas_thread` for a problem of few numbers, whose BLAS calls are too short to share:
    AutoMetric for 600 x 18 takes 0.9 s with one thread and 1.4 with two on two Neoverse-N1 cores,
    0.9 with one and 1.7 with 16 on 16 x86 cores.
    """
    return one_blas_thread() if size < SMALL else nullcontext()


def half_the_cores() -> AbstractContextManager[None]:
    """Let BLAS use half the cores within the block, where NumPy's and SciPy's take turns.

    The wheels of each bring a BLAS with threads of its own, which spin for a while after a call:
    two times all cores would compete for them. On 16 x86 cores a FrobMetric fit in single precision
    takes 1.9 instead of 3.6 s (8,000 x 1,024), or 0.8 instead of 3.2 s (4,000 x 512).
    """
    return blas_threads(max(2, n_threads() // 2))


class _Compiling(event.Listener):
    """Seconds that Numba has spent compiling kernels, or fetching them from its cache."""

    def __init__(self):
        self.seconds, self.depth, self.began = 0.0, 0, 0.0
        self.lock = threading.Lock()  # several threads may need a kernel at once

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
    """Seconds this process has spent so far compiling kernels, or fetching them from the cache."""
    return _compiling.seconds


class _Announcing(event.Listener):
    """Emits an event when a kernel that is not in the cache is compiled."""

    def on_start(self, event):
        emit("compile", begins=True)

    def on_end(self, event):
        emit("compile", begins=False)


event.register("numba:compile", _Announcing())


def stopwatch() -> float:
    """A clock in seconds that stops while Numba compiles, for comparable times of first fits."""
    return time.perf_counter() - seconds_compiling()


def n_threads() -> int:
    """Threads to use: one within `alone`; else ``OMP_NUM_THREADS`` if set (joblib's workers set
    it); else the number of cores we may run on.
    """
    if getattr(_thread, "alone", False):
        return 1
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    # Linux tells which cores we may use; macOS and Windows only how many there are
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threaded(kernel: Callable, n_rows: int, work: int, *args: Any) -> None:
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)`` in chunks; ``work``: operations."""
    global _pool
    workers = 1 if work < SMALL else n_threads()
    if workers == 1:
        kernel(0, n_rows, *args)
        return
    if _pool is None or _pool._max_workers < workers:
        _pool = ThreadPoolExecutor(workers, thread_name_prefix="conemetric")
    edges = np.linspace(0, n_rows, CHUNKS * workers + 1).astype(np.int64)
    # in a copy of this context, so that watchers see what is compiled there
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
