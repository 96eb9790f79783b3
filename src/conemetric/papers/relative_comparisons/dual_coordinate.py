"""Dual coordinate ascent for the relative-comparison program (FastQP: Nguyen, Morell & De Baets
2015), finished by Newton steps.

    w(lam) = max(0, Z'lam) / diag(L)     for diagonal L           dD/dlam_i = 1 - z_i'w

(papers.relative_comparisons.program). A sweep maximises D over each multiplier in turn, in random order, keeping w
up to date [algorithm 2; eq. 3.13 for the step, lam_i = c_i if z_i = 0], and the t that the paper
updates once a sweep. Multipliers at a bound whose gradient points outwards by more than anything
moved in the last sweep are left out of the next (shrinking, as in LIBLINEAR).

If C is moderate, the first sweeps gain a digit each, later ones less and less; if it is large, none
does. So sweeps continue only while each divides the gap by `WORTHWHILE`; then `SemismoothNewton`
takes over. It starts at once if L is not diagonal, where coordinate steps stall as the conditioning
of L grows. With more weights than triplets, and more than `WIDE`, sweeps get `PATIENCE` times as
long: Newton's matrices are p x p, and sweeps mostly converge there.

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from collections.abc import Generator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from ...core.arrays import Array, Arrays, Pair
from ...core.compiled import jit_sums
from ...engine.certificate import relative_gap
from ...engine.solver import Iterate, Solver, Steps
from .program import ComparisonProgram
from .semismooth_newton import SemismoothNewton

WORTHWHILE = 4.0  # factor by which a sweep must divide the gap before Newton steps take over
WIDE = 500  # weights up to which Newton's p x p matrices are small
PATIENCE = 200  # sweeps to divide the gap in, for a program with more weights than triplets
RUN = 1 << 12  # entries of Z in a run of rows swept in order: six times faster than single rows
MAX_HESSIAN_WORK = 1 << 21  # operations of a Hessian that costs less than a few sweeps


@dataclass(frozen=True)
class DualCoordinate(Solver):
    """See the module docstring; ``start`` is (multipliers, weights), ``seed`` orders the sweeps."""

    seed: int = 0
    solves = ComparisonProgram

    def steps(self, problem: ComparisonProgram, start: Pair | None) -> Steps:
        m = problem.operator.n_constraints
        p = len(problem.diagonal)
        wide = p > max(m, WIDE)
        patience = PATIENCE if wide else 1
        if problem.is_diagonal and (wide or m * p * p > MAX_HESSIAN_WORK):
            start = yield from self._sweeps(problem, start, patience)
        yield from SemismoothNewton(self.tol, self.max_iter).steps(problem, start)

    def _sweeps(
        self, problem: ComparisonProgram, start: Pair | None, patience: int
    ) -> Generator[Iterate, None, Any]:
        """Sweep while the gap falls fast enough; return multipliers and weights."""
        penalties = problem.penalties
        inverse = problem.inverse_diagonal
        rng = np.random.default_rng(self.seed)
        length = max(1, RUN // len(inverse))
        lam = np.zeros(len(penalties))
        if start is not None:
            lam = np.clip(start[0], 0.0, penalties)
        combined = problem.combine(lam)
        w = np.maximum(combined, 0.0) * inverse
        active = np.ones(len(penalties), dtype=bool)
        bound = np.inf  # outward gradient beyond which a multiplier at a bound is left out
        last = np.inf
        for number in count():
            primal = problem.primal_value(w, problem.loss(problem.margins(w)))
            # w is a feasible y as it is: Lw = max(0, Z'lam) >= Z'lam
            dual = problem.dual_value(lam.sum(), w)
            yield Iterate(primal, dual, w.copy(), (lam.copy(), w.copy()), extra={"steps": 0})
            gap = relative_gap(primal, dual)
            if number % patience == 0:
                if not gap < last / WORTHWHILE:
                    return lam, w
                last = gap
                active |= patience > 1  # look at those left out again
            worst = 0.0
            for piece in rng.permutation(len(problem.slices)):
                rows = problem.slices[piece]
                starts = rng.permutation(np.arange(0, rows.stop - rows.start, length))
                vectors = inverse, penalties[rows], combined, w, lam[rows], active[rows]
                worst = max(worst, dual_sweep(problem.block(rows), starts, length, bound, vectors))
            bound = worst if worst > 0 else np.inf


@jit_sums
def dual_sweep(Z: Array, starts: Array, length: int, bound: float, vectors: Arrays) -> float:
    """One coordinate maximisation of the dual per row of Z, with diagonal L (FastQP, algorithm 2).

    Rows are visited in runs of ``length``, in the order of their ``starts``. u = Z'lam (over all
    rows) and w = max(u, 0) * ``inverse``, the weights of the best t, are kept up to date.
    Rows at a bound whose gradient points outwards by more than ``bound`` leave ``active``. Returns
    the largest gradient that moved a multiplier.
    """
    inverse, penalties, u, w, lam, active = vectors
    m, p = Z.shape
    worst = 0.0
    for start in starts:
        for i in range(start, min(start + length, m)):
            if not active[i]:
                continue
            # z_i'L^-1 z_i is the most by which the gradient falls per unit of lam_i, since weights
            # that are zero may not move: a step never passes the maximum
            margin = curvature = 0.0
            for c in range(p):
                margin += Z[i, c] * w[c]
                curvature += Z[i, c] * Z[i, c] * inverse[c]
            gradient = 1 - margin
            old = lam[i]
            if old <= 0 and gradient <= 0:
                active[i] = gradient >= -bound
                continue
            if old >= penalties[i] and gradient >= 0:
                active[i] = gradient <= bound
                continue
            worst = max(worst, abs(gradient))
            # a row of zeros has gradient 1 for every w: its multiplier belongs at c_i
            new = penalties[i]
            if curvature > 0:
                new = min(max(old + gradient / curvature, 0.0), penalties[i])
            lam[i] = new
            move = new - old
            for c in range(p):
                u[c] += move * Z[i, c]
                w[c] = max(u[c], 0.0) * inverse[c]
    return worst
