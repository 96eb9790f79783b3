"""Primal-dual interior-point method for small and medium Frobenius-regularised semidefinite
programs, with or without an interior.

    P(X) = <C, X> + ||X||_F^2 / (2 sigma)   s.t.  A(X) = b  or  A(X) + s = b, s >= 0;   X psd        (sigma = inf: no norm)
    path   C + X / sigma + A*(u) = Z,   X Z = mu I,   s u = mu                                       mu -> 0
    step   A W(A*(du)) + (s / u) du = right-hand side,   W(S) = Q (Phi o (Q'SQ)) Q'

Newton's method on the path, in the symmetric scaling of Nesterov & Todd (1997): with G such that
G^-1 X G^-T = G'ZG and G G' = Q diag(l) Q', the regulariser turns the usual Phi = l l' into Phi_ij =
l_i l_j / (1 + l_i l_j / sigma). As mu falls the l of X's range grow and all others vanish, so below
a few leading rows Phi is taken to be l l': W is a product with one matrix from both sides and a few
columns more, and the m x m matrix of the step needs one D x D matrix for each such row and one for
the rest. Steps keep A(X) = b and the definition of Z exactly; only X Z = mu I is met as well as Phi
is known. Mehrotra's predictor chooses mu. If no feasible X is definite, u grows and the path is
followed as far as rounding allows.

Stops when |P - D| / max(|P|, |D|) <= tol and the violation is <= tol, at the factor that the
problem computes from X (`primal_point`) and may repair.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

from ...core.arrays import Array, Values, arange, identity
from ...core.cholesky import cholesky_solver
from ...core.spectral import NearProduct, PSDPart, largest_eigenvalue
from ...engine.certificate import relative_gap
from ...engine.operators.base import NewtonOperator
from ...engine.program import Evaluation
from ...engine.sdp import ConstrainedProgram
from ...engine.solver import Infeasible, Iterate, Solver, Steps

LARGE = 0.03  # l_i / sqrt(sigma) from which rows of Phi are exact: l_i l_j / sigma reaches 1e-3
REPAIR_GAP = 3.0  # gap, in units of tol, at which repairing X begins to pay
FEASIBLY = 5.0  # violation, in units of tol, up to which it pays
FEW_CONSTRAINTS = 200  # with which it always does: the repair is cheap
SHORT = 0.95  # share of the way to the boundary
REACH_TOL = 1e-3  # how well that is known
FAR = 0.1  # relative gap, by the barrier, above which bounds need not be sharp
SMALLEST_STEP = 1e-5  # below which rounding dominates
CENTRING = 1e-4  # smallest share of mu that a step aims at
FIRST_SIZE = 0.5  # of X, relative to b
FIRST_SLACK = 1e-3  # smallest slack, relative to the largest b
ADDED = 1.0  # to the eigenvalues of a start, relative to b
# the gap of a start, relative to its trace; the wide one saves a quarter of the iterations, but ends
# too early with 3,568 constraints
WIDE_GAP = 100.0
START_GAP = 2.0
WIDE_UP_TO = 2000  # constraints


@dataclass(frozen=True)
class InteriorPoint(Solver):
    """See the module docstring; an iteration is a predictor and a Newton step."""

    max_iter: int = 100
    solves = ConstrainedProgram

    def steps(self, problem: ConstrainedProgram, start: Array | None) -> Steps:
        state: PathPoint | None
        if start is None:
            state = PathPoint.begin(problem)
        else:
            state = PathPoint.near(problem, start)
        proven = last = -math.inf
        primal = lowest = math.inf
        while state is not None:
            point = problem.evaluate(problem.project(state.u))
            iterate = state.iterate(point)
            if self._repair_pays(problem, iterate):
                repaired = state.iterate(point, problem.repaired(iterate.primal_point))
                if repaired.violation <= max(iterate.violation, self.tol):
                    iterate = repaired
                if iterate.violation <= self.tol:  # good enough, if the bound can be proven
                    last = proven
                    proven = problem.proven(iterate.primal_point, point)
                    lowest = primal
                    primal = iterate.primal
                    iterate = replace(iterate, dual=proven)
            reason = problem.refutation(point)
            if reason:
                raise Infeasible(reason, iterate)
            yield iterate
            if -math.inf < proven <= last and primal >= lowest:
                return  # larger multipliers only lose digits
            if abs(relative_gap(problem.known_value, iterate.dual)) <= self.tol:
                return  # all that was missing is this bound
            state = state.advanced()

    def _repair_pays(self, problem: ConstrainedProgram, iterate: Iterate) -> bool:
        """Return whether the iterate is so near the optimum that its repair could end the solve."""
        near = iterate.violation <= FEASIBLY * self.tol or len(problem.b) <= FEW_CONSTRAINTS
        return near and abs(relative_gap(iterate.primal, iterate.dual)) <= REPAIR_GAP * self.tol


def newton_operator(problem: ConstrainedProgram) -> NewtonOperator:
    """The operator of ``problem``, which must be able to form the matrix of a Newton step."""
    operator = problem.operator
    if not isinstance(operator, NewtonOperator):
        raise TypeError(
            f"InteriorPoint needs the Newton matrix of its problem's operator, and "
            f"{type(operator).__name__} has none; solve the problem by DualQuasiNewton."
        )
    return operator


class Move(NamedTuple):
    """Changes of X, Z, u and s."""

    X: Array
    Z: Array
    u: Array
    s: Array


@dataclass(frozen=True)
class PathPoint:
    """Interior points X, Z, u and s; u is free and s zero where a constraint is an equality."""

    problem: ConstrainedProgram
    X: Array
    Z: Array
    u: Array
    s: Array
    bounded: Array  # which constraints are inequalities

    @classmethod
    def begin(cls, problem: ConstrainedProgram) -> Self:
        """Return a point with X and Z multiples of I, of the sizes that b and C suggest."""
        operator = newton_operator(problem)
        xp = operator.xp
        b = problem.b
        one = identity(operator.n_features, b)
        size = abs(operator.forward(one)).mean()
        # X about as large as the constraints suggest, so that it need not grow much
        x = FIRST_SIZE * operator.n_features * abs(b).mean() / size
        z = xp.linalg.vector_norm(problem.offset) / operator.n_features**0.5 + x / problem.sigma
        bounded = xp.isfinite(b * 0 + problem.lower)
        ones = b * 0 + 1
        u = xp.where(bounded, 2 * z / size * ones, 0.0)
        s = xp.where(bounded, xp.maximum(b, FIRST_SLACK * abs(b).max() * ones), 0.0)
        return cls(problem, x * one, z * one, u, s, bounded)

    @classmethod
    def near(cls, problem: ConstrainedProgram, factor: Array) -> Self:
        """A centred point (X Z = mu I) near a feasible X that is not definite, where all constraints
        are equalities; u is the one that misses C + X / sigma + A*(u) = Z the least.
        """
        operator = newton_operator(problem)
        b = problem.b
        one = identity(len(factor), b)
        X = factor @ factor.T + ADDED * abs(b).mean() / operator.forward(one).mean() * one
        gap = WIDE_GAP if len(b) <= WIDE_UP_TO else START_GAP
        Z = gap * (factor**2).sum() / len(one) * operator.xp.linalg.inv(X)
        plain = NearProduct(one, one[:, :0], one[:0, :0])
        # the normal equations A A*(u) = A(Z - C - X / sigma)
        wanted = operator.forward(Z + problem.offset - X / problem.sigma)
        u = cholesky_solver(operator.newton_matrix(plain))(wanted)
        return cls(problem, X, (Z + Z.T) / 2, u, b * 0, b < -operator.xp.inf)

    def iterate(self, point: Evaluation, L: Array | None = None) -> Iterate:
        """The iterate with the dual at ``point``, and a factor of X or the one given."""
        p = self.problem
        if L is None:
            L = p.primal_point(self.X)
        primal, violation = p.primal_at(L, p.operator.forward_factor(L), point.u)
        barrier = float(self.barrier)
        norm = p.operator.xp.linalg.matrix_norm
        if barrier * len(self.X) <= FAR * abs(primal):
            bound = point.bound
        else:  # K(u) = X / sigma - Z and what is missing of that, so ||[K(u)]_+|| is at most
            size = norm(self.X) / p.sigma + norm(self.missing)
            bound = point.dual_of(PSDPart(size.reshape(1), None))
        # a point is good only with its own multipliers, which penalise its violation
        violation = max(violation, abs(relative_gap(primal, bound)))
        extra = {"rank": L.shape[1], "barrier": barrier}
        return Iterate(primal, bound, L, point.u, violation, extra)

    @property
    def barrier(self) -> Array:
        """mu: the mean product of eigenvalues and of slacks with their multipliers."""
        products = (self.X * self.Z).sum() + (self.s * self.u).sum()
        return products / (len(self.X) + self.bounded.sum())

    @cached_property
    def missing(self) -> Array:
        """What is missing of C + X / sigma + A*(u) = Z."""
        p = self.problem
        return self.Z + p.offset - self.X / p.sigma - p.operator.adjoint(self.u)

    def advanced(self) -> Self | None:
        """The point after a predictor and a corrector; None if rounding allows no further step."""
        xp = self.problem.operator.xp
        try:
            system = System.of(self)
        except xp.linalg.LinAlgError:
            return None
        predicted = system.direction(0.0)
        left = system.barrier_after(predicted, min(1.0, system.reach(predicted))) / self.barrier
        centring = min(1.0, max(CENTRING, float(left) ** 3))  # Mehrotra (1992)
        scaled = system.direction(centring * self.barrier, predicted)
        step = min(1.0, SHORT * system.reach(scaled))
        if step <= SMALLEST_STEP:
            return None
        move = system.unscaled(scaled)
        return replace(
            self,
            X=self.X + step * move.X,
            Z=self.Z + step * move.Z,
            u=self.u + step * move.u,
            s=self.s + step * move.s,
        )


@dataclass(frozen=True)
class System:
    """The linear system of a Newton step from one point of the path, in the scaling X = G . G' and
    Z = G^-T . G^-1, where both are diag(middle).
    """

    state: PathPoint
    G: Array
    middle: Array
    scaled: NearProduct  # W, between scaled matrices: G^-1 W(G^-T . G^-1) G^-T
    missing_scaled: Array
    solve: Callable[[Array], Array]

    @classmethod
    def of(cls, state: PathPoint) -> Self:
        """Return the system of a point; a `LinAlgError` where rounding hides that it is interior."""
        p = state.problem
        operator = newton_operator(p)
        xp = operator.xp
        Lx = xp.linalg.cholesky(state.X)
        Lz = xp.linalg.cholesky(state.Z)
        # with Lz'Lx = U diag(middle) V':  G = Lx V / sqrt(middle)
        products = Lz.T @ Lx
        squares, vectors = xp.linalg.eigh(products.T @ products)
        middle = squares**0.5  # of similar size near the path, so squares lose little
        G = (Lx @ vectors) * middle**-0.5
        scaling, R = (xp.flip(each, (-1,)) for each in xp.linalg.eigh(G.T @ G))
        k = int((scaling > LARGE * p.sigma**0.5).sum())
        # Phi_ij = l_i l_j share_ij with l = `scaling`; l_i l_j comes with the columns of B = G R
        share = 1 / (1 + scaling[:k, None] * scaling / p.sigma)
        B = G @ R
        half = xp.where(arange(len(G), G) < k, 0.5, 1.0)  # of pairs that are counted twice
        H = operator.newton_matrix(NearProduct(B[:, k:] @ B[:, k:].T, B, half * share))
        u = state.u + ~state.bounded  # avoids a division by zero
        slope = xp.where(state.bounded, state.s / u, 0.0)
        i = range(len(H))
        H[i, i] = xp.linalg.diagonal(H) + slope
        scaled = NearProduct(1.0, R, half * (share - 1))
        return cls(state, G, middle, scaled, G.T @ state.missing @ G, cholesky_solver(H))

    def direction(self, target: Values, predicted: Move | None = None) -> Move:
        """The scaled move towards mu = ``target``, with second-order terms if ``predicted``."""
        state = self.state
        A = state.problem.operator
        xp = A.xp
        G = self.G
        # X Z = target I to first order, where both are diag(middle): dX + dZ = wanted
        wanted = xp.diag(target / self.middle - self.middle)
        products = target - state.s * state.u
        if predicted is not None:
            # T with middle T + T middle = -(second + second'), the products of changes (Mehrotra)
            second = predicted.X @ predicted.Z
            wanted = wanted - (second + second.T) / (self.middle[:, None] + self.middle)
            products = products - predicted.s * predicted.u
        products = xp.where(state.bounded, products, 0.0)
        u = state.u + ~state.bounded  # avoids a division by zero
        unmoved = self.scaled(wanted + self.missing_scaled)
        lacking = state.problem.b - A.forward(state.X) - state.s
        du = self.solve(A.forward_product(G @ unmoved, G) - lacking + products / u)
        dX = unmoved - self.scaled(G.T @ A.adjoint_product(du, G))
        dX = (dX + dX.T) / 2
        return Move(dX, wanted - dX, du, (products - state.s * du) / u)

    def unscaled(self, move: Move) -> Move:
        """The move of X, Z, u and s; that of Z is exact, while scaled it is known as well as W."""
        p = self.state.problem
        dX = self.G @ move.X @ self.G.T
        dX = (dX + dX.T) / 2
        dZ = dX / p.sigma + p.operator.adjoint(move.u) - self.state.missing
        return Move(dX, dZ, move.u, move.s)

    def reach(self, move: Move) -> float:
        """The largest multiple of the scaled ``move`` that keeps X, Z, u and s in the interior."""
        state = self.state
        half = self.middle**-0.5
        sizes = half[:, None] * half
        relative = [-largest_eigenvalue(-sizes * each, REACH_TOL) for each in (move.X, move.Z)]
        if state.bounded.any():
            inside = state.bounded
            relative.append((move.u[inside] / state.u[inside]).min())
            relative.append((move.s[inside] / state.s[inside]).min())
        worst = min(float(value) for value in relative)
        return -1 / worst if worst < 0 else float("inf")

    def barrier_after(self, move: Move, step: float) -> Array:
        """mu after a step along the scaled ``move``."""
        state = self.state
        diagonal = state.problem.operator.xp.linalg.diagonal(move.X + move.Z)
        # <X + t dX, Z + t dZ> and (s + t ds)'(u + t du), X = Z = diag(middle): terms in t and t^2
        first = (diagonal * self.middle).sum() + (state.s * move.u + move.s * state.u).sum()
        second = (move.X * move.Z).sum() + (move.s * move.u).sum()
        order = len(state.X) + state.bounded.sum()
        return state.barrier + (step * first + step**2 * second) / order
