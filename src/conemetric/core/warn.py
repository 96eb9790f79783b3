"""Warnings to the user, and a way to silence those of inner fits.

Python's own way to silence a block changes the filters of the whole process, so that one of
two threads may leave them changed. Here a block is silent in its own thread only.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import sklearn

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Silence the warnings of this library within the block, in this thread."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called into this library (or scikit-learn's wrapper of ``fit``)."""
    if _silent.get():
        return
    inside = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
