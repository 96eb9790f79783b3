"""Proximal-point method for semidefinite programs without strong convexity, each step solved in its smooth dual.

    S_{k+1} = argmin P(S) + ||S - S_k||_F^2 / (2 sigma_k)         P linear, plus hinge losses or constraints
    u_k     = argmax of the dual of that step, a `SpectralDual`: smooth over a box        S_{k+1} = sigma [K_k(u_k)]_+

(the augmented Lagrangian method on the dual of P). Every S and every u gives bounds on P itself, ``problem.bounds(L, u)``. A step is
solved by projected L-BFGS, warm-started, until its own gap is a fraction of the gap of P; sigma doubles when that was quick and halves when
it failed, so that the work is split evenly between the two loops.

Chosen by measurement, as the engine of DML-eig and LMNN-eig: 1e-3 is certified on the paper's sets in 60 to 370 evaluations
(an adjoint, an eigendecomposition, a forward), and 1e-5 in twice that. Accelerated projected gradient on the same subproblems takes 860 to
1,630, and the paper's Frank-Wolfe method has a gap of several percent after 1,000 steps (`solvers.frank_wolfe`).

Stops when (P - D) / max(|P|, |D|) <= tol. An iteration is `CHECK` quasi-Newton steps, followed by one evaluation of the bounds.
"""

from dataclasses import dataclass
from typing import ClassVar

from .base import Iterate, Solver, relative_gap
from .dual_quasi_newton import DualQuasiNewton

CHECK = 5  # quasi-Newton steps between two evaluations of the bounds
QUICK, LIMIT = 20, 60  # steps below which sigma grows; steps after which a subproblem is left, with a smaller sigma
GROWTH = 2.0
SHARE = 0.5  # a subproblem is solved when its gap is this part of the program's
MAX_IDLE = 10  # subproblems in a row without a step before giving up


@dataclass(frozen=True)
class ProximalPoint(Solver):
    """See the module docstring."""

    requires: ClassVar[tuple[str, ...]] = ("proximal", "bounds", "start")

    def _steps(self, problem, start):
        u, center, sigma = problem.start()
        idle = subproblems = 0
        while idle < MAX_IDLE:
            solved, steps, point = True, 0, None
            for steps, point in enumerate(DualQuasiNewton()._steps(problem.proximal(center, sigma), u)):
                if steps % CHECK:
                    continue
                bounds = problem.bounds(point.primal_point, point.dual_point)
                yield self._iterate(bounds, point, subproblems, sigma)
                enough = max(SHARE * relative_gap(bounds.primal, bounds.dual), 0.3 * self.tol)
                solved = relative_gap(point.primal, point.dual) <= enough
                if (solved and steps) or steps >= LIMIT:
                    break
            else:
                yield self._iterate(problem.bounds(point.primal_point, point.dual_point), point, subproblems, sigma)
                solved = True
            u, center = point.dual_point, point.primal_point
            idle = 0 if steps else idle + 1
            subproblems += 1
            if not solved:
                sigma /= GROWTH
            elif steps <= QUICK:
                sigma *= GROWTH

    def _iterate(self, bounds, point, subproblems, sigma):
        extra = {"rank": point.extra["rank"], "subproblems": subproblems, "sigma": sigma}
        return Iterate(bounds.primal, bounds.dual, point.primal_point, point.dual_point, bounds.violation, extra)
