"""How far a search is, for whoever wants to show it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("search_watcher", default=None)


@contextmanager
def watching_searches(callback: Callable[[float], None]) -> Iterator[None]:
    """Call ``callback`` with the share done, from 0 to 1, during every search within the
    block (a progress bar around someone's ``fit``, say).
    """
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


def report(done: float) -> None:
    """Tell the watcher, if there is one, that this share of a search is done."""
    callback = _watcher.get()
    if callback is not None:
        callback(done)
