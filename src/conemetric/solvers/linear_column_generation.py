"""Column generation on BoostMetric's hinge program, one linear program per iteration (Shen et al. 2012, eqs. 9 and 10).

    restricted   max rho - v sum xi  s.t.  sum_j w_j H_j >= rho - xi,  sum w = 1,  w, xi >= 0     (problems.boosting_hinge)
    bound        optimum <= lambda_max(A*(u)) for the multipliers u of any iteration, the best of them kept
    columns      every eigenvector of A*(u) above the restricted optimum, at the LP's multipliers and half-way from them to the best
                 ones so far: the LP's own are vertices and jump about, the mid-point steadies them

Columns without weight in the last `PATIENCE` iterations are dropped. Stops when (P - D) / max(|P|, |D|) <= tol, with P = -(value of
the metric) and D = -min lambda_max.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import like, to_numpy
from .base import Iterate, Solver
from .column_generation import Ensemble

PATIENCE = 10


@dataclass(frozen=True)
class LinearColumnGeneration(Solver):
    """Cutting planes for `BoostingHinge`; ``start`` is an empty `Ensemble`, which is filled in place."""

    requires: ClassVar[tuple[str, ...]] = ("operator", "start", "value", "restricted")

    def _steps(self, problem, start):
        operator = problem.operator
        ensemble = Ensemble(operator) if start is None else start
        u = best = problem.start()
        bound, ceiling = -np.inf, -np.inf  # D at the best multipliers, and the restricted optimum above it
        numbers, idle, H = np.zeros(0, int), np.zeros(0, int), np.zeros((0, operator.n_constraints))
        while True:
            directions = []
            for point in (u, 0.5 * (u + best)) if len(numbers) else (u,):
                values, vectors = operator.xp.linalg.eigh(operator.adjoint(point))
                if -float(values[-1]) > bound:
                    bound, best = -float(values[-1]), point
                above = to_numpy(values) > -ceiling if len(numbers) else np.arange(len(values)) == len(values) - 1
                directions += list(vectors[:, like(np.flatnonzero(above), values, operator.xp.int64)].T)
            if len(numbers):
                primal = problem.value(like(weights, u) @ like(H[used], u))
                yield Iterate(primal, bound, ensemble.factor(), best, extra={"learners": len(used), "columns": len(H)})
            if not directions:
                return
            keep = idle < PATIENCE
            fresh = np.array([to_numpy(operator.forward_factor(z[:, None])) for z in directions])
            H = np.concatenate([H[keep], fresh])
            numbers = np.append(numbers[keep], [ensemble.learn(z) for z in directions])
            weights, u, ceiling = problem.restricted(H)
            u = like(u, best)
            idle = np.where(weights > 0, 0, np.append(idle[keep], np.zeros(len(fresh), int)) + 1)
            used = np.flatnonzero(weights)
            weights = weights[used]
            ensemble.use(numbers[used], weights)
