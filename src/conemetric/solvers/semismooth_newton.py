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

from ..compiled import jit, jit_sums
from ..problems.relative_comparisons import row_block, rows_adjoint, rows_forward
from .base import Iterate, Solver

ENOUGH = 5.0  # times the multipliers' part of the gap is what the steps may leave
GROWTH = 10.0  # of sigma, each time the multipliers are renewed
LARGEST = 1e8  # of sigma / C: beyond, the Hessian has no digits left for L
ACCURACY = 0.3  # of the search along a step
PATIENCE = 50  # steps without a smaller gap after which rounding is all that moves
# entries of Z that the steps of one iteration may read: small problems take many steps
# at a time
SHORT = 24  # columns below which plain loops beat BLAS on a product of few rows
PIECE = (
    1 << 18
)  # scalar operations of a product below which one BLAS thread is faster than waking others
DEPENDENT = 1e-14  # part of a diagonal entry below which a Cholesky pivot is rounding
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
            steps += newton_steps(
                problem.rows, L, problem.inverse_diagonal, C, self.tol, n_steps, *args
            )
            best_w, best_lam, best_y = (point.copy() for point in best)
            yield Iterate(
                float(state[1]), float(state[2]), best_w, (best_lam, best_y), extra={"steps": steps}
            )


@jit_sums
def _rows_gram(rows, inside, sigma, H):
    """H += sigma Z_F'Z_F, F the rows marked ``inside``."""
    step, p = rows[1].shape
    for start in range(0, len(inside), step):
        stop = min(start + step, len(inside))
        chosen = np.flatnonzero(inside[start:stop])
        if len(chosen) == 0:
            continue
        block = row_block(rows, start, stop)
        if p < SHORT:
            for r in chosen:
                for b in range(p):
                    for c in range(p):
                        H[b, c] += sigma * block[r, b] * block[r, c]
            continue
        # BLAS takes one thread for the product of a piece; waking others pays for many pieces only
        piece = max(1, PIECE // (p * p))
        piece = piece if len(chosen) <= 64 * piece else len(chosen)
        for first in range(0, len(chosen), piece):
            part = block[chosen[first : first + piece]]
            H += sigma * (part.T @ part)


@jit_sums
def _hinge_multipliers(s, centre, sigma, C, lam, change, inside):
    """Set lam to clip(centre + sigma * s, 0, C), ``change`` to its change, ``inside``
    where it is strictly between.

    Returns the sums of max(0, s), of lam, and of C max(0, s) - lam s.
    """
    loss = total = used = 0.0
    for i in range(len(s)):
        value = centre[i] + sigma * s[i]
        value = value if value > 0.0 else 0.0
        value = value if value < C else C
        inside[i] = (value > 0.0) & (value < C)
        change[i] = value - lam[i]
        lam[i] = value
        loss += s[i] if s[i] > 0.0 else 0.0
        total += value
        used += value * s[i]
    return loss, total, C * loss - used


@jit_sums
def _hinge_slope(s, ds, centre, sigma, C, step):
    """Sum of lam(step) * ds, and its derivative's negative, for lam(step) = clip(centre
    + sigma * (s - step * ds), 0, C).
    """
    slope = bend = 0.0
    for i in range(len(s)):
        free = centre[i] + sigma * (s[i] - step * ds[i])
        value = free if free > 0.0 else 0.0
        value = value if value < C else C
        slope += value * ds[i]
        bend += ds[i] * ds[i] if value == free else 0.0
    return slope, sigma * bend


@jit
def _hinge_search(s, ds, centre, sigma, C, initial, linear, quadratic, accuracy):
    """Step in (0, 1] along which the smoothed objective falls to (nearly) its least; 0
    where the direction does not descend.

    Its derivative, linear + step * quadratic - sum lam(step) * ds, is ``initial`` at 0,
    rises with the step and is piecewise linear. Newton's method, or where that leaves
    the bracket the Illinois variant of the secant rule, finds its root to ``accuracy``
    times ``initial``.
    """
    if not initial < 0:
        return 0.0
    low, at_low, high, at_high, step = 0.0, initial, 1.0, 0.0, 1.0
    for trial in range(100):
        slope, bend = _hinge_slope(s, ds, centre, sigma, C, step)
        derivative = linear + step * quadratic - slope
        if abs(derivative) <= -accuracy * initial or (trial == 0 and derivative < 0):
            break
        if derivative < 0:
            low, at_low, at_high = step, derivative, 0.5 * at_high
        else:
            high, at_high = step, derivative
            if trial > 0:
                at_low *= 0.5
        step -= derivative / (quadratic + bend)
        if not low < step < high:
            step = low + (high - low) * at_low / (at_low - at_high)
            if not low < step < high:
                break
    return step


@jit
def nonnegative_quadratic(H, q, w):
    """Minimise w'Hw/2 - q'w over w >= 0 in place, from a feasible w: Lawson and
    Hanson's active set on the Gram matrix H.

    The objective falls at every step, so that a result cut short by rounding is still a
    descent. ``factor`` is the Cholesky factor of H on the support, in order of entry:
    an entry appends a row, a departure recomputes those after it. A variable that
    depends on those before it, to rounding, has its own diagonal entry for a pivot:
    they take over what it would have done.
    """
    p = len(q)
    factor, half, x = np.empty((p, p)), np.empty(p), np.empty(p)
    support, inside, k, done = np.empty(p, np.int64), np.zeros(p, np.bool_), 0, 0
    for j in range(p):
        if w[j] > 0:
            support[k], inside[j] = j, True
            k += 1
    entering = -1
    for _ in range(10 * p + 100):
        while k > 0:
            for r in range(done, k):
                j = support[r]
                for c in range(r + 1):
                    t = H[j, support[c]]
                    for e in range(c):
                        t -= factor[r, e] * factor[c, e]
                    factor[r, c] = (
                        t / factor[c, c]
                        if c < r
                        else np.sqrt(t if t > DEPENDENT * H[j, j] else H[j, j])
                    )
                t = q[j]
                for e in range(r):
                    t -= factor[r, e] * half[e]
                half[r] = t / factor[r, r]
            done = k
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
            kept = 0
            for r in range(k):
                j = support[r]
                w[j] += step * (x[r] - w[j])
                if blocking >= 0 and (r == blocking or w[j] <= 0):
                    w[j], inside[j], done = 0.0, False, min(done, r)
                else:
                    support[kept] = j
                    kept += 1
            k = kept
            if blocking < 0:
                break
        # it came and left at once: only rounding called it
        if entering >= 0 and not inside[entering]:
            break
        entering, best = -1, 0.0
        for j in range(p):
            if not inside[j] and H[j, j] > 0:
                descent, size = q[j], abs(q[j])
                for r in range(k):
                    t = H[j, support[r]] * w[support[r]]
                    descent -= t
                    size += abs(t)
                if descent > 1e-15 * p * size and descent * descent / H[j, j] > best:
                    entering, best = j, descent * descent / H[j, j]
        if entering < 0:
            break
        support[k], inside[entering] = entering, True
        k += 1


@jit
def newton_steps(
    rows,
    L,
    inverse,
    C,
    tol,
    n_steps,
    rule,
    w,
    s,
    centre,
    lam,
    combined,
    state,
    best_w,
    best_lam,
    best_y,
):
    """Up to ``n_steps`` steps of solvers.semismooth_newton in place, ending early at a
    relative gap of ``tol``; steps done.

    ``inverse`` is 1 / diag(L); ``combined`` = Z'lam; ``rule`` = (enough, growth,
    largest sigma, accuracy, patience); ``state`` = (sigma, least primal value, largest
    dual value, steps since the gap last fell), whose points go to the ``best_`` arrays.
    """
    enough, growth, largest, accuracy, patience = rule
    inside, work = np.empty(len(s), np.bool_), np.empty_like(s)
    for done in range(n_steps):
        sigma = state[0]
        loss, total, slackness = _hinge_multipliers(s, centre, sigma, C, lam, work, inside)
        rows_adjoint(rows, work, combined)
        Lw = L @ w
        y = w + np.maximum(combined - Lw, 0.0) * inverse
        square, square_y = w @ Lw, y @ (L @ y)
        primal, dual = 0.5 * square + C * loss, total - 0.5 * square_y
        state[3] += 1
        if primal < state[1]:
            state[1], state[3] = primal, 0
            best_w[:] = w
        if dual > state[2]:
            state[2], state[3] = dual, 0
            best_lam[:], best_y[:] = lam, y
        if state[1] - state[2] <= tol * max(abs(state[1]), abs(state[2])) or state[3] >= patience:
            return done
        step = 0.0
        if 0.5 * (square + square_y) - w @ combined > enough * slackness:
            H = L.copy()
            _rows_gram(rows, inside, sigma, H)
            target = w.copy()
            nonnegative_quadratic(H, H @ w + combined - Lw, target)
            d = target - w
            rows_forward(rows, d, work)
            step = _hinge_search(
                s, work, centre, sigma, C, d @ (Lw - combined), d @ Lw, d @ (L @ d), accuracy
            )
            for j in range(len(w)):
                w[j] += step * d[j]
            for i in range(len(s)):
                s[i] -= step * work[i]
        if step == 0:  # nothing left to gain at these multipliers
            centre[:] = lam
            state[0] = min(growth * sigma, largest)
    return n_steps
