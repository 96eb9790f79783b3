"""What every convex program offers: bounds on its optimum, proven in float64; and the
dual shared by the Frobenius family.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from .. import spectral
from ..arrays import float64


class Bounds(NamedTuple):
    """``dual <= optimum``, and a point of value ``primal`` that misses the constraints
    by ``violation`` (relative).
    """

    primal: float
    dual: float
    violation: float = 0.0


class Problem(ABC):
    """A convex program. Solvers see what they declare in ``requires``; everyone sees `certify`."""

    @abstractmethod
    def certify(self, primal_point, dual_point) -> Bounds:
        """Bounds from a primal and a dual feasible point, in float64, on the original program."""


class SpectralDual(ABC):
    """Maximise linear'u - sigma/2 ||[K(u)]_+||_F^2 over a box, with K(u) = K0 + sign A*(u).

    The dual of every Frobenius-regularised program here, and of every proximal step.
    X(u) = sigma [K(u)]_+ is the primal point that belongs to u and linear - sign
    A(X(u)) the gradient. Subclasses set the attributes and say what the primal
    objective is.
    """

    operator: Any
    linear: Any  # vector, one entry per constraint
    lower: Any
    upper: Any
    sign = 1.0
    sigma = 1.0
    offset: Any = None  # K0, or None for zero
    # natural size of a multiplier, a number or one per constraint; the solver works in
    # u / unit
    unit: Any = 1.0
    constant = 0.0  # added to the dual value

    def start(self):
        """A multiplier vector inside the box."""
        return self.project(self.operator.empty_constraint_vector())

    def project(self, u):
        return self.operator.xp.clip(u, self.lower, self.upper)

    def evaluate(self, u, rank_guess=None):
        return Evaluation(self, u, rank_guess)

    def curvature(self, direction):
        """An upper bound on the dual's curvature along ``direction``."""
        return self.sigma * float((float64(self.operator.adjoint(direction)) ** 2).sum())

    def refutation(self, point):
        """Why the program has no feasible point, where the multipliers at ``point``
        prove it; else None.
        """
        return None

    @abstractmethod
    def primal_value(self, margins, squared_norm, factor):
        """(objective, relative violation) of X = L L' with L = ``factor``, A(X) =
        ``margins``, ||X||_F^2 = ``squared_norm``.
        """


class SpectralProgram(SpectralDual, Problem):
    """A Frobenius-regularised program, certified by its dual evaluated in float64."""

    @abstractmethod
    def in_float64(self):
        """The same program in double precision."""

    def certify(self, primal_point, dual_point):
        exact = self.in_float64()
        L, u = float64(primal_point), exact.project(float64(dual_point))
        primal, violation = exact.primal_value(
            exact.operator.forward_factor(L), float(((L.T @ L) ** 2).sum()), L
        )
        return Bounds(primal, exact.evaluate(u).dual, violation)


@dataclass(frozen=True)
class Evaluation:
    """The dual at one point: its value at once, the gradient and the primal point when
    first asked for.
    """

    problem: SpectralDual
    u: Any
    rank_guess: int | None = None

    @cached_property
    def part(self):
        p = self.problem
        K = p.operator.adjoint(self.u) if p.sign > 0 else -p.operator.adjoint(self.u)
        if p.offset is not None:
            K = K + p.offset
        return spectral.psd_split(K, self.rank_guess)

    @cached_property
    def dual(self):
        p = self.problem
        return (
            p.constant
            + float((float64(p.linear * self.u)).sum())
            - 0.5 * p.sigma * self.part.squared_norm
        )

    @cached_property
    def factor(self):
        """L with X(u) = L L'."""
        return self.problem.sigma**0.5 * self.part.factor

    @cached_property
    def margins(self):
        """A(X(u))."""
        return self.problem.operator.forward_factor(self.factor)

    @cached_property
    def gradient(self):
        return self.problem.linear - self.problem.sign * self.margins

    @cached_property
    def primal(self):
        """(objective, violation) of X(u)."""
        squared_norm = self.problem.sigma**2 * self.part.squared_norm
        return self.problem.primal_value(self.margins, squared_norm, self.factor)
