"""Alternating directions for the near-isometry program (NuMax, algorithms 1 and 3).

    min Tr P    s.t.  P = L,  A(L) = q,  lower <= q <= upper,  P psd        blocks (P, q) and L

One step, with y the multipliers of A(L) = q, Z = A*(y) those of P = L, and rho = beta_1 / beta_2:

    P  = [L + (Z - I) / beta]_+                    eigenvalue shrinkage, eq. 11
    q  = clip(A(L) - rho y / beta, lower, upper)   truncation, eq. 10
    z  = (rho I + A A*)^-1 (q - A(P))              least squares, eq. 13, by the Woodbury identity
    L  = P + A*(z)            A(L) = q - rho z
    y += eta beta z           Z += eta beta A*(z)

which is the paper's iteration with its invariant Lambda = A*(y) / beta_1 substituted: one product
with A* serves L and Z, and beta may change without a new factorisation. The matrix rho I + A A* is
factorised once (with more secants than entries of a symmetric matrix, rho I + A* A instead), or,
above ``max_direct`` rows, solved by conjugate gradients, whose residual is carried in A(L).

The multipliers y + beta z of a full step are nearly dual feasible: A*(y + beta z) <= I + beta
(L_new - L_old). Every `RENEW` steps they are made so, for a new bound on the optimum.

Stops when the gap between Tr P and that bound, and the violation of P, are within tol. The paper's
own rule, max(e1, e2) < 5e-5 on P = L and A(L) = q, is in the history as ``residual``.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from scipy.linalg import cho_factor, cho_solve

from ..core import spectral
from ..core.arrays import Array, Pair, Values, arange, identity, is_torch, namespace, on_device
from ..operators.secants import SecantOperator
from ..problems.isometry import NearIsometryProgram
from .base import Iterate, Solver, Steps

# steps between changes of beta, and the last to change it: the theory needs a fixed beta in the end
BALANCE_EVERY, BALANCE_UNTIL = 10, 500
BALANCE_FACTOR = 2.0  # by which beta changes at most
DIRECT_ON_CPU, DIRECT_ON_GPU = 12_000, 40_000  # secants: 1.2 and 13 GB for a Gram matrix in float64
CG_TOL, CG_STEPS = 0.1, 100  # 1e-3 took twice the time on all of MNIST at delta = 0.1
ETA = 1.618  # length of the multiplier step, the paper's
RENEW = 5  # steps between two bounds, each a product with A* and an eigenvalue
# secants per square root of a step: after so many steps by conjugate gradients a factorisation pays
# on an H200 (38,000 secants: 550 ms and 7 a step, against 14 a step)
Solve = Callable[[Array], tuple[Array, Values]]
PATIENCE, PATIENT_FROM = 4300, 16_000  # and the secants from which that is worthwhile


@dataclass(frozen=True)
class ADMM(Solver):
    """Two-block ADMM; ``start`` is a pair (factor of P, y).

    ``beta`` and ``rho`` are the penalty beta_1, adapted so that the primal and the dual residual
    fall together, and the ratio beta_1 / beta_2. ``max_direct`` is the largest order of a matrix to
    factorise (None: `DIRECT_ON_CPU` or `DIRECT_ON_GPU`).
    """

    tol: float = 1e-4
    max_iter: int = 2000
    beta: float = 1.0
    rho: float = 1.0
    max_direct: int | None = None
    solves = NearIsometryProgram

    def steps(self, problem: NearIsometryProgram, start: Pair | None) -> Steps:
        A, xp, beta, rho = problem.operator, problem.operator.xp, self.beta, self.rho
        y = A.empty_constraint_vector()
        if start is None:
            L = identity(A.n_features, y)
        else:
            factor, y = start
            L = factor @ factor.T
        Z, AL = A.adjoint(y), A.forward(L)
        solve = self._least_squares(A)
        for iteration in itertools.count(1):
            part = spectral.psd_split(L + Z / beta, threshold=1 / beta)
            factor = part.factor
            P, AP = factor @ factor.T, A.forward_factor(factor)
            q = xp.clip(AL - (rho / beta) * y, problem.lower, problem.upper)
            z, rest = solve(q - AP)
            step = A.adjoint(z)
            moved = P + step - L
            L, AL = P + step, q - rho * z - rest
            norms = [xp.linalg.norm(array) for array in (moved, Z, step, P, L, q - AL, q, AL)]
            scalars = xp.stack([part.values.sum(), problem.excess(AP), *norms])
            primal, violation, moved, size, *norms = scalars.tolist()  # the one wait for the device
            if iteration % RENEW == 1:
                dual_point = y + beta * z
                dual = problem.bound(dual_point)
            e1, e2 = 2 * norms[0] / (norms[1] + norms[2]), 2 * norms[3] / (norms[4] + norms[5])
            extra = {"rank": part.rank, "residual": max(e1, e2), "beta": beta}
            yield Iterate(primal, dual, factor, dual_point, violation, extra)
            y, Z = y + ETA * beta * z, Z + ETA * beta * step
            due = iteration % BALANCE_EVERY == 0 and iteration <= BALANCE_UNTIL
            if due and moved * size > 0:
                factor = (e1 * size / (beta * moved)) ** 0.5
                beta *= min(BALANCE_FACTOR, max(1 / BALANCE_FACTOR, factor))

    def _least_squares(self, A: SecantOperator) -> Solve:
        """The map r -> (z, r - (rho I + A A*) z), z the solution or close to it."""
        rho = self.rho
        limit = self.max_direct or (DIRECT_ON_GPU if on_device(A.V) else DIRECT_ON_CPU)
        if A.n_symmetric < A.n_constraints and A.n_symmetric <= limit:
            solve = _factorised(A.symmetric_gram(), rho)
            return lambda r: ((r - A.symmetric_forward(solve(A.symmetric_adjoint(r)))) / rho, 0.0)
        if A.n_constraints > limit:
            return lambda r: _conjugate_gradients(A, rho, r)
        many = on_device(A.V) and A.n_constraints >= PATIENT_FROM
        return _patient(A, rho, int((A.n_constraints / PATIENCE) ** 2) if many else 0)


def _patient(A: SecantOperator, rho: float, n_first: int) -> Solve:
    """The same map: by conjugate gradients for the first steps, then by a factorisation."""
    steps, direct = itertools.count(), cache(lambda: _factorised(A.gram(), rho))
    return lambda r: (
        _conjugate_gradients(A, rho, r) if next(steps) < n_first else (direct()(r), 0.0)
    )


def _factorised(G: Array, rho: float) -> Callable[[Array], Array]:
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


def _conjugate_gradients(A: SecantOperator, rho: float, r: Array) -> Pair:
    """z with (rho I + A A*) z = r, up to `CG_TOL` of r, and the residual."""
    xp = A.xp
    z, p, rr = r * 0, r, xp.linalg.vecdot(r, r)
    goal = CG_TOL**2 * float(rr)
    for _ in range(CG_STEPS):
        if float(rr) <= goal:
            break
        Kp = rho * p + A.forward(A.adjoint(p))
        alpha = rr / xp.linalg.vecdot(p, Kp)
        z, r = z + alpha * p, r - alpha * Kp
        previous, rr = rr, xp.linalg.vecdot(r, r)
        p = r + (rr / previous) * p
    return z, r
