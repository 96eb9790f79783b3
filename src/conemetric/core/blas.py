"""How many threads BLAS may use."""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

from .arrays import is_torch
from .threads import n_threads, result_of, single_threaded

# Multiplications of one product or decomposition for each thread of BLAS. A second thread saves at most a
# fifth of the time of a whole fit with products of this size, on cores that are idle, and costs twice
# the processor seconds. Beside other work it costs far more: every call waits until all threads have had
# a turn, and those that are done spin. (`benchmarks/speed/blas_threads.py`, on 2 and on 16 quiet x86 cores.)
WORK_PER_THREAD = 1e8

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
    """At most so many threads per BLAS call: the least of all open blocks, for the whole process."""
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


def blas_threads_for(work: float) -> AbstractContextManager[None]:
    """At most as many threads per BLAS call as a product of ``work`` multiplications can use.

    What the user has set, by the environment or `threadpool_limits`, stays the upper limit.
    """
    return blas_threads(max(1, int(work / WORK_PER_THREAD)))


def side_by_side(
    function: Callable[..., Any], items: Iterable[Any], X: Any = None
) -> Iterator[Any]:
    """``function(item)`` of every item, in order: each on one of the cores, so that results are the same
    for any number of them, and few ahead of what is taken. If X are tensors, one after the other.
    """
    if is_torch(X) or n_threads() == 1:  # handing a short job to a thread takes as long as the job
        with nullcontext() if is_torch(X) else blas_threads(1):
            yield from map(function, items)
        return
    pool, jobs = ThreadPoolExecutor(n_threads()), deque[Future[Any]]()
    on_one_core = single_threaded()(function)
    try:
        with blas_threads(1):
            for item in items:
                if len(jobs) == 2 * n_threads():
                    yield result_of(jobs.popleft())
                jobs.append(pool.submit(copy_context().run, on_one_core, item))
            while jobs:
                yield result_of(jobs.popleft())
    finally:  # after an error or Ctrl-C, what has not begun is left, and nobody waits for the rest
        pool.shutdown(wait=False, cancel_futures=True)


def half_the_cores() -> AbstractContextManager[None]:
    """Half the cores, where NumPy's and SciPy's BLAS take turns: each has threads of its own, which
    spin for a while after a call. On 16 x86 cores a FrobMetric fit in single precision takes 1.9
    instead of 3.6 s (8,000 x 1,024).
    """
    return blas_threads(max(2, n_threads() // 2))
