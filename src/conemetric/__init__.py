"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a certificate of optimality."""

from .estimators.frobmetric import FrobMetric

__all__ = ["FrobMetric"]
__version__ = "0.1.0"
