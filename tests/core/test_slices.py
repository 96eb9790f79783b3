"""Slices of long arrays."""

import pytest

from conemetric.core.slices import HELD, slices


@pytest.mark.parametrize(
    ("n", "width", "held"), [(7, 10, 30), (7, 100, 30), (0, 3, 9), (5, 1, None)]
)
def test_slices_cover_all_rows_once_and_hold_no_more_than_asked(n, width, held):
    parts = slices(n, width, held)
    assert [row for part in parts for row in range(n)[part]] == list(range(n))
    most = HELD if held is None else held
    assert all(
        (part.stop - part.start) * width <= most or part.stop - part.start == 1 for part in parts
    )


def test_rows_at_a_time():
    assert slices(7, width=10, held=30) == [slice(0, 3), slice(3, 6), slice(6, 7)]
