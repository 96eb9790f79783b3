"""Eigenvalue programs (Ying & Li 2012): a trace plus a hinge loss on the constraints.

    P(S) = w Tr S + sum_r c_r max(0, b_r - A(S)_r),   S psd           (c = inf: A(S) >= b is enforced)
    D(u) = b'u,                                       0 <= u_r <= c_r,  A*(u) <= w I
    any u >= 0, times min(1 / max_r u_r / c_r, w / lambda_max(A*(u))), is dual feasible

For b = 1 and all c_r = c a point of value delta of the paper's program (Lemma 2; docs/mathematics),
divided by delta, is one of value 1/delta here, and so for bounds. The proximal subproblem

    min P(S) + ||S - S_k||_F^2 / (2 sigma)

has a dual in the form of `SpectralDual`, with K(u) = S_k / sigma - w I + A*(u): smooth, in a box.
"""

import math
from functools import cached_property
from typing import Self

import numpy as np

from ...core import spectral
from ...core.arrays import Array, Arrays, DType, Values, float64, identity, like, zeros
from ...core.vectors import Reduction, clipped, greatest, minus_least, total
from ...engine.certificate import Bounds
from ...engine.losses import weighted_sum
from ...engine.operators.base import DifferenceOperator, Operator
from ...engine.program import Point, Primal, Problem, SpectralDual, missed_trace
from .entries import EntryOperator

NEAR = 100  # roundings of the largest square of a point, up to which A* loses the length of a pair


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
        requested = self.terms(operator.forward_factor(L))
        u = operator.space.map(clipped, u, lower=0.0, upper=None)
        adjoint, (terms, *of_u) = operator.adjoint_and(u, requested, *self._of_multipliers(u))
        # no multiple of u = 0 bounds the optimum by more than 0
        if not of_u[0] > 0:
            u = operator.empty_constraint_vector() + 1
            adjoint, of_u = operator.adjoint_and(u, *self._of_multipliers(u))
        if precise:
            adjoint = operator.precise_adjoint(u)
        most, gain = of_u
        return Bounds(self.objective(L, terms), self._scale(adjoint, most) * gain)

    def _of_multipliers(self, u: Array) -> tuple[Reduction, Reduction]:
        """The largest u_r / c_r and b'u, as pending reductions."""
        most = greatest(largest_ratio, u, self.slack_penalty)
        return most, total(weighted_sum, u, self.target)

    def _scale(self, adjoint: Array, most: float) -> float:
        """The factor that makes u feasible, given A*(u) and ``most``, the largest u_r / c_r."""
        largest = spectral.largest_eigenvalue(adjoint)
        # a multiple of u >= 0 is feasible up to A*(u) <= w I and u <= c, whichever comes first
        scale = self.trace_weight / largest if largest > 0 else math.inf
        # enforced constraints put no upper bound on u
        return scale if self.hard else min(1 / most, scale)

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
        adjoint, (most, size) = operator.adjoint_and(
            self.unit, ratio, total(weighted_sum, self.unit)
        )
        scale = self._scale(adjoint, most)
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


class DMLEigProgram(EigenvalueProgram):
    """The DML-eig program (Ying & Li 2012, equations 3 to 5).

        primal   max over M psd, <X_S, M> <= 1, of min_r <X_r, M>             X_r = d_r d_r' over the dissimilar pairs
        dual     min over u in the simplex of lambda_max(R^-1 (sum_r u_r X_r) R^-T)        R R' = X_S (+ ridge)

    With S = R'MR it is the eigenvalue program with c = inf, w = 1, b = 1 over the whitened points:
    a matrix S of trace t whose smallest margin is a has value a / t here. A maximisation, so both
    bounds change sign: primal = -min_r <X_r, M> and dual = -lambda_max. If a dissimilar pair has
    distance zero the optimum is 0, every M is optimal, and the bounds are 0.
    """

    def __init__(self, operator: Operator, dtype: DType = None):
        super().__init__(operator, 1.0, math.inf, dtype)
        least = -operator.space.max(minus_least, self._squared_lengths())
        if least <= NEAR * self.operator.eps * operator.space.max(largest_square, operator.blocks):
            self.operator = operator  # its closest pair is lost in ``dtype``

    def _squared_lengths(self) -> Array:
        """The squared lengths of the whitened pairs: A(I)."""
        A = self.operator
        return A.forward_factor(identity(A.n_features, A.reference))

    @cached_property
    def unit(self) -> Array:
        """1 / length (halfway to rows of unit norm, the best by measurement)."""
        return self._squared_lengths() ** -0.5

    def bounds(self, L: Array, u: Array, precise: bool = False) -> Bounds:
        cost, lower, _ = super().bounds(L, u, precise)
        # a point of trace `cost` whose smallest margin is 1 has value 1 / cost here
        return Bounds(_value_of_cost(cost), _value_of_cost(lower))

    def scaled(self, primal_point: Array) -> Array:
        return primal_point / (primal_point * primal_point).sum() ** 0.5

    def _largest_square(self) -> float:
        """The largest squared length of a whitened point, in float64."""
        A = self.exact_operator
        return A.space.max(largest_square, A.blocks)

    def nearly_coinciding(self) -> Array:
        """1 for each pair whose length is lost in sums over all pairs even in float64, else 0.

        Lengths are whitened ones: those of features, by a fixed threshold, would count pairs that
        differ in small units only.
        """
        lengths = self.exact._squared_lengths()
        limit = NEAR * self.exact_operator.eps * self._largest_square()
        return self.exact_operator.space.map(at_most, lengths, limit=limit)

    def certify_by_closest(self, primal_point: Array) -> tuple[Bounds, Array]:
        """Bounds of a point, the lower one from the closest pair alone; and its multipliers.

        No metric keeps that pair farther apart than the one made for it, whose value is the square
        of its length. Rounding of the whitened points, which may be all that the length is, is added.
        """
        exact = self.exact
        lengths = exact._squared_lengths()
        least = -exact.operator.space.max(minus_least, lengths)
        closest = exact.operator.space.map(at_most, lengths, limit=least)
        value, _, violation = self.certify(primal_point, closest)
        rounding = exact.operator.eps * self._largest_square() ** 0.5  # of either end of the pair
        # weak duality with u on this pair alone: no S of trace 1 has d'S d above ||d||^2
        longest = least**0.5 + 2 * rounding
        return Bounds(value, -(longest**2), violation), closest

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        """Of the point as it is, whose trace t may be rounded: a, not a / t."""
        L = float64(primal_point)
        value, dual, _ = super().certify(L, dual_point)
        # `bounds` has the value a / t of L L' / t
        trace = float((L * L).sum())
        return Bounds(value * trace, dual, missed_trace(L))


def _value_of_cost(cost: float) -> float:
    """DML-eig's value, negated for a minimisation, of a trace that gives margins of at least 1."""
    return -1 / cost if cost > 0 else 0.0


class LMNNEigProgram(EigenvalueProgram):
    """The LMNN-eig program (Ying & Li 2012, equations 7 and 17), with ``weights`` w_r (None: ones).

        primal   min over M psd of (1 - gamma) sum_r w_r max(0, 1 - <C_r, M>) + gamma <X_S, M>      C_r = d_ik d_ik' - d_ij d_ij'
        dual     max 1'u,  0 <= u_r <= (1 - gamma) w_r,  sum_r u_r C_r <= gamma X_S

    With X_S (+ ridge) = R R' and S = R'MR it is the eigenvalue program with c_r = (1 - gamma) w_r,
    w = gamma, b = 1 over the whitened points.
    """

    def __init__(
        self, operator: Operator, gamma: float, dtype: DType = None, weights: Array | None = None
    ):
        loss_weight: Values = 1.0 - gamma
        if weights is not None:
            loss_weight = loss_weight * weights
        super().__init__(operator, gamma, loss_weight, dtype)


class MMMFProgram(EigenvalueProgram):
    """Maximum-margin matrix factorisation in its eigenvalue form (Srebro et al. 2005; Ying & Li
    2012, equations 27 and 28).

        primal   min over X of sum_r max(0, b_r - s_r X[i_r, a_r]) + gamma ||X||_*
        dual     max b'u,  0 <= u <= 1,  ||W(u)||_2 <= gamma         W(u) = sum_r u_r s_r e_i e_a', sparse

    With M = L L' = [[A, X], [X', B]] it is the eigenvalue program with c = 1 over `EntryOperator`.
    Since ||X||_* is *half* the least Tr A + Tr B, its w is gamma / 2: the paper's gamma Tr M would
    be 2 gamma ||X||_*.

    Observations (``entries``: rows, columns, levels 0, 1, ..., R-1) become one constraint for
    each of the ``thresholds`` theta_1 < ... < theta_{R-1}: s = 1 and b = 1 + theta for a level
    above it, s = -1 and b = 1 - theta for one below. Two levels and theta = 0 are the +-1
    observations of the paper.
    """

    operator: EntryOperator

    def __init__(self, entries: Arrays, shape: tuple[int, int], thresholds: Array, gamma: float):
        rows, columns, levels = entries
        signs = np.where(levels[:, None] > np.arange(len(thresholds)), 1.0, -1.0)
        operator = EntryOperator(
            np.repeat(rows, len(thresholds)),
            np.repeat(columns, len(thresholds)),
            signs.ravel(),
            shape,
        )
        super().__init__(operator, gamma / 2, 1.0, target=(1 + signs * thresholds).ravel())


# ---- functions mapped and summed over blocks of multipliers


def largest_ratio(u: Array, slack_penalty: Values) -> Array:
    """max_r u_r / c_r."""
    return (u / slack_penalty).max()


def at_most(lengths: Array, limit: float) -> Array:
    """1 for each length up to ``limit``, else 0."""
    return like(lengths <= limit, lengths)


def largest_square(operator: DifferenceOperator) -> Array:
    """The largest squared length of a point."""
    rows = operator.X @ identity(operator.n_features, operator.reference)  # of sparse rows too
    return (rows * rows).sum(1).max()
