"""Numba's decorators as this library uses them.

A kernel is a module-level function beside the code that calls it: plain loops over arrays, no
Python objects but named tuples of arrays. It releases the GIL and works on a range ``start:stop`` of
rows, over which `core.threads.threaded` spreads it. Sums use four running totals instead of
fast-math, so that they vectorise while infinities and NaN keep their meaning.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

# Reorderings that fast-math may make in long sums, so that they vectorise; infinities and NaN keep
# their meaning. Never for a certificate.
SUMS = {"reassoc", "contract", "nsz"}
# For a literal, functions that it is passed to would be compiled once more.
ZERO = np.int64(0)


def _compiler(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return Numba's decorator, with a cache on disk where one can be written."""
    options["nogil"] = True
    options["no_cfunc_wrapper"] = True  # nothing in C calls kernels; saves a tenth of compiling
    options.setdefault("_nrt", False)  # nor do they count references: a third less to compile

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package nor the home can be written
            return njit(**options)(function)

    return compiled


jit = _compiler()
jit_sums = _compiler(fastmath=SUMS)
# for kernels that make arrays
jit_allocating = _compiler(_nrt=True)
# for functions that only kernels call: no entry point from Python is compiled
jit_inner = _compiler(no_cpython_wrapper=True)
jit_inner_sums = _compiler(no_cpython_wrapper=True, fastmath=SUMS)
