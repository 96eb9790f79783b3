"""A trace plus a hinge loss on the constraints, and the dual of its proximal step.

    P(S) = w Tr S + sum_r c_r max(0, b_r - A(S)_r),   S psd           (c = inf: A(S) >= b is enforced)
    D(u) = b'u,                                       0 <= u_r <= c_r,  A*(u) <= w I
    any u >= 0, times min(1 / max_r u_r / c_r, w / lambda_max(A*(u))), is dual feasible

The proximal subproblem

    min P(S) + ||S - S_k||_F^2 / (2 sigma)

has a dual in the form of `SpectralDual`, with K(u) = S_k / sigma - w I + A*(u): smooth, in a box.
"""

import math
from functools import cached_property
from typing import Self

from ..core import spectral
from ..core.arrays import Array, DType, Values, float64, identity, zeros
from ..core.vectors import Reduction, clipped, greatest, minus_least, total
from .certificate import Bounds
from .losses import weighted_sum
from .operators.base import Operator
from .program import Point, Primal, Problem, SpectralDual


class EigenvalueProgram(Problem):
    """See the module docstring, with w = ``trace_weight``, c = ``loss_weight`` (a number, infinite
    to enforce the constraints, or one per constraint) and b = ``target`` (None: ones).

    ``operator`` is in float64, for certificates; ``dtype`` is the precision to solve in.
    """

    def __init__(
        self,
        operator: Operator,
        trace_weight: float,
        loss_weight: Values,
        dtype: DType = None,
        target: Array | None = None,
    ):
        self.exact_operator = operator
        if dtype is not None:
            operator = operator.astype(dtype)
        self.operator = operator
        self.trace_weight = float(trace_weight)
        if not isinstance(loss_weight, float):
            loss_weight = operator.constraint_vector(loss_weight)
        self.loss_weight = loss_weight
        self.target: Values = 1.0
        if target is not None:
            self.target = operator.constraint_vector(target)

    @property
    def hard(self) -> bool:
        """Whether the constraints are enforced, not penalised."""
        return isinstance(self.loss_weight, float) and math.isinf(self.loss_weight)

    @property
    def slack_penalty(self) -> Values:
        """c if finite: the size of a multiplier, up to scale."""
        return 1.0 if self.hard else self.loss_weight

    # ---- the program

    def terms(self, margins: Array) -> Reduction:
        """What `objective` needs of A(L L') = ``margins``, as a pending reduction."""
        if self.hard:
            return greatest(minus_least, margins)
        missing = self.operator.space.map(clipped, self.target - margins, 0.0, None)
        return total(weighted_sum, missing, self.loss_weight)

    def objective(self, L: Array, terms: float) -> float:
        """P(L L') from `terms`; of enforced constraints, at the multiple that just meets them."""
        # with enforced constraints (b = 1) `terms` is minus the smallest margin: divided by that
        # margin, L L' just meets them
        trace = self.trace_weight * float((float64(L) ** 2).sum())
        if self.hard:
            return trace / -terms if terms < 0 else math.inf
        return trace + terms

    def bounds(self, L: Array, u: Array, precise: bool = False) -> Bounds:
        """P(L L'), and D of u scaled to feasibility (of equal multipliers if u is zero)."""
        operator = self.operator
        # P and D are computed together: constraints in blocks are visited once for both
        of_metric = self.terms(operator.forward_factor(L))
        u = operator.space.map(clipped, u, lower=0.0, upper=None)
        adjoint, (terms, ratio, gain) = operator.adjoint_and(u, of_metric, *self._of_multipliers(u))
        # no multiple of u = 0 bounds the optimum by more than 0
        if not ratio > 0:
            u = operator.empty_constraint_vector() + 1
            adjoint, (ratio, gain) = operator.adjoint_and(u, *self._of_multipliers(u))
        if precise:
            adjoint = operator.precise_adjoint(u)
        return Bounds(self.objective(L, terms), self._scale(adjoint, ratio) * gain)

    def _of_multipliers(self, u: Array) -> tuple[Reduction, Reduction]:
        """The largest u_r / c_r and b'u, as pending reductions."""
        ratio = greatest(largest_ratio, u, self.slack_penalty)
        return ratio, total(weighted_sum, u, self.target)

    def _scale(self, adjoint: Array, ratio: float) -> float:
        """The largest multiple of u >= 0 that is feasible, given A*(u) and the largest u_r / c_r."""
        largest = spectral.largest_eigenvalue(adjoint)
        up_to_trace_weight = math.inf  # A*(u) <= w I
        if largest > 0:
            up_to_trace_weight = self.trace_weight / largest
        if self.hard:  # then c, the upper bound on u, is infinite
            return up_to_trace_weight
        return min(1 / ratio, up_to_trace_weight)

    @cached_property
    def exact(self) -> Self:
        program = super().exact
        program.operator = self.exact_operator  # not the one rounded to the precision solved in
        return program

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        return self.exact.bounds(float64(primal_point), float64(dual_point), precise=True)

    # ---- for the proximal-point method

    def start(self) -> tuple[Array, Array, float]:
        """Feasible multipliers, a factor of the zero matrix, and a first sigma."""
        operator = self.operator
        ratio = greatest(largest_ratio, self.unit, self.slack_penalty)
        adjoint, (largest, size) = operator.adjoint_and(
            self.unit, ratio, total(weighted_sum, self.unit)
        )
        scale = self._scale(adjoint, largest)
        center = zeros((operator.n_features, 0), operator.reference)
        # sigma has the units of S / K: S of a trace about sum(u) / w, and K of w
        return scale * self.unit, center, scale * size / self.trace_weight**2

    @cached_property
    def unit(self) -> Array:
        """Natural size of each multiplier, up to scale."""
        ones = self.operator.empty_constraint_vector() + 1
        if isinstance(self.loss_weight, float):
            return ones
        return ones * self.loss_weight


class ProximalDual(SpectralDual):
    """Dual of min P(S) + ||S - S_k||_F^2 / (2 sigma), where ``center`` is a factor of S_k."""

    def __init__(self, program: EigenvalueProgram, center: Array, sigma: float):
        self.program = program
        self.center = center
        self.sigma = sigma
        self.operator = program.operator
        self.linear = program.target
        self.lower = 0.0 * program.slack_penalty  # zeros where c is an array: a box is of one kind
        self.upper = program.loss_weight
        self.unit = program.unit
        one = identity(program.operator.n_features, center)
        # K(u) = offset + A*(u)
        self.offset = center @ center.T / sigma - program.trace_weight * one
        self.constant = float((float64(center.T @ center) ** 2).sum()) / (2 * sigma)

    def primal_terms(self, margins: Array) -> Reduction:
        return self.program.terms(margins)

    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        scale = 1.0
        if self.program.hard:
            if not terms < 0:  # no multiple of it meets the constraints
                return math.inf, 0.0
            scale = -1 / terms
        overlap = float((float64(self.center.T @ factor) ** 2).sum())
        # ||S - S_k||^2 / (2 sigma) with S = scale L L', less that of S_k, which is `constant`
        change = (scale**2 * squared_norm - 2 * scale * overlap) / (2 * self.sigma)
        return self.program.objective(factor, terms) + (self.constant + change), 0.0


# ---- functions mapped over blocks of multipliers


def largest_ratio(u: Array, slack_penalty: Values) -> Array:
    """max_r u_r / c_r."""
    return (u / slack_penalty).max()
