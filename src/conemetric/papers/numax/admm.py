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

# steps between changes of beta, and the last to change it: the theory needs a fixed beta in the end
BALANCE_EVERY, BALANCE_UNTIL = 5, 500
LEAST_CHANGE, MOST_CHANGE = 2.0, 4.0  # of beta; each one forgets the past steps
DIRECT_ON_CPU, DIRECT_ON_GPU = 12_000, 16_000  # secants: 1.2 and 2 GB for a Gram matrix in float64
CG_TOL, CG_STEPS = 0.03, 200  # with 0.1, steps are extrapolated badly: 386 instead of 314
CG_EVERY = 4  # steps by conjugate gradients after which a GPU looks at the residual
HALF = 1e3  # sum of the multipliers of a product in half precision: no entry of it overflows
MEMORY = 8  # steps extrapolated from
NOISE = {4: 0.1, 8: 2e-12}  # by bytes of a number, share of squared residuals that may be rounding
GROWTH = 1.2  # of the smallest residual, above which an extrapolation is taken back
RENEW = 5  # steps between two bounds, each a product with A* and an eigenvalue
RIDGE = 1e-8  # of inner products scaled to 1
TINY = 1e-30  # instead of 0 in a denominator
Solve = Callable[[Array], tuple[Array, Array, Array | float]]


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
        A, xp, beta, rho = problem.operator, problem.operator.xp, self.beta, self.rho
        y = A.empty_constraint_vector()
        unit = identity(A.n_features, y)
        if start is None:
            L = unit
        else:
            factor, y = start
            L = factor @ factor.T
        x, past = _joined(L, A.adjoint(y), A.forward(L), y), None
        solve = self._least_squares(A)
        for iteration in itertools.count(1):
            L, Z, AL, y = _parts(x, A.n_features)
            part = spectral.positive_factor(L + (Z - unit) / beta, rough=True)
            factor = part.factor
            P, AP = factor @ factor.T, A.forward_factor(factor)
            q = xp.clip(AL - (rho / beta) * y, problem.lower, problem.upper)
            z, step, rest = solve(q - AP)
            moved = P + step - L
            L, AL, y = P + step, q - rho * z - rest, y + beta * z
            if iteration % RENEW == 1:
                dual_point, dual = y, problem.bound(y)
            if past is None:
                weights = (beta, L), (1 / beta, Z), (beta / rho, AL), (rho / beta, y)
                past = _Past(_joined(*(weight**0.5 + 0 * array for weight, array in weights)))
            products = past.add(x, _joined(L, Z + beta * step, AL, y))
            norms = [xp.linalg.norm(array) for array in (factor, step, P, L, Z, moved)]
            scalars = xp.concat([xp.stack([problem.excess(AP), *norms]), products])
            violation, root, *norms = scalars.tolist()  # the one wait for the device
            extra = {"rank": part.rank, "beta": beta}
            yield Iterate(root**2, dual, factor, dual_point, violation, extra)
            apart, size_P, size_L, size_Z, moved, *products = norms
            change = 1.0
            if iteration % BALANCE_EVERY == 0 and iteration <= BALANCE_UNTIL and moved * size_Z > 0:
                change = (2 * apart / (size_P + size_L) * size_Z / (beta * moved)) ** 0.5
            if 1 / LEAST_CHANGE < change < LEAST_CHANGE:
                x = past.extrapolated(products)
            else:
                beta *= min(MOST_CHANGE, max(1 / MOST_CHANGE, change))
                x, past = past.image, None

    def _least_squares(self, A: SecantOperator) -> Solve:
        """The map r -> (z, A*(z), r - (rho I + A A*) z), z the solution or close to it."""
        rho = self.rho
        limit = DIRECT_ON_GPU if on_device(A.V) else DIRECT_ON_CPU
        fewer = A.n_symmetric < A.n_constraints and A.n_symmetric <= limit
        if A.n_constraints > limit and not fewer:
            rough = A.astype(A.xp.float16) if on_device(A.V) else A
            return lambda r: _conjugate_gradients(A, rough, rho, r)
        inverse = factorised(A.symmetric_gram() if fewer else A.gram(), rho)

        def solve(r: Array) -> tuple[Array, Array, float]:
            z = inverse(A.vector(A.adjoint(r)) if fewer else r)
            z = (r - A.forward(A.matrix(z))) / rho if fewer else z
            return z, A.adjoint(z), 0.0

        return solve


class _Past:
    """The last steps x -> g(x), and the next x that they suggest (Anderson acceleration, type II).

    That is the combination of the images g(x) whose coefficients, of sum 1, make the combination of
    the residuals g(x) - x smallest in the norm ||weights x||. If its own residual turns out to be
    more than `GROWTH` times the smallest so far, the image before it follows, and all is forgotten.
    """

    def __init__(self, weights: Array):
        self.weights, self.noise = weights, NOISE[weights.dtype.itemsize]
        self.images, self.residuals = (zeros((MEMORY, len(weights)), weights) for _ in range(2))
        self.image = self.plain = weights
        self.gram, self.count, self.size = np.zeros((MEMORY, MEMORY)), 0, np.inf

    def add(self, x: Array, image: Array) -> Array:
        """Remember a step; the inner products of its residual with the others and itself."""
        last = self.count % MEMORY
        self.images[last], self.residuals[last] = image, self.weights * (image - x)
        self.count, self.image = self.count + 1, image
        return self.residuals[: self.count] @ self.residuals[last]

    def extrapolated(self, products: Sequence[float]) -> Array:
        """The next x, from what `add` returned."""
        n, last = len(products), (self.count - 1) % MEMORY
        size = products[last] ** 0.5
        if self.count > 1 and not size <= GROWTH * self.size:
            self.count = 0
            return self.plain
        self.size, self.plain = size if self.count == 1 else min(size, self.size), self.image
        self.gram[last, :n] = self.gram[:n, last] = products
        G = self.gram[:n, :n]
        # by differences from the last residual, scaled to length 1
        D = G - G[last] - G[:, [last]] + size**2
        D += np.diag(self.noise * (np.diag(G) + size**2) + TINY)
        scale = np.diag(D) ** -0.5
        D = D * scale * scale[:, None] + RIDGE * np.eye(n)
        share = scale * np.linalg.solve(D, scale * (size**2 - G[last]))
        share[last] += 1 - share.sum()
        return like(share, self.images) @ self.images[:n]


def _joined(L: Array, Z: Array, AL: Array, y: Array) -> Array:
    return namespace(L).concat([L.reshape(-1), Z.reshape(-1), AL, y])


def _parts(x: Array, n_features: int) -> tuple[Array, Array, Array, Array]:
    m, n = n_features**2, len(x) // 2
    shape = n_features, n_features
    return x[:m].reshape(shape), x[m : 2 * m].reshape(shape), x[2 * m : m + n], x[m + n :]


def factorised(G: Array, rho: float) -> Callable[[Array], Array]:
    """The map r -> (rho I + G)^-1 r; G is overwritten."""
    diagonal = arange(len(G), G)
    G[diagonal, diagonal] += rho
    if is_torch(G):
        xp = namespace(G)
        lower = xp.linalg.cholesky(G)
        solve = xp.linalg.solve_triangular  # twice, in 0.6 of the time of `cholesky_solve`
        return lambda r: solve(lower.T, solve(lower, r[:, None], upper=False), upper=True)[:, 0]
    factor = cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
    return lambda r: cho_solve(factor, r, check_finite=False)


def _conjugate_gradients(
    A: SecantOperator, rough: SecantOperator, rho: float, r: Array
) -> tuple[Array, Array, Array]:
    """z with (rho I + A A*) z = r, up to about `CG_TOL` of r, A*(z), and the residual.

    ``rough`` is A in half precision on a GPU, whose products take a quarter of the time there.
    """
    xp, whole, every = A.xp, r, CG_EVERY if on_device(r) else 1
    scale = HALF / (abs(r).sum() + TINY)
    r = r * scale
    z, p, rr = r * 0, r, xp.linalg.vecdot(r, r)
    goal = CG_TOL**2 * rr
    for number in range(CG_STEPS):
        if number % every == 0 and bool(rr <= goal):
            break
        Kp = rho * p + rough.forward(rough.adjoint(like(p, p, rough.V.dtype)))
        alpha = rr / xp.linalg.vecdot(p, Kp)
        z, r = z + alpha * p, r - alpha * Kp
        previous, rr = rr, xp.linalg.vecdot(r, r)
        p = r + (rr / previous) * p
    z = z / scale
    step = A.adjoint(z)
    return z, step, whole - rho * z - A.forward(step)
