"""The coordinates of a kernel, against SciPy's distances and full decompositions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from conemetric.core.fields import FieldError
from conemetric.engine import kernel_map
from conemetric.engine.kernel_map import (
    KERNELS,
    KernelMap,
    decomposed,
    kernel_values,
    landmarks_of,
    median_width,
)


def by_scipy(kernel, A, B, width):
    if kernel == "gaussian":
        return np.exp(-cdist(A, B, "sqeuclidean") / (2 * width**2))
    if kernel == "laplacian":
        return np.exp(-cdist(A, B, "cityblock") / width)
    return 1 - cdist(A, B, "cosine")


def a_map(kernel, X, n_components=None, width=1.5):
    K = kernel_values(kernel, X, X, width)
    return KernelMap(kernel, width, X, decomposed(K, n_components, is_definite=True).projection)


@pytest.fixture
def X(seed):
    return np.random.default_rng(seed).normal(size=(30, 4))


@pytest.mark.parametrize("kernel", KERNELS)
def test_values_are_those_of_scipy(kernel, X, asarray):
    values = kernel_values(kernel, asarray(X), asarray(X[:7] + 0.1), 1.5)
    assert_allclose(
        np.asarray(values.cpu()) if hasattr(values, "cpu") else values,
        by_scipy(kernel, X, X[:7] + 0.1, 1.5),
        atol=1e-12,
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_inner_products_are_the_kernel_where_one_row_is_a_landmark(kernel, X, seed):
    new = np.random.default_rng(seed + 99).normal(size=(9, 4))
    mapping = a_map(kernel, X)
    products = mapping(new).coordinates @ mapping(X).coordinates.T
    # directions of eigenvalues below 1e-9 are dropped
    assert_allclose(products, by_scipy(kernel, new, X, 1.5), atol=1e-4)


def test_the_leading_coordinates_are_the_best_of_their_number(X):
    K = by_scipy("gaussian", X, X, 1.5)
    Z = a_map("gaussian", X, n_components=5)(X).coordinates
    values = np.linalg.eigvalsh(K)
    assert_allclose(((K - Z @ Z.T) ** 2).sum(), (values[:-5] ** 2).sum(), rtol=1e-6)


def test_blocks_of_rows_change_nothing(X, monkeypatch):
    mapping = a_map("laplacian", X)
    whole = mapping(X).coordinates
    monkeypatch.setattr(kernel_map, "MAX_HELD", 100)
    assert_allclose(mapping(X).coordinates, whole, rtol=1e-12)
    assert mapping(X[:0]).coordinates.shape == (0, whole.shape[1])


def test_preprocessing_goes_before_the_kernel(X):
    matrix, shift = np.diag([1.0, 2.0, 3.0, 4.0]), np.arange(4.0)
    mapping = a_map("gaussian", X)
    found = mapping.behind(matrix, shift)(X).coordinates
    assert_allclose(found, mapping(X @ matrix + shift).coordinates, atol=1e-9)


def test_rows_far_from_all_landmarks_are_named(X):
    rows = np.concatenate([X[:2], 1e3 + X[:3]])
    assert a_map("gaussian", X)(rows).far.tolist() == [False, False, True, True, True]
    assert not a_map("cosine", X)(rows).far.any()


def test_landmarks_are_distinct_rows_in_an_order_of_their_own(X, seed):
    rng = np.random.default_rng(seed)
    rows = np.concatenate([X, X[:10]])[rng.permutation(40)]
    landmarks, complete = landmarks_of(rows, None, np.random.RandomState(0))
    assert complete
    assert len(landmarks) == 30
    sample, complete = landmarks_of(rows, 12, np.random.RandomState(0))
    again, _ = landmarks_of(rows[::-1], 12, np.random.RandomState(0))
    assert not complete
    assert sample.shape == (12, 4)
    assert np.array_equal(sample, again)


def test_the_width_is_the_median_distance(X):
    rng = np.random.RandomState(0)
    above = np.triu_indices(30, 1)
    assert_allclose(median_width("gaussian", X, rng), np.median(cdist(X, X)[above]))
    assert_allclose(median_width("laplacian", X, rng), np.median(cdist(X, X, "cityblock")[above]))
    assert median_width("gaussian", X[:1], rng) == 1.0


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (lambda A, B: A @ B.T + A[:, :1], "not symmetric"),
        (lambda A, B: -(A @ B.T), "positive semidefinite"),
        (lambda A, B: np.zeros((len(A), len(B))), "is zero"),
        (lambda A, B: np.zeros(len(A)), "shape"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, fault, X):
    for n_components in (None, 2):
        with pytest.raises(ValueError, match=fault):
            decomposed(kernel_values(kernel, X, X, 1.0), n_components, is_definite=False)


def test_the_state_rebuilds_the_map_bit_for_bit(X):
    mapping = a_map("laplacian", X, 7)
    again = KernelMap.from_state(mapping.state())
    assert np.array_equal(again(X).coordinates, mapping(X).coordinates)
    with pytest.raises(FieldError, match=r"kernel\.width"):
        KernelMap.from_state({**mapping.state(), "width": -1.0}, "kernel")
    with pytest.raises(FieldError, match="shift"):
        KernelMap.from_state({**mapping.state(), "matrix": np.eye(4)}, "kernel")
    with pytest.raises(TypeError, match="function cannot be kept"):
        KernelMap(np.dot, 1.0, X, X).state()
