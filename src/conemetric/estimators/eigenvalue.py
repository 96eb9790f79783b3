"""Base of the estimators DMLEig and LMNNEig (Ying & Li 2012)."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar

from ..constraints.block_rows import is_dask
from ..core.sklearn_private import Interval
from ..core.warn import warn_user
from ..solvers.proximal_point import ProximalPoint
from .supervised import SupervisedMetric


@dataclass(eq=False, repr=False)
class EigenvalueMetric(SupervisedMetric):
    """Whitens X by the similar pairs, solves there, and maps the metric back."""

    _: KW_ONLY
    ridge: float = 1e-8

    _parameter_constraints = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **SupervisedMetric._parameter_constraints,
    }
    _meant_for: ClassVar[str]
    _takes_dask = True
    _depends_on_scales = False  # X is whitened

    def _from_labels(self, given):
        found = super()._from_labels(given)
        # no setting was found that does no harm where classes overlap
        if given.neighbors is not None or found.labels is not None or is_dask(given.X):
            warn_user(
                f"{type(self).__name__} is meant for given {self._meant_for}; from labels it is "
                "often worse than the Euclidean distance where classes overlap. Prefer AutoMetric "
                "or FrobMetric there, or compare it with the Euclidean distance on held-out rows."
            )
        return found

    def _solve(self, problem, whitened):
        solver = ProximalPoint(tol=self.tol, max_iter=self.max_iter)
        return self._run(solver, problem, keep=self._keep(problem.operator.reference, whitened))
