"""How loops are compiled, and mapped over the cores.

A kernel is a module-level function beside the code that calls it: plain loops over
arrays, no Python objects. It releases the GIL and works on a range ``start:stop`` of
rows, over which `threaded` spreads it. Sums use four running totals instead of
fast-math, so that they vectorise while infinities and NaN keep their meaning.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit


def _compiler(**options):
    """Numba's decorator, with a cache on disk where one can be written."""

    def compiled(function):
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # neither the package nor the home can be written
            return njit(nogil=True, **options)(function)

    return compiled


jit = _compiler()
# long sums may be reordered to vectorise; infinities and NaN keep their meaning. Never
# for a certificate.
jit_sums = _compiler(fastmath={"reassoc", "contract", "nsz"})
SMALL = 1 << 18  # below this many scalar operations one thread is faster than waking others
_pool: ThreadPoolExecutor | None = None


def n_threads():
    """Threads to use: ``OMP_NUM_THREADS`` where set (joblib's workers set it), else the
    cores we may run on.
    """
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
    jobs = [_pool.submit(kernel, lo, hi, *args) for lo, hi in itertools.pairwise(edges)]
    for job in jobs:
        job.result()


def _forget_pool():
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # Windows never forks
    os.register_at_fork(after_in_child=_forget_pool)
