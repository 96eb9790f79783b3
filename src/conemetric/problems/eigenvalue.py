"""Eigenvalue programs (Ying & Li 2012): a trace, plus a hinge loss on the constraints
of one operator.

    P(S) = w Tr S + c sum_r max(0, b_r - A(S)_r),   S psd           (c = inf: A(S) >= b is enforced)
    D(u) = b'u,                                     0 <= u <= c,  A*(u) <= w I
    any u >= 0, times min(c / max u, w / lambda_max(A*(u))), is dual feasible

For b = 1 this is the paper's "maximise min_r (xi_r + A(S)_r) over w Tr S + c 1'xi = 1"
(Lemma 2): a point of value delta there, divided by delta, is a point of value 1/delta
here, and the paper's bound max(max u / c, lambda_max(A*(u)) / w) over the simplex is
one over the bound above. The proximal subproblem

    min P(S) + ||S - S_k||_F^2 / (2 sigma)

has a dual in the form of `SpectralDual`, with K(u) = S_k / sigma - w I + A*(u): a box
and a smooth objective.
"""

import math
from functools import cached_property

from .. import spectral
from ..arrays import float64, namespace, zeros
from ..operators import from_pairs
from .base import Bounds, Problem, SpectralDual


def whiten(X, similar_pairs, ridge):
    """X in coordinates where the scatter of the similar pairs is the identity, in float64.

    The scatter is X_S = sum of d d' over the pairs, plus ``ridge`` times the diagonal
    that as many pairs of random rows would give it: a ridge relative to the spectrum
    that does not depend on the units of any feature.

    Returns
    -------
    whitened : array (n, D)
        Rows R^-1 x.
    R : array (D, D)
        Lower triangular, R R' = X_S + ridge.
    """
    xp = namespace(X)
    X = float64(X)
    X = X - X.mean(0)
    operator = from_pairs(X, similar_pairs)
    spread = (X * X).mean(0)
    spread = xp.where(spread > 0, spread, xp.ones_like(spread))
    scatter = operator.adjoint(operator.empty_constraint_vector() + 1)
    R = xp.linalg.cholesky(scatter + 2 * ridge * len(similar_pairs) * xp.diag(spread))
    return xp.linalg.solve(R, X.T).T, R


class EigenvalueProgram(Problem):
    """See the module docstring.

    Parameters
    ----------
    operator : Operator
        In float64, where certificates are evaluated.
    trace_weight, loss_weight : float
        w and c.
    dtype : dtype, default=None
        Precision to solve in; None keeps float64.
    target : array (m,), default=None
        b; None means ones.
    """

    def __init__(self, operator, trace_weight, loss_weight, dtype=None, target=None):
        self.exact_operator = operator
        self.operator = operator if dtype is None else operator.astype(dtype)
        self.trace_weight, self.loss_weight = float(trace_weight), float(loss_weight)
        ones = self.operator.empty_constraint_vector() + 1
        self.target = ones if target is None else target * ones

    @property
    def hard(self):
        """Whether the constraints are enforced rather than penalised."""
        return math.isinf(self.loss_weight)

    # ---- the program

    def objective(self, L, margins):
        """P(L L'), given A(L L'); where constraints are enforced, of the multiple of L
        L' that just meets them.
        """
        trace = self.trace_weight * float((float64(L) ** 2).sum())
        if self.hard:
            least = float(margins.min())
            return trace / least if least > 0 else math.inf
        missing = self.operator.xp.clip(self.target - margins, 0, None)
        return trace + self.loss_weight * float(float64(missing).sum())

    def lower_bound(self, u):
        """D of u scaled to feasibility (of equal multipliers where u is zero)."""
        u = self.operator.xp.clip(u, 0, None)
        u = u if float(u.max()) > 0 else u + 1
        largest = spectral.largest_eigenvalue(self.operator.adjoint(u))
        scale = min(
            self.loss_weight / float(u.max()),
            self.trace_weight / largest if largest > 0 else math.inf,
        )
        return scale * float(float64(self.target * u).sum())

    def bounds(self, L, u):
        """Bounds on the program from a factor L of S and multipliers u."""
        return Bounds(self.objective(L, self.operator.forward_factor(L)), self.lower_bound(u))

    @cached_property
    def exact(self):
        program = Problem.exact.func(self)
        program.operator = self.exact_operator  # not the one rounded to the precision solved in
        return program

    def certify(self, primal_point, dual_point):
        return self.exact.bounds(float64(primal_point), float64(dual_point))

    # ---- for the proximal-point method

    def start(self):
        """Feasible multipliers; the zero matrix, as its factor; and a first sigma in
        the units of the program.
        """
        largest = spectral.largest_eigenvalue(self.operator.adjoint(self.unit))
        scale = min(
            self.loss_weight / float(self.unit.max()),
            self.trace_weight / largest if largest > 0 else math.inf,
        )
        u = scale * self.unit
        return u, zeros((self.operator.n_features, 0), u), float(u.sum()) / self.trace_weight**2

    @cached_property
    def unit(self):
        """Natural size of each multiplier, up to scale."""
        return self.operator.empty_constraint_vector() + 1

    def proximal(self, center, sigma):
        """The dual of min P(S) + ||S - S_k||_F^2 / (2 sigma), S_k = L_k L_k' with L_k =
        ``center``.
        """
        return ProximalDual(self, center, sigma)

    def offset(self, center, sigma):
        """S_k / sigma - w I."""
        identity = self.operator.xp.eye(
            self.operator.n_features, dtype=center.dtype, device=center.device
        )
        return center @ center.T / sigma - self.trace_weight * identity

    # ---- for the Frank-Wolfe method

    def game_bounds(self, value, bound):
        """Bounds from the max-min game: a point of value ``value``, and an upper bound
        on the game.
        """
        return (1 / value if value > 0 else math.inf), 1 / bound


class ProximalDual(SpectralDual):
    """Dual of one proximal step of an `EigenvalueProgram`, which certifies it; its
    primal objective is that of the step.
    """

    lower = 0.0

    def __init__(self, program, center, sigma):
        self.program, self.center, self.sigma = program, center, sigma
        self.operator, self.upper, self.linear = (
            program.operator,
            program.loss_weight,
            program.target,
        )
        self.unit, self.offset = program.unit, program.offset(center, sigma)
        self.constant = float((float64(center.T @ center) ** 2).sum()) / (2 * sigma)

    def primal_value(self, margins, squared_norm, factor):
        scale = 1.0
        if self.program.hard:
            least = float(margins.min())
            scale = 1 / least if least > 0 else math.inf
        overlap = float((float64(self.center.T @ factor) ** 2).sum())
        distance = self.constant + (scale**2 * squared_norm - 2 * scale * overlap) / (
            2 * self.sigma
        )
        return self.program.objective(factor, margins) + distance, 0.0
