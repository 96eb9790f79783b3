"""The compiled loop of `SemismoothNewton`, apart from it so that nothing slow is imported with it."""

from typing import NamedTuple, Self

import numpy as np

from ...core.arrays import Array, Arrays
from ...core.compiled import ZERO, jit, jit_inner, jit_inner_sums
from .program import add_combined, row_products

MAX_STEP_RATIO = 5.0  # the steps' part of the gap that is small enough, over the multipliers' part
GROWTH = 10.0  # of sigma, each time the multipliers are updated
ACCURACY = 0.3  # slope at which a line search ends, relative to the first
MAX_TRIALS = 100  # of a line search, which takes a few
PATIENCE = 50  # steps without a smaller gap after which only rounding is left
DEPENDENT = 1e-14  # Cholesky pivot, relative to the diagonal entry, below which it is rounding
PROMISING = 1e-15  # descent per weight, relative to its terms, below which it is rounding
NARROW = 24  # columns of Z up to which loops form Z_F'Z_F faster than a call of BLAS
Floats = tuple[float, ...]
Hinge = tuple[Array, Array, Array, float, Array]  # s, its change, centre, sigma, penalties
EVALUATE, COMBINE, GRAM, MARGINS, UPDATE, DONE = range(6)  # where `advance` is in a step


class Progress(NamedTuple):
    """The numbers of a run: sigma, the best bounds, and those of the last evaluation."""

    sigma: float
    primal: float = np.inf
    dual: float = -np.inf
    idle: int = 0  # steps since the gap last fell
    n_steps: int = 0
    loss: float = 0.0
    total: float = 0.0  # of the multipliers
    slackness: float = 0.0


class Vectors(NamedTuple):
    """The vectors of a run, and the best points so far."""

    s: Array  # 1 - Zw
    centre: Array
    lam: Array
    change: Array  # of lam by an evaluation, of s by a full step
    best_lam: Array
    inside: Array  # which lam are strictly between their bounds
    w: Array
    combined: Array  # Z'lam
    slope: Array  # Lw - Z'lam
    y: Array
    d: Array  # a full step
    best_w: Array
    best_y: Array
    q: Array
    H: Array

    @classmethod
    def starting(cls, s: Array, centre: Array, w: Array) -> Self:
        """Those of a run from these, which it may overwrite."""
        m, p = len(s), len(w)
        rows, columns, inside = np.zeros((3, m)), np.zeros((7, p)), np.empty(m, dtype=bool)
        return cls._make((s, centre, *rows, inside, w, *columns, np.empty((p, p))))


def compile_kernels() -> None:
    """Have `advance` compiled, by a call that takes no step."""
    one, matrix = np.ones(1), np.ones((1, 1))
    limits, program = (1.0, 0, 1.0), (matrix, matrix, one, one)
    advance(EVALUATE, limits, program, Progress(1.0), Vectors.starting(one, one, one), workspace(1))


@jit
def advance(
    place: int, limits: Floats, program: Arrays, progress: Progress, arrays: Vectors, work: Arrays
) -> Floats:
    """Go on from a place in a step until a product with Z is needed that is not made here (none is
    if Z is empty, and no gram if it is not `NARROW`), or no step is left: the new place and
    ``progress``.
    """
    (tol, last, largest), (Z, L, inverse_diagonal, penalties) = limits, program
    sigma, primal, dual, idle, n_steps, loss, total, slackness = progress
    s, centre, lam, change = arrays.s, arrays.centre, arrays.lam, arrays.change
    w, d, q, H, combined = arrays.w, arrays.d, arrays.q, arrays.H, arrays.combined
    while True:
        if place == EVALUATE:
            if n_steps >= last:
                place = DONE
                break
            loss, total, slackness = _hinge_multipliers(arrays, sigma, penalties)
            place = COMBINE
            if len(Z) == 0:
                break
            add_combined(Z, change, combined)
        if place == COMBINE:
            square, square_y, product = _values(L, inverse_diagonal, arrays)
            idle += 1
            if 0.5 * square + loss < primal:
                primal, idle = 0.5 * square + loss, 0
                _copy(w, arrays.best_w)
            if total - 0.5 * square_y > dual:
                dual, idle = total - 0.5 * square_y, 0
                _copy(lam, arrays.best_lam)
                _copy(arrays.y, arrays.best_y)
            place = DONE
            if primal - dual <= tol * max(abs(primal), abs(dual)) or idle >= PATIENCE:
                break
            n_steps += 1
            place = UPDATE
            if 0.5 * (square + square_y) - product > MAX_STEP_RATIO * slackness:
                place = GRAM
                if len(Z) == 0 or len(w) > NARROW:
                    break
                _gram(Z, arrays.inside, H)
        if place == GRAM:
            for j in range(len(w)):
                for c in range(len(w)):
                    H[j, c] = L[j, c] + sigma * H[j, c]
            row_products(0, len(w), H, w, q)
            for j in range(len(w)):
                q[j] -= arrays.slope[j]
                d[j] = w[j]
            nonnegative_quadratic(H, q, d, work)
            for j in range(len(w)):
                d[j] -= w[j]
            place = MARGINS
            if len(Z) == 0:
                break
            row_products(0, len(Z), Z, d, change)
        if place == MARGINS:
            row_products(0, len(w), L, d, q)
            initial, linear, quadratic = _dot(d, arrays.slope), _dot(w, q), _dot(d, q)
            hinge = s, change, centre, sigma, penalties
            step = _hinge_step(hinge, initial, linear, quadratic)
            _add(step, d, w)
            _add(-step, change, s)
            place = EVALUATE if step > 0 else UPDATE
        if place == UPDATE:  # nothing left to gain with these multipliers
            _copy(lam, centre)
            sigma = min(GROWTH * sigma, largest)
            place = EVALUATE
    return place, sigma, primal, dual, idle, n_steps, loss, total, slackness


@jit_inner
def _copy(a: Array, b: Array) -> None:
    for i in range(len(a)):
        b[i] = a[i]


@jit_inner_sums
def _add(share: float, a: Array, b: Array) -> None:
    """b += share a."""
    for i in range(len(a)):
        b[i] += share * a[i]


@jit_inner_sums
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@jit_inner_sums
def _gram(Z: Array, inside: Array, H: Array) -> None:
    """H = Z_F'Z_F, F the rows marked ``inside``."""
    for b in range(len(H)):
        for c in range(len(H)):
            H[b, c] = 0.0
    for r in range(len(Z)):
        if inside[r]:
            for b in range(len(H)):
                for c in range(b + 1):
                    H[b, c] += Z[r, b] * Z[r, c]
    for b in range(len(H)):
        for c in range(b):
            H[c, b] = H[b, c]


@jit_inner_sums
def _hinge_multipliers(arrays: Vectors, sigma: float, penalties: Array) -> Floats:
    """Set lam to clip(centre + sigma * s, 0, c), ``change`` to its change, ``inside`` to where it
    is strictly between; return the sums of c max(0, s), of lam, and of c max(0, s) - lam s.
    """
    loss = total = used = 0.0
    s, lam = arrays.s, arrays.lam
    for i in range(len(s)):
        value = arrays.centre[i] + sigma * s[i]
        value = value if value > 0.0 else 0.0
        value = value if value < penalties[i] else penalties[i]
        arrays.inside[i] = (value > 0.0) & (value < penalties[i])
        arrays.change[i] = value - lam[i]
        lam[i] = value
        loss += penalties[i] * s[i] if s[i] > 0.0 else 0.0
        total += value
        used += value * s[i]
    return loss, total, loss - used


@jit_inner_sums
def _values(L: Array, inverse_diagonal: Array, arrays: Vectors) -> Floats:
    """Set slope = Lw - Z'lam, y = w raised until Ly >= Z'lam, q = Ly; give w'Lw, y'Ly, w'Z'lam."""
    w, combined, slope, y, q = arrays.w, arrays.combined, arrays.slope, arrays.y, arrays.q
    row_products(0, len(w), L, w, slope)
    square, product = _dot(w, slope), _dot(w, combined)
    for j in range(len(w)):
        slope[j] -= combined[j]
        y[j] = w[j] - slope[j] * inverse_diagonal[j] if slope[j] < 0 else w[j]
    row_products(0, len(w), L, y, q)
    return square, _dot(y, q), product


@jit_inner_sums
def _hinge_slope(hinge: Hinge, step: float) -> Floats:
    """Sum of lam ds, minus its derivative; lam = clip(centre + sigma (s - step ds), 0, c)."""
    slope = curvature = 0.0
    s, ds, centre, sigma, penalties = hinge
    for i in range(len(s)):
        free = centre[i] + sigma * (s[i] - step * ds[i])
        value = free if free > 0.0 else 0.0
        value = value if value < penalties[i] else penalties[i]
        slope += value * ds[i]
        curvature += ds[i] * ds[i] if value == free else 0.0
    return slope, sigma * curvature


@jit_inner
def _hinge_step(hinge: Hinge, initial: float, linear: float, quadratic: float) -> float:
    """The step in (0, 1] along -ds that nearly minimises the smoothed objective; 0 if none descends.

    Its derivative, linear + step * quadratic - sum lam(step) * ds, is ``initial`` at 0, rises and is
    piecewise linear. Newton's method, or if that leaves the bracket the Illinois variant of the
    secant rule, finds its root to `ACCURACY` times ``initial``.
    """
    if not initial < 0:
        return 0.0
    low, at_low, high, at_high, step = 0.0, initial, 1.0, 0.0, 1.0
    for trial in range(MAX_TRIALS):
        slope, curvature = _hinge_slope(hinge, step)
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
    return step


def workspace(p: int) -> Arrays:
    """The arrays that `nonnegative_quadratic` works in, for p variables."""
    return np.empty((p, p)), *np.empty((2, p)), *np.empty((2, p), np.int64)


@jit
def nonnegative_quadratic(H: Array, q: Array, w: Array, work: Arrays) -> None:
    """Minimise w'Hw/2 - q'w over w >= 0 in place, from a feasible w (Lawson and Hanson), in the
    arrays of a `workspace`.

    The objective falls at every step, so that a result cut short by rounding is still a descent.
    The Cholesky factor of H on the support is in order of entry: an entry appends a row, a
    departure recomputes those after it. A variable that depends on those before it, up to rounding,
    gets its own diagonal entry as pivot: the others take over its part.
    """
    support, inside = work[3], work[4]
    p, k, done = len(q), ZERO, ZERO
    for j in range(p):
        inside[j] = w[j] > 0
        if inside[j]:
            support[k] = j
            k += 1
    entering = -1
    for _ in range(10 * p + 100):
        while k > 0:
            _factorise(H, q, work, done, k)
            step, blocking = _towards_minimum(w, work, k)
            done, k = _take_step(w, work, step, blocking, k)
            if blocking < 0:
                break
        # it entered and left at once: only rounding let it enter
        if entering >= 0 and not inside[entering]:
            break
        entering = _entering(H, q, w, work, k)
        if entering < 0:
            break
        support[k], inside[entering] = entering, 1
        k += 1


@jit_inner
def _factorise(H: Array, q: Array, work: Arrays, done: int, k: int) -> None:
    """Rows ``done`` to k of the Cholesky factor F on the support, and of F^-1 q."""
    factor, half, _, support, _ = work
    for r in range(done, k):
        j = support[r]
        for c in range(r + 1):
            t = H[j, support[c]]
            for e in range(c):
                t -= factor[r, e] * factor[c, e]
            if c == r:
                t = np.sqrt(t if t > DEPENDENT * H[j, j] else H[j, j])
            factor[r, c] = t / factor[c, c] if c < r else t
        t = q[j]
        for e in range(r):
            t -= factor[r, e] * half[e]
        half[r] = t / factor[r, r]


@jit_inner
def _towards_minimum(w: Array, work: Arrays, k: int) -> tuple[float, int]:
    """Set x to the minimum on the support; how far w can go there, and what blocks it (or -1)."""
    factor, half, x, support, _ = work
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
def _take_step(w: Array, work: Arrays, step: float, blocking: int, k: int) -> tuple[int, int]:
    """Take the step, drop zero variables: (valid rows of the factor, size of the support)."""
    _, _, x, support, inside = work
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
def _entering(H: Array, q: Array, w: Array, work: Arrays, k: int) -> int:
    """The variable at zero whose entry promises most; -1 if none does beyond rounding."""
    p, support, inside = len(q), work[3], work[4]
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
