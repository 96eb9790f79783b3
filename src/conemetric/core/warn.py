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
    """Collect the library's warnings of the block in a list, instead of issuing them."""
    collected: list[Warning] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn, or add to the enclosing `collected_warnings`.

    The warning points to the line of the user's that called this library, be it through scikit-learn.
    A message becomes a warning of this ``category``.
    """
    if isinstance(message, Warning):
        warning = message
    else:
        warning = category(message)
    collected = _collected.get()
    if collected is None:
        warnings.warn(warning, stacklevel=1 + _frames_inside())
    else:
        collected.append(warning)


def _frames_inside() -> int:
    """Count the innermost calls, from the caller of this function on, that the user did not write."""
    inside = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))
    count = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        count += 1
        frame = frame.f_back
    return count
