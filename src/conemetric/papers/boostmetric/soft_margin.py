"""The BoostMetric program with the hinge loss (Shen et al. 2012, eqs. 7 and 10), as a minimisation.

    P(M) = -max_rho [ rho - sum_r v_r max(0, rho - A(M)_r) ],   M psd, Tr M = 1
    D(u) = -lambda_max(A*(u)),                                  0 <= u_r <= v_r, sum u = 1

with v_r = v w_r. The best rho for given margins is the first at which the v_r of it and the smaller
ones reach one; with equal weights P(M) is minus the mean of the 1/v smallest. Any u of the dual set
bounds the optimum, P(M) >= D(u). sum v_r >= 1 is needed, or rho could grow without limit: with equal
weights v = 1/m is the mean margin, v >= 1 the smallest one.
"""

from functools import cached_property

import numpy as np
from scipy import optimize

from ...core import spectral
from ...core.arrays import Array, float64, to_numpy
from ...engine.certificate import Bounds
from ...engine.frobenius import EIGH_ERROR
from ...engine.operators.base import Operator
from ...engine.program import Point, Problem, missed_trace

# the smallest that HiGHS accepts
ACCURACY = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class SoftMarginProgram(Problem):
    """Soft-margin metric of trace one; see the module docstring. ``operator`` has one row per
    triplet, v is the penalty of a unit of slack, at least 1 / (sum of the weights), and ``weights``
    are w, positive (None: ones).
    """

    def __init__(self, operator: Operator, v: float, weights: Array | None = None):
        if weights is None:
            m = float(operator.n_constraints)
        else:
            m = float(float64(weights).sum())
        if v * m < 1:
            raise ValueError(
                f"v={v:g} is below 1/m for m={m:g} triplets, counted by their weight: the hinge "
                f"program has no maximum; give v >= {1 / m:.3g}."
            )
        self.operator = operator
        self.v = float(v)
        if weights is None:
            weights = operator.empty_constraint_vector() + 1
        self.weights = operator.constraint_vector(weights)

    @cached_property
    def slack_penalty(self) -> Array:
        """The bounds v_r on the multipliers."""
        return self.v * self.weights  # in `exact`, by v as given: not rounded

    def start(self) -> Array:
        """Multipliers proportional to the weights."""
        return self.slack_penalty / float(self.slack_penalty.sum())

    def value(self, margins: Array) -> float:
        """P at a metric of trace one with these margins."""
        margins = to_numpy(margins).astype(np.float64)
        slack_penalty = to_numpy(self.slack_penalty).astype(np.float64)
        order = np.argsort(margins, kind="stable")
        # P is concave in rho, with slope 1 - (sum of v_r over margins below it)
        enough = int(np.searchsorted(np.cumsum(slack_penalty[order]), 1.0))
        rho = margins[order[min(enough, len(order) - 1)]]
        return float(slack_penalty @ np.maximum(rho - margins, 0) - rho)

    def restricted(self, H: Array) -> tuple[np.ndarray, np.ndarray, float] | None:
        """The program over M = sum_j w_j z_j z_j', with margins H[j]: a linear program.

        Returns (weights, u, dual) by HiGHS, where dual = -max_j H[j]'u is above D(u) until the
        columns suffice; None if no method of HiGHS solves it.
        """
        J, m = H.shape
        size = float(abs(H).max()) or 1.0  # HiGHS has absolute tolerances
        penalties = to_numpy(self.slack_penalty).tolist()
        box = [(0.0, penalty) for penalty in penalties]
        free = (None, None)
        # over (u, t):  min t  s.t.  H[j]'u <= t,  sum u = 1,  0 <= u <= v; the weights are its multipliers
        for method in ("highs", "highs-ipm"):
            result = optimize.linprog(
                np.append(np.zeros(m), 1.0),
                A_ub=np.column_stack([H / size, -np.ones(J)]),
                b_ub=np.zeros(J),
                A_eq=np.append(np.ones(m), 0.0)[None],
                b_eq=[1.0],
                bounds=[*box, free],
                method=method,
                options=ACCURACY,
            )
            if result.success:
                # derivatives of the minimum by b_ub, so minus the multipliers
                weights = np.maximum(-result.ineqlin.marginals, 0)
                return weights / weights.sum(), result.x[:m], -result.fun * size
        return None

    def feasible(self, u: Array) -> Array:
        """``u`` clipped to the box of the dual, then scaled down or filled up to sum one."""
        u = self.operator.xp.clip(u, u * 0, self.slack_penalty)
        missing = 1 - float(u.sum())
        if missing < 0:
            return u / (1 - missing)
        # v sum(w) >= 1, so the box has room for a sum of one
        room = self.slack_penalty - u
        return u + missing * room / float(room.sum() or 1.0)

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        exact = self.exact
        L = float64(primal_point)
        adjoint = exact.operator.precise_adjoint(exact.feasible(float64(dual_point)))
        leading, _ = spectral.leading_eigenpair(adjoint)
        value = exact.value(exact.operator.forward_factor(L))
        # if no metric meets the triplets the optimum is zero, and both values are its rounding
        size = float((adjoint * adjoint).sum()) ** 0.5
        rounding = EIGH_ERROR * len(adjoint) * exact.operator.eps * size
        primal = _rounded_off(value, rounding)
        dual = _rounded_off(-leading, rounding)
        return Bounds(primal, dual, missed_trace(L))


def _rounded_off(value: float, rounding: float) -> float:
    """Return the value, or zero if it is no larger than its rounding."""
    return 0.0 if abs(value) <= rounding else value
