"""Isometry constants and distortions against brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

from conemetric import NuMax
from conemetric.papers.numax.measures import distortions, isometry_constant


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(30, 8)) * 1.6 ** -np.arange(8)


def test_constant_is_the_extreme_of_all_distortions(X, asarray):
    for embedding in (PCA(3).fit(X), GaussianRandomProjection(3, random_state=0).fit(X)):
        ratio = pdist(X @ embedding.components_.T, "sqeuclidean") / pdist(X, "sqeuclidean")
        constant = isometry_constant(embedding, asarray(X))
        assert_allclose(
            [constant.smallest, constant.largest], [ratio.min(), ratio.max()], rtol=1e-8
        )
        assert_allclose(np.sort(distortions(embedding, asarray(X))), np.sort(ratio), rtol=1e-8)
        assert_allclose(constant.worst, abs(ratio - 1).max(), rtol=1e-8)


def test_numax_keeps_its_promise_on_every_pair(X):
    embedding = NuMax(0.3).fit(X)
    assert isometry_constant(embedding, X).worst <= 0.3 * (1 + 1e-3)
    rank = len(embedding.components_)
    assert rank < X.shape[1]
    random = GaussianRandomProjection(rank, random_state=0).fit(X)
    assert isometry_constant(random, X).worst > 0.3


def test_an_isometry_has_constant_zero(X):
    assert isometry_constant(PCA(8).fit(X), X).worst < 1e-8


def test_listed_pairs(X):
    embedding = PCA(2).fit(X)
    d = X[3] - X[7]
    expected = ((embedding.components_ @ d) ** 2).sum() / (d @ d)
    assert_allclose(distortions(embedding, X, [[3, 7]]), [expected])


@pytest.mark.parametrize(
    ("points", "pairs", "message"),
    [
        (np.ones((5, 8)), None, "coincide"),
        (np.ones((5, 8)), [[0, 1]], "coincide"),
        (np.ones((1, 8)), None, "minimum of 2"),
        (np.full((5, 8), np.nan), None, "contains NaN"),
        (np.ones((5, 3)), None, "X has 3 features, but the embedding takes 8"),
        (np.eye(8), [[0, 8]], "out of range"),
    ],
)
def test_what_has_no_distances_is_refused(X, points, pairs, message):
    with pytest.raises(ValueError, match=message):
        distortions(PCA(2).fit(X), points, pairs)


def test_lists_do(X):
    embedding = PCA(2).fit(X)
    assert isometry_constant(embedding, X.tolist()) == isometry_constant(embedding, X)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_an_embedding_in_other_units_has_its_constants_in_those(X, scale):
    embedding = GaussianRandomProjection(3, random_state=0).fit(X)
    expected = isometry_constant(embedding, X)
    embedding.components_ = scale * embedding.components_
    found = isometry_constant(embedding, X)
    assert_allclose(
        [found.smallest, found.largest],
        [scale**2 * expected.smallest, scale**2 * expected.largest],
        rtol=1e-8,
    )
