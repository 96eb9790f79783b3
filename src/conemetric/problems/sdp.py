"""The general Frobenius-regularised semidefinite program (Shen et al. 2014, section III).

    P(X) = <C, X> + ||X||_F^2 / (2 sigma)   s.t.  <A_i, X> <= b_i (i in I),  = b_i (i in E),  X psd
    D(u) = -b'u - sigma/2 ||(C + A*(u))_-||_F^2,   u_I >= 0, u_E free
    X(u) = -sigma (C + A*(u))_-        grad D(u) = A(X(u)) - b

In the form of `SpectralDual`: K(u) = -C - A*(u). X(u) meets the constraints only in the limit, so a
certificate has a violation: the larger of max_i residual_i / max_i |b_i| and sum_i |u_i residual_i|
/ |P|, which is what missing them can have gained; residuals one-sided for inequalities.
"""

import math
from functools import cached_property

from ..core import spectral
from ..core.arrays import Array, float64, identity, like, namespace
from ..core.vectors import Reduction, greatest, magnitude
from ..operators.base import Operator
from .base import Evaluation, Primal, SpectralProgram
from .losses import weighted_sum

OUT_OF_REACH = 1e8  # size of a feasible point, relative to the data, that counts as infinite


class ConstrainedProgram(SpectralProgram):
    """A program with constraints A(X) = b or A(X) <= b, by ``equality``: one bool, or one each."""

    sign = -1.0
    b: Array
    equality: Array | bool
    size: float  # of b

    def primal_terms(self, margins: Array) -> Reduction:
        return greatest(magnitude, _misses(margins, self.b, self.equality))

    def penalised_violation(self, u: Array, margins: Array, primal: float) -> float:
        missed = float(weighted_sum(_misses(margins, self.b, self.equality), abs(u)))
        return missed / abs(primal) if missed and primal else math.inf if missed else 0.0

    def repaired(self, L: Array) -> Array:
        """L itself: general constraints have no cheap repair."""
        return L


class SemidefiniteProgram(ConstrainedProgram):
    """See the module docstring; C is symmetric, and ``equality`` marks E."""

    def __init__(
        self, operator: Operator, C: Array, b: Array, sigma: float, equality: Array | bool
    ):
        xp = operator.xp
        zero = operator.empty_constraint_vector()
        self.operator, self.sigma = operator, float(sigma)
        self.b, self.equality = like(b, zero), like(equality, zero, xp.bool)
        self.C = like(C, zero)
        self.offset, self.linear = -self.C, -self.b
        self.lower = xp.where(self.equality, -xp.inf, zero)
        self.upper = zero + xp.inf
        self.size = float(abs(self.b).max()) or 1.0

    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        linear = float(float64((self.C @ factor) * factor).sum())
        return linear + squared_norm / (2 * self.sigma), terms / self.size

    def refutation(self, point: Evaluation) -> str | None:
        """Farkas: if b'u < 0 and A*(u) >= -e I, then -e Tr X <= <A*(u), X> <= b'u for every
        feasible X, so Tr X >= -b'u / e.

        Reported once that bound is `OUT_OF_REACH` times the natural size of X. e follows from A*(u)
        = -C - K(u), or is the rounding of an A*(u) that is psd.
        """
        forced, eps = point.gain, self.operator.eps
        if not forced > eps * float(abs(self.b * point.u).sum()):
            return None
        slack = self._largest_of_C + (float(point.part.values[0]) if point.part.rank else 0.0)
        reach = OUT_OF_REACH * max(self._size_of_X, self.sigma * float(point.part.values.sum()))
        if not forced > slack * reach:
            slack = eps * len(point.combined) * float(abs(point.combined).max())
            if slack and forced <= slack * reach:
                return None
            # Cholesky's method fails for zero
            ridge = slack + self.operator.xp.finfo(point.combined.dtype).tiny
            one = identity(len(point.combined), point.combined)
            if spectral.definite_part(ridge * one - point.combined) is None:
                return None
        need = f"a trace of at least {forced / slack:.1e}" if slack > 0 else "an infinite trace"
        return f"the constraints are infeasible: an X that met them would need {need}"

    @cached_property
    def _largest_of_C(self) -> float:
        return max(0.0, spectral.leading_eigenpair(self.C)[0])

    @cached_property
    def _size_of_X(self) -> float:
        """Trace-like size of the multiple of A*(b) that meets the constraints on average."""
        norm = float((self.operator.adjoint(self.b) ** 2).sum()) ** 0.5
        return self.C.shape[0] ** 0.5 * float((self.b**2).sum()) / norm if norm > 0 else math.inf


def _misses(margins: Array, b: Array, equality: Array | bool) -> Array:
    residual = margins - b
    if isinstance(equality, bool):
        return abs(residual) if equality else residual.clip(0)
    return namespace(margins).where(equality, abs(residual), residual.clip(0))
