"""BoostMetric's column generation: one rank-one learner per iteration, with its own weight found
alone or all weights re-optimised.

    minimise P(M) = loss(A(M)) + v Tr M over M = sum_j w_j z_j z_j',  w >= 0,  |z_j| = 1     (papers.boostmetric.program)
    weak learner   z = leading eigenvector of A*(u),  u = -grad loss(A(M))                   [paper, eq. 24]
    stage-wise     w_J is the root of v - d loss/dw, all earlier weights stay                 [Algorithm 3, eqs. 21, 30]
    corrective     all weights by L-BFGS-B, from those before; zero weights are dropped       [Algorithm 4, Theorem 3.1]

The paper stops when lambda_max(A*(u)) <= v. Stage-wise that need not be the optimum, because
weights that turned out too large never shrink; so near that point (lambda_max < `CLOSE` v), while
the weights alone keep the gap above tol, a corrective step is taken instead. It holds the margins
of at most max(2D, 32) learners: more are replaced by the eigenvectors of M, the same metric.

For a sum of losses the dual value is D of u scaled until it is feasible. For the exponential
program it is the Frank-Wolfe bound once lambda_max(A*(u)) - v <= tol v, and minus infinity before;
both numbers are in the history, as ``frank_wolfe_gap`` and ``excess``.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from ...core import spectral
from ...core.arrays import Array
from ...core.vectors import magnitude
from ...engine.solver import SAVE_EVERY, Iterate, Solver, Steps
from .ensemble import Ensemble, LearnerMargins
from .program import MARGIN_LIMIT, TraceProgram

SLOPE_TOL = 1e-4  # share of the first slope at which a weight is found
# gap, in units of tol, below which the tighter bound is worth its logarithms: from 10 on iterations
# and times are the same on wine and iris, at 1 the logistic loss takes a fifth more
NEAR = 100.0
INNER_TOL = 0.1  # accuracy of corrective weights, relative to lambda_max - v
CLOSE = 10.0  # lambda_max / v below which weights are corrected if they keep the gap above tol
LONGEST = 8.0  # times the last weight, the next trial while the root is not bracketed


@dataclass(frozen=True)
class ColumnGeneration(Solver):
    """Boosting of rank-one metrics; ``start`` is an `Ensemble` to continue, and the ``state`` of
    the result the ensemble found. With ``corrective``, every iteration re-optimises all weights.
    """

    corrective: bool = False
    solves = TraceProgram
    remedy = (
        "raise v, max_iter or tol (with a small v the program may have no minimum, and max_iter "
        "is what regularises)"
    )

    def steps(self, problem: TraceProgram, start: Ensemble | None) -> Steps:
        operator, v = problem.operator, problem.v
        resumed = operator.space.resume(operator, *Ensemble.ARRAYS)
        if resumed is not None:
            start = Ensemble.from_arrays(operator, resumed)
        ensemble = Ensemble(operator) if start is None else copy.deepcopy(start)
        margins = operator.forward_factor(ensemble.factor())
        rows, z, lowest, evaluations, corrected = None, None, np.inf, 0, False
        for number in count():
            if number and operator.space.saves_state and number % SAVE_EVERY == 0:
                operator.space.save_state(**ensemble.as_arrays())
                margins, rows = operator.forward_factor(ensemble.factor()), None
            loss, u, captured = problem.evaluate(margins)
            leading, z = spectral.leading_eigenpair(operator.adjoint(u), start=z)
            bounds = problem.bounds(loss, captured, ensemble.trace, leading)
            misfit = v * ensemble.trace - captured
            extra = {"frank_wolfe_gap": bounds.primal - bounds.dual, "excess": bounds.violation}
            extra |= {"learners": len(ensemble.weights), "stage": ensemble.n_stages}
            extra["evaluations"] = evaluations
            if problem.additive:
                dual, multipliers = problem.chord_bound(loss, captured, leading), u
                if bounds.primal - dual <= NEAR * self.tol * abs(bounds.primal):
                    dual = problem.lower_bound(u, leading)
            else:
                dual, multipliers = bounds.dual if bounds.violation <= self.tol else -np.inf, None
            found = bounds.primal, dual, ensemble.factor(), multipliers
            yield Iterate(*found, extra=extra, state=ensemble)
            if corrected and not bounds.primal < lowest:
                return
            lowest = min(lowest, bounds.primal)
            # v Tr M - u'A(M) is the part of the gap that better weights could close; within tol
            # it is left alone, so that a small v does not change the metric
            worthwhile = leading < CLOSE * v and misfit > self.tol * abs(bounds.primal)
            corrected = self.corrective or worthwhile
            if not corrected:
                h, rows = operator.forward_factor(z[:, None]), None
                weight, evaluations = self._weight(problem, margins, h)
                ensemble.extend(z, weight)
                margins = margins + h * weight
            else:
                rows = LearnerMargins(operator, ensemble) if rows is None else rows
                if bounds.violation > 0:
                    rows.add(z)
                margins = rows.correct(problem, INNER_TOL * max(leading - v, self.tol * v))

    def _weight(self, problem: TraceProgram, margins: Array, h: Array) -> tuple[float, int]:
        """The optimal weight of a learner with margins ``h``, and the number of evaluations."""

        def slope(weight: float) -> tuple[float, float]:
            first, second = problem.slope(margins, h, weight)
            return problem.v + first, second

        return positive_root(slope, MARGIN_LIMIT / problem.operator.space.max(magnitude, h))


def positive_root(
    slope: Callable[[float], tuple[float, float]], limit: float, tol: float = SLOPE_TOL
) -> tuple[float, int]:
    """Zero of an increasing function that is negative at 0, and the number of evaluations.

    Newton's method inside a bracket, on ``slope``: w -> (value, derivative), until the value is
    below ``tol`` times that at 0. ``limit`` is returned if the function is still negative there.
    """
    value, derivative = slope(0.0)
    if not value < 0:
        return 0.0, 1
    goal, low, high, w, n_evaluations = -tol * value, 0.0, np.inf, 0.0, 1
    # an infinite derivative has overflowed in single precision
    first = min(-value / derivative, limit) if 0 < derivative < np.inf else limit
    while high - low > 4 * np.finfo(float).eps * low:
        newton = w - value / derivative if 0 < derivative < np.inf else np.inf
        if high == np.inf:
            w = min(newton, LONGEST * low, limit) if low > 0 else first
        else:
            w = newton if low < newton < high else 0.5 * (low + high)
        value, derivative = slope(w)
        n_evaluations += 1
        if abs(value) <= goal or (value < 0 and w == limit):
            break
        low, high = (w, high) if value < 0 else (low, w)
    return w, n_evaluations
