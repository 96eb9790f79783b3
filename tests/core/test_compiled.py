"""How loops are compiled, and what time that counts as."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core import event
from threadpoolctl import ThreadpoolController

from conemetric.blocks import Threads
from conemetric.blocks.vectors import BlockSpace
from conemetric.core import compiled
from conemetric.core.progress import watching
from conemetric.neighbours import neighbours_by_label


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


@pytest.mark.parametrize("seed", range(4))
def test_overlapping_limits_of_blas_leave_the_process_as_it_was(seed):
    """Blocks of several threads, opened and closed in any order."""
    libraries = ThreadpoolController().select(user_api="blas")
    rng, opened = np.random.default_rng(seed), []
    with libraries.limit(limits=3):
        before = [each.num_threads for each in libraries.lib_controllers]
        for _ in range(40):
            if opened and rng.random() < 0.5:
                opened.pop(rng.integers(len(opened)))[1].__exit__(None, None, None)
            else:
                most = int(rng.integers(1, 6))  # also more than the process may use
                opened.append((most, compiled.blas_threads(most)))
                opened[-1][1].__enter__()
            expected = [min([number, *(most for most, _ in opened)]) for number in before]
            assert [each.num_threads for each in libraries.lib_controllers] == expected
        while opened:
            opened.pop(0)[1].__exit__(None, None, None)
        assert [each.num_threads for each in libraries.lib_controllers] == before


@pytest.mark.parametrize("task", ["search", "blocks"])
def test_fits_in_threads_leave_the_threads_of_blas_as_they_were(task):
    libraries = ThreadpoolController().select(user_api="blas")
    X = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)

    def work(_):
        if task == "search":
            return neighbours_by_label(X, np.arange(len(X)) % 2, 1, 1, "exact")
        space = BlockSpace(Threads(workers=2))
        return space.sum(np.sum, space.source([delayed(X)] * 9))

    delayed = pytest.importorskip("dask").delayed
    with libraries.limit(limits=3), ThreadPoolExecutor(4) as pool:
        before = [each.num_threads for each in libraries.lib_controllers]
        list(pool.map(work, range(8)))
        assert [each.num_threads for each in libraries.lib_controllers] == before
