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
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.arrays import Array, Arrays, like, to_numpy
from ...engine.operators.base import Operator
from ...engine.solver import Iterate, Solver, Steps
from .ensemble import Ensemble
from .soft_margin import SoftMarginProgram

PATIENCE = 10  # iterations that a column without weight is kept: it may come back
STALL_WINDOW = 20  # iterations in which the gap must fall
STALL_RATIO = 0.99  # to this share


@dataclass(frozen=True)
class LinearColumnGeneration(Solver):
    """Cutting planes for `SoftMarginProgram`; the ``state`` of the result is the `Ensemble` found."""

    solves = SoftMarginProgram
    takes_start = False

    def steps(self, problem: SoftMarginProgram, start: None) -> Steps:
        operator = problem.operator
        ensemble = Ensemble(operator)
        cuts = _separated(operator, (problem.start(),), np.inf, Cuts([], -np.inf, None))
        columns = Columns.none(operator.n_constraints)
        least = np.inf
        gaps: list[float] = []
        while cuts.directions:
            columns = columns.extended(operator, ensemble, cuts.directions)
            solution = problem.restricted(columns.margins)
            if solution is None:
                if ensemble.n_stages:
                    return
                raise ValueError(
                    "HiGHS cannot solve the first linear program of the hinge loss; rescale X, or "
                    "use another loss."
                )
            weights, u, ceiling = solution
            columns = columns.used_by(weights)
            used = np.flatnonzero(weights)
            ensemble.use(columns.numbers[used], weights[used])
            u = like(u, cuts.best)
            cuts = _separated(operator, (u, 0.5 * (u + cuts.best)), ceiling, cuts)
            primal = problem.value(weights[used] @ columns.margins[used])
            extra = {
                "learners": len(used),
                "columns": len(columns.margins),
                "stage": ensemble.n_stages,
            }
            yield Iterate(
                primal, cuts.bound, ensemble.factor(), cuts.best, extra=extra, state=ensemble
            )
            least = min(least, primal)
            gaps.append(least - cuts.bound)
            if len(gaps) > STALL_WINDOW and gaps[-1] > STALL_RATIO * gaps[-1 - STALL_WINDOW]:
                return  # what is left is below the accuracy of the linear programs


class Cuts(NamedTuple):
    """Directions to add, and the best bound so far with its multipliers."""

    directions: list[Array]
    bound: float
    best: Any


def _separated(operator: Operator, points: Arrays, ceiling: float, last: Cuts) -> Cuts:
    """Return the eigenvectors of A*(u) above -``ceiling`` (or the leading one) at each of the
    points u, and the best bound known after them.
    """
    directions: list[Array] = []
    bound = last.bound
    best = last.best
    for u in points:
        values, vectors = operator.xp.linalg.eigh(operator.adjoint(u))
        leading = float(values[-1])
        if -leading > bound:
            bound = -leading
            best = u
        above = np.flatnonzero(to_numpy(values) > -ceiling)
        if ceiling == np.inf:  # before the first linear program every eigenvector is above
            above = above[-1:]
        directions += list(vectors[:, like(above, values, operator.xp.int64)].T)
    return Cuts(directions, bound, best)


class Columns(NamedTuple):
    """The columns of the linear program: numbers of learners, iterations that each has had no
    weight, and their margins H, a row each.
    """

    numbers: np.ndarray
    idle: np.ndarray
    margins: np.ndarray

    @classmethod
    def none(cls, n_constraints: int) -> Self:
        return cls(np.zeros(0, int), np.zeros(0, int), np.zeros((0, n_constraints)))

    def extended(self, operator: Operator, ensemble: Ensemble, directions: list[Array]) -> Self:
        """Return the columns that were in use lately, and those of new directions."""
        keep = self.idle < PATIENCE
        rows = [to_numpy(operator.forward_factor(z[:, None])) for z in directions]
        new = [ensemble.learn(z) for z in directions]
        return self._replace(
            numbers=np.append(self.numbers[keep], new),
            idle=np.append(self.idle[keep], np.zeros(len(directions), int)),
            margins=np.concatenate([self.margins[keep], rows]),
        )

    def used_by(self, weights: np.ndarray) -> Self:
        """Return the columns after one more iteration, with these weights."""
        return self._replace(idle=np.where(weights > 0, 0, self.idle + 1))
