"""Another process compiles kernels ahead: only if there are none, and it ends with its block."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from conemetric.core import ahead
from conemetric.core.ahead import compiled_ahead, wait_for_kernels
from conemetric.core.clock import seconds_compiling
from conemetric.core.progress import watching

KERNELS = "solvers.newton_kernels", "advance"


@pytest.fixture
def nothing_compiled(monkeypatch, tmp_path):
    """The folder of a package whose kernels are in no cache, where a core is free."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(ahead, "__file__", str(tmp_path / "core" / "ahead.py"))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    return tmp_path


@pytest.mark.slow
def test_another_process_compiles_what_is_in_no_cache(monkeypatch, nothing_compiled):
    cache = nothing_compiled / "cache"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    with compiled_ahead(*KERNELS):
        wait_for_kernels()
        assert ahead._compiler.returncode == 0
    assert list(cache.rglob("newton_kernels.advance-*.nbi"))
    assert ahead._compiler is None


def test_the_process_ends_with_the_block(nothing_compiled):
    cache = nothing_compiled / "solvers" / "__pycache__"
    cache.mkdir(parents=True)
    (cache / "newton_kernels._dot-1.py311.nbi").touch()  # the first of them are not enough
    with pytest.raises(ZeroDivisionError), compiled_ahead(*KERNELS):
        process = ahead._compiler
        assert process.poll() is None
        _ = 1 / 0
    assert process.returncode != 0  # it was killed
    wait_for_kernels()  # for nothing


@pytest.mark.parametrize("how", ["signal", "end of the block"])
def test_ctrl_c_ends_the_wait(nothing_compiled, how):
    """A terminal sends it to both processes; else the block ends while a thread waits."""
    with ThreadPoolExecutor(1) as pool, compiled_ahead(*KERNELS):
        waiting = pool.submit(wait_for_kernels)
        time.sleep(0.3)  # the thread waits, and Python has begun to listen
        if how == "signal":
            ahead._compiler.send_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                waiting.result()
    with pytest.raises(KeyboardInterrupt):
        waiting.result()


def test_waiting_counts_as_compiling(nothing_compiled):
    events, before = [], seconds_compiling()
    with watching(events.append), compiled_ahead("solvers.no_such_module", "advance"):
        wait_for_kernels()
    assert seconds_compiling() > before
    assert events == [{"kind": "compile", "begins": begins} for begins in (True, False)]


def test_a_process_that_fails_is_not_missed(monkeypatch, nothing_compiled):
    with compiled_ahead("solvers.no_such_module", "advance"):
        wait_for_kernels()
        assert ahead._compiler.returncode == 1
    monkeypatch.setattr(sys, "executable", str(nothing_compiled / "no python"))
    with compiled_ahead(*KERNELS):
        wait_for_kernels()


def test_files_in_the_folder_of_the_user_are_not_imported(monkeypatch, nothing_compiled):
    (nothing_compiled / "conemetric.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(nothing_compiled)
    with compiled_ahead("solvers.no_such_module", "advance"):
        wait_for_kernels()
    assert not (nothing_compiled / "imported").exists()


@pytest.mark.parametrize("why", ["cached beside it", "cached elsewhere", "one core"])
def test_no_process_without_need(monkeypatch, nothing_compiled, why):
    monkeypatch.setattr(subprocess, "Popen", None)
    if why == "one core":
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
    else:
        cache = nothing_compiled / "solvers" / "__pycache__"
        if why == "cached elsewhere":
            cache = nothing_compiled / "elsewhere" / "solvers_0123"
            monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache.parent))
        cache.mkdir(parents=True)
        (cache / "newton_kernels.advance-1.py311.nbi").touch()
    with compiled_ahead(*KERNELS):
        wait_for_kernels()
