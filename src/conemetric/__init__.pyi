"""The public names, for type checkers and for `__getattr__` of the package."""

from .core.progress import watching as watching
from .decisions.classifier import MetricClassifier as MetricClassifier
from .decisions.regressor import MetricRegressor as MetricRegressor
from .estimators.automatic import AutoMetric as AutoMetric
from .estimators.boostmetric import BoostMetric as BoostMetric
from .estimators.checks import expected_failed_checks as expected_failed_checks
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

__version__: str
