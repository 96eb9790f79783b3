"""How many threads BLAS may use.

NumPy's, SciPy's and PyTorch's BLAS have one number of threads each for the whole process, whichever of
its threads asks. So a limit is a ``with`` block, and of all that are open the lowest applies.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from .arrays import is_torch
from .threads import n_threads, result_of, single_threaded

Item = TypeVar("Item")
Result = TypeVar("Result")

# Multiplications of one product or decomposition for each thread of BLAS. A second thread saves at most a
# fifth of the time of a whole fit with products of this size, on cores that are idle, and costs twice
# the processor seconds. Beside other work it costs far more: every call waits until all threads have had
# a turn, and those that are done spin. (`benchmarks/speed/blas_threads.py`, on 2 and on 16 quiet x86 cores.)
WORK_PER_THREAD = 1e8

# Jobs of `side_by_side` for each thread that are begun, or done, before their results are taken: one
# that runs and one that waits, so that no thread is idle while a result is used.
JOBS_AHEAD_PER_THREAD = 2


# ---- limits


@lru_cache
def _blas_libraries(with_torch: bool) -> ThreadpoolController:
    """Return the BLAS libraries that the process has loaded.

    Finding them takes long, so they are looked up once, and once more (``with_torch``) after PyTorch,
    which brings its own, is imported.
    """
    return ThreadpoolController().select(user_api="blas")


class _OpenLimits:
    """The limits of the open `blas_threads` blocks, of which every library keeps the lowest.

    Blocks of several threads may open and close in any order. When the first one opens, the libraries'
    own numbers of threads are noted; no library gets more than that, and the last block to close
    restores them.
    """

    def __init__(self) -> None:
        # Re-entrant, since collecting garbage may close a block (of a generator that nobody holds any
        # more) while another one opens in the same thread.
        self._lock = threading.RLock()
        self._limits: list[int] = []
        self._libraries: list[Any] = []
        self._own_numbers: list[int] = []

    def open(self, limit: int) -> None:
        """Add a limit."""
        with self._lock:
            if not self._limits:
                self._libraries = _blas_libraries("torch" in sys.modules).lib_controllers
                self._own_numbers = [library.num_threads for library in self._libraries]
            self._limits.append(limit)
            self._apply(min(self._limits))

    def close(self, limit: int) -> None:
        """Take a limit back."""
        with self._lock:
            self._limits.remove(limit)
            if self._limits:
                self._apply(min(self._limits))
            else:
                self._apply(None)

    def _apply(self, limit: int | None) -> None:
        """Let every library use its own number of threads, but not more than ``limit`` if there is one."""
        for library, own_number in zip(self._libraries, self._own_numbers, strict=True):
            number = own_number if limit is None else min(own_number, limit)
            library.set_num_threads(number)
            # From version 3.8 on, threadpoolctl ignores what other threads ask of OpenBLAS until the
            # thread that set a number gives up control, or ends. Here they take turns by the lock; and
            # a block that another thread closes must be able to restore the numbers.
            give_up_control = getattr(library, "clear_controlling_thread", None)
            if give_up_control is not None:
                give_up_control()


_open_limits = _OpenLimits()


@contextmanager
def blas_threads(limit: int) -> Iterator[None]:
    """Use at most ``limit`` threads per BLAS call within the block, in all threads of the process.

    Of several open blocks the lowest limit applies.
    """
    _open_limits.open(limit)
    try:
        yield
    finally:
        _open_limits.close(limit)


def blas_threads_for(work: float) -> AbstractContextManager[None]:
    """Use at most as many threads per BLAS call as a product of ``work`` multiplications can use.

    What the user has set, by the environment or `threadpool_limits`, stays the upper limit.
    """
    return blas_threads(max(1, int(work / WORK_PER_THREAD)))


def half_the_cores() -> AbstractContextManager[None]:
    """Use half the cores, where NumPy's and SciPy's BLAS take turns.

    Each has threads of its own, which spin for a while after a call. On 16 x86 cores a FrobMetric fit
    in single precision takes 1.9 instead of 3.6 s (8,000 x 1,024).
    """
    return blas_threads(max(2, n_threads() // 2))


# ---- one job per core


def side_by_side(
    function: Callable[[Item], Result], items: Iterable[Item], X: object = None
) -> Iterator[Result]:
    """Yield ``function(item)`` of every item, in order, computed on all cores.

    Each job has one core, so that results are the same for any number of cores, and few jobs run ahead
    of the results that are taken. If X is a tensor, jobs run one after the other, since PyTorch has
    threads of its own.
    """
    if is_torch(X):
        yield from map(function, items)
    elif n_threads() == 1:  # handing a short job to a thread takes as long as the job
        with blas_threads(1):
            yield from map(function, items)
    else:
        with blas_threads(1):
            yield from _in_threads(single_threaded()(function), items)


def _in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield ``function(item)`` of every item, in order, from a pool of `n_threads` threads."""
    pool = ThreadPoolExecutor(n_threads())
    jobs: deque[Future[Result]] = deque()
    most_jobs = JOBS_AHEAD_PER_THREAD * n_threads()
    try:
        for item in items:
            if len(jobs) == most_jobs:
                yield result_of(jobs.popleft())
            # in a copy of this context, so that events and warnings of the job reach who listens here
            jobs.append(pool.submit(copy_context().run, function, item))
        while jobs:
            yield result_of(jobs.popleft())
    finally:  # after an error or Ctrl-C, what has not begun is left, and nobody waits for the rest
        pool.shutdown(wait=False, cancel_futures=True)
