"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a certificate of optimality."""

from .estimators.frobmetric import FrobMetric
from .estimators.maximum_variance_unfolding import MaximumVarianceUnfolding
from .solvers.frobenius_sdp import FrobeniusSDPResult, solve_frobenius_sdp

__all__ = ["FrobMetric", "FrobeniusSDPResult", "MaximumVarianceUnfolding", "solve_frobenius_sdp"]
__version__ = "0.1.0"
