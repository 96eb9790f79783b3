"""One stream of progress events, and what Ctrl-C ends.

An event is a dict. Its ``kind`` is "stage" (a new ``stage`` of the work begins), "search" (the
share of a neighbour search that is ``done``), "solve" (the scalars of an iteration) or "compile"
(Numba begins or ends compiling a kernel). A `watching` block around the work receives what `emit`
sends.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["Event", "all_or_nothing", "emit", "is_all_or_nothing", "labelled", "watching"]

Event = dict[str, Any]
Watcher = Callable[[Event], bool | None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_all_or_nothing: ContextVar[bool] = ContextVar("all_or_nothing", default=False)


@contextmanager
def watching(callback: Watcher) -> Iterator[None]:
    """Call ``callback`` with every event of the work within the block, for example to show a
    progress bar around ``fit``.

    Parameters
    ----------
    callback : callable
        Takes the event, a dict: ``{"kind": "solve", "iteration": 3, "relative_gap": 0.02, ...}``,
        ``{"kind": "search", "done": 0.5}``. If it returns true for an event of kind "solve",
        that solve stops and returns its best point so far.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric, watching
    >>> events = []
    >>> with watching(events.append):
    ...     metric = FrobMetric().fit(*load_iris(return_X_y=True))
    >>> {"search", "solve"} <= {event["kind"] for event in events}
    True
    """
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def labelled(**labels: Any) -> Iterator[None]:
    """Add these entries to every event of the block."""
    outer = _watcher.get()
    if outer is None:
        yield
        return
    with watching(lambda event: outer({**event, **labels})):
        yield


def emit(kind: str, **entries: Any) -> bool:
    """Send an event to the watcher, if any, and return whether it asks to stop."""
    callback = _watcher.get()
    return callback is not None and bool(callback({"kind": kind, **entries}))


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Let Ctrl-C end the whole block instead of one solve in it."""
    token = _all_or_nothing.set(True)
    try:
        yield
    finally:
        _all_or_nothing.reset(token)


def is_all_or_nothing() -> bool:
    """Whether an `all_or_nothing` block is open, so that a solve must not catch Ctrl-C."""
    return _all_or_nothing.get()
