"""Whole arrays as a vector space: both verbs call, reductions come back on the host."""

import numpy as np
import pytest

from conemetric.core.vectors import ARRAYS, greatest, total


def scaled(values, factor):
    return values * factor


def products(a, b):
    """A scalar, and the Gram matrix of the two."""
    return (a * b).sum(), (a[:, None] * a[None, :]) * b[0]


def largest(values):
    return values.max()


@pytest.fixture
def vectors(asarray, dtype):
    return asarray(np.arange(1, 5, dtype=dtype)), asarray(np.arange(-1, 3, dtype=dtype))


def test_map_stays_in_the_library_and_takes_numbers_for_vectors(vectors):
    a, _ = vectors
    mapped = ARRAYS.map(scaled, a, factor=2.0)
    assert type(mapped) is type(a)
    assert mapped.dtype == a.dtype
    assert ARRAYS.map(scaled, 3.0, factor=2.0) == 6.0


def test_reductions_come_back_as_floats_and_numpy_arrays(vectors):
    inner, gram = ARRAYS.sum(products, *vectors)
    assert type(inner) is float
    assert inner == -1 + 0 + 3 + 8
    assert isinstance(gram, np.ndarray)
    np.testing.assert_array_equal(gram, -np.outer(np.arange(1, 5), np.arange(1, 5)))


def test_several_reductions_in_one_visit(vectors):
    a, b = vectors
    (inner, _), highest, factor = ARRAYS.totals(
        total(products, a, b), greatest(largest, a), total(scaled, 2.0, factor=3.0)
    )
    assert (inner, highest, factor) == (10.0, 4.0, 6.0)
    assert ARRAYS.max(largest, b) == 2.0
