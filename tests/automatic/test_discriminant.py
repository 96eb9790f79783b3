"""Pooled discriminant directions have unit variance within classes, even with few rows."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.covariance import ledoit_wolf
from sklearn.utils.estimator_checks import parametrize_with_checks

from conemetric.automatic.automatic import PooledDiscriminant


@parametrize_with_checks([PooledDiscriminant()])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("n_classes", "n_per_class", "n_features"), [(3, 30, 5), (9, 2, 40)])
def test_directions_solve_the_generalised_eigenproblem(n_classes, n_per_class, n_features, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n_per_class)
    X = (rng.normal(size=(n_classes, n_features))[y] + rng.normal(size=(len(y), n_features))) * 3
    V = PooledDiscriminant().fit(X, y).components_
    assert V.shape == (min(n_classes - 1, n_features), n_features)
    means = np.stack([X[y == c].mean(axis=0) for c in range(n_classes)])
    units = (X - means[y]).std(axis=0)
    within = ledoit_wolf((X - means[y]) / units, assume_centered=True)[0] * np.outer(units, units)
    between = np.cov(means.T, bias=True)
    np.testing.assert_allclose(V @ within @ V.T, np.eye(len(V)), atol=1e-8)
    values = eigh(between, within, eigvals_only=True)[::-1][: len(V)]
    np.testing.assert_allclose(np.diag(V @ between @ V.T), values, rtol=1e-6)
