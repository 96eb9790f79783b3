"""Maximum variance unfolding, Frobenius-regularised (Shen et al. 2014, section III) or exact
(Weinberger & Saul 2005).

    P(K) = -Tr K + ||K||_F^2 / (2 sigma)   s.t.  A(K) = b  (or <= b),  K 1 = 0,  K psd;   A(K)_e = K_aa + K_bb - 2 K_ab
    D(u) = -b'u - sigma/2 ||[I - A*(u)]_+||_F^2,     u free (or u >= 0),    A*(u) = Lap(u)
    K(u) = sigma [I - A*(u)]_+        grad D(u) = A(K(u)) - b
    sigma = inf:   D(u) = -b'u / lambda,   lambda = smallest eigenvalue of Lap(u): u / lambda is dual feasible

all on the subspace orthogonal to the constant vector, which replaces the constraint K 1 = 0. The
variance reached is -P, and -D is a proven upper bound on what can be reached.

Rounding is part of the bound: D(u) is lowered by what forming A*(u), the decomposition and b'u can
lose, so a bound is loose, not false, where u is large. With <= a point is scaled until no distance is
exceeded; with = Levenberg-Marquardt steps make distances right to rounding where the edges allow it.
Where they do not, an error of 1e-7 can be worth a thousandth of the objective: the violation says what
it has gained at most (`engine.sdp`).
With equalities and flat cliques no kernel of full rank is feasible:
`UnfoldingOnFace` is the program on the face that holds all feasible kernels (`papers.unfolding.rigidity`).
What is certified is still D, at multipliers of the original program (docs/mathematics).
"""

from collections.abc import Callable
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
from scipy.sparse import eye_array
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator

from ...core import spectral
from ...core.arrays import Array, Pair, float64, identity, like, to_numpy
from ...core.cholesky import cholesky_solver
from ...core.vectors import Reduction
from ...engine.certificate import Bounds
from ...engine.program import Evaluation, Point, Primal, squared_norm
from ...engine.repairs import repaired
from ...engine.sdp import ROUNDING, ConstrainedProgram
from .edges import EdgeOperator, ReducedEdges, symmetric_solver
from .rigidity import Face

# squared distance, relative to the longest, from which errors that are rounding are relative: rows that
# nearly coincide are joined
NOTABLE = 1e-3
SHORTEST = 1e-6  # squared distance, relative to the longest, below which errors count less
SCALED_AWAY = 1e-6  # relative excess of a squared distance that scaling down may remove
STRESSES = 0.0, *10.0 ** np.arange(4, 12)  # multiples tried; larger ones are lost in rounding
STIFFNESS = 1e7  # weight of equal multipliers on the face, against what they lose
LIFTED = 6000  # edges over which multipliers are spread, at most: a matrix of that order is formed
EPS = np.finfo(float).eps
FEW_OPERATIONS = 8  # roundings of a value, beside those of the sums in it
SMOOTHING = 1e-2  # ridge of the rough smoother: 1e-3 and 1e-4 take more iterations
CURVATURE = 0.3  # of the objective, in the smoother, where that of the trace is 1
SPARE = 10  # eigenpairs computed beyond the rank expected
START_RANK = 8  # columns of a first factor; its rank adapts
SHIFT = 0.1  # that makes A*(u) definite, where eigenvalues up to 1 are sought
LANCZOS_TOL = 1e-6  # relative accuracy of leading eigenvalues, which no certificate uses


class UnfoldingProgram(ConstrainedProgram):
    """See the module docstring: ``operator`` is an `EdgeOperator`, or `ReducedEdges` with
    orthonormal, centred columns; ``b`` are squared distances, kept (``equality``) or upper bounds,
    with this relative ``error``.
    """

    operator: Any
    nodes: EdgeOperator
    equality: bool

    def __init__(self, operator: Any, b: Array, sigma: float, equality: bool, error: float = 0.0):
        self.operator = operator
        self.sigma = float(sigma)
        self.equality = bool(equality)
        self.error = error
        self.nodes = operator if operator.ignores_constants else operator.edges
        self.b = like(b, operator.empty_constraint_vector())
        self.linear = -self.b
        self.lower = -np.inf if equality else 0.0
        self.upper = np.inf
        self.bounded = not equality
        self.size = float(self.b.max()) or 1.0

    @cached_property
    def scale(self) -> Array:
        """Sizes of the squared distances, relative to which their errors count."""
        return self.b.clip(SHORTEST * self.size)

    def at_stake(self, slack: Array, active: float) -> Array | None:
        if self.equality:
            return None
        return slack < active * self.b

    def penalised_violation(self, u: Array, margins: Array, primal: float) -> float:
        """As there; 0 if distances are right, whose rounding large multipliers would price too high."""
        errors = abs(self.lacking(self.b - margins)) / self.b.clip(NOTABLE * self.size)
        right = float(errors.max()) <= ROUNDING
        return 0.0 if right else super().penalised_violation(u, margins, primal)

    def cost_product(self, Y: Array) -> Array:
        """C Y, with C = -I on the centred subspace and +1 on constants: Y stays centred."""
        if self.operator.ignores_constants:
            return 2 * Y.mean(0) - Y
        return -Y

    @cached_property
    def offset(self) -> Array:  # type: ignore[override]
        """-C: K(u) = -C - A*(u)."""
        n = self.operator.n_features
        one = identity(n, self.b)
        if self.operator.ignores_constants:
            return one - 2.0 / n
        return one

    def start_factor(self, rank: int = START_RANK) -> Array:
        """The smoothest functions on the graph (eigenvectors of A*(1)), scaled to the distances."""
        rank = min(rank, self.operator.n_features - self.operator.ignores_constants)
        Y = self.leading_eigenpairs(self.b * 0 + 1, rank)[1]
        return Y * ((self.b.mean() or 1.0) / self.operator.forward_factor(Y).mean()) ** 0.5

    def smoother(self, Y: Array, u: Array, mu: float) -> Callable[[Array], Array]:
        """Roughly the inverse of the curvature of the augmented Lagrangian at Y: on the host that of
        its constraints, elsewhere of A*(b), the Laplacian whose weights are the squared distances.
        """
        if self.operator.xp is not np or not self.operator.ignores_constants:
            return self._rough_smoother
        multipliers = self.project(u + mu * (self.operator.forward_factor(Y) - self.b))
        stiff = mu * ((multipliers > 0) | self.equality)
        diagonal = 2 * (CURVATURE * np.eye(Y.shape[1]) + Y.T @ Y / self.sigma)
        return self.operator.curvature_solver(Y, multipliers, stiff, diagonal)

    @cached_property
    def _rough_smoother(self) -> Callable[[Array], Array]:
        return self.operator.smoother(self.b, SMOOTHING)

    def leading_eigenpairs(self, u: Array, k: int) -> Pair:
        """The k largest eigenvalues and eigenvectors of K(u); on the host from the sparse A*(u)."""
        n = self.operator.n_features
        sparse = self.operator.xp is np and self.operator.ignores_constants
        if sparse and n > spectral.PARTIAL_FROM and k <= n // spectral.MIN_ORDER_PER_PAIR:
            find = _leading_by_inverse if self.bounded else _leading_by_products
            try:
                return find(self.operator.sparse_adjoint(u), k)
            except ArpackNoConvergence:
                pass  # a dense decomposition always works
        return spectral.leading_eigenpairs(self.offset - self.operator.adjoint(u), k)

    def evaluate(
        self, u: Array, rank_guess: int | None = None, *requested: Reduction
    ) -> Evaluation:
        return UnfoldingEvaluation(self, u, rank_guess, *requested)

    def primal_value(self, terms: float, squared_norm: float, factor: Array) -> Primal:
        trace = float((float64(factor) ** 2).sum())
        return squared_norm / (2 * self.sigma) - trace, terms / self.size

    def value(self, L: Array) -> float:
        """The objective of K = L L'."""
        return self.primal_value(0.0, squared_norm(L), L)[0]

    def primal_point(self, X: Array) -> Array:
        """A centred factor of X; with inequalities scaled down until no distance is exceeded."""
        L = (spectral.definite_part(X) or spectral.psd_split(X)).factor
        if self.operator.ignores_constants:
            L = L - L.mean(0)
        return self.feasible(L)

    def feasible(self, L: Array, reached: Array | None = None) -> Array:
        """L, with inequalities scaled down until no distance is exceeded, whatever the rounding."""
        if self.equality or L.shape[1] == 0:
            return L
        if reached is None:
            reached = self.operator.forward_factor(L)
        # less what rounding may have added to b and taken from the distances
        allowed = self.b * (1 - self.error - (L.shape[1] + FEW_OPERATIONS) * EPS)
        exceeded = reached > allowed
        if not bool(exceeded.any()):
            return L
        # scaling rounds every coordinate
        allowed = (allowed[exceeded] ** 0.5 - FEW_OPERATIONS * EPS * abs(L).max()).clip(0)
        return L * float((allowed / reached[exceeded] ** 0.5).min())

    def repaired(self, L: Array) -> Array:
        """A factor near L that meets its distances, if one is found; with inequalities always."""
        if self.equality or L.shape[1] == 0:
            return super().repaired(L)
        return self.feasible(repaired(self, L, SCALED_AWAY, steady=False).factor)

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        exact = self.exact
        u = exact.project(float64(dual_point))
        Y = float64(primal_point)
        if self.operator.ignores_constants:
            Y = Y - Y.mean(0)
        primal, violation = exact.primal_at(Y, exact.operator.forward_factor(Y), u)
        return below(primal, exact.bound(u), violation)

    def bound(self, u: Array) -> float:
        """D(u) less what rounding may have added."""
        K = self.offset - self.operator.adjoint(u)
        size = float(self.operator.xp.linalg.vector_norm(K))
        if not np.isfinite(size):
            return -np.inf
        values = self.operator.xp.linalg.eigvalsh(K)
        # what rounding can add to any eigenvalue, and to the norm of the positive ones
        error = self.operator.adjoint_error(u) + (len(K) + FEW_OPERATIONS) * EPS * size
        positive = float((values[values > 0] ** 2).sum()) ** 0.5 + error
        terms = to_numpy(self.linear * u).tolist()  # summed exactly: large ones may cancel
        lost = (self.error + EPS) * fsum(abs(term) for term in terms)
        dual = self.dual_value(fsum(terms) - lost, positive**2, float(values.max()) + error)
        return dual - FEW_OPERATIONS * EPS * abs(dual)

    def dual_value(self, linear: float, squared_norm: float, largest: float) -> float:
        """D(u) from -b'u, ||[K(u)]_+||_F^2 and the largest eigenvalue of K(u)."""
        if np.isfinite(self.sigma):
            return linear - 0.5 * self.sigma * squared_norm
        # K(u) = I - Lap(u), so that 1 - largest is the smallest eigenvalue of Lap(u)
        return linear / (1 - largest) if largest < 1 else -np.inf


def _leading_by_inverse(A: Any, k: int) -> Pair:
    """Return the k largest eigenvalues of I - A on the centred subspace, A a semidefinite Laplacian:
    those of the inverse of A + `SHIFT` I, which Lanczos finds in fewer products.
    """
    n = A.shape[0]
    solve = symmetric_solver((A + SHIFT * eye_array(n)).tocsc())

    def product(y: Array) -> Array:
        return solve(y) - y.mean() / SHIFT  # without the constant vector, where A is zero

    inverse = LinearOperator((n, n), product, dtype=A.dtype)
    values, vectors = spectral.leading_eigenpairs(inverse, k, tol=LANCZOS_TOL)
    # an eigenvalue a of A gives 1 / (a + SHIFT), from which 1 - a is recovered
    return 1 + SHIFT - 1 / values, vectors


def _leading_by_products(A: Any, k: int) -> Pair:
    """Return the k largest eigenvalues of I - A, less 2 on the constant vector, and eigenvectors."""
    n = A.shape[0]

    def product(y: Array) -> Array:
        return y - 2 * y.mean() - A @ y

    K = LinearOperator((n, n), product, dtype=A.dtype)
    return spectral.leading_eigenpairs(K, k, tol=LANCZOS_TOL)


class UnfoldingOnFace(UnfoldingProgram):
    """An `UnfoldingProgram` over the kernels K = U Z U' of a `rigidity.Face`, with the edges that
    determine Z.

    With equalities every feasible kernel has that form, up to rounding and to the length of edges
    that are as good as none; with inequalities it is a restriction that joins the ends of such
    edges. The bounds are those of the ``original`` program, at multipliers that come close to the
    bound over Z.
    """

    multipliers: Array | None = None  # of the original program, from the last certificate

    def __init__(self, original: UnfoldingProgram, face: Face):
        self.original = original
        self.basis = like(face.basis, original.b)
        self.outside = like(face.outside, original.b)
        self.stress = like(face.stress, original.b)
        others = np.setdiff1d(np.arange(len(original.b)), face.kept)
        spread = np.append(face.kept, others)[: max(LIFTED, len(face.kept))]
        int64 = original.operator.xp.int64
        self.kept = like(face.kept, original.b, int64)
        self.spread = like(spread, original.b, int64)
        operator = ReducedEdges(original.nodes.subset(face.kept), self.basis)
        super().__init__(
            operator,
            original.b[self.kept],
            original.sigma,
            original.equality,
            original.error,
        )

    @property
    def known_value(self) -> float:  # type: ignore[override]
        """That of the original, whose feasible points are those of the face."""
        return self.original.known_value

    def lifted(self, L: Array, u: Array) -> Array:
        """Multipliers of the original program, from those of the face and a factor of Z.

        D(v + t w) is the bound over Z less about <C S^+ C', K> / t, where S = A*(w) and C is the
        part of A*(v) between the face and the rest. Of all v that are u on the face, least squares
        find the one with the smallest such loss.
        """
        given = self.original.b * 0
        given[self.kept] = u
        if self.equality:
            nodes = self.original.nodes
            spread = self.spread
            inside = nodes.differences(self.basis)[spread]
            across = nodes.differences(self.outside)[spread]
            moved = inside @ L
            same = STIFFNESS * (L**2).sum() * (inside @ inside.T) ** 2
            lost = (across @ across.T) * (moved @ moved.T)
            given[spread] = cholesky_solver(same + lost)(same @ given[spread])
        lifted = [given + t * self.stress for t in STRESSES]
        return max(lifted, key=self.original.bound)

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        """That of the original."""
        whole = self.original
        L = self.basis @ float64(primal_point)
        if not whole.operator.ignores_constants:
            L = whole.operator.Q.T @ L
        own = super().certify(primal_point, dual_point)  # the lifted multipliers price too much
        _, missed = whole.primal_at(L, whole.operator.forward_factor(L))
        self.multipliers = self.lifted(float64(primal_point), float64(dual_point))
        return below(own.primal, whole.bound(self.multipliers), max(own.violation, missed))

    def proven(self, L: Array, point: Evaluation) -> float:
        return self.original.bound(self.lifted(L, point.u))


def below(primal: float, dual: float, violation: float) -> Bounds:
    """The bounds; one that an infeasible point is beyond is lowered to its value."""
    if dual > primal and primal:
        # by missing its constraints the point has gained at least what it is beyond the bound
        violation = max(violation, (dual - primal) / abs(primal))
    return Bounds(primal, min(primal, dual), violation)


class UnfoldingEvaluation(Evaluation):
    """An `Evaluation` by few eigenpairs if n is large; the dual is -inf if some are missing."""

    problem: UnfoldingProgram

    @cached_property
    def _decomposition(self) -> tuple[spectral.PSDPart, bool]:
        """The positive part, and whether it is complete."""
        p = self.problem
        n = p.operator.n_features
        k = n if self.rank_guess is None else self.rank_guess + SPARE
        if n <= spectral.PARTIAL_FROM or k > n // spectral.MIN_ORDER_PER_PAIR:
            return spectral.psd_split(p.offset + self.combined), True
        values, vectors = p.leading_eigenpairs(self.u, k)
        keep = int((values > 0).sum())
        # an eigenvalue that is not positive among them shows that no positive one is missing
        return spectral.PSDPart(values[:keep], vectors[:, :keep]), keep < k

    @property
    def part(self) -> spectral.PSDPart:
        return self._decomposition[0]

    @cached_property
    def dual(self) -> float:
        part, complete = self._decomposition
        return self.dual_of(part) if complete else -np.inf

    def dual_of(self, part: Any) -> float:
        largest = 0.0
        if part.rank:
            largest = float(part.values.max())
        return self.problem.dual_value(self.gain, part.squared_norm, largest)
