"""The time that Numba spends compiling: a clock without it, and events for those who wait."""

import threading
import time

from numba.core import event

from .progress import emit


class _Compiling(event.Listener):
    """Seconds that Numba has spent compiling kernels, or fetching them from its cache."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.began = 0.0, 0, 0.0
        self.lock = threading.Lock()  # several threads may need a kernel at once

    def on_start(self, event: event.Event) -> None:
        with self.lock:
            if self.depth == 0:
                self.began = time.perf_counter()
            self.depth += 1

    def on_end(self, event: event.Event) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.began


_compiling = _Compiling()
event.register("numba:compiler_lock", _compiling)


def seconds_compiling() -> float:
    """Seconds this process has spent so far compiling kernels, or fetching them from the cache."""
    return _compiling.seconds


class _Announcing(event.Listener):
    """Emits an event when a kernel that is not in the cache is compiled."""

    def on_start(self, event: event.Event) -> None:
        emit("compile", begins=True)

    def on_end(self, event: event.Event) -> None:
        emit("compile", begins=False)


event.register("numba:compile", _Announcing())


def stopwatch() -> float:
    """A clock in seconds that stops while Numba compiles, for comparable times of first fits."""
    return time.perf_counter() - seconds_compiling()
