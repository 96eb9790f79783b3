"""What is said where a machine lacks what a benchmark needs."""

import contextlib
import sys


class DataNotFound(FileNotFoundError):
    """Data that this machine does not have; the message says how to get them."""


@contextlib.contextmanager
def one_sentence(name):
    """A context in which missing data end the process with one sentence instead of a traceback."""
    try:
        yield
    except DataNotFound as error:
        sys.exit(f"{name}: {error}")
