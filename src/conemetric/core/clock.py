"""The time that Numba spends compiling: a clock that leaves it out, and events for watchers."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

from .progress import emit


class _CompilingTimer(event.TimingListener):
    """Numba's own timer, made safe for several threads that need a kernel at once."""

    lock = threading.Lock()

    def notify(self, event: event.Event) -> None:
        with self.lock:
            super().notify(event)


class _CompilingAnnouncer(event.Listener):
    """Emits an event when a kernel that is not in the cache is compiled."""

    def on_start(self, event: event.Event) -> None:
        emit("compile", begins=True)

    def on_end(self, event: event.Event) -> None:
        emit("compile", begins=False)


_timer = _CompilingTimer()
event.register("numba:compiler_lock", _timer)
event.register("numba:compile", _CompilingAnnouncer())


def seconds_compiling() -> float:
    """Return how many seconds this process has spent so far compiling kernels, or fetching them from
    the cache.
    """
    if not _timer.done:  # nothing has been compiled yet, or the first kernel is at it
        return 0.0
    return _timer.duration


def stopwatch() -> float:
    """Return a time in seconds that stands still while Numba compiles, so that the durations of first
    and later fits can be compared.
    """
    return time.perf_counter() - seconds_compiling()


@contextmanager
def timed_stage(stage: str, seconds: dict[str, float], name: str = "") -> Iterator[None]:
    """Announce a stage of the work, and enter how long it takes in ``seconds``.

    The key there is ``name``, or that of the stage if it is empty. A stage that fails enters nothing.
    """
    emit("stage", stage=stage)
    began = stopwatch()
    yield
    seconds[name or stage] = stopwatch() - began
