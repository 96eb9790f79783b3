"""How many threads compiled loops use, and the pool that runs them."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")

# Scalar operations of a loop, below which one thread is faster than waking others.
MIN_PARALLEL_WORK = 1 << 18
# Chunks of a loop for each thread, so that a slow one holds up the others for a quarter of its share.
CHUNKS_PER_THREAD = 4
# Seconds after which a wait for a job looks up, so that Ctrl-C ends it.
POLL_SECONDS = 0.1

_pool: ThreadPoolExecutor | None = None
_thread = threading.local()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep the loops that this thread starts within the block from spreading over the cores."""
    before = getattr(_thread, "single", False)
    _thread.single = True
    try:
        yield
    finally:
        _thread.single = before


def n_threads() -> int:
    """Return the number of threads to use.

    It is one within `single_threaded`; else ``OMP_NUM_THREADS`` if set (joblib's workers set it); else
    the number of cores that the process may run on.
    """
    if getattr(_thread, "single", False):
        return 1
    # a list of numbers has one for each level of nested parallel loops
    outermost = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if outermost.isdecimal() and int(outermost) > 0:
        return int(outermost)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    # macOS and Windows only tell how many cores there are
    return os.cpu_count() or 1


def threaded(kernel: Callable[..., Any], n_rows: int, work: int, *args: object) -> None:
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)``, in chunks on all cores.

    ``work`` is the number of scalar operations; if there are few, one call does them all.
    """
    workers = n_threads() if work >= MIN_PARALLEL_WORK else 1
    if workers == 1:
        kernel(0, n_rows, *args)
        return
    pool = _pool_of(workers)
    edges = np.linspace(0, n_rows, CHUNKS_PER_THREAD * workers + 1).astype(np.int64)
    jobs = []
    for start, stop in itertools.pairwise(edges):
        # in a copy of this context, so that watchers see what is compiled there
        jobs.append(pool.submit(copy_context().run, kernel, start, stop, *args))
    for job in jobs:
        result_of(job)


def _pool_of(workers: int) -> ThreadPoolExecutor:
    """Return the pool that all loops share, with at least so many threads."""
    global _pool
    if _pool is None or _pool._max_workers < workers:
        # a pool cannot grow; loops that run in the old one keep it until they end
        _pool = ThreadPoolExecutor(workers, thread_name_prefix="conemetric")
    return _pool


def result_of(job: Future[Result]) -> Result:
    """Wait for a job and return its result.

    The wait looks up now and then: with Polars, Ctrl-C does not end a wait for a lock.
    """
    while not job.done():
        with suppress(TimeoutError):
            job.result(POLL_SECONDS)
    return job.result()


def _forget_pool() -> None:
    """Forget the pool in a forked process, which inherits the object but none of its threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # Windows never forks
    os.register_at_fork(after_in_child=_forget_pool)
