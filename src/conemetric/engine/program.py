"""Proven bounds on the optimum of a convex program, and the dual of the Frobenius family."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any, Self

from ..core import spectral
from ..core.arrays import Array, Values, float64, is_float
from ..core.vectors import Reduction, clipped, total
from .certificate import Bounds
from .losses import weighted_sum
from .operators.base import Operator

Point = Array | tuple[Array, ...]  # primal or dual, as the program has it
Primal = tuple[float, float]  # objective and relative violation
TRACE_ROUNDING = 1e-10  # relative, of a trace computed in float64


def missed_trace(L: Array) -> float:
    """How far the trace of L L' is from 1; 0 if that is rounding. That of a stored factor is rounded."""
    missed = abs(float((L * L).sum()) - 1)
    if missed > TRACE_ROUNDING:
        return missed
    return 0.0


class Problem(ABC):
    """A convex program. Solvers use what they declare in ``requires``; everyone uses `certify`."""

    operator: Any = None

    @property
    def dense_work(self) -> float:
        """Multiplications of the largest dense product or decomposition in an iteration."""
        if self.operator is None:
            return 0.0
        return self.operator.dense_work

    @cached_property
    def exact(self) -> Self:
        """The same program with its operator and every array in float64: what is certified."""
        program = copy(self)
        for name, value in vars(self).items():
            if isinstance(getattr(type(self), name, None), cached_property):
                delattr(program, name)  # recomputed on demand
            elif isinstance(value, Operator):
                setattr(program, name, value.astype(value.xp.float64))
            elif is_float(value):
                setattr(program, name, float64(value))
        return program

    @abstractmethod
    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        """Bounds from a primal and a dual feasible point, in float64, on the original program."""

    def scaled(self, primal_point: Array) -> Array:
        """The point that an iterate stands for: itself, unless the program fixes a trace."""
        return primal_point

    def unbounded(self, primal_point: Array) -> str:
        """Why the program has no minimum, if the point proves it; else an empty string."""
        return ""


class SpectralDual(ABC):
    """Maximise gain(u) - sigma/2 ||[K(u)]_+||_F^2 over a box, with K(u) = K0 + sign A*(u).

    The dual of every Frobenius-regularised program here, and of every proximal step. gain is
    concave and a sum over the constraints: linear'u unless a subclass overrides it. X(u) = sigma
    [K(u)]_+ is the primal point of u, and gain'(u) - sign A(X(u)) the gradient.
    """

    operator: Operator
    linear: Values  # one entry per constraint, or a number
    lower: Values
    upper: Values
    sign = 1.0
    sigma = 1.0
    offset: Array | None = None  # K0, or None for zero
    # a number, or one per constraint: natural size of a multiplier (solvers work in u / unit), and
    # size of the constraint's matrix if solvers may scale by it
    unit: Values = 1.0
    sizes: Values = 1.0
    interior = False  # whether the gain keeps every multiplier away from its bounds
    curved = False  # whether the gain is other than linear
    constant = 0.0  # added to the dual value
    restrictable = False  # whether it has `restricted` and `single` (engine.frobenius)

    def start(self) -> "Evaluation":
        """The dual at a first point of the box."""
        return self.evaluate(self.project(self.operator.empty_constraint_vector()))

    def project(self, u: Array) -> Array:
        return self.operator.space.map(clipped, u, self.lower, self.upper)

    def gain(self, u: Array) -> Reduction:
        """The gain, as a pending reduction."""
        return total(weighted_sum, u, self.linear)

    def gain_slope(self, u: Array) -> Values:
        """Gradient of the gain."""
        return self.linear

    def gain_curvature(self, u: Array) -> Array | None:
        """Minus the second derivatives of the gain, one per constraint; None if all are zero."""
        return None

    def evaluate(
        self, u: Array, rank_guess: int | None = None, *requested: Reduction
    ) -> "Evaluation":
        """The dual at u, with the sums ``requested`` computed in the same visit."""
        return Evaluation(self, u, rank_guess, *requested)

    def curvature(self, direction: Array, u: Array) -> float:
        """An upper bound on the dual's curvature at u along ``direction``."""
        of_gain: list[Reduction] = []
        own = self.gain_curvature(u)
        if own is not None:
            of_gain.append(total(weighted_sum, direction * direction, own))
        # [.]_+ is nonexpansive: a step t changes X(u) by at most sigma t ||A*(direction)||
        adjoint, along = self.operator.adjoint_and(direction, *of_gain)
        return self.sigma * float((float64(adjoint) ** 2).sum()) + sum(along)

    def margins_of(self, primal_point: Array) -> Array:
        """A(X), for X in the form that the certificate takes."""
        return self.operator.forward_factor(primal_point)

    def hessian(self, point: "Evaluation") -> tuple[Callable[[Array], Array], Values]:
        """Minus the second derivative of the dual at ``point``, the map d -> sigma A(W(A*(d))) +
        curvature d with W the derivative of the positive part; and its diagonal, for W = I.
        """
        W = spectral.psd_derivative(point.shifted)
        curvature = self.gain_curvature(point.u)
        diagonal = self.sizes * self.sizes * self.sigma

        def product(d: Array) -> Array:
            return self.operator.forward(W(self.operator.adjoint(d))) * self.sigma

        if curvature is None:
            return product, diagonal

        def product_with_gain(d: Array) -> Array:
            return product(d) + curvature * d

        return product_with_gain, diagonal + curvature

    def refutation(self, point: "Evaluation") -> str | None:
        """Why no point is feasible, if the multipliers at ``point`` prove it; else None."""
        return None

    def proven(self, factor: Array, point: "Evaluation") -> float:
        """The bound that `certify` will find with this factor of X and these multipliers."""
        return point.dual

    @abstractmethod
    def primal_terms(self, margins: Array) -> Reduction:
        """What `primal_value` needs of A(X) = ``margins``, as a pending reduction."""

    @abstractmethod
    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        """(objective, relative violation) of X = L L', L = ``factor``, given `primal_terms`."""

    def penalised_violation(self, u: Array, margins: Array, primal: float) -> float:
        """What an infeasible point can have gained, relative to its objective ``primal``, by sum_r
        |u_r| times what A(X)_r = ``margins`` misses: X is feasible for the bounds it reaches, so
        the optimum exceeds its objective by at most that if u are optimal multipliers, and by a
        multiple of it if u are only on the way to them.
        """
        return 0.0

    def certified_violation(
        self, missed: float, u: Array, margins: Array, primal: float, norm: float
    ) -> float:
        """The violation of a certificate for an X of this ``norm``: the larger of what it misses and
        can have gained.
        """
        return max(missed, self.penalised_violation(u, margins, primal))

    def primal_at(self, factor: Array, margins: Array, u: Array | None = None) -> Primal:
        """`Primal` of X = L L', L = ``factor``; given u, with what its violation may have gained."""
        (terms,) = self.operator.space.totals(self.primal_terms(margins))
        value, violation = self.primal_value(terms, squared_norm(factor), factor)
        if u is not None:
            violation = max(violation, self.penalised_violation(u, margins, value))
        return value, violation


class SpectralProgram(SpectralDual, Problem):
    """A Frobenius-regularised program, certified by its dual evaluated in float64."""

    def primal_point(self, X: Array) -> Array:
        """X in the form that the certificate takes: L with X = L L', up to rounding."""
        return spectral.psd_split(X).factor

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        exact = self.exact
        L = float64(primal_point)
        # rounding in single precision may have left the box, outside of which D is no bound
        u = exact.project(float64(dual_point))
        margins = exact.margins_of(L)
        point = exact.evaluate(u, None, exact.primal_terms(margins))
        squares = squared_norm(L)
        primal, missed = exact.primal_value(point.requested_totals[0], squares, L)
        violation = exact.certified_violation(missed, u, margins, primal, squares**0.5)
        return Bounds(primal, point.bound, violation)


class Evaluation:
    """The dual at u and the sums ``requested``; ``known`` is (A*(u), [gain]). The rest is lazy."""

    def __init__(
        self,
        problem: SpectralDual,
        u: Array,
        rank: int | None,
        *requested: Reduction,
        known: Any = None,
    ):
        self.problem = problem
        self.u = u
        self.rank_guess = rank
        adjoint, totals = known or problem.operator.adjoint_and(u, problem.gain(u), *requested)
        self.gain = totals[0]
        self.requested_totals = totals[1:]
        self.combined = adjoint if problem.sign > 0 else -adjoint  # sign A*(u)
        self._terms: Any = None  # set by `measure`

    @property
    def shifted(self) -> Array:
        """K(u)."""
        offset = self.problem.offset
        if offset is None:
            return self.combined
        return self.combined + offset

    @cached_property
    def part(self) -> Any:
        return spectral.psd_split(self.shifted, self.rank_guess)

    @cached_property
    def dual(self) -> float:
        return self.dual_of(self.part)

    @cached_property
    def bound(self) -> float:
        """The dual value from eigenvalues without eigenvectors: a third of the work."""
        return self.dual_of(spectral.positive_values(self.shifted))

    def dual_of(self, part: spectral.PSDPart | spectral.FactoredPart) -> float:
        """The dual value, given the positive part of K(u)."""
        p = self.problem
        return p.constant + self.gain - 0.5 * p.sigma * part.squared_norm

    @cached_property
    def factor(self) -> Array:
        """L with X(u) = L L'."""
        return self.problem.sigma**0.5 * self.part.factor

    @property
    def primal_point(self) -> Array:
        """X(u) in the form that the certificate takes."""
        return self.factor

    @property
    def matrix(self) -> Array:
        """X(u), dense."""
        return self.problem.sigma * self.part.matrix()

    @property
    def rank(self) -> int:
        return self.part.rank

    @cached_property
    def margins(self) -> Array:
        """A(X(u))."""
        return self.problem.margins_of(self.primal_point)

    @cached_property
    def gradient(self) -> Array:
        p = self.problem
        return p.gain_slope(self.u) - self.margins * p.sign

    @cached_property
    def primal(self) -> Primal:
        """(objective, violation) of X(u)."""
        squared_norm = self.problem.sigma**2 * self.part.squared_norm
        value, violation = self.problem.primal_value(self.terms, squared_norm, self.factor)
        return value, max(violation, self.problem.penalised_violation(self.u, self.margins, value))

    @property
    def terms(self) -> float:
        """What the primal objective needs of the margins."""
        if self._terms is None:
            self.measure()
        return self._terms

    def moved(self, u: Array) -> "Evaluation":
        """The same point with equal multipliers ``u`` that are stored elsewhere."""
        point = copy(self)
        point.u = u
        for vector in ("margins", "gradient"):
            vars(point).pop(vector, None)
        return point

    def measure(self, *requested: Reduction) -> list[Any]:
        """The results of these reductions, in one visit with `terms`."""
        p = self.problem
        self._terms, *results = p.operator.space.totals(p.primal_terms(self.margins), *requested)
        return results


def squared_norm(factor: Array) -> float:
    """||L L'||_F^2 for L = ``factor``."""
    is_wide = factor.shape[1] > factor.shape[0]
    gram = factor @ factor.T if is_wide else factor.T @ factor  # the smaller of both
    return float((gram**2).sum())
