"""Every Numba kernel of the library's operators: plain loops over arrays, no Python objects.

Kernels release the GIL and work on a range ``start:stop`` of rows; `threaded` maps them
over all cores. Sums use four running totals instead of fast-math, so that they
vectorise while infinities and NaN keep their meaning.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
# long sums may be reordered to vectorise; infinities and NaN keep their meaning
_jit_sums = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
_pool: ThreadPoolExecutor | None = None
SHORT = 24  # columns below which plain loops beat BLAS on a product of few rows
SMALL = 1 << 18  # below this many scalar operations one thread is faster than waking others
DEPENDENT = 1e-14  # part of a diagonal entry below which a Cholesky pivot is rounding


def n_threads():
    """Threads to use: ``OMP_NUM_THREADS`` where set (joblib's workers set it), else the
    cores we may run on.
    """
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def threaded(kernel, n_rows, work, *args):
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)`` in contiguous chunks,
    one or more per core.
    """
    global _pool
    workers = n_threads()
    if work < SMALL or workers == 1:
        kernel(0, n_rows, *args)
        return
    if _pool is None or _pool._max_workers < workers:
        _pool = ThreadPoolExecutor(workers, thread_name_prefix="conemetric")
    edges = np.linspace(0, n_rows, 4 * workers + 1).astype(np.int64)
    jobs = [_pool.submit(kernel, lo, hi, *args) for lo, hi in itertools.pairwise(edges)]
    for job in jobs:
        job.result()


def _forget_pool():
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_pool)


@_jit
def pair_squared_distances(start, stop, Y, a, b, out):
    """out[p] = ||Y[a[p]] - Y[b[p]]||^2 for p in start:stop."""
    r = Y.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i, j = a[p], b[p]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)
        for c in range(0, body, 4):
            t0 = Y[i, c] - Y[j, c]
            t1 = Y[i, c + 1] - Y[j, c + 1]
            t2 = Y[i, c + 2] - Y[j, c + 2]
            t3 = Y[i, c + 3] - Y[j, c + 3]
            s0 += t0 * t0
            s1 += t1 * t1
            s2 += t2 * t2
            s3 += t3 * t3
        for c in range(body, r):
            t0 = Y[i, c] - Y[j, c]
            s0 += t0 * t0
        out[p] = (s0 + s1) + (s2 + s3)


@_jit
def pair_products(start, stop, X, Y, a, b, out):
    """out[p] = <X[a[p]] - X[b[p]], Y[a[p]] - Y[b[p]]> for p in start:stop."""
    r = X.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i, j = a[p], b[p]
        s0 = s1 = s2 = s3 = X.dtype.type(0)
        for c in range(0, body, 4):
            s0 += (X[i, c] - X[j, c]) * (Y[i, c] - Y[j, c])
            s1 += (X[i, c + 1] - X[j, c + 1]) * (Y[i, c + 1] - Y[j, c + 1])
            s2 += (X[i, c + 2] - X[j, c + 2]) * (Y[i, c + 2] - Y[j, c + 2])
            s3 += (X[i, c + 3] - X[j, c + 3]) * (Y[i, c + 3] - Y[j, c + 3])
        for c in range(body, r):
            s0 += (X[i, c] - X[j, c]) * (Y[i, c] - Y[j, c])
        out[p] = (s0 + s1) + (s2 + s3)


@_jit
def half_laplacian(start, stop, X, w, degree, first, b, out):
    """out[i] = degree[i]/2 X[i] - sum over pairs p = (i, b[p]) of w[p] X[b[p]], for
    rows i in start:stop.

    Each unique pair is read once (from its first point); out' X plus its transpose is
    X' Lap(w) X.
    """
    n_columns = X.shape[1]
    for i in range(start, stop):
        half = degree[i] * X.dtype.type(0.5)
        for c in range(n_columns):
            out[i, c] = half * X[i, c]
        for p in range(first[i], first[i + 1]):
            weight = w[p]
            if weight != 0:
                j = b[p]
                for c in range(n_columns):
                    out[i, c] -= weight * X[j, c]


@_jit
def pair_inner_products(start, stop, Y, Z, a, b, out):
    """out[p] = <Y[a[p]], Z[b[p]]> for p in start:stop."""
    r = Y.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i, j = a[p], b[p]
        s0 = s1 = s2 = s3 = Y.dtype.type(0)
        for c in range(0, body, 4):
            s0 += Y[i, c] * Z[j, c]
            s1 += Y[i, c + 1] * Z[j, c + 1]
            s2 += Y[i, c + 2] * Z[j, c + 2]
            s3 += Y[i, c + 3] * Z[j, c + 3]
        for c in range(body, r):
            s0 += Y[i, c] * Z[j, c]
        out[p] = (s0 + s1) + (s2 + s3)


@_jit
def weighted_rows(start, stop, Z, w, first, b, out):
    """out[i] = sum over pairs p = (i, b[p]) of w[p] Z[b[p]], for rows i in start:stop."""
    n_columns = Z.shape[1]
    for i in range(start, stop):
        out[i] = 0
        for p in range(first[i], first[i + 1]):
            weight = w[p]
            if weight != 0:
                j = b[p]
                for c in range(n_columns):
                    out[i, c] += weight * Z[j, c]


@_jit
def degrees(a, b, w, out):
    """out[i] = sum of w over the pairs that touch point i."""
    for p in range(len(w)):
        out[a[p]] += w[p]
        out[b[p]] += w[p]


# ---- relative comparisons: rows of squared differences, coordinate sweeps, Newton
# steps on the weights


@_jit
def comparison_rows(start, stop, first, Y, a, b, row_start, pair, weight, out):
    """out[r, c] = sum over the pairs p of row first + r of weight * (Y[a[p], c] -
    Y[b[p], c])^2, for r in start:stop.
    """
    n_columns = Y.shape[1]
    for r in range(start, stop):
        out[r] = 0
        for k in range(row_start[first + r], row_start[first + r + 1]):
            i, j, sign = a[pair[k]], b[pair[k]], weight[k]
            for c in range(n_columns):
                t = Y[i, c] - Y[j, c]
                out[r, c] += sign * t * t


@_jit_sums
def dual_sweep(Z, starts, length, inverse, C, bound, u, w, lam, active):
    """One coordinate maximisation of the dual per row of Z, with diagonal L (FastQP, algorithm 2).

    Rows are visited in runs of ``length``, in the order of their ``starts``. ``u`` =
    Z'lam (over all rows) and ``w`` = max(u, 0) * ``inverse``, the weights that belong
    to the best t, are kept up to date. Rows at a bound whose gradient points outwards
    by more than ``bound`` leave ``active``. Returns the largest gradient that moved a
    multiplier.
    """
    m, p = Z.shape
    worst = 0.0
    for start in starts:
        for i in range(start, min(start + length, m)):
            if not active[i]:
                continue
            margin = curvature = 0.0
            for c in range(p):
                margin += Z[i, c] * w[c]
                curvature += Z[i, c] * Z[i, c] * inverse[c]
            gradient, old = 1 - margin, lam[i]
            if old <= 0 and gradient <= 0:
                active[i] = gradient >= -bound
                continue
            if old >= C and gradient >= 0:
                active[i] = gradient <= bound
                continue
            worst = max(worst, abs(gradient))
            # a row of zeros has gradient 1 whatever w is: its multiplier belongs at C
            new = min(max(old + gradient / curvature, 0.0), C) if curvature > 0 else C
            lam[i] = new
            move = new - old
            for c in range(p):
                u[c] += move * Z[i, c]
                w[c] = max(u[c], 0.0) * inverse[c]
    return worst


@_jit
def row_block(rows, start, stop):
    """Rows start:stop of Z for ``rows`` = (Z, buffer, Y, a, b, row_start, pair,
    weight): stored, or computed where Z is empty.
    """
    Z, buffer = rows[0], rows[1]
    if len(Z) > 0:
        return Z[start:stop]
    comparison_rows(
        0, stop - start, start, rows[2], rows[3], rows[4], rows[5], rows[6], rows[7], buffer
    )
    return buffer[: stop - start]


@_jit_sums
def rows_forward(rows, w, out):
    """out = Z w."""
    step, p = rows[1].shape
    for start in range(0, len(out), step):
        stop = min(start + step, len(out))
        block = row_block(rows, start, stop)
        for r in range(stop - start):
            total = 0.0
            for c in range(p):
                total += block[r, c] * w[c]
            out[start + r] = total


@_jit_sums
def rows_adjoint(rows, lam, out):
    """out += Z'lam."""
    step, p = rows[1].shape
    for start in range(0, len(lam), step):
        stop = min(start + step, len(lam))
        if len(rows[0]) == 0 and not lam[start:stop].any():
            continue
        block = row_block(rows, start, stop)
        for r in range(stop - start):
            if lam[start + r] != 0:
                for c in range(p):
                    out[c] += lam[start + r] * block[r, c]


@_jit_sums
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
        piece = max(1, SMALL // (p * p))
        piece = piece if len(chosen) <= 64 * piece else len(chosen)
        for first in range(0, len(chosen), piece):
            part = block[chosen[first : first + piece]]
            H += sigma * (part.T @ part)


@_jit_sums
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


@_jit_sums
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


@_jit
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


@_jit
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


@_jit
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


# ---- secants


@_jit
def worst_secants(
    start, stop, squared, embedded, shift, y_rows, y_columns, limit, column, value, short
):
    """Per row r of a tile of pairs: the columns of the smallest and the largest
    embedded/squared, and their distance from 1.

    Entry (r, c) counts when c + shift > r. Pairs with ``squared`` not above ``limit``
    are counted in ``short[r]`` and passed over. With labels, the smallest is taken over
    pairs of different labels and the largest over pairs of the same.
    """
    n_columns, plain = squared.shape[1], len(y_rows) == 0
    one = squared.dtype.type(1)
    for r in range(start, stop):
        smallest = largest = one
        at_smallest = at_largest = skipped = 0
        for c in range(max(0, r + 1 - shift), n_columns):
            if squared[r, c] > limit:
                ratio = embedded[r, c] / squared[r, c]
                if ratio < smallest and (plain or y_rows[r] != y_columns[c]):
                    smallest, at_smallest = ratio, c
                if ratio > largest and (plain or y_rows[r] == y_columns[c]):
                    largest, at_largest = ratio, c
            else:
                skipped += 1
        column[r, 0], column[r, 1] = at_smallest, at_largest
        value[r, 0], value[r, 1] = one - smallest, largest - one
        short[r] = skipped


# ---- entries of a factored matrix


@_jit
def row_products(start, stop, L, a, b, out):
    """out[p] = <L[a[p]], L[b[p]]> for p in start:stop."""
    r = L.shape[1]
    body = r - r % 4
    for p in range(start, stop):
        i, j = a[p], b[p]
        s0 = s1 = s2 = s3 = L.dtype.type(0)
        for c in range(0, body, 4):
            s0 += L[i, c] * L[j, c]
            s1 += L[i, c + 1] * L[j, c + 1]
            s2 += L[i, c + 2] * L[j, c + 2]
            s3 += L[i, c + 3] * L[j, c + 3]
        for c in range(body, r):
            s0 += L[i, c] * L[j, c]
        out[p] = (s0 + s1) + (s2 + s3)
