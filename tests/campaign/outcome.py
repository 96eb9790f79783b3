"""What a trial found."""

import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """One trial: what was tried, how it ended, how long it took (``against``: what it is
    measured by, a conic solver), what is wrong with it, and what is wrong with the oracle:
    a trial whose oracle failed or doubts itself has not passed.
    """

    number: int
    what: str
    ended: str
    seconds: float = 0.0
    against: float = 0.0
    faults: tuple[str, ...] = ()
    oracle: str = ""

    @property
    def status(self):
        """passed, failed, oracle failed or oracle inaccurate."""
        return "failed" if self.faults else self.oracle or "passed"


class TooSlow(Exception):
    """A trial has run out of its time."""


@contextmanager
def limited(seconds):
    """Raise `TooSlow` in the block after so many seconds."""

    def ring(number, frame):
        raise TooSlow(f"ran for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def timed(function, *arguments):
    """(result, seconds of this process)."""
    began = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - began
