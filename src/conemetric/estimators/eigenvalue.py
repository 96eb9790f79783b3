"""What DML-eig and LMNN-eig share as estimators (Ying & Li 2012)."""

from numbers import Real

from ..core.sklearn_private import Interval
from ..core.warn import warn_user
from ..solvers.proximal_point import ProximalPoint
from .base import SOLVER_PARAMETERS
from .supervised import REFERENCE_PARAMETERS, TRIPLET_PARAMETERS, SupervisedMetric


class EigenvalueMetric(SupervisedMetric):
    """What DMLEig and LMNNEig share: whitening by the similar pairs, the solver, and the way
    back.
    """

    _parameter_constraints: dict = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **TRIPLET_PARAMETERS,
        **REFERENCE_PARAMETERS,
        **SOLVER_PARAMETERS,
    }
    _meant_for: str
    _takes_dask = True

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
        """What labels say is learned, but not without a word: no setting was found that does
        no harm where classes overlap.
        """
        warn_user(
            f"{type(self).__name__} is meant for {self._meant_for} that are given; from labels it "
            "is often worse than the plain distance where classes overlap. Prefer AutoMetric or "
            "FrobMetric there, or compare it with the plain distance on rows held out.",
            UserWarning,
        )

    def _solve(self, problem, whitened):
        solver = ProximalPoint(tol=self.tol, max_iter=self.max_iter)
        return self._run(solver, problem, keep=self._keep(problem.operator.reference, whitened))
