"""The general Frobenius-regularised semidefinite program (Shen et al. 2014, section III).

    P(X) = <C, X> + ||X||_F^2 / (2 sigma)   s.t.  <A_i, X> <= b_i (i in I),  = b_i (i in E),  X psd
    D(u) = -b'u - sigma/2 ||(C + A*(u))_-||_F^2,   u_I >= 0, u_E free
    X(u) = -sigma (C + A*(u))_-        grad D(u) = A(X(u)) - b

In the form of `SpectralDual`: K(u) = -C - A*(u). X(u) meets the constraints only in the limit. D(u)
bounds the optimum from below; P(X) bounds it from above only if X is feasible. So X is moved until its
constraints are met but for rounding (`engine.repairs`), and a certificate has a violation: what X
misses relative to max_i |b_i|. If more than rounding is missing, it is infinite: an error of r can
gain as much as r^(1/2^d), where d (the degree of singularity; Sturm 2000) is not known.
"""

import math
from functools import cached_property

from ..core import spectral
from ..core.arrays import Array, Values, float64, identity, like, namespace
from ..core.vectors import Reduction, greatest, magnitude
from .losses import weighted_sum
from .operators.base import Operator
from .program import Evaluation, Primal, SpectralProgram
from .repairs import repaired_from_few

# what missing constraints gains, in units of its price sum |u r|, while a solver is on its way: 2^d for
# a degree of singularity d, here four (docs/mathematics)
GAIN_PER_PRICE = 16.0
ROUNDING = 1e-12  # error of a constraint that is rounding, relative to the largest
OUT_OF_REACH = 1e8  # size of a feasible point, relative to the data, that counts as infinite


class ConstrainedProgram(SpectralProgram):
    """A program with constraints A(X) = b or A(X) <= b, by ``equality``: one bool, or one each."""

    sign = -1.0
    b: Array
    equality: Array | bool
    size: float  # of b
    must_be_exact = (
        False  # whether constraints that are missed by more than rounding void a certificate
    )
    known_value = math.inf  # objective of a point that would do as the solution, if one is known

    @property
    def scale(self) -> Values:
        """What errors of the constraints are relative to where they are repaired."""
        return self.size

    def lacking(self, slack: Array) -> Array:
        """The part of b - A(X) = ``slack`` that constraints lack: of inequalities what is negative."""
        if self.equality is True:
            return slack
        too_much = slack.clip(None, 0)
        if self.equality is False:
            return too_much
        return namespace(slack).where(self.equality, slack, too_much)

    def at_stake(self, slack: Array, active: float) -> Array | None:
        """Which constraints a repair must heed, by a relative slack; None for all."""
        return self.equality | (slack < active * self.size)

    def primal_terms(self, margins: Array) -> Reduction:
        return greatest(magnitude, self.lacking(self.b - margins))

    def price(self, u: Array, margins: Array, primal: float) -> float:
        """sum_r |u_r| times what A(X)_r = ``margins`` misses, relative to the objective ``primal``."""
        missed = float(weighted_sum(abs(self.lacking(self.b - margins)), abs(u)))
        if missed == 0:
            return 0.0
        if primal == 0:
            return math.inf
        return missed / abs(primal)

    def penalised_violation(self, u: Array, margins: Array, primal: float) -> float:
        return GAIN_PER_PRICE * self.price(u, margins, primal)

    def repaired(self, L: Array) -> Array:
        """The best factor near L that meets its constraints; if none is found, the closest to that."""
        if L.shape[1] == 0:
            return L
        right, last = repaired_from_few(self, L)

        def value(factor: Array) -> float:
            return self.primal_at(factor, self.b)[0]

        return min(right, key=value, default=last)


class SemidefiniteProgram(ConstrainedProgram):
    """See the module docstring; C is symmetric, and ``equality`` marks E."""

    must_be_exact = True

    def __init__(
        self, operator: Operator, C: Array, b: Array, sigma: float, equality: Array | bool
    ):
        xp = operator.xp
        zero = operator.empty_constraint_vector()
        self.operator = operator
        self.sigma = float(sigma)
        self.C = like(C, zero)
        self.b = like(b, zero)
        self.equality = like(equality, zero, xp.bool)
        self.offset = -self.C
        self.linear = -self.b
        self.lower = xp.where(self.equality, -xp.inf, zero)
        self.upper = zero + xp.inf
        self.size = float(abs(self.b).max()) or 1.0

    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        linear = float(float64((self.C @ factor) * factor).sum())
        return linear + squared_norm / (2 * self.sigma), terms / self.size

    def certified_violation(
        self, missed: float, u: Array, margins: Array, primal: float, norm: float
    ) -> float:
        # <A_i, X> is known to the rounding of its terms, which may cancel
        largest = self.operator.space.max(magnitude, self.operator.row_sizes)
        rounding = ROUNDING * (1 + largest * norm / self.size)
        if missed <= rounding:
            return missed
        return math.inf

    def refutation(self, point: Evaluation) -> str | None:
        """Farkas: if b'u < 0 and A*(u) >= -e I, then -e Tr X <= <A*(u), X> <= b'u for every
        feasible X, so Tr X >= -b'u / e.

        Reported once that bound is `OUT_OF_REACH` times the natural size of X. e follows from A*(u)
        = -C - K(u), or is the rounding of an A*(u) that is psd.
        """
        forced = point.gain
        eps = self.operator.eps
        # -b'u > 0, by more than the rounding of its terms
        if not forced > eps * float(abs(self.b * point.u).sum()):
            return None
        # e: A*(u) = -C - K(u) has no eigenvalue below -lambda_max(C) - lambda_max(K(u))
        slack = self._largest_of_C + (float(point.part.values[0]) if point.part.rank else 0.0)
        reach = OUT_OF_REACH * max(self._size_of_X, self.sigma * float(point.part.values.sum()))
        if not forced > slack * reach:
            # this e is too large to refute anything; A*(u) itself may be psd but for rounding
            slack = eps * len(point.combined) * float(abs(point.combined).max())
            if slack and forced <= slack * reach:
                return None
            # Cholesky's method fails for zero
            ridge = slack + self.operator.xp.finfo(point.combined.dtype).tiny
            one = identity(len(point.combined), point.combined)
            if spectral.definite_part(ridge * one - point.combined) is None:
                return None
        need = "an infinite trace"
        if slack > 0:
            need = f"a trace of at least {forced / slack:.1e}"
        return f"the constraints are infeasible: an X that met them would need {need}"

    @cached_property
    def _largest_of_C(self) -> float:
        return max(0.0, spectral.leading_eigenpair(self.C)[0])

    @cached_property
    def _size_of_X(self) -> float:
        """Trace-like size of the multiple of A*(b) that meets the constraints on average."""
        # X = t A*(b) has <b, A(X)> = ||b||^2 at t = ||b||^2 / ||A*(b)||^2; Tr X <= D^(1/2) ||X||_F
        norm = float((self.operator.adjoint(self.b) ** 2).sum()) ** 0.5
        if norm > 0:
            return self.C.shape[0] ** 0.5 * float((self.b**2).sum()) / norm
        return math.inf
