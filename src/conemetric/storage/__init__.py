"""Learned metrics without their estimators, and the files that hold metrics and decisions."""

from .blending import blend as blend
from .checked import MetricFileError as MetricFileError
from .checked import atomic_path as atomic_path
from .checked import certificate_values as certificate_values
from .files import load_decision as load_decision
from .files import load_metric as load_metric
from .files import save_decision as save_decision
from .files import save_metric as save_metric
from .learned import LearnedAdapter as LearnedAdapter
from .learned import LearnedMap as LearnedMap
from .learned import LearnedMetric as LearnedMetric
