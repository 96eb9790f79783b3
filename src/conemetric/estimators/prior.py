"""The metric that a fit starts from and is pulled back to: nothing, the plain distance,
a matrix, or a metric learned before.
"""

from typing import Any

import numpy as np

from ..core.arrays import as_array, float64, like, namespace
from ..core.sklearn_private import HasMethods, StrOptions

PRIOR_PARAMETERS = {
    "prior": [
        StrOptions({"identity"}),
        "array-like",
        HasMethods(["get_mahalanobis_matrix"]),
        None,
    ]
}


def prior_matrix(prior: Any, reference: Any, n_features: int, mean_square: float) -> Any:
    """M0 for the parameter ``prior``, in the library, dtype and on the device of
    ``reference``; None for None.

    Parameters
    ----------
    prior : None, "identity", array-like (D, D), or fitted metric
    reference : array
    n_features : int
        D.
    mean_square : float
        s^2, the mean squared Euclidean distance of the impostor pairs: "identity" is I /
        s^2, so that they are one apart on average.

    Raises
    ------
    ValueError
        When the matrix has another shape, or is not symmetric positive semidefinite.
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
            f"prior has shape {tuple(M.shape)}; for {n_features} features give a metric or a "
            f"matrix of shape ({n_features}, {n_features})."
        )
    M, xp = float64(M), namespace(M)
    size, rounding = float(abs(M).max()), n_features * 1e-6  # a float32 metric passes
    if not float(abs(M - M.T).max()) <= rounding * size:  # also for NaN
        raise ValueError("prior is not symmetric and finite; give (prior + prior.T) / 2.")
    M = (M + M.T) / 2
    least = float(xp.linalg.eigvalsh(M)[0])
    if least < -rounding * size:
        raise ValueError(
            f"prior has the eigenvalue {least:.3g}, so it is no metric; give a positive "
            "semidefinite matrix."
        )
    return like(M, reference)
