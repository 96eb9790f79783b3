"""The metric M0 that a fit is pulled towards: none, the Euclidean distance, a matrix, or a
metric learned before.
"""

from typing import Any

import numpy as np

from ..core.arrays import as_array, float64, like, namespace
from ..core.sklearn_private import HasMethods, StrOptions

PRIOR_PARAMETERS = {
    "prior": [StrOptions({"identity"}), "array-like", HasMethods(["get_mahalanobis_matrix"]), None]
}
# Asymmetry and negative eigenvalues allowed, relative to the largest entry and per feature:
# a metric learned in float32, multiplied out, stays below it.
ROUNDING = 1e-6


def prior_matrix(prior: Any, reference: Any, n_features: int, mean_square: float) -> Any:
    """M0 for the parameter ``prior``, in the library, dtype and on the device of
    ``reference``; None for None.

    "identity" is I / ``mean_square``, the mean squared Euclidean distance of the impostor
    pairs, so that these are one apart on average.
    """
    if prior is None:
        return None
    if isinstance(prior, str):
        return like(np.eye(n_features) / mean_square, reference)
    if hasattr(prior, "get_mahalanobis_matrix"):
        prior = prior.get_mahalanobis_matrix()
    M = as_array(prior)
    if tuple(M.shape) != (n_features, n_features):
        raise ValueError(
            f"prior has shape {tuple(M.shape)}; for {n_features} features pass a metric or a "
            f"matrix of shape ({n_features}, {n_features})."
        )
    M = float64(M)
    rounding = ROUNDING * n_features * float(abs(M).max())
    if not float(abs(M - M.T).max()) <= rounding:  # also for NaN
        raise ValueError("prior is not symmetric and finite; pass (prior + prior.T) / 2.")
    M = (M + M.T) / 2
    least = float(namespace(M).linalg.eigvalsh(M)[0])
    if least < -rounding:
        raise ValueError(f"prior has the eigenvalue {least:.3g}; pass a positive semidefinite one.")
    return like(M, reference)
