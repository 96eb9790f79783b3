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
from typing import NamedTuple

import numpy as np

from ...core import spectral
from ...core.arrays import Array
from ...core.vectors import magnitude
from ...engine.certificate import Bounds
from ...engine.operators.base import Operator
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


class Fit(NamedTuple):
    """A metric's loss, its multipliers u, u'A(M), and the leading eigenpair of A*(u)."""

    loss: float
    u: Array
    captured: float
    leading: float
    z: Array
    bounds: Bounds


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
        operator = problem.operator
        ensemble = _begin(operator, start)
        margins = operator.forward_factor(ensemble.factor())
        rows: LearnerMargins | None = None  # of the learners in use, while weights are corrected
        z: Array | None = None
        lowest = np.inf
        evaluations = 0
        corrected = False
        for number in count():
            if number and operator.space.saves_state and number % SAVE_EVERY == 0:
                operator.space.save_state(**ensemble.as_arrays())
                # as a process that resumes would: sums of margins carry their own rounding
                margins = operator.forward_factor(ensemble.factor())
                rows = None
            fit = self._fit(problem, margins, ensemble, z)
            z = fit.z
            extra = {
                "frank_wolfe_gap": fit.bounds.primal - fit.bounds.dual,
                "excess": fit.bounds.violation,
                "learners": len(ensemble.weights),
                "stage": ensemble.n_stages,
                "evaluations": evaluations,
            }
            primal = fit.bounds.primal
            dual, multipliers = self._certain_bound(problem, fit)
            yield Iterate(primal, dual, ensemble.factor(), multipliers, extra=extra, state=ensemble)
            # all weights were optimised and P has not fallen: there is no progress left
            if corrected and not primal < lowest:
                return
            lowest = min(lowest, primal)
            corrected = self.corrective or self._weights_lag(problem, fit, ensemble)
            if corrected:
                if rows is None:
                    rows = LearnerMargins(operator, ensemble)
                if fit.bounds.violation > 0:
                    rows.add(z)
                margins = rows.correct(problem, self._inner_tol(problem, fit))
            else:
                rows = None
                h = operator.forward_factor(z[:, None])
                weight, evaluations = self._weight(problem, margins, h)
                ensemble.extend(z, weight)
                margins = margins + h * weight

    def _fit(
        self, problem: TraceProgram, margins: Array, ensemble: Ensemble, z: Array | None
    ) -> Fit:
        """Return the loss of the metric and its next weak learner, sought from the last, ``z``."""
        loss, u, captured = problem.evaluate(margins)
        leading, z = spectral.leading_eigenpair(problem.operator.adjoint(u), start=z)
        bounds = problem.bounds(loss, captured, ensemble.trace, leading)
        return Fit(loss, u, captured, leading, z, bounds)

    def _certain_bound(self, problem: TraceProgram, fit: Fit) -> tuple[float, Array | None]:
        """Return a bound on the optimum, and its multipliers if they are dual feasible once scaled."""
        if not problem.additive:
            # with u beyond its constraint, the Frank-Wolfe bound is no bound for larger metrics
            if fit.bounds.violation <= self.tol:
                return fit.bounds.dual, None
            return -np.inf, None
        dual = problem.chord_bound(fit.loss, fit.captured, fit.leading)
        if fit.bounds.primal - dual <= NEAR * self.tol * abs(fit.bounds.primal):
            dual = problem.lower_bound(fit.u, fit.leading)
        return dual, fit.u

    def _weights_lag(self, problem: TraceProgram, fit: Fit, ensemble: Ensemble) -> bool:
        """Return whether the weights alone keep the gap above tol, near the end."""
        # v Tr M - u'A(M) is the part of the gap that better weights could close; within tol
        # it is left alone, so that a small v does not change the metric
        misfit = problem.v * ensemble.trace - fit.captured
        return fit.leading < CLOSE * problem.v and misfit > self.tol * abs(fit.bounds.primal)

    def _inner_tol(self, problem: TraceProgram, fit: Fit) -> float:
        """Return how small slopes of corrected weights must be: small against lambda_max - v."""
        return INNER_TOL * max(fit.leading - problem.v, self.tol * problem.v)

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
    goal = -tol * value
    low = 0.0
    high = np.inf
    w = 0.0
    n_evaluations = 1
    while high - low > 4 * np.finfo(float).eps * low:
        newton = np.inf
        if 0 < derivative < np.inf:  # an infinite one has overflowed in single precision
            newton = w - value / derivative
        if low < newton < high < np.inf:
            w = newton
        elif high < np.inf:
            w = 0.5 * (low + high)
        elif low > 0:
            w = min(newton, LONGEST * low, limit)
        else:
            w = min(newton, limit)
        value, derivative = slope(w)
        n_evaluations += 1
        if abs(value) <= goal or (value < 0 and w == limit):
            break
        if value < 0:
            low = w
        else:
            high = w
    return w, n_evaluations


def _begin(operator: Operator, start: Ensemble | None) -> Ensemble:
    """Return the ensemble of an earlier process, else a copy of ``start``, else an empty one."""
    resumed = operator.space.resume(operator, *Ensemble.ARRAYS)
    if resumed is not None:
        return Ensemble.from_arrays(operator, resumed)
    if start is not None:
        return copy.deepcopy(start)
    return Ensemble(operator)
