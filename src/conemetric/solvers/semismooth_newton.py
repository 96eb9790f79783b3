"""Semismooth Newton steps on the augmented Lagrangian of the relative-comparison program.

    phi(w) = 1/2 w'Lw + sum_i max over 0 <= l <= c_i of (l s_i - (l - a_i)^2 / (2 sigma)),      w >= 0

with multipliers a for the margins s = 1 - Zw (docs/mathematics). Each step minimises the quadratic
model of phi over w >= 0 exactly (an active set on the few weights), then phi along the segment. Once the
part of the gap due to the steps is below `MAX_STEP_RATIO` times that due to the multipliers, a becomes
lam(w) and sigma grows. L may be singular: it is never inverted. The steps are in `newton_kernels`.

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from dataclasses import dataclass

import numpy as np

from ..core.ahead import wait_for_kernels
from ..core.arrays import Pair
from ..problems.comparisons import ComparisonProgram
from . import newton_kernels as kernels
from .base import Iterate, Solver, Steps

LARGEST = 1e8  # sigma / mean of c beyond which the Hessian has no digits left for L
WORK = 1 << 20  # entries of Z that one iteration may read: small problems take many steps in one


@dataclass(frozen=True)
class SemismoothNewton(Solver):
    """See the module docstring; ``start`` is a pair (multipliers, weights)."""

    solves = ComparisonProgram

    def steps(self, problem: ComparisonProgram, start: Pair | None) -> Steps:
        m, p = problem.operator.n_constraints, len(problem.diagonal)
        centre, w = (np.zeros(m), np.zeros(p)) if start is None else start
        if start is None:
            points = w.copy(), (centre.copy(), w.copy())
            yield Iterate(float(problem.penalties.sum()), 0.0, *points, extra={"steps": 0})
        arrays = kernels.Vectors.starting(1 - problem.margins(w), centre.copy(), w.copy())
        # steps with a small Z are one compiled loop, since a call from Python takes as long as a
        # product with some hundred rows: 318 triplets of 7 weights in 0.28 ms instead of 0.76
        small = m * p <= WORK and len(problem.slices) == 1
        Z = problem.block(problem.slices[0]) if small else np.empty((0, p))
        program = Z, problem.L, problem.inverse_diagonal, problem.penalties
        size, work = float(problem.penalties.mean()), kernels.workspace(p)
        now = kernels.Progress(size)
        wait_for_kernels()
        while now.idle < kernels.PATIENCE:
            limits = self.tol, now.n_steps + max(1, WORK // (m * p)), LARGEST * size
            place = kernels.EVALUATE
            while place != kernels.DONE:
                place, *numbers = kernels.advance(place, limits, program, now, arrays, work)
                now = kernels.Progress(*numbers)
                if place == kernels.COMBINE:
                    arrays.combined[:] += problem.combine(arrays.change)
                elif place == kernels.GRAM:
                    arrays.H[:] = problem.gram(arrays.inside)
                elif place == kernels.MARGINS:
                    arrays.change[:] = problem.margins(arrays.d)
            points = arrays.best_w.copy(), (arrays.best_lam.copy(), arrays.best_y.copy())
            yield Iterate(now.primal, now.dual, *points, extra={"steps": now.n_steps})
