"""Learned metrics without their estimators, and the files that hold them."""

from .atomic import atomic_path
from .blending import blend
from .files import MetricFileError, load_metric, save_metric
from .learned import LearnedMetric, certificate_values

__all__ = [
    "LearnedMetric",
    "MetricFileError",
    "atomic_path",
    "blend",
    "certificate_values",
    "load_metric",
    "save_metric",
]
