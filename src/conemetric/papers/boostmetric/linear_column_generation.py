"""Column generation on BoostMetric's hinge program, one linear program per iteration (Shen et al.
2012, eqs. 9 and 10).

    restricted   max rho - v sum xi  s.t.  sum_j w_j H_j >= rho - xi,  sum w = 1,  w, xi >= 0     (papers.boostmetric.soft_margin)
    bound        optimum <= lambda_max(A*(u)) for the multipliers u of any iteration, the best of them kept
    columns      every eigenvector of A*(u) above the restricted optimum, at the LP's multipliers and half-way to the
                 best ones so far: the LP's own are vertices and jump about, the mid-point steadies them

Columns without weight in the last `PATIENCE` iterations are dropped. Stops when (P - D) / max(|P|,
|D|) <= tol, with P = -(value of the metric) and D = -min lambda_max, or when the gap no longer
falls, because linear programs are solved to an accuracy relative to the largest margins.
"""

from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array, Arrays, like, to_numpy
from ...engine.operators.base import Operator
from ...engine.solver import Iterate, Solver, Steps
from .ensemble import Ensemble
from .soft_margin import SoftMarginProgram

PATIENCE = 10  # iterations that a column without weight is kept: it may come back
STALL_WINDOW, STALL_RATIO = 20, 0.99  # iterations in which the gap must fall to this share


@dataclass(frozen=True)
class LinearColumnGeneration(Solver):
    """Cutting planes for `SoftMarginProgram`; the ``state`` of the result is the `Ensemble` found."""

    solves = SoftMarginProgram
    takes_start = False

    def steps(self, problem: SoftMarginProgram, start: None) -> Steps:
        operator = problem.operator
        ensemble = Ensemble(operator)
        first = (problem.start(),)
        directions, bound, best = self._separate(operator, first, np.inf, -np.inf, None)
        least, gaps = np.inf, []
        numbers, idle, H = np.zeros(0, int), np.zeros(0, int), np.zeros((0, operator.n_constraints))
        while directions:
            keep = idle < PATIENCE
            rows = [to_numpy(operator.forward_factor(z[:, None])) for z in directions]
            H = np.concatenate([H[keep], rows])
            numbers = np.append(numbers[keep], [ensemble.learn(z) for z in directions])
            idle = np.append(idle[keep], np.zeros(len(directions), int))
            solution = problem.restricted(H)
            if solution is None:
                if ensemble.n_stages:
                    return
                raise ValueError(
                    "HiGHS cannot solve the first linear program of the hinge loss; rescale X, or "
                    "use another loss."
                )
            weights, u, ceiling = solution
            idle = np.where(weights > 0, 0, idle + 1)
            used, u = np.flatnonzero(weights), like(u, best)
            ensemble.use(numbers[used], weights[used])
            points = u, 0.5 * (u + best)
            directions, bound, best = self._separate(operator, points, ceiling, bound, best)
            primal = problem.value(weights[used] @ H[used])
            extra = {"learners": len(used), "columns": len(H), "stage": ensemble.n_stages}
            yield Iterate(primal, bound, ensemble.factor(), best, extra=extra, state=ensemble)
            least = min(least, primal)
            gaps.append(least - bound)
            if len(gaps) > STALL_WINDOW and gaps[-1] > STALL_RATIO * gaps[-1 - STALL_WINDOW]:
                return  # what is left is below the accuracy of the linear programs

    def _separate(
        self, operator: Operator, points: Arrays, ceiling: float, bound: float, best: Array | None
    ) -> tuple[list[Array], float, Array]:
        """Eigenvectors of A*(u) above -``ceiling`` (or the leading one), best bound and its u."""
        directions = []
        for u in points:
            values, vectors = operator.xp.linalg.eigh(operator.adjoint(u))
            leading = float(values[-1])
            if -leading > bound:
                bound, best = -leading, u
            above = np.flatnonzero(to_numpy(values) > -ceiling)
            above = above if ceiling < np.inf else above[-1:]
            directions += list(vectors[:, like(above, values, operator.xp.int64)].T)
        return directions, bound, best
