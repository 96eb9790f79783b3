"""Semismooth Newton steps on the augmented Lagrangian of the relative-comparison program.

    P(w) = 1/2 w'Lw + sum_i c_i max(0, 1 - z_i'w),  w >= 0        D(lam, y) = 1'lam - 1/2 y'Ly,  0 <= lam <= c, Ly >= Z'lam

(problems.comparisons). With multipliers a for the margins s = 1 - Zw, the augmented Lagrangian

    phi(w) = 1/2 w'Lw + sum_i max over 0 <= l <= c_i of (l s_i - (l - a_i)^2 / (2 sigma)),      w >= 0

is piecewise quadratic and once differentiable: the l that attain it are lam(w) = clip(a + sigma s,
0, c), its gradient is Lw - Z'lam(w), and its Hessian L + sigma Z_F'Z_F, F the triplets with lam_i
strictly inside. Each step minimises that quadratic model over w >= 0 exactly (an active set on the
few weights), then phi along the segment. Once phi is minimised well enough, a becomes lam(w) and
sigma grows. At the minimum of phi, w is itself the dual's y, so that

    P - D = sum_i (c_i max(0, s_i) - lam_i s_i)  +  (1/2 w'Lw + 1/2 y'Ly - w'Z'lam),      y = w raised until Ly >= Z'lam

splits the gap into a part due to the multipliers and a part due to the steps; "well enough" means
that the second is below `MAX_STEP_RATIO` times the first. The number of steps hardly depends on the
conditioning of L, which may be singular: it is never inverted, and w'Lw >= sum_j L_jj w_j^2 for w
>= 0 because no entry of L is negative.

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.compiled import jit, jit_inner, jit_sums
from .base import Iterate, Solver

__all__ = ["SemismoothNewton", "nonnegative_quadratic", "workspace"]

MAX_STEP_RATIO = 5.0  # the steps' part of the gap over the multipliers' part that is small enough
GROWTH = 10.0  # of sigma, each time the multipliers are updated
LARGEST = 1e8  # sigma / mean of c beyond which the Hessian has no digits left for L
ACCURACY = 0.3  # slope at which a line search ends, relative to the first
MAX_TRIALS = 100  # of a line search, which takes a few
PATIENCE = 50  # steps without a smaller gap after which only rounding is left
DEPENDENT = 1e-14  # Cholesky pivot, relative to the diagonal entry, below which it is rounding
PROMISING = 1e-15  # descent per weight, relative to its terms, below which it is rounding
WORK = 1 << 20  # entries of Z that one iteration may read: small problems take many steps in one


@dataclass(frozen=True)
class SemismoothNewton(Solver):
    """See the module docstring; ``start`` is a pair (multipliers, weights)."""

    requires: ClassVar[str] = (
        "L weigh diagonal penalties inverse_diagonal block slices margins combine gram"
    )

    def steps(self, problem: Any, start: Any) -> Iterator[Iterate]:
        m, p = problem.operator.n_constraints, len(problem.diagonal)
        if start is None:
            start = np.zeros(m), np.zeros(p)
            points = start[1].copy(), (start[0].copy(), start[1].copy())
            yield Iterate(float(problem.penalties.sum()), 0.0, *points, extra={"steps": 0})
        n_steps = max(1, WORK // (m * p))
        run = _Run(problem, *start)
        while run.idle < PATIENCE:
            for _ in range(n_steps):
                if not run.step(self.tol):
                    break
            lam, y = run.dual_point
            points = run.weights.copy(), (lam.copy(), y.copy())
            yield Iterate(run.primal, run.dual, *points, extra={"steps": run.n_steps})


class _Run:
    """Weights, margins and multipliers, and the best of them so far."""

    def __init__(self, problem, centre, w):
        self.problem = problem
        self.centre, self.w = centre.copy(), w.copy()
        self.s = 1 - problem.margins(w)
        self.lam, self.change = np.zeros((2, len(centre)))
        self.combined, self.slope = np.zeros((2, len(w)))  # Z'lam, Lw - Z'lam
        self.inside, self.work = np.empty(len(centre), dtype=bool), workspace(len(w))
        self.size = float(problem.penalties.mean())
        self.sigma = self.size
        self.primal, self.dual = np.inf, -np.inf
        self.n_steps = self.idle = 0

    def step(self, tol):
        """Make a step; False, and no step, if the gap is within ``tol`` or nothing moves any more."""
        problem, w = self.problem, self.w
        loss, total, slackness = _hinge_multipliers(
            self.s, self.centre, self.sigma, problem.penalties, self.lam, self.change, self.inside
        )
        self.combined += problem.combine(self.change)
        y = np.empty_like(w)
        square, square_y, product = _values(
            problem.L, w, self.combined, problem.inverse_diagonal, self.slope, y
        )
        self._keep_best(0.5 * square + loss, total - 0.5 * square_y, y)
        gap, size = self.primal - self.dual, max(abs(self.primal), abs(self.dual))
        if gap <= tol * size or self.idle >= PATIENCE:
            return False
        self.n_steps += 1
        due_to_steps = 0.5 * (square + square_y) - product
        if not (due_to_steps > MAX_STEP_RATIO * slackness and self._move()):
            self.centre[:] = self.lam  # nothing left to gain with these
            self.sigma = min(GROWTH * self.sigma, LARGEST * self.size)
        return True

    def _keep_best(self, primal, dual, y):
        self.idle += 1
        if primal < self.primal:
            self.primal, self.weights, self.idle = float(primal), self.w.copy(), 0
        if dual > self.dual:
            self.dual, self.dual_point, self.idle = float(dual), (self.lam.copy(), y), 0

    def _move(self):
        """Step towards the minimum of the quadratic model; whether there was a descent."""
        problem, w = self.problem, self.w
        H, d = problem.gram(self.inside), w.copy()
        H *= self.sigma
        H += problem.L
        nonnegative_quadratic(H, H @ w - self.slope, d, self.work)
        d -= w
        ds, Ld = problem.margins(d), problem.weigh(d)
        curve = d @ self.slope, w @ Ld, d @ Ld
        return _hinge_step(self.s, ds, self.centre, self.sigma, problem.penalties, *curve, w, d) > 0


@jit_sums
def _hinge_multipliers(s, centre, sigma, penalties, lam, change, inside):
    """Set lam to clip(centre + sigma * s, 0, c), ``change`` to its change, ``inside`` to where it
    is strictly between; return the sums of c max(0, s), of lam, and of c max(0, s) - lam s.
    """
    loss = total = used = 0.0
    for i in range(len(s)):
        value = centre[i] + sigma * s[i]
        value = value if value > 0.0 else 0.0
        value = value if value < penalties[i] else penalties[i]
        inside[i] = (value > 0.0) & (value < penalties[i])
        change[i] = value - lam[i]
        lam[i] = value
        loss += penalties[i] * s[i] if s[i] > 0.0 else 0.0
        total += value
        used += value * s[i]
    return loss, total, loss - used


@jit_sums
def _values(L, w, combined, inverse_diagonal, slope, y):
    """Set ``slope`` to Lw - ``combined``, y to w raised until Ly >= ``combined``; return w'Lw,
    y'Ly and w'combined.
    """
    square = square_y = product = 0.0
    for j in range(len(w)):
        t = 0.0
        for c in range(len(w)):
            t += L[j, c] * w[c]
        slope[j] = t - combined[j]
        y[j] = w[j] - slope[j] * inverse_diagonal[j] if slope[j] < 0 else w[j]
        square += w[j] * t
        product += w[j] * combined[j]
    for j in range(len(w)):
        t = 0.0
        for c in range(len(w)):
            t += L[j, c] * y[c]
        square_y += y[j] * t
    return square, square_y, product


@jit_sums
def _hinge_slope(s, ds, centre, sigma, penalties, step):
    """Sum of lam ds, minus its derivative; lam = clip(centre + sigma (s - step ds), 0, c)."""
    slope = curvature = 0.0
    for i in range(len(s)):
        free = centre[i] + sigma * (s[i] - step * ds[i])
        value = free if free > 0.0 else 0.0
        value = value if value < penalties[i] else penalties[i]
        slope += value * ds[i]
        curvature += ds[i] * ds[i] if value == free else 0.0
    return slope, sigma * curvature


@jit
def _hinge_step(s, ds, centre, sigma, penalties, initial, linear, quadratic, w, d):
    """Move w along d, and s along -ds, by the step in (0, 1] that (nearly) minimises the smoothed
    objective; return the step, 0 if it does not descend.

    Its derivative, linear + step * quadratic - sum lam(step) * ds, is ``initial`` at 0, rises with
    the step and is piecewise linear. Newton's method, or if that leaves the bracket the Illinois
    variant of the secant rule, finds its root to `ACCURACY` times ``initial``.
    """
    if not initial < 0:
        return 0.0
    low, at_low, high, at_high, step = 0.0, initial, 1.0, 0.0, 1.0
    for trial in range(MAX_TRIALS):
        slope, curvature = _hinge_slope(s, ds, centre, sigma, penalties, step)
        derivative = linear + step * quadratic - slope
        if abs(derivative) <= -ACCURACY * initial or (trial == 0 and derivative < 0):
            break
        if derivative < 0:
            low, at_low, at_high = step, derivative, 0.5 * at_high
        else:
            high, at_high = step, derivative
            if trial > 0:
                at_low *= 0.5
        step -= derivative / (quadratic + curvature)
        if not low < step < high:
            step = low + (high - low) * at_low / (at_low - at_high)
            if not low < step < high:
                break
    for j in range(len(w)):
        w[j] += step * d[j]
    for i in range(len(s)):
        s[i] -= step * ds[i]
    return step


def nonnegative_quadratic(
    H: np.ndarray, q: np.ndarray, w: np.ndarray, work: tuple[np.ndarray, ...]
) -> None:
    """Minimise w'Hw/2 - q'w over w >= 0 in place, from a feasible w (Lawson and Hanson), in the
    arrays of a `workspace`.
    """
    _active_set(H, q, w, *work)


def workspace(p: int) -> tuple[np.ndarray, ...]:
    """The arrays that `nonnegative_quadratic` works in, for p variables."""
    return np.empty((p, p)), *np.empty((2, p)), *np.empty((2, p), np.int64)


@jit
def _active_set(H, q, w, factor, half, x, support, inside):
    """`nonnegative_quadratic`, given the arrays it works in.

    The objective falls at every step, so that a result cut short by rounding is still a descent.
    ``factor`` is the Cholesky factor of H on the support, in order of entry: an entry appends a
    row, a departure recomputes those after it. A variable that depends on those before it, up to
    rounding, gets its own diagonal entry as pivot: the others take over its part.
    """
    p, k, done = len(q), np.int64(0), np.int64(0)  # literals would be compiled twice
    for j in range(p):
        inside[j] = 0
        if w[j] > 0:
            support[k], inside[j] = j, 1
            k += 1
    entering = -1
    for _ in range(10 * p + 100):
        while k > 0:
            _factorise(H, q, support, done, k, factor, half)
            step, blocking = _towards_minimum(factor, half, w, support, k, x)
            done, k = _take_step(w, x, step, blocking, support, k, inside)
            if blocking < 0:
                break
        # it entered and left at once: only rounding let it enter
        if entering >= 0 and not inside[entering]:
            break
        entering = _entering(H, q, w, support, k, inside)
        if entering < 0:
            break
        support[k], inside[entering] = entering, 1
        k += 1


@jit_inner
def _factorise(H, q, support, done, k, factor, half):
    """Rows ``done`` to k of the Cholesky factor F on the support, and of F^-1 q."""
    for r in range(done, k):
        j = support[r]
        for c in range(r + 1):
            t = H[j, support[c]]
            for e in range(c):
                t -= factor[r, e] * factor[c, e]
            factor[r, c] = (
                t / factor[c, c] if c < r else np.sqrt(t if t > DEPENDENT * H[j, j] else H[j, j])
            )
        t = q[j]
        for e in range(r):
            t -= factor[r, e] * half[e]
        half[r] = t / factor[r, r]


@jit_inner
def _towards_minimum(factor, half, w, support, k, x):
    """Set x to the minimum on the support; how far w can go there, and what blocks it (or -1)."""
    step, blocking = 1.0, -1
    for r in range(k - 1, -1, -1):
        t = half[r]
        for e in range(r + 1, k):
            t -= factor[e, r] * x[e]
        x[r] = t / factor[r, r]
        if x[r] <= 0:
            now = w[support[r]]
            ratio = now / (now - x[r]) if now > 0 else 0.0
            if ratio <= step:
                step, blocking = ratio, r
    return step, blocking


@jit_inner
def _take_step(w, x, step, blocking, support, k, inside):
    """Take the step, drop zero variables: (valid rows of the factor, size of the support)."""
    done, kept = k, 0
    for r in range(k):
        j = support[r]
        w[j] += step * (x[r] - w[j])
        if blocking >= 0 and (r == blocking or w[j] <= 0):
            w[j], inside[j] = 0.0, 0
            done = r if r < done else done
        else:
            support[kept] = j
            kept += 1
    return done, kept


@jit_inner
def _entering(H, q, w, support, k, inside):
    """The variable at zero whose entry promises most; -1 if none does beyond rounding."""
    p = len(q)
    entering, best = -1, 0.0
    for j in range(p):
        if not inside[j] and H[j, j] > 0:
            descent, size = q[j], abs(q[j])
            for r in range(k):
                t = H[j, support[r]] * w[support[r]]
                descent -= t
                size += abs(t)
            if descent > PROMISING * p * size and descent * descent / H[j, j] > best:
                entering, best = j, descent * descent / H[j, j]
    return entering
