"""Linear discriminant analysis with one shrunk covariance for all classes.

scikit-learn shrinks the covariance of each class separately, which has no effect on a class of
two rows: with few rows of many classes the sum is singular or nearly so. It also stores a matrix
over all features per class. Here the rows, each centred on the mean of its class, are pooled
first (Ledoit and Wolf, 2004).
"""

from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.covariance import ledoit_wolf
from sklearn.utils.validation import check_is_fitted, validate_data


class PooledDiscriminant(TransformerMixin, BaseEstimator):
    """The directions in which class means differ, at most one fewer than there are classes,
    scaled to unit variance within classes.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the directions from rows and their class labels."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        _, of_class, size = np.unique(y, return_inverse=True, return_counts=True)
        means = np.stack([X[of_class == c].mean(axis=0) for c in range(len(size))])
        within = X - means[of_class]
        units = within.std(axis=0)
        units[units == 0] = 1
        covariance, _ = ledoit_wolf(within / units, assume_centered=True)
        root = cholesky(covariance, lower=True)
        between = (size / len(X))[:, None] ** 0.5 * (means - X.mean(axis=0)) / units
        U, _, _ = np.linalg.svd(solve_triangular(root, between.T, lower=True), full_matrices=False)
        directions = solve_triangular(root, U[:, : len(size) - 1], lower=True, trans="T")
        self.components_ = directions.T / units
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The rows along the directions."""
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.components_.T
