"""The FrobMetric program (Shen et al. 2014, P3 and D3).

P(M) = 1/2 ||M||_F^2 + (C/m) sum_r max(0, 1 - A(M)_r),   M psd
D(u) = 1'u - 1/2 ||[A*(u)]_+||_F^2,                      0 <= u <= C/m
M(u) = [A*(u)]_+        grad D(u) = 1 - A(M(u))
"""

from functools import cached_property

from ..arrays import float64
from .base import SpectralProgram


class FrobeniusMetric(SpectralProgram):
    """Large-margin metric with a Frobenius-norm regulariser; see the module docstring.

    Parameters
    ----------
    operator : Operator
        One row per triplet.
    C : float
        Weight of the mean hinge loss.
    """

    def __init__(self, operator, C):
        self.operator, self.C = operator, float(C)
        self.lower, self.upper = 0.0, self.C / operator.n_constraints
        self.unit = self.upper
        self.linear = operator.empty_constraint_vector() + 1

    def start(self):
        """The best multiple of the all-equal multipliers, in closed form along that ray."""
        u = self.linear * self.upper
        squared_norm = self.evaluate(u).part.squared_norm
        return u * min(1.0, self.C / squared_norm) if squared_norm > 0 else u

    def primal_value(self, margins, squared_norm, factor=None):
        xp = self.operator.xp
        hinge = float(float64(xp.clip(1 - margins, 0, None)).sum())
        return 0.5 * squared_norm + self.upper * hinge, 0.0

    @cached_property
    def _float64(self):
        return FrobeniusMetric(self.operator.astype(self.operator.xp.float64), self.C)

    def in_float64(self):
        return self._float64
