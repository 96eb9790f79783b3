"""Base of the estimators DMLEig and LMNNEig (Ying & Li 2012)."""

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..core.arrays import float64, like
from ..core.sklearn_private import Interval
from ..core.vectors import same
from ..core.warn import warn_user
from ..operators.span import Coordinates, Matrix
from ..operators.whitening import (
    amount,
    ridge_of_spread,
    scatter,
    similar_scatter,
    whiten,
    whitening,
)
from ..solvers.proximal_point import ProximalPoint
from .base import SOLVER_PARAMETERS
from .supervised import REFERENCE_PARAMETERS, TRIPLET_PARAMETERS, SupervisedMetric


class EigenvalueMetric(SupervisedMetric):
    """Whitens X by the similar pairs, solves there, and maps the metric back."""

    _parameter_constraints: dict = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **TRIPLET_PARAMETERS,
        **REFERENCE_PARAMETERS,
        **SOLVER_PARAMETERS,
    }
    _meant_for: str

    def _from_labels(self, *args, **options):
        given = super()._from_labels(*args, **options)
        if given.labels is not None:
            self._warn_of_labels()
        return given

    def _labels_in_blocks(self, *args, **options):
        found = super()._labels_in_blocks(*args, **options)
        self._warn_of_labels()
        return found

    def _warn_of_labels(self):
        # no setting was found that does no harm where classes overlap
        warn_user(
            f"{type(self).__name__} is meant for given {self._meant_for}; from labels it is often "
            "worse than the Euclidean distance where classes overlap. Prefer AutoMetric or "
            "FrobMetric there, or compare it with the Euclidean distance on held-out rows."
        )

    def _solve(self, problem, X, whitened):
        solver = ProximalPoint(tol=self.tol, max_iter=self.max_iter)
        return self._run(solver, problem, keep=self._keep(X, whitened))

    def _whiten(self, X, similar_pairs, weights):
        """Coordinates in which the scatter of the similar pairs is the identity; stores that
        scatter unless it is larger than X.
        """
        wide = X.shape[1] > X.shape[0]
        arguments = (X, similar_pairs, self.ridge, weights)
        self.similar_scatter_ = None if wide else similar_scatter(*arguments)
        return whiten(*arguments)

    def _whiten_blocks(self, found, similar_of):
        """As `_whiten`, of a sample of the points; ``similar_of`` finds the similar pairs of a
        block and their weights.
        """
        rows, space = found.rows, found.space
        pairs = space.passing(similar_of, found.index, found.similar, found.weights)
        total, n_pairs = space.sum(same, replace(found, index=pairs).over(_scatter, keep=False))
        if not n_pairs:
            raise ValueError("there are no similar pairs; give some.")
        ridge = ridge_of_spread(rows.spread, n_pairs, self.ridge)
        self.similar_scatter_ = total + np.diag(ridge)
        scale = ridge[:, None] ** 0.5
        T = whitening(total / scale / scale.T).matrix / scale
        return Coordinates((rows.sample - rows.mean) @ T, (Matrix(T),))

    def _operator(self, found, function, whitened):
        """The operator over whitened points, in float64; kept if it is solved in float64."""
        T, mean = whitened.maps[0].matrix, found.rows.mean
        keep = found.rows.dtype == np.float64
        return found.operator(function, dtype=np.float64, keep=keep, T=T, mean=mean)


# ---- functions of one block


def _scatter(points, weighed_pairs, similar):
    """Scatter of the similar pairs of a block, in float64, and their total weight."""
    pairs, weights = weighed_pairs
    if not len(pairs):
        return np.zeros((points.shape[1], points.shape[1])), 0
    return scatter(float64(points), pairs, weights), amount(pairs, weights)


def whitened_points(points: Any, T: Any, mean: Any) -> Any:
    """Points in the coordinates of `EigenvalueMetric._whiten_blocks`."""
    points = float64(points)
    return (points - like(mean, points)) @ like(T, points)
