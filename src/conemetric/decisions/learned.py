"""A metric learned without each fold of the rows, and from all of them."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState

from ..automatic.folds import CrossFitted, Fold, fitted_with_map
from ..core.arrays import Array, take, to_numpy
from ..estimators.base import MahalanobisMetric
from .held_out import Map


class LearnedMetric(NamedTuple):
    """A metric learned without each fold of the rows, and from all rows."""

    in_folds: CrossFitted
    estimator: Any = None  # fitted to all rows; None where only the Euclidean distance is tried
    L: Map = None  # its map

    def numbered(self, rows: np.ndarray) -> Self:
        """The same, of folds that number all rows instead of these ``rows`` among them."""
        folds = [Fold(rows[fold.train], rows[fold.held_out]) for fold in self.in_folds.folds]
        return self._replace(in_folds=CrossFitted(folds, self.in_folds.maps))


def learn_in_folds(
    metric: Any, X: Array, y: np.ndarray, folds: list[Fold], rng: RandomState, *, target: str
) -> LearnedMetric:
    """Fit the metric without each fold and to all rows; None learns nothing. ``target`` says what y is to
    a metric that asks.
    """
    if metric is None:
        return LearnedMetric(CrossFitted(folds, []))
    seed = rng.randint(2**31 - 1)
    if not isinstance(metric, MahalanobisMetric):  # others may not take tensors
        X = to_numpy(X)
    maps = []
    for fold in folds:
        L_of_fold, _ = fitted_with_map(metric, take(X, fold.train), y[fold.train], seed, target)
        maps.append(L_of_fold)
    L, estimator = fitted_with_map(metric, X, y, seed, target)
    return LearnedMetric(CrossFitted(folds, maps), estimator, L)


def check_metric(metric: Any) -> None:
    """Refuse a metric that is not "auto", None or an estimator that can transform."""
    if metric is None or (isinstance(metric, str) and metric == "auto"):
        return
    is_estimator = hasattr(metric, "fit") and hasattr(metric, "transform")
    if isinstance(metric, type) or not is_estimator:
        raise TypeError(
            f"metric={metric!r} is not an estimator with fit and transform; pass 'auto', None or "
            "an unfitted estimator of a linear map, such as FrobMetric()."
        )
