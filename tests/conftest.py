"""Fixtures every test may use: the array libraries installed, random seeds, precisions."""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import date
from functools import cache, lru_cache, partial
from pathlib import Path
from zlib import crc32

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # of each process: they run side by side
# what tests start in other processes is this source too, with the kernels compiled for it
source, given = str(Path(__file__).parents[1] / "src"), os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (source, given)))

import numpy as np  # noqa: E402
import optima  # noqa: E402
import pytest  # noqa: E402
from cases import PRECISIONS, backends, whose_turn  # noqa: E402
from hypothesis import settings  # noqa: E402

SEEDS = 0, 1  # of random instances whose optima are kept in optima.json
MOST_CASES = 30  # of a test that run by default, for each array library
# Drawn by the date, in CI the even one of two days; workers take what the first process has drawn.
# One random instance belongs to it, in CI the first one, and one part of the cases.
today = date.today().toordinal()
drawn = today - today % len(SEEDS) if os.environ.get("CI") else today
drawn = int(os.environ.setdefault("CONEMETRIC_SEED", str(drawn)))
seed_of_run = SEEDS[drawn % len(SEEDS)]

settings.register_profile("untimed", deadline=None)  # beside other work a case may take a second
settings.load_profile("untimed")

gc.disable()  # until all tests are collected: none of that is garbage

MOST_SECONDS_OF_COMPILING = 120  # then every process compiles what it uses


def pytest_configure(config):
    """Before a whole run in several processes compiles every loop in each: one compiles them."""
    is_first = not hasattr(config, "workerinput")
    several = bool(config.getoption("numprocesses", None))
    whole = config.args_source is config.ArgsSource.TESTPATHS
    if is_first and several and whole and next(Path(source).rglob("*.nbi"), None) is None:
        done = os.path.join(tempfile.mkdtemp(), "compiled")
        script = Path(__file__).with_name("compile_kernels.py")
        subprocess.Popen([sys.executable, script, done], stderr=subprocess.DEVNULL)
        os.environ["CONEMETRIC_COMPILED"] = done  # for the processes of the tests


def wait_for_kernels():
    """Until what `pytest_configure` started has compiled all, if it has."""
    done = os.environ.get("CONEMETRIC_COMPILED")
    end = time.monotonic() + MOST_SECONDS_OF_COMPILING
    while done and not os.path.exists(done) and time.monotonic() < end:
        time.sleep(0.1)


def pytest_addoption(parser):
    parser.addoption("--seeds", type=int, help="random instances of every kind: 0 to SEEDS - 1")
    parser.addoption(
        "--keep-optima", action="store_true", help="write new conic optima to tests/optima.json"
    )
    parser.addoption("--part", help="K/N: only the K-th of N parts of the tests, of equal size")


def seeds(config):
    """One seed by default, the others of `SEEDS` in the slow run; as many as --seeds asks."""
    asked = config.getoption("--seeds")
    if asked is not None:
        return list(range(asked))
    others = [seed for seed in SEEDS if seed != seed_of_run]
    return [seed_of_run, *(pytest.param(seed, marks=pytest.mark.slow) for seed in others)]


def pytest_generate_tests(metafunc):
    """A test that takes ``seed`` and does not say which gets those of `seeds`."""
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "seed" in metafunc.fixturenames and not any("seed" in names for names in given):
        metafunc.parametrize("seed", seeds(metafunc.config))


def pytest_terminal_summary(terminalreporter, config):
    """How to repeat a failure on another day."""
    if terminalreporter.stats.get("failed") and config.getoption("--seeds") is None:
        terminalreporter.write_line(
            f"CONEMETRIC_SEED={drawn} repeats these random instances (seed {seed_of_run}) and cases."
        )


@pytest.hookimpl(tryfirst=True)  # before those that are marked slow are left out
def pytest_collection_modifyitems(config, items):
    """Of a test's cases a part runs by default. Checks of scikit-learn that cannot hold are skipped:
    marked xfail, they run and pass anyway.
    """
    leave_to_the_slow_run(config, items)
    if config.getoption("--part") is not None:
        keep_part(config, items)
    for item in items:
        mark = item.get_closest_marker("xfail")
        if mark and "check" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=mark.kwargs["reason"]))


def leave_to_the_slow_run(config, items):
    """Mark slow what is not in the part of a test's cases whose turn it is; each array library has
    a part of its own. More seeds are for all cases that are not costly.
    """
    tests = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            test, _, case_of = item.nodeid.partition("[")
            library = next((name for name in ("torch", "cuda") if name in case_of), "numpy")
            tests[test, library].append(item)
    for (test, _), items_of_one in tests.items():
        first = items_of_one[0]
        mark = first.get_closest_marker("turns")
        # every part meets every seed, and tests of one property do not rest together
        number = drawn // len(SEEDS) + crc32(test.encode())
        run = whose_turn(
            {item.nodeid: item for item in items_of_one},
            most_cases(config, first),
            number,
            mark.args[0] if mark else 1,
        )
        for item in items_of_one:
            if item not in run:
                item.add_marker(pytest.mark.slow)


def most_cases(config, item):
    if item.get_closest_marker("costly"):
        return 1
    if config.getoption("--seeds") is not None:
        return sys.maxsize
    mark = item.get_closest_marker("cases")
    return mark.args[0] if mark else MOST_CASES


def keep_part(config, items):
    """Deselect the tests of other parts; which part a test is in depends on its name only."""
    part, n = map(int, config.getoption("--part").split("/"))
    others = [item for item in items if crc32(item.nodeid.encode()) % n != part - 1]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if crc32(item.nodeid.encode()) % n == part - 1]


def pytest_collection_finish():
    """What collection made stays, and is not looked through again with the garbage of tests."""
    gc.freeze()
    gc.enable()
    wait_for_kernels()


def pytest_sessionfinish(session):
    if session.config.getoption("--keep-optima"):
        optima.keep_new()


@pytest.fixture(params=backends())
def asarray(request):
    """Convert a NumPy array to the library under test, keeping its dtype."""
    if request.param == "numpy":
        return np.asarray
    import torch

    return partial(torch.as_tensor, device="cuda" if request.param == "cuda" else "cpu")


@pytest.fixture
def coarse_search(request, monkeypatch):
    """Decisions from a third of the widths, half of the ridges, two rounds of gradients and one
    partition into folds, but in tests marked ``full_search``.
    """
    from conemetric.decisions import candidates, kernel, regressor

    if not request.node.get_closest_marker("full_search"):
        few = {name: widths[::3] for name, widths in kernel.WIDTHS.items()}
        monkeypatch.setattr(kernel, "WIDTHS", few)
        monkeypatch.setattr(kernel, "RIDGES", kernel.RIDGES[::2])
        monkeypatch.setattr(candidates, "N_ROUNDS", 2)
        monkeypatch.setattr(regressor, "MOST_PARTITIONS", 1)


@pytest.fixture(params=list(PRECISIONS))
def dtype(request):
    return PRECISIONS[request.param]


@pytest.fixture
def eps(dtype):
    """Relative tolerance that sums of a few thousand terms in ``dtype`` can be held to."""
    return 200 * float(np.finfo(dtype).eps)


@cache
def drawn_once(draw):
    return lru_cache(maxsize=8)(lambda *given: list(draw(*given)))


@pytest.fixture
def few_trees(monkeypatch, coarse_search):
    """Decisions by a coarse search, beside forests and boosting of few trees; the signs that a test
    of significance flips, which are equal for equal numbers of rows, are drawn once.
    """
    from conemetric.evaluation import statistics
    from conemetric.studies.deciding import BASELINES

    monkeypatch.setattr(statistics, "_random_flips", drawn_once(statistics._random_flips))

    few = {"n_estimators": 10}, {"max_iter": 10}
    for kind, models in BASELINES.items():
        small = [partial(model, **size) for model, size in zip(models, few, strict=True)]
        monkeypatch.setitem(BASELINES, kind, small)
