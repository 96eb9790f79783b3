"""Objectives computed anew from what a fitted estimator stores, in plain NumPy and
float64: what its certificate is held against.
"""

import numpy as np
from learners import NO_PROGRAM, check_complete
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    RelativeComparisons,
)
from conemetric.core.arrays import to_numpy


def squared_distances(estimator, X, a, b):
    """(C x_a - C x_b)^2 with C = components_, from differences of rows."""
    features = exact(estimator._features(X) if hasattr(estimator, "_features") else X)
    mapped = (features[a] - features[b]) @ exact(estimator.components_).T
    return (mapped * mapped).sum(axis=1)


def margins(estimator, X):
    i, j, k = to_numpy(estimator.triplets_).T
    return squared_distances(estimator, X, i, k) - squared_distances(estimator, X, i, j)


def exact(array):
    return to_numpy(array).astype(np.float64)


def recomputed_objective(estimator, X):
    """The value that ``certificate_.primal`` claims; X is what the estimator was fitted to."""
    return OBJECTIVES[type(estimator).__name__](estimator, X)


def frobenius(estimator, X):
    rho = margins(estimator, X)
    losses = {
        "hinge": np.maximum(0, 1 - rho),
        "squared_hinge": np.maximum(0, 1 - rho) ** 2 / 2,
        "logistic": np.logaddexp(0, -rho),
    }
    return 0.5 * squared_norm(estimator) + estimator.C_ * losses[estimator.loss].mean()


def squared_norm(estimator):
    L = exact(estimator.components_).T
    return float(((L.T @ L) ** 2).sum())


def trace(estimator):
    return float((exact(estimator.components_) ** 2).sum())


def boosted(estimator, X):
    rho = margins(estimator, X)
    if estimator.loss == "hinge":
        assert abs(trace(estimator) - 1) < 1e-5
        ordered = np.sort(rho)
        values = ordered - estimator.v_ * np.array([np.maximum(0, r - rho).sum() for r in ordered])
        return -values.max()
    loss = logsumexp(-rho) if estimator.loss == "exponential" else np.logaddexp(0, -rho).sum()
    return loss + estimator.v_ * trace(estimator)


def scatter_trace(estimator):
    C, S = exact(estimator.components_), exact(estimator.similar_scatter_)
    return float(np.trace(C @ S @ C.T))


def closest_dissimilar(estimator, X):
    assert scatter_trace(estimator) <= 1 + 1e-4
    a, b = to_numpy(estimator.pairs_)[~to_numpy(estimator.similar_)].T
    return -squared_distances(estimator, X, a, b).min()


def large_margin(estimator, X):
    loss = np.maximum(0, 1 - margins(estimator, X)).sum()
    return (1 - estimator.gamma) * loss + estimator.gamma * scatter_trace(estimator)


def comparisons(estimator, X):
    C = exact(estimator.components_)
    gram = np.eye(C.shape[1])
    if estimator.kernel_points_ is not None:
        points = exact(estimator.kernel_points_)
        gram = estimator.basis(points, points)
    norm = ((C @ gram @ C.T) ** 2).sum()
    return 0.5 * norm + estimator.C_ * np.maximum(0, 1 - margins(estimator, X)).sum()


def unfolded_variance(estimator, X):
    values = np.linalg.eigvalsh(exact(estimator.kernel_matrix()))
    return (values**2).sum() / (2 * estimator.sigma_) - values.sum()


def factorisation(estimator, Y):
    rows, columns = np.nonzero(~np.isnan(Y))
    U, V = estimator.row_factors_, estimator.column_factors_
    level = np.searchsorted(estimator.levels_, Y[rows, columns])
    values, loss = (U @ V.T)[rows, columns], 0.0
    for number, theta in enumerate(estimator.thresholds_):
        loss += np.maximum(0, 1 - np.where(level > number, 1, -1) * (values - theta)).sum()
    return loss + estimator.gamma * np.linalg.svd(U @ V.T, compute_uv=False).sum()


OBJECTIVES = {
    FrobMetric.__name__: frobenius,
    FrobMetricCV.__name__: frobenius,
    BoostMetric.__name__: boosted,
    DMLEig.__name__: closest_dissimilar,
    LMNNEig.__name__: large_margin,
    RelativeComparisons.__name__: comparisons,
    NuMax.__name__: lambda estimator, X: trace(estimator),
    MaximumVarianceUnfolding.__name__: unfolded_variance,
    MaxMarginMatrixFactorization.__name__: factorisation,
}
check_complete(OBJECTIVES, "labels", without=NO_PROGRAM)


def coordinates_by_scipy(metric, X):
    """The kernel's coordinates of rows, from what a metric stores, without the library's map."""
    stored = metric.kernel_coordinates_
    landmarks, projection = to_numpy(stored.landmarks_), to_numpy(stored._map.projection)
    if stored.kernel == "gaussian":
        values = np.exp(-cdist(X, landmarks, "sqeuclidean") / (2 * stored.width_**2))
    else:
        values = np.exp(-cdist(X, landmarks, "cityblock") / stored.width_)
    return values @ projection
