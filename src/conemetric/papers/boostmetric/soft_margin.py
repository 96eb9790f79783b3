"""The BoostMetric program with the hinge loss (Shen et al. 2012, eqs. 7 and 10), as a minimisation.

    P(M) = -max_rho [ rho - sum_r v_r max(0, rho - A(M)_r) ],   M psd, Tr M <= 1
    D(u) = -max(0, lambda_max(A*(u))),                          0 <= u_r <= v_r, sum u = 1

with v_r = v w_r. The best rho for given margins is the first at which the v_r of it and the smaller
ones reach one; with equal weights P(M) is minus the mean of the 1/v smallest. Any u of the dual set
bounds the optimum, P(M) >= D(u). sum v_r >= 1 is needed, or rho could grow without limit: with equal
weights v = 1/m is the mean margin, v >= 1 the smallest one.

P is homogeneous in M, so all of the trace is used unless no metric has a positive value; then the
zero metric is optimal. (The paper has Tr M = 1, which differs there only: by the least harmful of
metrics that do harm.)
"""

from functools import cached_property

import numpy as np

from ...core import spectral
from ...core.arrays import Array, float64, to_numpy, zeros
from ...engine.certificate import Bounds
from ...engine.eigenvalue_program import EigenvalueProgram
from ...engine.frobenius import EIGH_ERROR
from ...engine.losses import weighted_sum
from ...engine.operators.base import Operator
from ...engine.program import TRACE_ROUNDING, Point, Problem


class SoftMarginProgram(Problem):
    """Soft-margin metric of trace one; see the module docstring. ``operator`` has one row per
    triplet, v is the penalty of a unit of slack, at least 1 / (sum of the weights), and ``weights``
    are w, positive (None: ones).
    """

    def __init__(self, operator: Operator, v: float, weights: Array | None = None):
        m = float(operator.n_constraints)
        if weights is not None:
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

    def start(self) -> tuple[Array, Array]:
        """A factor of the zero metric, and multipliers proportional to the weights."""
        nothing = zeros((self.operator.n_features, 0), self.operator.reference)
        return nothing, self.slack_penalty / float(self.slack_penalty.sum())

    def priced(self, price: float) -> EigenvalueProgram:
        """min over S of price Tr S + sum_r v_r max(0, 1 - A(S)_r), the program with rho = 1."""
        return EigenvalueProgram(self.operator, price, self.slack_penalty)

    def value(self, margins: Array) -> float:
        """P at a metric of trace one with these margins."""
        margins = to_numpy(margins).astype(np.float64)
        slack_penalty = to_numpy(self.slack_penalty).astype(np.float64)
        order = np.argsort(margins, kind="stable")
        # the maximum over rho is where its slope, 1 - (sum of v_r over margins below it), is zero
        place = int(np.searchsorted(np.cumsum(slack_penalty[order]), 1.0))
        place = min(place, len(order) - 1)  # sums to one may be rounded below it
        rho = margins[order[place]]
        return float(slack_penalty @ np.maximum(rho - margins, 0) - rho)

    def feasible(self, u: Array) -> Array:
        """``u`` clipped to the box of the dual, then scaled down or filled up to sum one."""
        u = self.operator.xp.clip(u, u * 0, self.slack_penalty)
        missing = 1 - float(u.sum())
        if missing < 0:
            return u / (1 - missing)
        # v sum(w) >= 1, so the box has room for a sum of one
        room = self.slack_penalty - u
        return u + missing * room / float(room.sum() or 1.0)

    def scaled(self, primal_point: Array) -> Array:
        """The factor with all of the trace, unless it is zero."""
        trace = float((float64(primal_point) ** 2).sum())
        if trace == 0:
            return primal_point
        return primal_point / trace**0.5

    def bounds(self, primal_point: Array, u: Array) -> Bounds:
        """P of the scaled factor, and D of multipliers of the dual set."""
        A = self.operator
        value = self.value(A.forward_factor(self.scaled(primal_point)))
        return self._bounds(value, u, A.adjoint(u))

    def _bounds(self, value: float, u: Array, adjoint: Array, violation: float = 0.0) -> Bounds:
        leading = max(0.0, spectral.largest_eigenvalue(adjoint))
        # if no metric meets the triplets the optimum is zero, and both values are its rounding:
        # the terms of A*(u) may cancel, so their sizes count, not that of the sum
        size = float(weighted_sum(u, self.operator.row_sizes))
        rounding = EIGH_ERROR * len(adjoint) * self.operator.eps * size
        return Bounds(_rounded_off(value, rounding), _rounded_off(-leading, rounding), violation)

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        exact = self.exact
        L = float64(primal_point)
        value = exact.value(exact.operator.forward_factor(L))
        u = exact.feasible(float64(dual_point))
        adjoint = exact.operator.precise_adjoint(u)
        violation = float((L * L).sum()) - 1
        if violation <= TRACE_ROUNDING:
            violation = 0.0
        return exact._bounds(value, u, adjoint, violation)


def _rounded_off(value: float, rounding: float) -> float:
    """Return the value, or zero if it is no larger than its rounding."""
    return 0.0 if abs(value) <= rounding else value
