"""The clock that stops while Numba compiles."""

from types import SimpleNamespace

import numpy as np
from numba import njit
from numba.core import event

from conemetric.core import clock
from conemetric.core.compiled import jit
from conemetric.core.progress import watching


def test_the_stopwatch_stands_still_while_numba_compiles(monkeypatch):
    now = iter(range(1000, 2000))
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    monkeypatch.setattr(event, "timer", lambda: next(now))
    began = clock.stopwatch()  # at 1000
    nested = "numba:compiler_lock"  # a kernel that calls another, from 1001
    with event.trigger_event(nested), event.trigger_event(nested):
        next(now)
        next(now)
    # to 1004
    assert clock.stopwatch() - began == 1005 - 1000 - 3


def test_the_stopwatch_hears_of_a_real_compilation():
    before = clock.seconds_compiling()

    @jit
    def first(values):
        return values[0]

    assert first(np.arange(3)) == 0
    assert clock.seconds_compiling() > before


def test_whoever_watches_is_told_of_a_compilation_and_of_none_for_a_kernel_at_hand():
    @njit
    def last(values):
        return values[-1]

    told = []
    with watching(lambda event: told.append(event["begins"])):
        assert last(np.arange(3)) == 2
        assert told == [True, False]
        assert last(np.arange(4)) == 3
    assert told == [True, False]
    assert last(np.arange(3.0)) == 2  # another kernel, after the block
    assert told == [True, False]
