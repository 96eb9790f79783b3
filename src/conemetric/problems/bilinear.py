"""Loss of bilinear scores plus Frobenius norm about a prior: a map of the queries alone, no cone.

    P(W) = 1/2 ||W - W0||_F^2 + sum_r c_r l(A(W)_r),          A(W)_r = q_r' W (b_r - w_r)
    D(u) = sum_r c_r g(u_r / c_r) - 1/2 ||A*(u)||_F^2 - <W0, A*(u)>,   u_r / c_r in the domain of g
    W(u) = W0 + A*(u)        grad D(u)_r = g'(u_r / c_r) - A(W(u))_r

The dual of `problems.frobenius` with the positive part replaced by the identity: W need be neither
symmetric nor positive. c_r = C w_r / sum(w), l and g as in `problems.losses`.
"""

from functools import cached_property
from typing import Any

from ..core.arrays import float64
from .base import Evaluation
from .frobenius import FrobeniusProgram


class BilinearProgram(FrobeniusProgram):
    """See the module docstring; parameters as for `FrobeniusProgram`, with a prior."""

    def evaluate(self, u: Any, rank_guess: int | None = None, *requested: Any) -> Evaluation:
        return BilinearEvaluation(self, u, rank_guess, requested)

    def primal_value(self, terms: Any, squared_norm: Any, W: Any) -> tuple[float, float]:
        return self.constant + 0.5 * self.significant(W - self.prior) + terms, 0.0

    def primal_point(self, W: Any) -> Any:
        return W

    def margins_of(self, W: Any) -> Any:
        return self.operator.forward(W)


class BilinearEvaluation(Evaluation):
    """An `Evaluation` whose primal point is W(u) itself."""

    @cached_property
    def primal_point(self) -> Any:
        return self.problem.prior + self.combined

    @property
    def matrix(self) -> Any:
        return self.primal_point

    @property
    def rank(self) -> int:
        return len(self.combined)

    @cached_property
    def margins(self) -> Any:
        return self.problem.operator.forward(self.primal_point)

    @cached_property
    def _squared_change(self):
        """||W(u) - W0||_F^2."""
        return float((float64(self.combined) ** 2).sum())

    @cached_property
    def dual(self) -> float:
        shared = float((float64(self.combined) * float64(self.problem.prior)).sum())
        return self.problem.constant + self.gain - 0.5 * self._squared_change - shared

    @property
    def bound(self) -> float:
        return self.dual

    @cached_property
    def primal(self) -> tuple[float, float]:
        return self.problem.constant + 0.5 * self._squared_change + self.terms, 0.0
