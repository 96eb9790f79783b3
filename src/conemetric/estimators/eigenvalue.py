"""Base of the estimators DMLEig and LMNNEig (Ying & Li 2012)."""

from numbers import Real

from ..constraints.block_rows import is_dask
from ..core.sklearn_private import Interval
from ..core.warn import warn_user
from ..solvers.proximal_point import ProximalPoint
from .base import SOLVER_PARAMETERS
from .supervised import REFERENCE_PARAMETERS, TRIPLET_PARAMETERS, SupervisedMetric

__all__ = ["EigenvalueMetric"]


class EigenvalueMetric(SupervisedMetric):
    """Whitens X by the similar pairs, solves there, and maps the metric back."""

    _parameter_constraints: dict = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **TRIPLET_PARAMETERS,
        **REFERENCE_PARAMETERS,
        **SOLVER_PARAMETERS,
    }
    _meant_for: str
    _takes_dask = True
    _depends_on_scales = False  # X is whitened

    def _from_labels(self, X, y, neighbors, *args, **options):
        found = super()._from_labels(X, y, neighbors, *args, **options)
        # no setting was found that does no harm where classes overlap
        if neighbors is not None or found.labels is not None or is_dask(X):
            warn_user(
                f"{type(self).__name__} is meant for given {self._meant_for}; from labels it is "
                "often worse than the Euclidean distance where classes overlap. Prefer AutoMetric "
                "or FrobMetric there, or compare it with the Euclidean distance on held-out rows."
            )
        return found

    def _solve(self, problem, whitened):
        solver = ProximalPoint(tol=self.tol, max_iter=self.max_iter)
        return self._run(solver, problem, keep=self._keep(problem.operator.reference, whitened))
