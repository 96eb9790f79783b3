"""One stream of progress events, and what Ctrl-C ends.

An event is a dict. Its ``kind`` is "stage" (a new ``stage`` of the work begins), "search" (the
share of a neighbour search that is ``done``), "solve" (the scalars of an iteration) or "compile"
(Numba begins or ends compiling a kernel). `emit` sends it to the `watching` block around the work.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .extras import require

Event = dict[str, Any]
# Called with every event; true for an event of kind "solve" asks that solve to stop.
Watcher = Callable[[Event], bool | None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_all_or_nothing: ContextVar[bool] = ContextVar("all_or_nothing", default=False)


@contextmanager
def watching(callback: Watcher | None = None) -> Iterator[None]:
    """Show the progress of the work within the block, or call ``callback`` with its events.

    Parameters
    ----------
    callback : callable, default=None
        None shows a line of progress, in notebooks and terminals (needs tqdm). A callable
        takes the event, a dict: ``{"kind": "solve", "iteration": 3, "relative_gap": 0.02, ...}``,
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
    if callback is None:
        with _progress_line() as line, _watched_by(line):
            yield
    else:
        with _watched_by(callback):
            yield


@contextmanager
def _watched_by(callback: Watcher) -> Iterator[None]:
    """Send the events of the block to ``callback``."""
    block_is_open = True

    def watch(event: Event) -> bool | None:
        # Threads that the block leaves behind, after an error or Ctrl-C, keep this watcher: it asks
        # their solves to stop, and shows them to nobody.
        if not block_is_open:
            return True
        return callback(event)

    token = _watcher.set(watch)
    try:
        yield
    finally:
        block_is_open = False
        _watcher.reset(token)


@contextmanager
def _progress_line() -> Iterator[Watcher]:
    """Make a watcher that shows the last stage and the last figures in one line of tqdm."""
    with require("tqdm.auto", "notebook").tqdm(bar_format="{desc} [{elapsed}] {postfix}") as line:

        def show(event: Event) -> None:
            if event["kind"] == "stage":
                line.set_description_str(event["stage"])
            elif event["kind"] == "search":
                line.set_postfix_str(f"finding neighbours, {event['done']:.0%}")
            elif event["kind"] == "solve":
                gap = f"certified gap {event['relative_gap']:.1e}"
                line.set_postfix_str(f"iteration {event['iteration']}, {gap}")

        yield show


@contextmanager
def labelled(**labels: object) -> Iterator[None]:
    """Add these entries to every event of the block."""
    outer = _watcher.get()
    if outer is None:
        yield
    else:
        with watching(lambda event: outer({**event, **labels})):
            yield


def emit(kind: str, **entries: object) -> bool:
    """Send an event to the watcher, if any, and return whether it asks to stop."""
    watcher = _watcher.get()
    if watcher is None:
        return False
    return bool(watcher({"kind": kind, **entries}))


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Let Ctrl-C end the whole block instead of one solve in it."""
    token = _all_or_nothing.set(True)
    try:
        yield
    finally:
        _all_or_nothing.reset(token)


def is_all_or_nothing() -> bool:
    """Tell whether an `all_or_nothing` block is open, so that a solve must not catch Ctrl-C."""
    return _all_or_nothing.get()
