"""Method of multipliers on a low-rank factor, extended by leading eigenvectors as needed.

    P(L L') = w ||L||_F^2 + sum_r max over 0 <= v <= c of v t_r,       t = b - A(L L')           (engine.eigenvalue_program)
    F_k(L)  = w ||L||_F^2 + sum_r max over 0 <= v <= c of v t_r - mu/2 (v - u_kr)^2,             grad F_k = 2 (w I - A*(v)) L
    u_{k+1} = v at the minimiser = clip(u_k + t / mu, 0, c)

For programs whose matrix is too large to decompose and whose adjoint is sparse: an evaluation costs
one forward and one sparse product with L, a few columns wide. F_k is not convex in L, but u_{k+1}
bounds the optimum wherever the descent ends, and shows if L has too few columns: then
lambda_max(A*(u)) > w, and the eigenvectors above w, found by Lanczos, are directions of descent
that become new columns. Columns that vanish are dropped.

`papers.unfolding.low_rank_lagrangian` is the same idea for constraints that must hold: there the multipliers
have no bound, and the penalty grows. Here a loss bounds them, mu is fixed, and L-BFGS is enough.

Stops when (P - D) / max(|P|, |D|) <= tol. An iteration is one descent, of `DESCENT` quasi-Newton
steps or, once these no longer help, of twice as many, and so on; and one bound.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ...core import spectral
from ...core.arrays import Array
from ...engine.certificate import relative_gap
from ...engine.eigenvalue_program import EigenvalueProgram
from ...engine.solver import Iterate, Solver, Steps

MU = 0.3  # curvature of the multiplier term, for constraints b - A(M) of order one
DESCENT = 30  # quasi-Newton steps of the first descent
SLOW = 0.7  # descents double in length when the gap falls by less than this factor
ESCAPES = 10  # eigenvectors that may join in one iteration
FIRST_SIZE = 0.3  # of new columns
LATER_SIZE = 0.05  # of those that join others, relative to the largest
DEAD = 1e-6  # squared length of a column, relative to the largest, below which it is dropped
ABOVE = 0.1  # share of tol by which an eigenvalue must exceed w to add a column
FTOL = 1e-12  # relative fall of F_k that ends a descent early: rounding


@dataclass(frozen=True)
class FactoredDescent(Solver):
    """See the module docstring; NumPy only."""

    takes_start = False
    solves = EigenvalueProgram

    def steps(self, problem: EigenvalueProgram, start: None) -> Steps:
        operator = problem.operator
        c = problem.loss_weight
        u = operator.empty_constraint_vector() + c  # as of constraints that are all missed
        L = np.zeros((operator.n_features, 0))
        evaluations = 0
        steps = DESCENT
        least_gap = np.inf
        while True:
            bounds = problem.bounds(L, u)
            extra = {"rank": L.shape[1], "evaluations": evaluations}
            yield Iterate(bounds.primal, bounds.dual, L, u, extra=extra)
            gap = relative_gap(bounds.primal, bounds.dual)
            if gap > SLOW * least_gap:
                steps *= 2
            least_gap = min(gap, least_gap)
            L = self._with_escapes(L, operator.adjoint(u), problem.trace_weight)
            if L.shape[1] == 0:  # no direction of descent from zero, which is the optimum
                return
            options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": FTOL, "gtol": 0}
            args = problem, u, L.shape
            descent = minimize(_augmented, L.ravel(), args, "L-BFGS-B", jac=True, options=options)
            L = descent.x.reshape(L.shape)
            evaluations += descent.nfev
            u = np.clip(u + (problem.target - operator.forward_factor(L)) / MU, 0, c)

    def _with_escapes(self, L: Array, K: Array, w: float) -> Array:
        """L without dead columns, and with the eigenvectors of K whose eigenvalue is above w."""
        values, vectors = spectral.leading_eigenpairs(K, min(ESCAPES, K.shape[0] - 1))
        vectors = vectors[:, values > w * (1 + ABOVE * self.tol)]
        if L.shape[1] == 0:
            return FIRST_SIZE * vectors
        L = spectral.canonical_factor(L, DEAD)
        return np.hstack([L, LATER_SIZE * np.linalg.norm(L[:, 0]) * vectors])


def _augmented(
    flat: Array, problem: EigenvalueProgram, u: Array, shape: tuple[int, int]
) -> tuple[float, Array]:
    """F_k and its gradient."""
    L = flat.reshape(shape)
    t = problem.target - problem.operator.forward_factor(L)
    # the v that attains F_k, at which its gradient is that of v t alone
    v = np.clip(u + t / MU, 0, problem.loss_weight)
    value = problem.trace_weight * flat @ flat + v @ t - 0.5 * MU * np.sum((v - u) ** 2)
    return value, 2 * (problem.trace_weight * L - problem.operator.adjoint(v) @ L).ravel()
