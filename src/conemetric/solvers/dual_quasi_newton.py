"""Projected limited-memory quasi-Newton ascent on a box-constrained spectral dual.

    D(u) = linear'u - sigma/2 ||[K(u)]_+||_F^2,   lower <= u <= upper         (problems.base.SpectralDual)
    M(u) = sigma [K(u)]_+        grad D(u) = linear - sign A(M(u))
    P(M(u)) - D(u) >= P(M(u)) - P(M*) >= 0        for every u in the box, where M(u) is feasible

The paper runs L-BFGS-B on it [FrobMetric, eq. 5]. Here: at each step the multipliers
that sit at a bound with the gradient pointing outwards are fixed, the L-BFGS direction
is built from the curvature pairs restricted to the free ones (a two-metric projection,
Bertsekas 1982; Kim, Sra & Dhillon 2010), and an Armijo search follows the projected
arc. The two-loop recursion runs on the Gram matrix of the stored vectors (Chen et al.
2014), so that an iteration costs one product with them, one evaluation of D, and no
other work on the multipliers. On 45,000 MNIST triplets at C = 10, 100, 1000 it
certifies 1e-3 in about 30, 80, 185 evaluations against 49, 183 and more than 400 of
L-BFGS-B.

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..arrays import like, to_index, to_numpy
from .base import Infeasible, Iterate, Solver

ARMIJO = 1e-4
MAX_TRIALS = 40  # halvings or doublings of one step


@dataclass(frozen=True)
class DualQuasiNewton(Solver):
    """Projected L-BFGS; ``memory`` is the number of curvature pairs kept, ``start`` the
    multipliers to begin from.
    """

    memory: int = 10
    requires: ClassVar[tuple[str, ...]] = (
        "evaluate",
        "project",
        "curvature",
        "lower",
        "upper",
        "unit",
    )

    def _steps(self, problem, start):
        xp, unit = problem.operator.xp, problem.unit
        # keeps curvature pairs near one, so that float32 never overflows
        relative = unit / float(to_numpy(unit).max())
        u = problem.start() if start is None else problem.project(like(start, problem.start()))
        point = problem.evaluate(u)
        memory = CurvatureMemory(self.memory, xp)
        evaluations = 1
        while True:
            primal, violation = point.primal
            extra = {"rank": point.part.rank, "evaluations": evaluations}
            iterate = Iterate(primal, point.dual, point.factor, point.u, violation, extra)
            reason = problem.refutation(point)
            if reason:
                raise Infeasible(reason, iterate)
            yield iterate
            u, g = point.u, point.gradient
            free = ~(((u <= problem.lower) & (g <= 0)) | ((u >= problem.upper) & (g >= 0)))
            direction = memory.direction(g * relative, free)
            steepest = direction is None
            accepted = None
            while accepted is None:
                if steepest:
                    memory.clear()
                    direction = xp.where(free, g, 0.0) * relative**2
                    slope, bend = _dot(xp, g, direction), problem.curvature(direction, u)
                    if not slope > 0 or not np.isfinite(slope):
                        return
                    direction = direction * (slope / bend if bend > 0 else 1.0)
                else:
                    direction = direction * unit
                accepted, tried = self._search(problem, point, direction)
                evaluations += tried
                if accepted is None and steepest:
                    return
                steepest = True
            memory.add((accepted.u - u) / unit, (g - accepted.gradient) * relative)
            point = accepted

    def _search(self, problem, point, direction):
        """A point of the projected arc u + t d that rises enough, t = 1, 1/2, ... or 2,
        4, ...; None when none does.

        Where the rise drowns in the rounding of D, slopes decide instead of values
        (Hager & Zhang 2005): for a quadratic, the Armijo condition says that the slope
        at the trial point is above -(1 - 2 ARMIJO) times the slope at the start. Where
        the slope hardly falls over a whole step, the step doubles: a poorly scaled
        direction, or a dual without bound.
        """
        xp = problem.operator.xp
        noise = 1e3 * float(xp.finfo(point.u.dtype).eps) * abs(point.dual)

        def at(t):
            trial = problem.evaluate(problem.project(point.u + t * direction), point.part.rank)
            step = trial.u - point.u
            return trial, trial.dual - point.dual, _dot(xp, point.gradient, step), step

        t, best = 1.0, None
        for tried in range(1, MAX_TRIALS + 1):
            trial, rise, slope, step = at(t)
            if best is not None and not rise > best[1]:
                break
            if not slope > 0:
                return None, tried
            if (rise >= ARMIJO * slope and rise > noise) or (
                abs(rise) <= noise and _dot(xp, trial.gradient, step) >= (2 * ARMIJO - 1) * slope
            ):
                best = trial, rise
                if t < 1 or _dot(xp, trial.gradient, step) < 0.99 * slope:
                    break
                t *= 2
            else:
                t *= 0.5
        return (best[0] if best else None), tried


class CurvatureMemory:
    """The last (s, y) pairs of a quasi-Newton method, and the direction H g they imply
    on the free variables.
    """

    def __init__(self, size, xp):
        self.size, self.xp = size, xp
        self.clear()

    def clear(self):
        self.rows = None  # s_1 .. s_k, y_1 .. y_k and g, one row each
        self.order = []  # slots, oldest first

    def add(self, s, y):
        if self.rows is None:
            self.rows = self.xp.zeros(
                (2 * self.size + 1, s.shape[0]), dtype=s.dtype, device=s.device
            )
        slot = len(self.order) if len(self.order) < self.size else self.order.pop(0)
        self.order.append(slot)
        self.rows[slot], self.rows[self.size + slot] = s, y

    def direction(self, g, free=None):
        """H g restricted to ``free`` (default: all) and zero elsewhere; None when there
        is no pair of positive curvature.
        """
        if not self.order:
            return None
        self.rows[-1] = g
        used = [*self.order, *(self.size + slot for slot in self.order), 2 * self.size]
        index = slice(None) if free is None else to_index(free)
        rows = self.rows if free is None or len(index) == len(free) else self.rows[:, index]
        gram = to_numpy(rows @ rows.T).astype(np.float64)[np.ix_(used, used)]
        coefficients = two_loop(gram, len(self.order))
        if coefficients is None:
            return None
        weights = np.zeros(len(self.rows))
        weights[used] = coefficients
        result = self.xp.zeros_like(g)
        result[index] = like(weights, g) @ rows
        return result


def two_loop(gram, k):
    """Coefficients of the L-BFGS direction H g over (s_1 .. s_k, y_1 .. y_k, g), given
    their Gram matrix.

    None when no pair has positive curvature, or the direction found is not one of
    ascent.
    """
    S, Y = np.arange(k), k + np.arange(k)
    curvature = gram[S, Y]
    length = np.sqrt(gram[S, S] * gram[Y, Y])
    good = np.flatnonzero(curvature > 1e-10 * length)
    if len(good) == 0:
        return None
    q = np.zeros(2 * k + 1)
    q[-1] = 1.0
    alpha = np.zeros(k)
    for i in reversed(good):
        alpha[i] = gram[i] @ q / curvature[i]
        q[k + i] -= alpha[i]
    q *= curvature[good[-1]] / gram[k + good[-1], k + good[-1]]
    for i in good:
        q[i] += alpha[i] - gram[k + i] @ q / curvature[i]
    return q if gram[-1] @ q > 0 else None


def _dot(xp, a, b):
    """Inner product as a Python float."""
    return float(xp.linalg.vecdot(a, b))
