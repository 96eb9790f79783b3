"""One stopwatch for all experiments."""

import time


def timed(work):
    """Seconds that ``work()`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
