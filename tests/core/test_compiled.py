"""Numba's decorators: which kernels may make arrays, and how often functions are compiled."""

import sys

import numpy as np
import pytest
from numba.core.errors import NumbaError

from conemetric.core.compiled import ZERO, jit, jit_allocating, jit_inner


@jit
def new_array(n):
    return np.ones(n).sum()


@jit_allocating
def allowed_array(n):
    return np.ones(n).sum()


@jit
def second_row(X):
    row, total = X[1], 0.0
    for c in range(len(row)):
        total += row[c]
    return total


def test_only_allocating_kernels_make_arrays():
    """Others count no references, and an array that is made fails when they are compiled."""
    assert allowed_array(3) == 3
    with pytest.raises(NumbaError):
        new_array(3)


def test_views_need_no_references():
    X = np.ones((2, 4))
    before = sys.getrefcount(X)
    assert [second_row(X) for _ in range(10)] == [4.0] * 10
    assert sys.getrefcount(X) == before


def test_zero_is_compiled_as_a_variable_is():
    """For a literal there would be a second signature."""

    @jit_inner
    def above(start, values):
        return len(values) - start

    @jit
    def both(start, values):
        return above(start, values) + above(ZERO, values)

    assert both(1, np.zeros(4)) == 7
    assert len(above.signatures) == 1
