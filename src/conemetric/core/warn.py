"""Warnings to the user, and blocks that collect them instead.

Python's own way to record or silence warnings changes the filters of the whole process, so that of
two threads the one that ends last may leave them changed. Here a block collects the warnings of its
own thread (and of threads that run in a copy of its context) only.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import sklearn

_collected: ContextVar[list[Warning] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[Warning]]:
    """Collect the library's warnings of the block instead of giving them."""
    collected: list[Warning] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn at the caller's line, outside this library and scikit-learn; ``category``: of a string."""
    warning = message if isinstance(message, Warning) else category(message)
    collected = _collected.get()
    if collected is not None:
        collected.append(warning)
        return
    inside = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
