"""Proximal-point method for semidefinite programs, each step solved in its smooth dual.

    S_{k+1} = argmin P(S) + ||S - S_k||_F^2 / (2 sigma_k)         P linear, plus hinge losses or constraints
    u_k     = argmax of the dual of that step, a `SpectralDual`: smooth over a box        S_{k+1} = sigma [K_k(u_k)]_+

(the augmented Lagrangian method on the dual of P). Every S and every u gives bounds on P itself,
``problem.bounds(L, u)``. A subproblem is solved by projected L-BFGS, warm-started, until its own
gap is a share of the gap of P; then its solution is the next centre, and sigma doubles if that was
quick. If it fails, the centre stays and sigma halves.

Chosen by measurement for DML-eig and LMNN-eig: on the paper's sets it certifies 1e-3 in 50 to 350
evaluations, where the paper's Frank-Wolfe method has a gap of several percent after 1,000 steps.

Stops when (P - D) / max(|P|, |D|) <= tol. An iteration is `CHECK` quasi-Newton steps and one
evaluation of the bounds.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

from ..core.arrays import Array
from .certificate import Bounds, relative_gap
from .dual_quasi_newton import DualQuasiNewton
from .eigenvalue_program import EigenvalueProgram, ProximalDual
from .solver import Iterate, Solver, Steps

CHECK = 5  # quasi-Newton steps between two evaluations of the bounds
QUICK = 20  # steps up to which sigma grows
LIMIT = 60  # steps after which a subproblem is abandoned
GROWTH = 2.0  # of sigma
SHARE = 0.5  # gap of a solved subproblem, relative to that of the program
INNER_GAP = 0.3  # gap of a solved subproblem, in units of tol
MAX_FAILED = 20  # subproblems abandoned in a row before giving up
# relative gap, in units of eps, below which a subproblem that does not reduce it by SHARE is the
# last; in float32 gaps wander between 0.1 and 3 of these units
ROUNDING = 4


class Subproblem(NamedTuple):
    """The state between subproblems: u, a factor of the centre, sigma, and how many were solved."""

    u: Array
    center: Array
    sigma: float
    subproblems: int = 0
    failed: int = 0

    def solved(self, point: Iterate, steps: int) -> Self:
        """Return the next state, its centre at ``point``, which took so many steps."""
        sigma = self.sigma
        if steps <= QUICK:
            sigma *= GROWTH
        return self._replace(
            u=point.dual_point,
            center=point.primal_point,
            sigma=sigma,
            subproblems=self.subproblems + 1,
            failed=0,
        )

    def abandoned(self, point: Iterate) -> Self:
        """Return the next state, with the same centre and a more strongly convex subproblem."""
        return self._replace(
            u=point.dual_point,
            sigma=self.sigma / GROWTH,
            subproblems=self.subproblems + 1,
            failed=self.failed + 1,
        )


@dataclass(frozen=True)
class ProximalPoint(Solver):
    """See the module docstring; ``start`` is a `Subproblem`, the ``state`` of an iterate."""

    solves = EigenvalueProgram

    def steps(self, problem: EigenvalueProgram, start: Subproblem | None) -> Steps:
        space = problem.operator.space
        resumed = space.resume(problem.operator, *Subproblem._fields)
        if resumed is not None:
            state = Subproblem(**resumed)
        elif start is not None:
            state = start
        else:
            state = Subproblem(*problem.start())
        gap = float("inf")
        while state.failed < MAX_FAILED:
            state = Subproblem(**space.save_state(**state._asdict()))
            # not saved on its own: the multipliers and the centre are the state
            dual = ProximalDual(problem, state.center, state.sigma)
            inner = DualQuasiNewton(save_every=None)
            for steps, point in enumerate(inner.steps(dual, state.u)):
                if steps % CHECK == 0:
                    bounds = problem.bounds(point.primal_point, point.dual_point)
                    yield _iterate(bounds, point, state)
                    if (steps and self._solved(bounds, point)) or steps >= LIMIT:
                        break
            else:  # no further ascent in this precision
                bounds = problem.bounds(point.primal_point, point.dual_point)
                yield _iterate(bounds, point, state)
            # the multipliers are kept either way: any of them are a start for the next subproblem
            if self._solved(bounds, point):
                state = state.solved(point, steps)
            else:
                state = state.abandoned(point)
            last = gap
            gap = abs(relative_gap(bounds.primal, bounds.dual))
            if SHARE * last < gap <= ROUNDING * problem.operator.eps:
                return

    def _solved(self, bounds: Bounds, point: Iterate) -> bool:
        """Whether the gap of the subproblem at ``point`` is small against that of the program."""
        enough = max(SHARE * relative_gap(bounds.primal, bounds.dual), INNER_GAP * self.tol)
        return relative_gap(point.primal, point.dual) <= enough


def _iterate(bounds: Bounds, point: Iterate, state: Subproblem) -> Iterate:
    """Return a point of a subproblem as an iterate of the program."""
    return Iterate(
        bounds.primal,
        bounds.dual,
        point.primal_point,
        point.dual_point,
        bounds.violation,
        extra={
            "rank": point.extra["rank"],
            "subproblems": state.subproblems,
            "sigma": state.sigma,
        },
        state=state._replace(u=point.dual_point),
    )
