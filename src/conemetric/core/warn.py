"""Warnings to the user, and fits within fits that are to give none.

Python's own way to silence a block changes the filters of the whole process, so that of two
threads the one that ends last may leave them changed. Here a block is silent for its own thread
only.
"""

import sys
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

import sklearn

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def no_warnings():
    """Give no warnings of this library within the block, in this thread."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller outside this library and scikit-learn's wrapper of ``fit``."""
    if _silent.get():
        return
    inside = (str(Path(__file__).parents[1]), str(Path(sklearn.__file__).parent))
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
