"""The library imports and learns on other systems, and where nothing can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conemetric
from conemetric.core.threads import n_threads

SOURCE = Path(conemetric.__file__).parent
FIT = """
from sklearn.datasets import load_iris
from conemetric import FrobMetric
from conemetric.core import compiled
X, y = load_iris(return_X_y=True)
assert FrobMetric().fit(X, y).certificate_.status == "converged"
"""


def run(code, **changes):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent), **changes}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stderr


@pytest.mark.turns(3)
def test_systems_that_cannot_fork_or_tell_our_cores():
    """Windows does neither; macOS does not tell on which cores a process may run."""
    others = "import os, numba, sklearn.datasets, sklearn.neighbors, sklearn.decomposition\n"
    said = run(f"{others}del os.register_at_fork, os.sched_getaffinity\n{FIT}", OMP_NUM_THREADS="")
    assert "NUMBA_CACHE_DIR" not in said


@pytest.mark.turns(3)
@pytest.mark.parametrize("asked", ["", "home"])
@pytest.mark.costly
def test_nothing_can_be_written(asked, tmp_path):
    """Kernels are compiled in every process then, which is said once; a file in the place of each
    cache folder forbids it to the superuser, too.
    """
    copy = tmp_path / "site" / "conemetric"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in {path.parent for path in copy.rglob("*.py")}:
        (folder / "__pycache__").touch()
    home = tmp_path / "home"
    home.touch()
    asked = asked and str(home)
    places = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "NUMBA_CACHE_DIR": asked}
    triplets = FIT.replace("fit(X, y)", "fit(X, triplets=[[0, 1, 60], [60, 61, 0]])")
    code = triplets + "assert type(compiled.jit(lambda x: x)._cache).__name__ == 'NullCache'"
    said = run(code, PYTHONPATH=str(copy.parent), **places)
    assert said.count("NothingCachedWarning") == 1
    assert "Set the environment variable NUMBA_CACHE_DIR" in said
    assert (f"NUMBA_CACHE_DIR={asked!r}" in said) == bool(asked)
    assert all(path.is_file() for path in copy.rglob("__pycache__"))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux tells our cores")
@pytest.mark.parametrize(("value", "expected"), [("3", 3), ("2,4", 2), ("", None), ("many", None)])
def test_threads_are_those_asked_for_or_one_per_core(monkeypatch, value, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert n_threads() == (expected or len(os.sched_getaffinity(0)))
