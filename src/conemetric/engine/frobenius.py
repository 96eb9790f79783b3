"""Loss plus Frobenius norm about a prior (Shen et al. 2014, P3 and D3, for the hinge and no prior).

    P(M) = 1/2 ||M - M0||_F^2 + sum_r c_r l(A(M)_r),                            M psd
    D(u) = sum_r c_r g(u_r / c_r) + 1/2 ||M0||_F^2 - 1/2 ||[M0 + A*(u)]_+||_F^2,  u_r / c_r in the domain of g
    M(u) = [M0 + A*(u)]_+        grad D(u)_r = g'(u_r / c_r) - A(M(u))_r

with c_r = C w_r / sum(w) and l, g a loss and its gain (`engine.losses`). For the hinge without
prior and weights: D(u) = 1'u - 1/2 ||[A*(u)]_+||_F^2 on 0 <= u <= C/m.

If M0 is large against what is learned, both values are differences of large numbers. So P is
evaluated from M - M0, and D from S = A*(u) and K_- = [M0 + S]_+ - (M0 + S) if S is the smaller:

    1/2 ||M0||^2 - 1/2 ||[M0 + S]_+||^2 = 1/2 ||K_-||^2 - 1/2 ||S||^2 - <M0, S>

With some multipliers fixed at f, the rest have a program of the same kind, of their constraints
alone, about the prior M0 + A*(f) (docs/mathematics).
"""

import math
from copy import copy
from functools import cached_property
from typing import Any, Self

from ..core import spectral
from ..core.arrays import Array, Values, float64, like
from ..core.vectors import ARRAYS, Reduction, clipped, total
from .losses import LOSSES, weighted_sum
from .operators.base import Operator, RestrictableOperator
from .program import Evaluation, Primal, SpectralProgram

UNEVEN = 0.1  # smallest size of a constraint that counts, relative to the mean
# Error of an eigendecomposition on any device, in units of D eps.
EIGH_ERROR = 8.0


class FrobeniusProgram(SpectralProgram):
    """See the module docstring: ``operator`` has one row per constraint, C weighs the mean loss,
    ``prior`` is M0, positive semidefinite (None: zero), ``weights`` are w > 0 (None: ones).
    """

    def __init__(
        self,
        operator: Operator,
        C: float,
        loss: str = "hinge",
        prior: Array | None = None,
        weights: Array | None = None,
    ):
        self.operator = operator
        self.C = float(C)
        self.loss = LOSSES[loss]
        # c: one number, or one per constraint
        self.unit = self.C / operator.n_constraints
        if weights is not None:
            weights = operator.constraint_vector(weights)
            mean = operator.space.sum(weighted_sum, weights) / operator.n_constraints
            self.unit = weights * (1 / mean) * self.unit  # C / sum(w) may be below single precision
        low, high = self.loss.domain(operator.dtype, operator.xp)
        self.lower = low * self.unit
        self.upper = high * self.unit
        self.prior = None if prior is None else like(prior, operator.reference)
        self.offset = self.prior
        self.rounding = EIGH_ERROR * operator.n_features * operator.eps
        self.linear = 1.0
        self.interior = self.loss.steep
        self.curved = not self.loss.linear
        has_subsets = isinstance(operator, RestrictableOperator) and operator.space is ARRAYS
        self.restrictable = has_subsets and not self.loss.steep

    @cached_property
    def sizes(self) -> Values:  # type: ignore[override]
        """Sizes of the constraints' matrices, none far below the mean; 1.0 if unknown."""
        space = self.operator.space
        sizes = self.operator.row_sizes
        if isinstance(sizes, float):
            return 1.0
        mean = space.sum(weighted_sum, sizes) / self.operator.n_constraints
        if not 0 < mean < math.inf:
            return 1.0
        return space.map(clipped, sizes, lower=UNEVEN * mean, upper=None)

    def start(self) -> Evaluation:
        """The best multiple of equal multipliers, or with a prior those of its own margins."""
        if self.prior is not None:
            v = self.operator.space.map(self.loss.multiplier, self.operator.forward(self.prior))
            v = self.operator.space.map(clipped, v, None, 1.0)  # no more than of the hinge
            return self.evaluate(self.project(v * self.unit))
        point: Any = self.evaluate(self.operator.empty_constraint_vector() + self.unit)
        # at the multiple t the dual is C g(t) - t^2 / 2 ||[A*(c)]_+||^2, since the c_r sum to C
        curvature = point.part.squared_norm
        multiple = 1.0
        if curvature > 0:
            multiple = self.loss.best_multiple(self.C, curvature)
        return point.times(multiple)

    def gain(self, u: Array) -> Reduction:
        if self.loss.linear:
            return super().gain(u)
        gains = self.operator.space.map(self.loss.gain, u / self.unit)
        return total(weighted_sum, gains, self.unit)

    def gain_slope(self, u: Array) -> Values:
        if self.loss.linear:
            return self.linear
        return self.operator.space.map(self.loss.slope, u / self.unit)

    def gain_curvature(self, u: Array) -> Array | None:
        if self.loss.linear:
            return None
        return self.operator.space.map(self.loss.curvature, u / self.unit) / self.unit

    def evaluate(
        self, u: Array, rank_guess: int | None = None, *requested: Reduction
    ) -> Evaluation:
        if self.prior is None:
            return PlainEvaluation(self, u, rank_guess, *requested)
        return PriorEvaluation(self, u, rank_guess, *requested)

    def primal_terms(self, margins: Array) -> Reduction:
        return total(weighted_sum, self.operator.space.map(self.loss.value, margins), self.unit)

    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        if self.prior is not None:
            # of M - M0: ||M||^2, which was passed, would lose its digits against a large prior
            squared_norm = self.significant(factor @ factor.T - self.prior)
        return self.constant + 0.5 * squared_norm + terms, 0.0

    def restricted(self, index: Array, u: Array) -> Self:
        """The program of the constraints ``index``, with all other multipliers fixed as in u."""
        operator = self.operator
        if not isinstance(operator, RestrictableOperator):
            raise TypeError(
                f"{type(operator).__name__} has no subsets, so that its program has no restrictions; "
                "ask `restrictable` first."
            )
        fixed = u + 0
        fixed[index] = 0
        # S = A*(f), O = M0 + S, and  1/2 ||M0||^2 - 1/2 ||O||^2 = -<S, M0 + S / 2>,  which does
        # not subtract large squares from each other
        change, (gain,) = operator.adjoint_and(fixed, self.gain(fixed))
        mean = change / 2
        if self.prior is not None:
            mean = mean + self.prior
        part = copy(self)
        part.operator = operator.subset(index)
        part.constant = self.constant + gain - float((float64(change) * float64(mean)).sum())
        part.prior = mean + change / 2
        part.offset = part.prior
        for name in ("unit", "lower", "upper", "sizes"):
            values = getattr(self, name)
            if not isinstance(values, float):
                values = values[index]
            setattr(part, name, values)
        return part

    @property
    def single(self) -> Self:
        """The same program in single precision; what is certified stays this one."""
        xp = self.operator.xp
        program = copy(self)
        program.operator = self.operator.astype(xp.float32)
        for name in ("unit", "lower", "upper", "sizes", "prior"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, float):
                setattr(program, name, like(value, self.operator.reference, xp.float32))
        program.offset = program.prior
        program.exact = self.exact
        program.rounding = EIGH_ERROR * self.operator.n_features * program.operator.eps
        return program

    def significant(self, difference: Array) -> float:
        """||difference||_F^2, or zero if it is the rounding of M0: then the prior is optimal."""
        square = float((float64(difference) ** 2).sum())
        size = float((float64(self.prior) ** 2).sum())
        if square > self.rounding**2 * size:
            return square
        return 0.0


class PlainEvaluation(Evaluation):
    """An `Evaluation` without a prior, which needs no eigenvalues."""

    @cached_property
    def part(self) -> Any:
        return spectral.positive_factor(self.combined, self.rank_guess)

    def times(self, multiple: float) -> "PlainEvaluation":
        """The dual at a positive multiple of u: K(u) is linear, so its eigenvectors stay."""
        p = self.problem
        u = p.project(self.u * multiple)
        known = (self.combined * multiple, p.operator.space.totals(p.gain(u)))
        point = PlainEvaluation(p, u, None, known=known)
        point.part = self.part.times(multiple)
        return point


class PriorEvaluation(Evaluation):
    """An `Evaluation` without differences of large norms, or eigenvalues if K is definite."""

    problem: FrobeniusProgram

    @cached_property
    def part(self) -> Any:
        # K was definite at the last point, or nothing is known: Cholesky takes a tenth of `eigh`
        K = self.shifted
        if self.rank_guess in (None, len(K)):
            definite = spectral.definite_part(K)
            if definite is not None:
                return definite
        return spectral.positive_factor(K, self.rank_guess)

    def dual_of(self, part: spectral.PSDPart | spectral.FactoredPart) -> float:
        p = self.problem
        S = float64(self.combined)
        of_prior = float((float64(p.offset) ** 2).sum())
        # S is the larger: the plain difference of squares cancels less than the formula above
        if float((S**2).sum()) > of_prior + part.squared_norm:
            return p.constant + self.gain + 0.5 * (of_prior - part.squared_norm)
        if part.tail is None:
            spare = p.significant(part.matrix() - self.shifted)
        else:
            spare = p.significant(part.tail)
        shared = float((S * (S + 2 * float64(p.offset))).sum())
        return p.constant + self.gain + 0.5 * (spare - shared)
