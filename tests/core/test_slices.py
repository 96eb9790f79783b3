"""Slices of long arrays."""

import pytest

from conemetric.core.slices import MAX_HELD, slices


@pytest.mark.parametrize(
    ("n_rows", "width", "max_held"), [(7, 10, 30), (7, 100, 30), (0, 3, 9), (5, 1, None)]
)
def test_slices_cover_all_rows_once_and_hold_no_more_than_the_limit(n_rows, width, max_held):
    parts = slices(n_rows, width, max_held)
    assert [row for part in parts for row in range(n_rows)[part]] == list(range(n_rows))
    limit = MAX_HELD if max_held is None else max_held
    for part in parts:
        rows = part.stop - part.start
        assert rows * width <= limit or rows == 1


def test_rows_at_a_time():
    assert slices(7, width=10, max_held=30) == [slice(0, 3), slice(3, 6), slice(6, 7)]
