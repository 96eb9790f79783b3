"""A slice of the campaign, the same every time; the rest by ``python -m campaign``."""

import multiprocessing

import pytest

from campaign import certificates, files, hostile, kills


@pytest.mark.parametrize("number", range(6 * len(certificates.CASES)))
def test_certificates(number):
    assert certificates.attempt(number).faults == ()


@pytest.mark.parametrize("number", range(200))
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
