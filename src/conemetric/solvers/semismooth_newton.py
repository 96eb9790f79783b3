"""Semismooth Newton steps on the augmented Lagrangian of the relative-comparison program.

    P(w) = 1/2 w'Lw + C sum_i max(0, 1 - z_i'w),  w >= 0          D(lam, y) = 1'lam - 1/2 y'Ly,  0 <= lam <= C, Ly >= Z'lam

(problems.relative_comparisons). With multipliers c for the margins s = 1 - Zw, the
augmented Lagrangian

    phi(w) = 1/2 w'Lw + sum_i max over 0 <= l <= C of (l s_i - (l - c_i)^2 / (2 sigma)),      w >= 0

is piecewise quadratic and once differentiable: the l that attain it are lam(w) = clip(c
+ sigma s, 0, C), its gradient is Lw - Z'lam(w), and its Hessian L + sigma Z_F'Z_F, F
the triplets with lam_i strictly inside. Each step minimises that quadratic model over w
>= 0 exactly (an active set on the few weights), then phi along the segment. Once phi is
minimised well enough, c becomes lam(w) and sigma grows. At the minimum of phi, w is
itself the dual's y, so that

    P - D = sum_i (C max(0, s_i) - lam_i s_i)  +  (1/2 w'Lw + 1/2 y'Ly - w'Z'lam),      y = w raised until Ly >= Z'lam

splits the gap into what the multipliers still owe and what the steps still owe; "well
enough" is the second below `ENOUGH` times the first. The number of steps hardly depends
on the conditioning of L, which may be singular: no inverse of it is taken, and w'Lw >=
sum_j L_jj w_j^2 for w >= 0 because no entry of L is negative.

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..operators import kernels
from .base import Iterate, Solver

ENOUGH = 5.0  # times the multipliers' part of the gap is what the steps may leave
GROWTH = 10.0  # of sigma, each time the multipliers are renewed
LARGEST = 1e8  # of sigma / C: beyond, the Hessian has no digits left for L
ACCURACY = 0.3  # of the search along a step
PATIENCE = 50  # steps without a smaller gap after which rounding is all that moves
# entries of Z that the steps of one iteration may read: small problems take many steps
# at a time
WORK = 1 << 20


@dataclass(frozen=True)
class SemismoothNewton(Solver):
    """See the module docstring; ``start`` is a pair (multipliers, weights)."""

    requires: ClassVar[tuple[str, ...]] = ("rows", "L", "C", "inverse_diagonal", "margins")

    def _steps(self, problem, start):
        L, C, m, p = problem.L, problem.C, problem.operator.n_constraints, len(problem.L)
        if start is None:
            centre, w, s = np.zeros(m), np.zeros(p), np.ones(m)
            yield Iterate(C * m, 0.0, w.copy(), (centre.copy(), w.copy()), extra={"steps": 0})
        else:
            centre, w = start[0].copy(), start[1].copy()
            s = 1 - problem.margins(w)
        lam, combined = np.zeros(m), np.zeros(p)
        state = np.array([C, np.inf, -np.inf, 0.0])
        best = np.empty(p), np.empty(m), np.empty(p)
        rule = (ENOUGH, GROWTH, LARGEST * C, ACCURACY, PATIENCE)
        n_steps, steps = max(1, WORK // (m * p)), 0
        while state[3] < PATIENCE:
            args = (rule, w, s, centre, lam, combined, state, *best)
            steps += kernels.newton_steps(
                problem.rows, L, problem.inverse_diagonal, C, self.tol, n_steps, *args
            )
            best_w, best_lam, best_y = (point.copy() for point in best)
            yield Iterate(
                float(state[1]), float(state[2]), best_w, (best_lam, best_y), extra={"steps": steps}
            )
