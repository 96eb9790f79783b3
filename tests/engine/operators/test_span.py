"""Coordinates in the span of the rows: nothing is lost, nothing is kept that is not there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from conemetric.core.arrays import to_numpy
from conemetric.engine.operators.span import centred_in_span, in_span


def basis(span, asarray):
    return to_numpy(span.lift(asarray(np.eye(span.points.shape[1]))))


@pytest.mark.parametrize(
    ("n", "scales", "rank"),
    [
        (20, [1, 1, 0, 0], 2),
        (20, [1, 1e-6, 0, 1e-6], 3),  # too small for a Gram matrix to tell from nothing
        (400, [1, 0, 0, 1e-9, 1, 0], 3),
        (4, [1, 1, 1, 1, 1, 1], 3),
        (6, [1, 1, 1, 1, 1, 1], 5),
        (5, [1, 0, 0, 1e-5, 0, 0], 2),
        (4, [0, 0, 0, 0, 0, 0], 1),  # all rows coincide: one direction, in which they still do
    ],
)
def test_holds_every_difference_and_no_more(n, scales, rank, asarray, dtype, eps):
    rng = np.random.default_rng(0)
    D = len(scales)
    turned = dtype == np.float64  # single precision would leave rounding in every direction
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0] if turned else np.eye(D)
    X = ((rng.normal(size=(n, D)) * scales) @ rotation).astype(dtype)
    span = in_span(asarray(X))
    assert to_numpy(span.points).dtype == np.float64  # rounding them would change what is certified
    assert span.points.shape == (n, rank)
    Q = basis(span, asarray)
    assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-12)
    points = to_numpy(span.points)
    assert_allclose((points - points[0]) @ Q.T, X.astype(float) - X[0], atol=eps)


def test_small_directions_keep_their_digits(asarray):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(50, 50)))[0]
    X = rng.normal(size=(8, 50)) * np.geomspace(1, 1e-10, 50) @ Q
    d = X[2] - X[3]
    span = in_span(asarray(X))
    z = to_numpy(span.points[2] - span.points[3])
    assert z @ z == pytest.approx(d @ d, rel=1e-14)


@pytest.mark.parametrize("n", [40, 4000])
def test_full_rank_leaves_the_rows_as_they_are(n, asarray, dtype):
    X = np.random.default_rng(0).normal(size=(n, 12)).astype(dtype)
    X[:, 7] = 3.0  # one constant feature of twelve does not pay for a change of basis
    X = asarray(X)
    assert in_span(X).points is X
    assert in_span(X).maps == ()
    assert in_span(X, at_most=1.0).points.shape == (n, 11)


def test_rows_that_show_the_rank_need_not_be_the_first_ones(asarray):
    X = np.zeros((600, 6))
    X[5:11] = np.eye(6)
    assert in_span(asarray(X)).maps == ()


def test_centred_rows_in_double_precision(asarray):
    Z = np.random.default_rng(0).normal(size=(5, 30))
    Z -= Z.mean(0)
    span = centred_in_span(asarray(Z.copy()))
    assert_allclose(to_numpy(span.points) @ basis(span, asarray).T, Z, atol=1e-13)
