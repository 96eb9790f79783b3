"""Columns of scores: what of them an engine lists."""

import numpy as np
import pytest

from conemetric.ranking.columns import Columns

nan = np.nan


@pytest.fixture
def columns():
    """Two queries: the first has three documents in one column and one in the other."""
    raw = np.array([[1.0, nan], [3.0, 1.0], [2.0, nan], [4.0, nan]])
    return Columns(np.array([0, 3, 4]), np.array([3, 5, 7, 2]), 10, ("words", "dates"), raw)


def test_without_an_engine_everything_is_listed(columns):
    assert columns.listed_by(None) is columns


def test_an_engine_lists_the_first_of_each_column(columns):
    listed = columns.listed_by("pgvector", 2)
    assert (listed.target, listed.window) == ("pgvector", 2)
    np.testing.assert_array_equal(listed.document, [5, 7, 2])
    np.testing.assert_array_equal(listed.start, [0, 2, 3])
    np.testing.assert_array_equal(listed.raw, [[3, 1], [2, nan], [4, nan]])
    assert len(columns.document) == 4  # as it was


def test_without_a_window_it_is_as_long_as_the_longest_column(columns):
    listed = columns.listed_by("pgvector")
    assert listed.window == 3
    np.testing.assert_array_equal(listed.raw, columns.raw)
