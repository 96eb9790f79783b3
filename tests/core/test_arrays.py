"""Arrays of NumPy and PyTorch under one set of functions."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric.core.arrays import (
    as_array,
    is_dask,
    is_torch,
    namespace,
    on_device,
    take,
    to_index,
    to_numpy,
    transposed,
    unique_rows,
)


def test_an_array_stays_what_it_is(asarray):
    X = asarray(np.eye(2))
    assert as_array(X) is X
    assert on_device(X) == (is_torch(X) and X.is_cuda)


def test_lists_become_arrays():
    assert_array_equal(as_array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))


def test_transpose_has_contiguous_rows_on_the_host(asarray):
    X = np.arange(6.0).reshape(2, 3)
    found = transposed(asarray(X))
    assert_array_equal(to_numpy(found), X.T)
    assert is_torch(found) or found.flags.c_contiguous


def test_rows_are_unique_and_sorted(asarray):
    X = np.array([[2.0, 0.0], [1.0, 5.0], [2.0, 0.0], [1.0, -5.0]])
    rows, number = unique_rows(asarray(X))
    assert_array_equal(to_numpy(rows), [[1.0, -5.0], [1.0, 5.0], [2.0, 0.0]])
    assert_array_equal(to_numpy(rows)[to_numpy(number)], X)


@pytest.mark.parametrize("rows", [[2, 0, 2], []])
def test_rows_by_number(rows, asarray):
    X = np.arange(6.0).reshape(3, 2)
    assert_array_equal(to_numpy(take(asarray(X), np.array(rows, int))), X[rows].reshape(-1, 2))


def test_positions_of_a_mask(asarray):
    assert_array_equal(to_numpy(to_index(asarray(np.array([1.0, -1.0, 2.0])) > 0)), [0, 2])


def test_a_mixture_is_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="convert all inputs to one"):
        namespace(np.zeros(1), torch.zeros(1))


def test_dask_collections_are_recognised(asarray):
    array, dataframe = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    rows = np.ones((4, 2))
    frame = pandas.DataFrame(rows)
    assert is_dask(array.from_array(rows))
    assert is_dask(dataframe.from_pandas(frame, npartitions=2))
    for value in (asarray(rows), frame, rows.tolist(), None):
        assert not is_dask(value)
