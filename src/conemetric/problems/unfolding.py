"""Maximum variance unfolding, Frobenius-regularised (Shen et al. 2014, section III) or exact
(Weinberger & Saul 2005).

    P(K) = -Tr K + ||K||_F^2 / (2 sigma)   s.t.  A(K) = b  (or <= b),  K 1 = 0,  K psd;   A(K)_e = K_aa + K_bb - 2 K_ab
    D(u) = -b'u - sigma/2 ||[I - A*(u)]_+||_F^2,     u free (or u >= 0),    A*(u) = Lap(u)
    K(u) = sigma [I - A*(u)]_+        grad D(u) = A(K(u)) - b
    sigma = inf:   D(u) = -b'u / lambda,   lambda = smallest eigenvalue of Lap(u): u / lambda is dual feasible

all on the subspace orthogonal to the constant vector, which replaces the constraint K 1 = 0. The
signs are those of a minimisation: the variance reached is -P, and -D is a proven upper bound on
what can be reached. K meets its distances only in the limit, so a certificate has a violation: the
larger of max_e residual_e / max_e b_e and sum_e |u_e residual_e| / |P|, which is what missing them
can have gained; residuals one-sided for <=. Gap and violation together bound the distance of P from
the optimum, above or below.

With equalities and neighbourhoods that contain flat cliques no kernel of full rank is feasible, and
D is approached only as |u| grows; with <= (the paper's form) D is attained. `UnfoldingOnFace` is
the program on the face that holds all feasible kernels (`problems.rigidity`), where D is attained
again. Rounding blurs the face, so what is certified is still D, at multipliers of the original
program.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator

from ..core import spectral
from ..core.arrays import float64, identity, like
from ..operators.edges import ReducedEdges
from .base import Bounds, Evaluation
from .sdp import ConstrainedProgram

__all__ = ["UnfoldingOnFace", "UnfoldingProgram"]

REPAIRS = 6  # Gauss-Newton steps, at most
STRESSES = 0.0, *10.0 ** np.arange(4, 12)  # multiples tried; larger ones are lost in rounding
STIFFNESS = 1e7  # weight of equal multipliers on the face, against what they lose
LIFTED = 6000  # edges over which multipliers are spread, at most: a matrix of that order is formed
ROUNDING = 16 * np.finfo(float).eps  # of sums and of eigenvalues, relative
SPARE = 10  # eigenpairs computed beyond the rank expected
START_RANK = 8  # columns of a first factor; its rank adapts
LANCZOS_TOL = 1e-6  # relative accuracy of leading eigenvalues, which no certificate uses


class UnfoldingProgram(ConstrainedProgram):
    """See the module docstring: ``operator`` is an `EdgeOperator`, or `ReducedEdges` with
    orthonormal, centred columns; ``b`` are squared distances, kept (``equality``) or upper bounds.
    """

    def __init__(self, operator: Any, b: Any, sigma: float, equality: bool):
        self.operator, self.sigma, self.equality = operator, float(sigma), bool(equality)
        self.b = like(b, operator.empty_constraint_vector())
        self.linear = -self.b
        self.lower, self.upper, self.bounded = -np.inf if equality else 0.0, np.inf, not equality
        self.size = float(self.b.max()) or 1.0

    def cost_product(self, Y: Any) -> Any:
        """C Y, with C = -I on the centred subspace and +1 on constants: Y stays centred."""
        return 2 * Y.mean(0) - Y if self.operator.ignores_constants else -Y

    @cached_property
    def offset(self) -> Any:
        n = self.operator.n_features
        one = identity(n, self.b)
        return one - 2.0 / n if self.operator.ignores_constants else one

    def start_factor(self, rank: int = START_RANK) -> Any:
        """The smoothest functions on the graph (eigenvectors of A*(1)), scaled to the distances."""
        rank = min(rank, self.operator.n_features - self.operator.ignores_constants)
        Y = self.leading_eigenpairs(self.b * 0 + 1, rank)[1]
        return Y * ((self.b.mean() or 1.0) / self.operator.forward_factor(Y).mean()) ** 0.5

    def leading_eigenpairs(self, u: Any, k: int) -> tuple[Any, Any]:
        """The k largest eigenvalues and eigenvectors of K(u); on the host from the sparse A*(u)."""
        n = self.operator.n_features
        sparse = self.operator.xp is np and self.operator.ignores_constants
        if sparse and n > spectral.PARTIAL_FROM and k <= n // spectral.FEW:
            A, dtype = self.operator.sparse_adjoint(u), self.b.dtype
            K = LinearOperator((n, n), lambda y: y - 2 * y.mean() - A @ y, dtype=dtype)
            try:
                return spectral.leading_eigenpairs(K, k, tol=LANCZOS_TOL)
            except ArpackNoConvergence:
                pass  # a dense decomposition always works
        return spectral.leading_eigenpairs(self.offset - self.operator.adjoint(u), k)

    def evaluate(self, u: Any, rank_guess: int | None = None, *requested: Any) -> Evaluation:
        return UnfoldingEvaluation(self, u, rank_guess, requested)

    def primal_value(self, terms: Any, squared_norm: Any, factor: Any) -> tuple[float, float]:
        trace = float((float64(factor) ** 2).sum())
        return squared_norm / (2 * self.sigma) - trace, terms / self.size

    def factor_of(self, X: Any) -> Any:
        """A centred factor of X; with inequalities scaled down until no distance is exceeded."""
        if self.operator.ignores_constants:
            X = X - X.mean(0)
            X = X - X.mean(1)[:, None]
        L = spectral.psd_split((X + X.T) / 2).factor
        if self.equality or L.shape[1] == 0:
            return L
        return L * min(1.0, float((self.b / self.operator.forward_factor(L)).min())) ** 0.5

    def repaired(self, L: Any) -> Any:
        """L after Gauss-Newton steps L <- L + A*(y) L towards the distances wanted."""
        operator = self.operator
        if not self.equality or L.shape[1] == 0:
            return L
        missing = self.b - operator.forward_factor(L)
        for _ in range(REPAIRS):
            solve = spectral.cholesky_solver(operator.gauss_newton_matrix(L))
            moved = L + operator.adjoint_product(solve(missing), L)
            left = self.b - operator.forward_factor(moved)
            if not abs(left).max() < 0.5 * abs(missing).max():
                break
            L, missing = moved, left
        return L

    def certify(self, primal_point: Any, dual_point: Any) -> Bounds:
        exact = self.exact
        Y, u = float64(primal_point), exact.project(float64(dual_point))
        Y = Y - Y.mean(0) if self.operator.ignores_constants else Y
        margins = exact.operator.forward_factor(Y)
        primal, violation = exact.primal_at(Y, margins)
        violation = max(violation, exact.penalised_violation(u, margins, primal))
        return Bounds(primal, exact.bound(u), violation)

    def bound(self, u: Any) -> float:
        """D(u) from all eigenvalues of K(u), less what rounding may have added."""
        values = self.operator.xp.linalg.eigvalsh(self.offset - self.operator.adjoint(u))
        values = values + ROUNDING * abs(values).max()
        positive = float((values[values > 0] ** 2).sum())
        terms = self.linear * u
        linear = float(terms.sum()) - ROUNDING * float(abs(terms).sum())
        return self.dual_value(linear, positive, float(values.max()))

    def dual_value(self, linear: float, squared_norm: Any, largest: float) -> float:
        """D(u) from -b'u, ||[K(u)]_+||_F^2 and the largest eigenvalue of K(u)."""
        if np.isfinite(self.sigma):
            return linear - 0.5 * self.sigma * squared_norm
        return linear / (1 - largest) if largest < 1 else -np.inf


class UnfoldingOnFace(UnfoldingProgram):
    """An `UnfoldingProgram` with equalities over the kernels K = U Z U' of a `rigidity.Face`, with
    the edges that determine Z.

    Every feasible kernel has that form up to rounding. The bounds are those of the ``original``
    program, at multipliers that come close to the bound over Z.
    """

    multipliers: Any = None  # of the original program, from the last certificate

    def __init__(self, original: Any, face: Any):
        self.original = original
        whole = original.operator
        self.edges = whole if whole.ignores_constants else whole.edges
        self.basis, self.outside, self.stress = (like(part, original.b) for part in face[:3])
        others = np.setdiff1d(np.arange(len(original.b)), face.kept)
        spread = np.append(face.kept, others)[: max(LIFTED, len(face.kept))]
        self.kept, self.spread = (
            like(numbers, original.b, original.operator.xp.int64) for numbers in (face.kept, spread)
        )
        operator = ReducedEdges(self.edges.subset(face.kept), self.basis)
        super().__init__(operator, original.b[self.kept], original.sigma, True)

    def lifted(self, L: Any, u: Any) -> Any:
        """Multipliers of the original program, from those of the face and a factor of Z.

        D(v + t w) is the bound over Z less about <C S^+ C', K> / t, where S = A*(w) and C is the
        part of A*(v) between the face and the rest. Of all v that are u on the face, least squares
        find the one with the smallest such loss.
        """
        given = self.original.b * 0
        given[self.kept] = u
        inside, across = (
            self.edges.differences(Y)[self.spread] for Y in (self.basis, self.outside)
        )
        moved = inside @ L
        same = STIFFNESS * (L**2).sum() * (inside @ inside.T) ** 2
        lost = (across @ across.T) * (moved @ moved.T)
        given[self.spread] = spectral.cholesky_solver(same + lost)(same @ given[self.spread])
        return max((given + t * self.stress for t in STRESSES), key=self.original.bound)

    def certify(self, primal_point: Any, dual_point: Any) -> Bounds:
        """As for the original; the violation is over all edges."""
        bounds = super().certify(primal_point, dual_point)
        whole, L = self.original, self.basis @ float64(primal_point)
        L = L if whole.operator.ignores_constants else whole.operator.Q.T @ L
        _, missed = whole.primal_at(L, whole.operator.forward_factor(L))
        self.multipliers = self.lifted(float64(primal_point), float64(dual_point))
        dual = whole.bound(self.multipliers)
        return Bounds(bounds.primal, dual, max(bounds.violation, missed))

    def proven(self, L: Any, point: Any) -> float:
        return self.original.bound(self.lifted(L, point.u))


class UnfoldingEvaluation(Evaluation):
    """An `Evaluation` by few eigenpairs if n is large; the dual is -inf if some are missing."""

    @cached_property
    def _decomposition(self):
        """(positive part, whether it is complete)."""
        p, n = self.problem, self.problem.operator.n_features
        k = n if self.rank_guess is None else self.rank_guess + SPARE
        if n <= spectral.PARTIAL_FROM or k > n // spectral.FEW:
            return spectral.psd_split(p.offset + self.combined), True
        values, vectors = p.leading_eigenpairs(self.u, k)
        keep = int((values > 0).sum())
        return spectral.PSDPart(values[:keep], vectors[:, :keep]), keep < k

    @property
    def part(self) -> Any:
        return self._decomposition[0]

    @cached_property
    def dual(self) -> float:
        part, complete = self._decomposition
        if not complete:
            return -np.inf
        largest = float(part.values[0]) if part.rank else 0.0
        return self.problem.dual_value(self.gain, part.squared_norm, largest)
