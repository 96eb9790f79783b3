"""The DML-eig program (Ying & Li 2012, equations 3 to 5).

    primal   max over M psd, <X_S, M> <= 1, of min_r <X_r, M>             X_r = d_r d_r' over the dissimilar pairs
    dual     min over u in the simplex of lambda_max(R^-1 (sum_r u_r X_r) R^-T)        R R' = X_S (+ ridge)

With S = R'MR it is the eigenvalue program with c = inf, w = 1, b = 1 over the whitened
points: a matrix S of trace t whose smallest margin is a has value a / t here. A
maximisation, so both bounds change sign: primal = -min_r <X_r, M> and dual =
-lambda_max. Where a dissimilar pair has distance zero the optimum is 0, every M is
optimal, and the bounds are 0.
"""

import math
from functools import cached_property

from .base import Bounds
from .eigenvalue import EigenvalueProgram


class DMLEigProgram(EigenvalueProgram):
    """See the module docstring.

    Parameters
    ----------
    operator : Operator
        One row per dissimilar pair of whitened points, in float64.
    dtype : dtype, default=None
        Precision to solve in.
    """

    def __init__(self, operator, dtype=None):
        super().__init__(operator, 1.0, math.inf, dtype)

    @cached_property
    def unit(self):
        """1 / length: the shorter a pair, the larger its multiplier (halfway to rows of
        unit norm, the best by measurement).
        """
        operator = self.operator
        identity = operator.xp.eye(
            operator.n_features, dtype=operator.dtype, device=operator.reference.device
        )
        return operator.space.map(_inverse_root, operator.forward_factor(identity))

    def bounds(self, L, u):
        cost, lower, _ = super().bounds(L, u)
        return Bounds(-1 / cost if cost > 0 else 0.0, -1 / lower if lower > 0 else 0.0)

    def game_bounds(self, value, bound):
        return -value, -bound


def _inverse_root(squared_lengths):
    return squared_lengths**-0.5
