"""Bilinear scores plus columns of other scores, whose weights are not negative.

    P(W, v) = 1/2 ||W - W0||_F^2 + 1/2 ||v - v0||^2 + sum_r c_r l(A(W)_r + (S v)_r),    v >= 0
    D(u) = sum_r c_r g(u_r / c_r) - 1/2 ||A*(u)||_F^2 - <W0, A*(u)>
           + 1/2 ||v0||^2 - 1/2 ||[v0 + S'u]_+||^2
    W(u) = W0 + A*(u)        v(u) = [v0 + S'u]_+        multipliers of v >= 0: v(u) - v0 - S'u

`problems.bilinear` over a sum of spaces (`operators.columns`), with the positive part where
the numbers are. A weight w with the regulariser rho/2 (w - w0)^2 is v = sqrt(rho) w. With a
cone of matrices instead of all W, `problems.frobenius` is the program as it is: a matrix of
two diagonal blocks is positive semidefinite where both are.
"""

from functools import cached_property

from ..core.arrays import float64
from ..operators.columns import partitioned
from .bilinear import BilinearEvaluation, BilinearProgram


class MixedProgram(BilinearProgram):
    """See the module docstring; the operator is a `WithColumns`, and the prior holds both.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.operators.columns import WithColumns, concatenated
    >>> from conemetric.operators.bilinear import from_comparisons
    >>> from conemetric.problems.mixed import MixedProgram
    >>> Q, D = np.array([[2.0]]), np.array([[0.0], [1.0]])
    >>> operator = WithColumns(from_comparisons(Q, D, np.array([[0, 1, 0]])), np.array([[1.0]]))
    >>> prior = concatenated(np.array([[0.25]]), np.array([0.0]))
    >>> program = MixedProgram(operator, C=1.0, prior=prior)  # A(W) + S v = 2 W + v
    >>> found = program.certify(concatenated(np.array([[0.45]]), np.array([0.1])), np.array([0.1]))
    >>> round(found.primal, 6), round(found.dual, 6)
    (0.025, 0.025)
    """

    def evaluate(self, u, rank_guess=None, *requested):
        return MixedEvaluation(self, u, rank_guess, requested)


class MixedEvaluation(BilinearEvaluation):
    """As `BilinearEvaluation`; numbers that would be negative are zero."""

    @cached_property
    def cut(self):
        """v(u) - v0 - S'u, the multipliers of v >= 0."""
        _, v = partitioned(self.problem.prior + self.combined, self.problem.operator.n_columns)
        return -self.problem.operator.xp.clip(v, None, 0.0)

    @cached_property
    def primal_point(self):
        point = self.problem.prior + self.combined
        n = len(self.cut)
        for i, value in enumerate(self.cut):
            point[i - n, i - n] += value
        return point

    @cached_property
    def dual(self):
        return super().dual + 0.5 * float((float64(self.cut) ** 2).sum())

    @cached_property
    def primal(self):
        change = self.problem.significant(self.primal_point - self.problem.prior)
        return self.problem.constant + 0.5 * change + self.terms, 0.0
