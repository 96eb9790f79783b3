"""One stopwatch for all experiments."""

from ..compiled import stopwatch


def timed(work):
    """Seconds that ``work()`` takes, without what Numba compiles on the way."""
    began = stopwatch()
    work()
    return stopwatch() - began
