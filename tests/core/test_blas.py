"""Limits of the threads of BLAS, from any number of threads at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from conemetric.blocks import Threads
from conemetric.blocks.vectors import BlockSpace
from conemetric.core import blas
from conemetric.core.blas import _blas_libraries, blas_threads, blas_threads_for, side_by_side
from conemetric.core.threads import n_threads, single_threaded
from conemetric.neighbours.search import neighbours_by_label


@pytest.mark.parametrize("seed", range(4))
def test_overlapping_limits_of_blas_leave_the_process_as_it_was(seed):
    """Blocks of several threads, opened and closed in any order."""
    _blas_libraries.cache_clear()  # another test may have loaded FAISS, which brings its own
    libraries = ThreadpoolController().select(user_api="blas")
    rng, opened = np.random.default_rng(seed), []
    with libraries.limit(limits=3):
        before = [each.num_threads for each in libraries.lib_controllers]
        for _ in range(40):
            if opened and rng.random() < 0.5:
                opened.pop(rng.integers(len(opened)))[1].__exit__(None, None, None)
            else:
                most = int(rng.integers(1, 6))  # also more than the process may use
                opened.append((most, blas_threads(most)))
                opened[-1][1].__enter__()
            expected = [min([number, *(most for most, _ in opened)]) for number in before]
            assert [each.num_threads for each in libraries.lib_controllers] == expected
        while opened:
            opened.pop(0)[1].__exit__(None, None, None)
        assert [each.num_threads for each in libraries.lib_controllers] == before


@pytest.fixture
def three_threads():
    """The BLAS libraries with one pool for the whole process, of three threads during the test."""
    _blas_libraries.cache_clear()  # another test may have loaded FAISS, which brings its own
    libraries = []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        # MKL, and OpenBLAS by OpenMP, have a number for each thread that calls them
        if library.internal_api == "openblas" and library.threading_layer == "pthreads":
            libraries.append(library)
    if not libraries:
        pytest.skip("no BLAS library has one pool for the whole process")
    before = [library.num_threads for library in libraries]
    for library in libraries:
        set_threads(library, 3)
    yield libraries
    for library, number in zip(libraries, before, strict=True):
        set_threads(library, number)


def set_threads(library, number):
    library.set_num_threads(number)
    getattr(library, "clear_controlling_thread", lambda: None)()


def test_blocks_of_two_threads_that_overlap_restore_what_they_found(three_threads):
    """Also where the thread that limited the libraries first lives on."""
    numbers = []

    def note():
        numbers.append({library.num_threads for library in three_threads})

    with ThreadPoolExecutor(1) as other_thread:
        first, second = blas_threads(2), blas_threads(1)
        other_thread.submit(first.__enter__).result()
        note()
        second.__enter__()
        note()
        other_thread.submit(first.__exit__, None, None, None).result()
        note()
        second.__exit__(None, None, None)
        note()
    assert numbers == [{2}, {1}, {1}, {3}]


def test_a_limit_raises_no_library_above_its_own_number(three_threads):
    if len(three_threads) < 2:
        pytest.skip("there is one BLAS library only")
    slow, *others = three_threads
    set_threads(slow, 1)
    with blas_threads(2):
        assert slow.num_threads == 1
        assert {library.num_threads for library in others} == {2}
    assert slow.num_threads == 1


def test_a_product_gets_no_more_threads_than_it_can_use():
    libraries = ThreadpoolController().select(user_api="blas")

    def most_threads():
        return max(each.num_threads for each in libraries.lib_controllers)

    with libraries.limit(limits=3):
        for share, expected in ((0.0, 1), (0.99, 1), (1.0, 1), (2.5, 2), (3.0, 3), (1e9, 3)):
            with blas_threads_for(share * blas.WORK_PER_THREAD):
                assert most_threads() == expected, share
        assert most_threads() == 3


@pytest.mark.parametrize("task", ["search", "blocks"])
def test_fits_in_threads_leave_the_threads_of_blas_as_they_were(task):
    libraries = ThreadpoolController().select(user_api="blas")
    X = np.random.default_rng(0).normal(size=(1200, 3)).astype(np.float32)

    def work(_):
        if task == "search":
            return neighbours_by_label(X, np.arange(len(X)) % 2, 1, 1)
        space = BlockSpace(Threads(workers=2))
        return space.sum(np.sum, space.source([delayed(X)] * 9))

    delayed = pytest.importorskip("dask").delayed
    with libraries.limit(limits=3), ThreadPoolExecutor(4) as pool:
        before = [each.num_threads for each in libraries.lib_controllers]
        list(pool.map(work, range(8)))
        assert [each.num_threads for each in libraries.lib_controllers] == before


def test_items_side_by_side_keep_their_order_and_one_core_each(monkeypatch):
    libraries = ThreadpoolController().select(user_api="blas")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")

    def work(item):
        return item, n_threads(), max(each.num_threads for each in libraries.lib_controllers)

    with libraries.limit(limits=3):
        assert list(side_by_side(work, range(7))) == [(item, 1, 1) for item in range(7)]
        assert n_threads() == 3
    begun = []

    def failing(item):
        begun.append(item)
        time.sleep(0.2 * item)
        return 1 / item

    with pytest.raises(ZeroDivisionError):
        list(side_by_side(failing, [0, *[1] * 60]))
    # an error ends the work: three have begun, and one or two after the first
    assert len(begun) <= 5
    single = single_threaded()(lambda: list(side_by_side(lambda _: threading.get_ident(), "ab")))
    assert single() == [threading.get_ident()] * 2


def test_items_side_by_side_are_not_far_ahead_of_what_is_taken(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    began = []
    results = side_by_side(lambda item: began.append(item) or item, range(50))
    for taken in range(20):
        assert next(results) == taken
        assert len(began) <= taken + 7  # twice as many as there are cores, after the one taken
    results.close()
    assert len(began) < 50


CTRL_C = """
import os, signal, threading, time
from conemetric.core.blas import side_by_side

signal.signal(signal.SIGINT, signal.default_int_handler)  # also in a job in the background
signal.siginterrupt(signal.SIGINT, False)  # waits begin again, as with Polars
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    list(side_by_side(time.sleep, [60, 60]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)  # without the threads, which sleep
"""


@pytest.mark.skipif(not hasattr(signal, "siginterrupt"), reason="not on Windows")
def test_ctrl_c_ends_the_wait_for_items_also_where_a_library_has_waits_begin_again():
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    found = subprocess.run(
        [sys.executable, "-c", CTRL_C], env=environment, capture_output=True, text=True, timeout=40
    )
    assert found.stdout == "interrupted\n"


def test_items_of_tensors_come_one_after_the_other():
    torch = pytest.importorskip("torch")
    here = threading.get_ident()
    of_threads = side_by_side(lambda _: threading.get_ident(), range(5), torch.zeros(1))
    assert list(of_threads) == [here] * 5
