"""Loss of bilinear scores plus Frobenius norm about a prior: a map of the queries alone, no cone;
and of columns of other scores, whose weights v are not negative.

    P(W, v) = 1/2 ||W - W0||_F^2 + 1/2 ||v - v0||^2 + sum_r c_r l(A(W)_r + (S v)_r),    v >= 0
    D(u) = sum_r c_r g(u_r / c_r) - 1/2 ||A*(u)||_F^2 - <W0, A*(u)>,      u_r / c_r in the domain of g
           + 1/2 ||v0||^2 - 1/2 ||[v0 + S'u]_+||^2
    W(u) = W0 + A*(u)        v(u) = [v0 + S'u]_+        multipliers of v >= 0: v(u) - v0 - S'u

with A(W)_r = q_r' W (b_r - w_r): the dual of `engine.frobenius` with the positive part replaced by
the identity, except on the columns of `ranking.column_operator`, if there are any. c_r = C w_r / sum(w), l
and g as in `engine.losses`. A weight w with the regulariser rho/2 (w - w0)^2 is v = sqrt(rho) w.
"""

from functools import cached_property

from ..core.arrays import Array, float64
from ..core.vectors import Reduction
from ..engine.frobenius import FrobeniusProgram
from ..engine.program import Evaluation, Primal


class BilinearProgram(FrobeniusProgram):
    """See the module docstring; parameters as for `FrobeniusProgram`, with a prior, which holds W0
    and v0 if the operator is a `WithColumns`.
    """

    def evaluate(
        self, u: Array, rank_guess: int | None = None, *requested: Reduction
    ) -> Evaluation:
        return BilinearEvaluation(self, u, rank_guess, *requested)

    def primal_value(self, terms: float, squared_norm: float, W: Array) -> Primal:
        return self.constant + 0.5 * self.significant(W - self.prior) + terms, 0.0

    def primal_point(self, X: Array) -> Array:
        return X

    def margins_of(self, W: Array) -> Array:
        return self.operator.forward(W)


class BilinearEvaluation(Evaluation):
    """An `Evaluation` whose primal point is W(u) itself, and v(u) on the rest of its diagonal."""

    problem: BilinearProgram

    @cached_property
    def cut(self) -> Array:
        """v(u) - v0 - S'u, the multipliers of v >= 0."""
        p = self.problem
        rows, columns = self.combined.shape  # the map need not be square
        n = p.operator.n_columns
        v = (p.prior + self.combined)[rows - n :, columns - n :].diagonal()
        return -p.operator.xp.clip(v, None, 0.0)

    def _raised(self, matrix: Array) -> Array:
        """``matrix`` with the cut added to the rest of its diagonal."""
        n = len(self.cut)
        if not n:
            return matrix
        raised = matrix + 0
        for i, value in enumerate(self.cut):
            raised[i - n, i - n] += value
        return raised

    @cached_property
    def primal_point(self) -> Array:
        return self._raised(self.problem.prior + self.combined)

    @property
    def matrix(self) -> Array:
        return self.primal_point

    @property
    def rank(self) -> int:
        return len(self.combined)

    @cached_property
    def dual(self) -> float:
        S = float64(self.combined)
        cut = float64(self.cut)
        lost = 0.5 * float((S**2).sum()) + float((S * float64(self.problem.prior)).sum())
        return self.problem.constant + self.gain - lost + 0.5 * float((cut**2).sum())

    @property
    def bound(self) -> float:
        return self.dual

    @cached_property
    def primal(self) -> Primal:
        squared = float((float64(self._raised(self.combined)) ** 2).sum())
        return self.problem.constant + 0.5 * squared + self.terms, 0.0
