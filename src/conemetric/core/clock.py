"""The time that Numba spends compiling: a clock without it, and events for those who wait."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

from .progress import emit


class _Compiling(event.TimingListener):
    """Numba's own clock, for several threads that may need a kernel at once."""

    lock = threading.Lock()

    def notify(self, event: event.Event) -> None:
        with self.lock:
            super().notify(event)


_compiling = _Compiling()
event.register("numba:compiler_lock", _compiling)


def seconds_compiling() -> float:
    """Seconds this process has spent so far compiling kernels, or fetching them from the cache."""
    return _compiling.duration if _compiling.done else 0.0


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


@contextmanager
def timed_stage(stage: str, seconds: dict[str, float], name: str = "") -> Iterator[None]:
    """Announce a stage; the seconds it takes go under its name, or another."""
    emit("stage", stage=stage)
    began = stopwatch()
    yield
    seconds[name or stage] = stopwatch() - began
