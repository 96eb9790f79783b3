"""The public names, for type checkers and for `__getattr__` of the package."""

from .automatic.automatic import AutoMetric as AutoMetric
from .core.progress import watching as watching
from .decisions.classifier import MetricClassifier as MetricClassifier
from .decisions.regressor import MetricRegressor as MetricRegressor
from .engine.certificate import Certificate as Certificate
from .engine.certificate import Status as Status
from .estimators.checks import expected_failed_checks as expected_failed_checks
from .estimators.fit_warnings import CollapsedMetricWarning as CollapsedMetricWarning
from .estimators.fit_warnings import ScaleWarning as ScaleWarning
from .estimators.kernel_coordinates import KernelCoordinates as KernelCoordinates
from .papers.boostmetric.boostmetric import BoostMetric as BoostMetric
from .papers.eigenvalue.dml_eig import DMLEig as DMLEig
from .papers.eigenvalue.lmnn_eig import LMNNEig as LMNNEig
from .papers.eigenvalue.matrix_factorization import (
    MaxMarginMatrixFactorization as MaxMarginMatrixFactorization,
)
from .papers.frobmetric.frobmetric import FrobMetric as FrobMetric
from .papers.frobmetric.frobmetric_cv import FrobMetricCV as FrobMetricCV
from .papers.frobmetric.frobmetric_cv import frobmetric_path as frobmetric_path
from .papers.frobmetric.semidefinite import FrobeniusSDPResult as FrobeniusSDPResult
from .papers.frobmetric.semidefinite import solve_frobenius_sdp as solve_frobenius_sdp
from .papers.gradients.gradient_metric import GradientMetric as GradientMetric
from .papers.numax.numax import NuMax as NuMax
from .papers.numax.numax import numax_path as numax_path
from .papers.relative_comparisons.relative_comparisons import (
    RelativeComparisons as RelativeComparisons,
)
from .papers.unfolding.maximum_variance_unfolding import (
    MaximumVarianceUnfolding as MaximumVarianceUnfolding,
)
from .ranking.adapter import QueryAdapter as QueryAdapter
from .ranking.adapter import RelevanceMetric as RelevanceMetric
from .ranking.cutoff import calibrate_cutoff as calibrate_cutoff
from .ranking.fusion import fuse as fuse
from .storage import LearnedAdapter as LearnedAdapter
from .storage import LearnedMetric as LearnedMetric
from .storage import blend as blend
from .storage import load_decision as load_decision
from .storage import load_metric as load_metric
from .storage import save_decision as save_decision
from .storage import save_metric as save_metric
from .tables import TableEncoder as TableEncoder

__version__: str
