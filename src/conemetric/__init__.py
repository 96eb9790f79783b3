"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a
certificate of optimality.
"""

from .core.progress import watching
from .estimators.automatic import AutoMetric
from .estimators.base import UselessMetricWarning
from .estimators.boostmetric import BoostMetric
from .estimators.dml_eig import DMLEig
from .estimators.frobmetric import FrobMetric
from .estimators.frobmetric_cv import FrobMetricCV, frobmetric_path
from .estimators.lmnn_eig import LMNNEig
from .estimators.matrix_factorization import MaxMarginMatrixFactorization
from .estimators.maximum_variance_unfolding import MaximumVarianceUnfolding
from .estimators.numax import NuMax, numax_path
from .estimators.relative_comparisons import RelativeComparisons
from .estimators.semidefinite import FrobeniusSDPResult, solve_frobenius_sdp
from .ranking.adapter import QueryAdapter
from .ranking.metric import RelevanceMetric
from .solvers.base import Certificate, Status
from .storage import LearnedMetric, blend, load_metric, save_metric

__all__ = [
    "AutoMetric",
    "BoostMetric",
    "Certificate",
    "DMLEig",
    "FrobMetric",
    "FrobMetricCV",
    "FrobeniusSDPResult",
    "LMNNEig",
    "LearnedMetric",
    "MaxMarginMatrixFactorization",
    "MaximumVarianceUnfolding",
    "NuMax",
    "QueryAdapter",
    "RelativeComparisons",
    "RelevanceMetric",
    "Status",
    "UselessMetricWarning",
    "blend",
    "frobmetric_path",
    "load_metric",
    "numax_path",
    "save_metric",
    "solve_frobenius_sdp",
    "watching",
]
__version__ = "0.1.0"
