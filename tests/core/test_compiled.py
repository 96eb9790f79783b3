"""How loops are compiled, and what time that counts as."""

from types import SimpleNamespace

import numpy as np
from numba.core import event

from conemetric.core import compiled
from conemetric.core.progress import watching


def test_the_stopwatch_stands_still_while_numba_compiles(monkeypatch):
    now = iter(range(1000, 2000))
    monkeypatch.setattr(compiled, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    began = compiled.stopwatch()  # at 1000
    nested = "numba:compiler_lock"  # a kernel that calls another, from 1001
    with event.trigger_event(nested), event.trigger_event(nested):
        next(now)
        next(now)
    # to 1004
    assert compiled.stopwatch() - began == 1005 - 1000 - 3


def test_the_stopwatch_hears_of_a_real_compilation():
    before = compiled._compiling.seconds

    @compiled.jit
    def first(values):
        return values[0]

    assert first(np.arange(3)) == 0
    assert compiled._compiling.seconds > before


def test_whoever_watches_is_told_of_a_compilation_and_of_none_for_a_kernel_at_hand():
    @compiled.njit
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
