"""Every Numba kernel of the library's operators: plain loops over arrays, no Python objects.

Kernels release the GIL and work on a range ``start:stop`` of rows; `threaded` maps them over all cores. Sums use
four running totals instead of fast-math, so that they vectorise while infinities and NaN keep their meaning.
"""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True)
_pool: ThreadPoolExecutor | None = None
SMALL = 1 << 18  # below this many scalar operations one thread is faster than waking others


def n_threads():
    """Threads to use: ``OMP_NUM_THREADS`` where set (joblib's workers set it), else the cores we may run on."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def threaded(kernel, n_rows, work, *args):
    """Run ``kernel(start, stop, *args)`` over ``range(n_rows)`` in contiguous chunks, one or more per core."""
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
    """out[i] = degree[i]/2 X[i] - sum over pairs p = (i, b[p]) of w[p] X[b[p]], for rows i in start:stop.

    Each unique pair is read once (from its first point); out' X plus its transpose is X' Lap(w) X.
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
def degrees(a, b, w, out):
    """out[i] = sum of w over the pairs that touch point i."""
    for p in range(len(w)):
        out[a[p]] += w[p]
        out[b[p]] += w[p]


@_jit
def nearest_by_label(start, stop, approximate, first_row, X, y, same, scale, rounding, tie, spare, out):
    """out[r] = the nearest points of point i = first_row + r among those with y[j] == y[i] (or !=, by ``same``).

    Candidates come from ``approximate[r]``, squared distances in units of ``scale`` that may be wrong by ``rounding``;
    they are re-ranked by exact distances, where those within ``tie`` of each other go by the lower index.
    """
    n, k = X.shape[0], out.shape[1]
    near, near_index = np.empty(k + spare), np.empty(k + spare, np.int64)
    exact, exact_index = np.empty(k), np.empty(k, np.int64)
    for r in range(start, stop):
        i = first_row + r
        near[:], near_index[:] = np.inf, n
        exact[:], exact_index[:] = np.inf, n
        for j in range(n):
            if approximate[r, j] <= near[-1] and (y[j] == y[i]) == same and j != i:
                _offer(approximate[r, j], j, near, near_index, 0.0)
        for j in near_index:
            if j < n:
                _offer(_distance(X, i, j), j, exact, exact_index, tie)
        if near[-1] < np.inf and not ((exact[-1] + tie) / scale) ** 2 < near[-1] - rounding:
            exact[:], exact_index[:] = np.inf, n
            for j in range(n):
                if (y[j] == y[i]) == same and j != i:
                    _offer(_distance(X, i, j), j, exact, exact_index, tie)
        for slot in range(k):
            out[r, slot] = exact_index[slot] if exact_index[slot] < n else -1


@_jit
def _distance(X, i, j):
    total = 0.0
    for c in range(X.shape[1]):
        t = np.float64(X[i, c]) - np.float64(X[j, c])
        total += t * t
    return np.sqrt(total)


@_jit
def _offer(d, j, sorted_d, sorted_j, tie):
    """Insert (d, j) into lists sorted by (distance, index), dropping the last entry."""
    slot = len(sorted_d) - 1
    if not _before(d, j, sorted_d[slot], sorted_j[slot], tie):
        return
    while slot > 0 and _before(d, j, sorted_d[slot - 1], sorted_j[slot - 1], tie):
        sorted_d[slot] = sorted_d[slot - 1]
        sorted_j[slot] = sorted_j[slot - 1]
        slot -= 1
    sorted_d[slot] = d
    sorted_j[slot] = j


@_jit
def _before(d, j, other_d, other_j, tie):
    return d < other_d - tie or (d <= other_d + tie and j < other_j)


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
