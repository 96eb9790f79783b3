"""The programs of Ying & Li (2012), as eigenvalue programs (`engine.eigenvalue_program`).

For b = 1 and all c_r = c a point of value delta of the paper's program (Lemma 2; docs/mathematics),
divided by delta, is one of value 1/delta there, and so for bounds.
"""

import math
from functools import cached_property

import numpy as np

from ...core.arrays import Array, Arrays, DType, Values, float64, identity, like
from ...core.vectors import minus_least
from ...engine.certificate import Bounds
from ...engine.eigenvalue_program import EigenvalueProgram
from ...engine.operators.base import DifferenceOperator, Operator
from ...engine.program import Point, missed_trace
from .entries import EntryOperator

NEAR = 100  # roundings of the largest square of a point, up to which A* loses the length of a pair


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


def at_most(lengths: Array, limit: float) -> Array:
    """1 for each length up to ``limit``, else 0."""
    return like(lengths <= limit, lengths)


def largest_square(operator: DifferenceOperator) -> Array:
    """The largest squared length of a point."""
    rows = operator.X @ identity(operator.n_features, operator.reference)  # of sparse rows too
    return (rows * rows).sum(1).max()
