"""Clocks, memory and growth: what benchmarks measure with.

Processor seconds count all threads of this process; beside other work they say more than seconds of
the wall clock.
"""

import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np


class Timed(NamedTuple):
    """What a call took and returned."""

    wall: float
    processor: float
    result: Any


def timed(function, *args, device="cpu", **keywords):
    """`Timed` of ``function(*args, **keywords)``, whose work may still be under way on a device."""
    finish(device)
    began = time.perf_counter()
    busy = time.process_time()
    result = function(*args, **keywords)
    finish(device)
    return Timed(time.perf_counter() - began, time.process_time() - busy, result)


def finish(device):
    """Wait until a GPU has done all that it was asked to do."""
    if str(device).startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def median_seconds(function, repeats):
    """The median of ``repeats`` calls, by the wall clock."""
    return statistics.median(timed(function).wall for _ in range(repeats))


def mean_seconds(function, repeats, device, warm_up=2):
    """The mean over ``repeats`` calls, which a GPU may start before the last one has ended."""
    for _ in range(warm_up):
        function()

    def calls():
        for _ in range(repeats):
            function()

    return timed(calls, device=device).wall / repeats


def peak_memory():
    """The largest resident size of this process so far, in bytes."""
    import resource  # Windows has none

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def exponent(sizes, seconds):
    """The power of the size by which the seconds grow, fitted on logarithmic axes."""
    if len(sizes) < 2:
        return np.nan
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
