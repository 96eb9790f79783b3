"""Mahalanobis metrics and near-isometric embeddings by convex optimisation, each with a
certificate of optimality.

Names are loaded when they are first used, so that the import itself takes no time.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.progress import watching as watching
    from .decisions.classifier import MetricClassifier as MetricClassifier
    from .decisions.regressor import MetricRegressor as MetricRegressor
    from .estimators.automatic import AutoMetric as AutoMetric
    from .estimators.boostmetric import BoostMetric as BoostMetric
    from .estimators.dml_eig import DMLEig as DMLEig
    from .estimators.frobmetric import FrobMetric as FrobMetric
    from .estimators.frobmetric_cv import FrobMetricCV as FrobMetricCV
    from .estimators.frobmetric_cv import frobmetric_path as frobmetric_path
    from .estimators.gradient_metric import GradientMetric as GradientMetric
    from .estimators.lmnn_eig import LMNNEig as LMNNEig
    from .estimators.matrix_factorization import (
        MaxMarginMatrixFactorization as MaxMarginMatrixFactorization,
    )
    from .estimators.maximum_variance_unfolding import (
        MaximumVarianceUnfolding as MaximumVarianceUnfolding,
    )
    from .estimators.numax import NuMax as NuMax
    from .estimators.numax import numax_path as numax_path
    from .estimators.relative_comparisons import RelativeComparisons as RelativeComparisons
    from .estimators.semidefinite import FrobeniusSDPResult as FrobeniusSDPResult
    from .estimators.semidefinite import solve_frobenius_sdp as solve_frobenius_sdp
    from .estimators.warnings import CollapsedMetricWarning as CollapsedMetricWarning
    from .estimators.warnings import ScaleWarning as ScaleWarning
    from .ranking.adapter import QueryAdapter as QueryAdapter
    from .ranking.adapter import RelevanceMetric as RelevanceMetric
    from .ranking.cutoff import calibrate_cutoff as calibrate_cutoff
    from .ranking.fusion import fuse as fuse
    from .solvers.base import Certificate as Certificate
    from .solvers.base import Status as Status
    from .storage import LearnedAdapter as LearnedAdapter
    from .storage import LearnedMetric as LearnedMetric
    from .storage import blend as blend
    from .storage import load_decision as load_decision
    from .storage import load_metric as load_metric
    from .storage import save_decision as save_decision
    from .storage import save_metric as save_metric
    from .tables import TableEncoder as TableEncoder

_HOME = {  # of each public name, the module that defines it
    "AutoMetric": "estimators.automatic",
    "BoostMetric": "estimators.boostmetric",
    "Certificate": "solvers.base",
    "DMLEig": "estimators.dml_eig",
    "FrobMetric": "estimators.frobmetric",
    "FrobMetricCV": "estimators.frobmetric_cv",
    "FrobeniusSDPResult": "estimators.semidefinite",
    "GradientMetric": "estimators.gradient_metric",
    "LMNNEig": "estimators.lmnn_eig",
    "LearnedAdapter": "storage",
    "LearnedMetric": "storage",
    "MaxMarginMatrixFactorization": "estimators.matrix_factorization",
    "MaximumVarianceUnfolding": "estimators.maximum_variance_unfolding",
    "MetricClassifier": "decisions.classifier",
    "MetricRegressor": "decisions.regressor",
    "NuMax": "estimators.numax",
    "QueryAdapter": "ranking.adapter",
    "RelativeComparisons": "estimators.relative_comparisons",
    "RelevanceMetric": "ranking.adapter",
    "ScaleWarning": "estimators.warnings",
    "Status": "solvers.base",
    "TableEncoder": "tables",
    "CollapsedMetricWarning": "estimators.warnings",
    "blend": "storage",
    "calibrate_cutoff": "ranking.cutoff",
    "frobmetric_path": "estimators.frobmetric_cv",
    "fuse": "ranking.fusion",
    "load_decision": "storage",
    "load_metric": "storage",
    "numax_path": "estimators.numax",
    "save_decision": "storage",
    "save_metric": "storage",
    "solve_frobenius_sdp": "estimators.semidefinite",
    "watching": "core.progress",
}
__all__ = sorted(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value  # found at once the next time
        return value
    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
