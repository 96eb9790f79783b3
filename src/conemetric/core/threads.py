"""How many threads compiled loops use, and the pool that runs them."""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any

import numpy as np

MIN_PARALLEL_WORK = 1 << 18  # scalar operations below which one thread is faster than waking others
CHUNKS = 4  # per thread, so that a slow one holds up the others for a quarter of its share

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
    """Threads to use: one within `single_threaded`; else ``OMP_NUM_THREADS`` if set (joblib's
    workers set it); else the number of cores we may run on.
    """
    if getattr(_thread, "single", False):
        return 1
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    # Linux tells which cores we may use; macOS and Windows only how many there are
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threaded(kernel: Callable[..., Any], n_rows: int, work: int, *args: object) -> None:
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)`` in chunks; ``work``: operations."""
    global _pool
    workers = 1 if work < MIN_PARALLEL_WORK else n_threads()
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
        result_of(job)


def result_of(job: Future[Any]) -> Any:
    """The result of a job. Looks up now and then: with Polars, Ctrl-C does not end a wait for a lock."""
    while not job.done():
        with suppress(TimeoutError):
            job.result(0.1)
    return job.result()


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # Windows never forks
    os.register_at_fork(after_in_child=_forget_pool)
