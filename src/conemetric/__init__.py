"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a certificate of optimality."""

from .estimators.frobmetric import FrobMetric, FrobMetricCV, frobmetric_path
from .estimators.numax import DeltaPath, NuMax, delta_path
from .persistence import LearnedMetric, load_metric, save_metric
from .solvers.frobenius_sdp import FrobeniusSDPResult, solve_frobenius_sdp

__all__ = [
    "DeltaPath",
    "FrobMetric",
    "FrobMetricCV",
    "FrobeniusSDPResult",
    "LearnedMetric",
    "NuMax",
    "delta_path",
    "frobmetric_path",
    "load_metric",
    "save_metric",
    "solve_frobenius_sdp",
]
__version__ = "0.1.0"
