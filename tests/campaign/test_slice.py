"""A slice of the campaign, the same every time; the rest by ``python -m campaign``."""

import multiprocessing
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import each

from campaign import (
    certificates,
    changes,
    files,
    gains,
    hostile,
    kernels,
    kills,
    precision,
    unfoldings,
)
from conemetric import MaximumVarianceUnfolding
from conemetric.engine.certificate import Certificate, Status

LONG = 6  # times as much, among the slow tests


def numbers(count):
    further = range(count, LONG * count)
    return [*range(count), *(pytest.param(n, marks=pytest.mark.slow) for n in further)]


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", numbers(3 * len(certificates.CASES)))
def test_certificates(number):
    assert certificates.attempt(number).faults == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", numbers(3 * len(precision.NAMES)))
def test_precision(number):
    assert precision.attempt(number).faults == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", numbers(2 * len(changes.FAMILIES)))
def test_changes(number):
    assert changes.attempt(number).faults == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", numbers(8))
def test_kernels(number):
    assert kernels.attempt(number).faults == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", numbers(24))
def test_unfoldings(number):
    assert unfoldings.attempt(number).faults == ()


@pytest.mark.parametrize("number", [43, 708, 980, *numbers(4)])
@pytest.mark.costly
def test_gains(number):
    assert gains.attempt(number).faults == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(4))
def test_bounds_with_parallel_edges_of_copies(number):
    """Whose multipliers can cancel: 24 rows, 10 of them distinct."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(10, 2))[np.append(np.arange(10), rng.integers(10, size=14))]
    model = MaximumVarianceUnfolding(5, n_components=23, constraint="equal", tol=1e-6).fit(X)
    assert tuple(unfoldings.disagreements(model, X)) == ()


def test_an_oracle_that_fails_or_doubts_itself_is_no_pass(monkeypatch):
    def raising():
        raise ValueError

    def doubting():
        warnings.warn("Solution may be inaccurate", stacklevel=2)
        return 1.0

    def fits(optimum, value=1.0, dual=1.0):
        proof = Certificate(value, dual, value - dual, value - dual, 0.0, Status.CONVERGED)
        return lambda rng: ("a fit", lambda: certificates.Fit(proof, 1e-3, value, optimum))

    def status(*arguments):
        monkeypatch.setattr(certificates, "CASES", {"one": fits(*arguments)})
        return certificates.attempt(0).status

    assert status(lambda: 1.0) == "passed"
    assert status(lambda: 1.1) == "oracle inaccurate"  # a better point is there
    assert status(lambda: 0.5) == "failed"
    assert status(raising) == status(lambda: np.nan) == "oracle failed"
    assert status(doubting) == "oracle inaccurate"
    for optimum in (raising, doubting):
        assert status(optimum, 1.0, 1.5) == "failed"  # its bound is above its own value


@pytest.mark.cases(6)
@pytest.mark.parametrize("number", [*range(100), 278, 995])
def test_hostile_input(number):
    assert hostile.attempt(number).faults == ()


@each("number", range(100))
def test_files(number):
    assert files.attempt(number).faults == ()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)
@pytest.mark.slow
@pytest.mark.parametrize("number", range(10))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_kills(number):
    assert kills.attempt(number).faults == ()


@pytest.mark.slow
def test_the_command(tmp_path):
    tests = Path(__file__).parents[1]
    places = os.pathsep.join([str(tests.parent / "src"), str(tests)])
    command = [sys.executable, "-m", "campaign", "--files", "30", "--jobs", "2"]
    done = subprocess.run(
        [*command, "--out", tmp_path / "outcomes"],
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "files: 30 trials in" in done.stdout
    assert "30 passed, 0 failed, 0 oracle failed, 0 oracle inaccurate" in done.stdout
    assert len((tmp_path / "outcomes").read_text().splitlines()) == 30
