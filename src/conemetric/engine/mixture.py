"""Convex combinations of the primal points that a dual ascent meets.

D rises smoothly while P(M(u)) swings high above it: ||M(u) - M*||^2 <= 2 (D* - D(u)) bounds P(M(u))
- P* only by the root of D* - D(u). The swings cancel in

    B <- B + t (M(u) - B),      t the best of some shares for P(B)

whose margins are linear in t, so that no constraint is visited. On MNIST triplets P(B) is three to
seven times nearer to the optimum than the last P(M(u)).
"""

from dataclasses import dataclass
from typing import Self

from ..core.arrays import Array, float64, like, namespace
from ..core.vectors import on_host
from .frobenius import FrobeniusProgram
from .program import Evaluation

SHARES = [0.7**k for k in range(10)]  # of a new point: from all of it to 4 %


@dataclass(frozen=True)
class Mixture:
    """B = ``matrix`` with its margins in a `FrobeniusProgram` and its objective there."""

    problem: FrobeniusProgram
    matrix: Array
    margins: Array
    value: float

    @classmethod
    def of(cls, problem: FrobeniusProgram, matrix: Array, margins: Array) -> Self:
        """The mixture with this matrix and margins."""
        distance = _from_prior(problem, matrix)
        squared = (float64(distance) ** 2).sum()
        squared, losses = on_host([squared, _losses(problem, margins[None])[0]])
        return cls(problem, matrix, margins, problem.constant + 0.5 * squared + losses)

    def extended(self, point: Evaluation) -> Self:
        """With the best share of the primal point of an evaluation; unchanged if none helps."""
        p = self.problem
        change = point.matrix - self.matrix
        change_of_margins = point.margins - self.margins
        distance = float64(_from_prior(p, self.matrix)).reshape(-1)
        step = float64(change).reshape(-1)
        t = like(SHARES, change_of_margins)
        losses = _losses(p, self.margins + t[:, None] * change_of_margins)
        # ||B + t step - M0||^2 is a parabola in t, by three products for all shares
        squares = (distance @ distance, distance @ step, step @ step)
        losses, (still, slope, curvature) = on_host([losses, squares])  # in one transfer
        shares = like(SHARES, losses)
        values = p.constant + 0.5 * still + shares * slope + 0.5 * shares**2 * curvature + losses
        best = int(values.argmin())
        if not values[best] < self.value:
            return self
        share = SHARES[best]
        matrix = self.matrix + share * change
        margins = self.margins + share * change_of_margins
        return type(self)(p, matrix, margins, float(values[best]))


def _from_prior(problem: FrobeniusProgram, matrix: Array) -> Array:
    """Return M - M0."""
    if problem.prior is None:
        return matrix
    return matrix - problem.prior


def _losses(problem: FrobeniusProgram, margins: Array) -> Array:
    """The sum of the losses of each row of margins."""
    values = problem.loss.value(margins) * problem.unit
    return values.sum(1, dtype=namespace(values).float64)
