"""Numba's decorators as this library uses them.

A kernel is a module-level function beside the code that calls it: plain loops over arrays, no
Python objects but named tuples of arrays. It releases the GIL and works on a range ``start:stop`` of
rows, over which `core.threads.threaded` spreads it. Sums use four running totals instead of
fast-math, so that they vectorise while infinities and NaN keep their meaning.
"""

import os
import warnings
from collections.abc import Callable
from functools import cache
from multiprocessing import parent_process
from typing import Any

import numpy as np
from numba import njit

# Reorderings that fast-math may make in long sums, so that they vectorise; infinities and NaN keep
# their meaning. Never for a certificate.
SUMS = {"reassoc", "contract", "nsz"}
# For a literal, functions that it is passed to would be compiled once more.
ZERO = np.int64(0)


class NothingCachedWarning(UserWarning):
    """Compiled loops cannot be kept for the next process."""


@cache
def _warn_that_nothing_is_cached() -> None:
    """Warn once: not for every kernel, and not in the processes that this one starts."""
    if parent_process() is not None:
        return
    asked = os.environ.get("NUMBA_CACHE_DIR")
    place = f"NUMBA_CACHE_DIR={asked!r}, nor " if asked else ""
    warnings.warn(
        f"Compiled loops cannot be cached, since neither {place}the folder of conemetric nor your "
        "home directory can be written. Every process compiles those that it uses again, which "
        "takes 1 to 3 seconds. Set the environment variable NUMBA_CACHE_DIR to a folder that can be "
        "written and that is kept.",
        NothingCachedWarning,
        stacklevel=2,
    )


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return Numba's decorator, with a cache on disk where one can be written."""
    options["nogil"] = True
    options["no_cfunc_wrapper"] = True  # nothing in C calls kernels; saves a tenth of compiling
    options.setdefault("_nrt", False)  # nor do they count references: a third less to compile

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # there is no folder for the cache
            _warn_that_nothing_is_cached()
            return njit(**options)(function)

    return compiled


jit = _compiler()
jit_sums = _compiler(fastmath=SUMS)
# for kernels that make arrays
jit_allocating = _compiler(_nrt=True)
# for functions that only kernels call: no entry point from Python is compiled
jit_inner = _compiler(no_cpython_wrapper=True)
jit_inner_sums = _compiler(no_cpython_wrapper=True, fastmath=SUMS)
