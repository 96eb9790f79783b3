"""Learned metrics without their estimators, and the files that hold metrics and decisions."""

from .blending import blend
from .checked import MetricFileError, atomic_path, certificate_values
from .files import load_decision, load_metric, save_decision, save_metric
from .learned import LearnedAdapter, LearnedMap, LearnedMetric

__all__ = [
    "LearnedAdapter",
    "LearnedMap",
    "LearnedMetric",
    "MetricFileError",
    "atomic_path",
    "blend",
    "certificate_values",
    "load_decision",
    "load_metric",
    "save_decision",
    "save_metric",
]
