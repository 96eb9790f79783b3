"""A slice of the campaign, the same every time; the rest by ``python -m campaign``."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from campaign import certificates, files, hostile, kills


@pytest.mark.parametrize("number", range(3 * len(certificates.CASES)))
def test_certificates(number):
    assert certificates.attempt(number).faults == ()


@pytest.mark.parametrize("number", [*range(100), 278, 995])
def test_hostile_input(number):
    assert hostile.attempt(number).faults == ()


@pytest.mark.parametrize("number", range(100))
def test_files(number):
    assert files.attempt(number).faults == ()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)
@pytest.mark.parametrize("number", range(10))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_kills(number):
    assert kills.attempt(number).faults == ()


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
    assert "files: 30 trials, 0 at fault" in done.stdout
    assert len((tmp_path / "outcomes").read_text().splitlines()) == 30
