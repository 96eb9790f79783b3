"""Alternating directions for the near-isometry program (NuMax, algorithms 1 and 3).

    min Tr P    s.t.  P = L,  A(L) = q,  lower <= q <= upper,  P psd        blocks (P, q) and L

One step, with y the multipliers of A(L) = q, Z = A*(y) those of P = L, and rho = beta_1 / beta_2:

    P  = [L + (Z - I) / beta]_+                    eigenvalue shrinkage, eq. 11
    q  = clip(A(L) - rho y / beta, lower, upper)   truncation, eq. 10
    z  = (rho I + A A*)^-1 (q - A(P))              least squares, eq. 13, by the Woodbury identity
    L  = P + A*(z)            A(L) = q - rho z
    y += beta z               Z += beta A*(z)

which is the paper's iteration with its invariant Lambda = A*(y) / beta_1 substituted: one product
with A* serves L and Z, and beta may change without a new factorisation. The matrix rho I + A A* is
factorised once (with more secants than entries of a symmetric matrix, rho I + A* A instead), or,
above `DIRECT_ON_CPU` rows, solved by conjugate gradients, whose residual is carried in A(L).

The step is extrapolated from the last ones (`_Past`), which need a norm that no step lengthens:

    beta ||L||^2 + beta / rho ||A(L)||^2 + ||Z||^2 / beta + rho / beta ||y||^2

The new multipliers y are nearly dual feasible: A*(y) <= I + beta (L_new - L_old). Every `RENEW`
steps they are made so, for a new bound on the optimum: no bound depends on the extrapolation.

Stops when the gap between Tr P and that bound, and the violation of P, are within tol.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...core import spectral
from ...core.arrays import (
    Array,
    Pair,
    arange,
    identity,
    is_torch,
    like,
    namespace,
    on_device,
    zeros,
)
from ...engine.solver import Iterate, Solver, Steps
from .program import NearIsometryProgram
from .secants import SecantOperator

BALANCE_EVERY = 5  # steps between changes of beta
BALANCE_UNTIL = 500  # the last step to change it: the theory needs a fixed beta in the end
LEAST_CHANGE = 2.0  # of beta; each one forgets the past steps
MOST_CHANGE = 4.0
# secants up to which the least squares are factorised: 1.2 and 2 GB for a Gram matrix in float64
DIRECT_ON_CPU = 12_000
DIRECT_ON_GPU = 16_000
CG_TOL = 0.03  # with 0.1, steps are extrapolated badly: 386 instead of 314
CG_STEPS = 200
CG_EVERY = 4  # steps by conjugate gradients after which a GPU looks at the residual
HALF = 1e3  # sum of the multipliers of a product in half precision: no entry of it overflows
MEMORY = 8  # steps extrapolated from
NOISE = {4: 0.1, 8: 2e-12}  # by bytes of a number, share of squared residuals that may be rounding
GROWTH = 1.2  # of the smallest residual, above which an extrapolation is taken back
RENEW = 5  # steps between two bounds, each a product with A* and an eigenvalue
RIDGE = 1e-8  # of inner products scaled to 1
TINY = 1e-30  # instead of 0 in a denominator
Solve = Callable[[Array], tuple[Array, Array, Array | float]]


class State(NamedTuple):
    """The variables that one step hands to the next."""

    L: Array
    Z: Array
    AL: Array
    y: Array

    @classmethod
    def of(cls, x: Array, n_features: int) -> Self:
        """Return the parts of the vector x, which `joined` makes."""
        entries = n_features**2
        shape = n_features, n_features
        L, Z, rest = x[:entries], x[entries : 2 * entries], x[2 * entries :]
        n_constraints = len(rest) // 2
        return cls(L.reshape(shape), Z.reshape(shape), rest[:n_constraints], rest[n_constraints:])

    def joined(self) -> Array:
        """Return all of it as one vector."""
        parts = self.L.reshape(-1), self.Z.reshape(-1), self.AL, self.y
        return namespace(self.L).concat(parts)


class Sizes(NamedTuple):
    """Frobenius norms of the matrices of a step."""

    factor: float
    apart: float  # L - P
    P: float
    L: float
    Z: float
    moved: float

    def imbalance(self, beta: float) -> float:
        """Return the root of the ratio of the relative primal and dual residuals: what beta lacks."""
        if not self.moved * self.Z > 0:
            return 1.0
        return (2 * self.apart / (self.P + self.L) * self.Z / (beta * self.moved)) ** 0.5


class Step(NamedTuple):
    """A step from one state to its ``image``, by way of P and its values AP."""

    factor: Array
    P: Array
    AP: Array
    Az: Array  # A*(z)
    moved: Array  # the change of L
    image: State

    def measured(
        self, problem: NearIsometryProgram, now: State, products: Array
    ) -> tuple[float, Sizes, list[float]]:
        """Return the violation of P, the sizes of matrices, and the ``products``, as numbers."""
        xp = problem.operator.xp
        matrices = self.factor, self.Az, self.P, self.image.L, now.Z, self.moved
        norms = [xp.linalg.norm(matrix) for matrix in matrices]
        scalars = xp.concat([xp.stack([problem.excess(self.AP), *norms]), products])
        violation, *values = scalars.tolist()  # the one wait for the device
        return violation, Sizes(*values[:6]), values[6:]


@dataclass(frozen=True)
class ADMM(Solver):
    """Two-block ADMM; ``start`` is a pair (factor of P, y).

    ``beta`` and ``rho`` are the penalty beta_1, adapted so that the primal and the dual residual
    fall together, and the ratio beta_1 / beta_2.
    """

    tol: float = 1e-4
    max_iter: int = 2000
    beta: float = 1.0
    rho: float = 1.0
    solves = NearIsometryProgram

    def steps(self, problem: NearIsometryProgram, start: Pair | None) -> Steps:
        A = problem.operator
        beta = self.beta
        unit = identity(A.n_features, A.reference)
        solve = self._least_squares(A)
        x = _first(A, start)
        past: _Past | None = None
        for iteration in itertools.count(1):
            now = State.of(x, A.n_features)
            part = spectral.positive_factor(now.L + (now.Z - unit) / beta, rough=True)
            step = self._step(problem, now, part.factor, beta, solve)
            if iteration % RENEW == 1:
                dual_point = step.image.y
                dual = problem.bound(dual_point)
            if past is None:  # the norm depends on beta
                past = _Past(self._weights(step.image, beta))
            products = past.add(x, step.image.joined())
            violation, sizes, products = step.measured(problem, now, products)
            extra = {"rank": part.rank, "beta": beta}
            yield Iterate(sizes.factor**2, dual, part.factor, dual_point, violation, extra)
            change = 1.0
            if iteration % BALANCE_EVERY == 0 and iteration <= BALANCE_UNTIL:
                change = sizes.imbalance(beta)
            if 1 / LEAST_CHANGE < change < LEAST_CHANGE:
                x = past.extrapolated(products)
            else:
                beta *= min(MOST_CHANGE, max(1 / MOST_CHANGE, change))
                x = past.image
                past = None

    def _step(
        self, problem: NearIsometryProgram, now: State, factor: Array, beta: float, solve: Solve
    ) -> Step:
        """Return the step of the module docstring, given a factor of its P."""
        P = factor @ factor.T
        AP = problem.operator.forward_factor(factor)
        unclipped = now.AL - (self.rho / beta) * now.y
        q = problem.operator.xp.clip(unclipped, problem.lower, problem.upper)
        z, Az, rest = solve(q - AP)
        L = P + Az
        image = State(L, now.Z + beta * Az, q - self.rho * z - rest, now.y + beta * z)
        return Step(factor, P, AP, Az, L - now.L, image)

    def _weights(self, image: State, beta: float) -> Array:
        """Return the weights that make the norm of the module docstring Euclidean."""
        # adding a number to zeros gives it the shape, the precision and the device of an array
        return State(
            beta**0.5 + 0 * image.L,
            (1 / beta) ** 0.5 + 0 * image.Z,
            (beta / self.rho) ** 0.5 + 0 * image.AL,
            (self.rho / beta) ** 0.5 + 0 * image.y,
        ).joined()

    def _least_squares(self, A: SecantOperator) -> Solve:
        """Return the map r -> (z, A*(z), r - (rho I + A A*) z), z the solution or close to it."""
        rho = self.rho
        on_gpu = on_device(A.V)
        limit = DIRECT_ON_GPU if on_gpu else DIRECT_ON_CPU
        # the system over the entries of a symmetric matrix, if these are fewer than the constraints
        over_entries = A.n_symmetric < A.n_constraints and A.n_symmetric <= limit
        if over_entries:
            inverse = factorised(A.symmetric_gram(), rho)

            def solve_over_entries(r: Array) -> tuple[Array, Array, float]:
                # Woodbury: (rho I + A A*)^-1 r = (r - A (rho I + A* A)^-1 A* r) / rho
                inner = inverse(A.vector(A.adjoint(r)))
                z = (r - A.forward(A.matrix(inner))) / rho
                return z, A.adjoint(z), 0.0

            return solve_over_entries
        if A.n_constraints <= limit:
            inverse = factorised(A.gram(), rho)

            def solve(r: Array) -> tuple[Array, Array, float]:
                z = inverse(r)
                return z, A.adjoint(z), 0.0

            return solve
        rough = A
        if on_gpu:
            rough = A.astype(A.xp.float16)
        return partial(_conjugate_gradients, A, rough, rho)


def _first(A: SecantOperator, start: Pair | None) -> Array:
    """Return the state at P = I without multipliers, or at a (factor of P, multipliers)."""
    y = A.empty_constraint_vector()
    if start is None:
        L = identity(A.n_features, y)
    else:
        factor, y = start
        L = factor @ factor.T
    return State(L, A.adjoint(y), A.forward(L), y).joined()


class _Past:
    """The last steps x -> g(x), and the next x that they suggest (Anderson acceleration, type II).

    That is the combination of the images g(x) whose coefficients, of sum 1, make the combination of
    the residuals g(x) - x smallest in the norm ||weights x||. If its own residual turns out to be
    more than `GROWTH` times the smallest so far, the image before it follows, and all is forgotten.
    """

    def __init__(self, weights: Array):
        self.weights = weights
        self.noise = NOISE[weights.dtype.itemsize]
        self.images = zeros((MEMORY, len(weights)), weights)
        self.residuals = zeros((MEMORY, len(weights)), weights)
        self.image = weights  # of the last step
        self.plain = weights  # the image before the last extrapolation
        self.gram = np.zeros((MEMORY, MEMORY))
        self.count = 0
        self.size = np.inf  # of the smallest residual so far

    def add(self, x: Array, image: Array) -> Array:
        """Remember a step; return the inner products of its residual with the others and itself."""
        last = self.count % MEMORY
        self.images[last] = image
        self.residuals[last] = self.weights * (image - x)
        self.count += 1
        self.image = image
        return self.residuals[: self.count] @ self.residuals[last]

    def extrapolated(self, products: Sequence[float]) -> Array:
        """Return the next x, from what `add` returned."""
        n = len(products)
        last = (self.count - 1) % MEMORY
        size = products[last] ** 0.5
        if self.count == 1:
            self.size = size
        elif size <= GROWTH * self.size:
            self.size = min(size, self.size)
        else:
            self.count = 0
            return self.plain
        self.plain = self.image
        self.gram[last, :n] = self.gram[:n, last] = products
        G = self.gram[:n, :n]
        # the shares of sum 1 that minimise share'G share, by least squares in the differences from
        # the last residual, which are scaled to length 1
        # D_ij = <r_i - r_last, r_j - r_last>, and the right-hand side is -<r_i - r_last, r_last>
        D = G - G[last] - G[:, [last]] + size**2
        # as much as rounding can change: differences of nearly equal residuals keep few digits
        D += np.diag(self.noise * (np.diag(G) + size**2) + TINY)
        scale = np.diag(D) ** -0.5
        D = D * scale * scale[:, None] + RIDGE * np.eye(n)
        share = scale * np.linalg.solve(D, scale * (size**2 - G[last]))
        share[last] += 1 - share.sum()
        return like(share, self.images) @ self.images[:n]


def factorised(G: Array, rho: float) -> Callable[[Array], Array]:
    """The map r -> (rho I + G)^-1 r; G is overwritten."""
    diagonal = arange(len(G), G)
    G[diagonal, diagonal] += rho
    if is_torch(G):
        xp = namespace(G)
        lower = xp.linalg.cholesky(G)
        solve = xp.linalg.solve_triangular

        def inverse(r: Array) -> Array:
            # two triangular solves take 0.6 of the time of `cholesky_solve`
            forward = solve(lower, r[:, None], upper=False)
            return solve(lower.T, forward, upper=True)[:, 0]

        return inverse
    factor = cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
    return partial(cho_solve, factor, check_finite=False)


def _conjugate_gradients(
    A: SecantOperator, rough: SecantOperator, rho: float, r: Array
) -> tuple[Array, Array, Array]:
    """z with (rho I + A A*) z = r, up to about `CG_TOL` of r, A*(z), and the residual.

    ``rough`` is A in half precision on a GPU, whose products take a quarter of the time there.
    """
    xp = A.xp
    whole = r
    every = 1
    if on_device(r):  # where looking at a number means to wait for it
        every = CG_EVERY
    scale = HALF / (abs(r).sum() + TINY)
    r = r * scale
    z = r * 0
    p = r
    rr = xp.linalg.vecdot(r, r)
    goal = CG_TOL**2 * rr
    for number in range(CG_STEPS):
        if number % every == 0 and bool(rr <= goal):
            break
        Kp = rho * p + rough.forward(rough.adjoint(like(p, p, rough.V.dtype)))
        alpha = rr / xp.linalg.vecdot(p, Kp)
        z = z + alpha * p
        r = r - alpha * Kp
        previous = rr
        rr = xp.linalg.vecdot(r, r)
        p = r + (rr / previous) * p
    z = z / scale
    # in full precision, since the residual becomes part of A(L) in the next step
    step = A.adjoint(z)
    return z, step, whole - rho * z - A.forward(step)
