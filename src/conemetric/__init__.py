"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a certificate of optimality."""

from .estimators.dml_eig import DMLEig, LMNNEig
from .estimators.frobmetric import FrobMetric, FrobMetricCV, frobmetric_path
from .estimators.matrix_factorization import MaxMarginMatrixFactorization
from .persistence import LearnedMetric, load_metric, save_metric
from .solvers.frobenius_sdp import FrobeniusSDPResult, solve_frobenius_sdp

__all__ = [
    "DMLEig",
    "FrobMetric",
    "FrobMetricCV",
    "FrobeniusSDPResult",
    "LMNNEig",
    "LearnedMetric",
    "MaxMarginMatrixFactorization",
    "frobmetric_path",
    "load_metric",
    "save_metric",
    "solve_frobenius_sdp",
]
__version__ = "0.1.0"
