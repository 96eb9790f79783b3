"""Unfoldings of rows that coincide, nearly coincide, lie in a plane, or are moved and scaled; what
their certificates claim is recomputed with 50 digits.

Of each fit: the bound is at most D(u), at the multipliers that are stored; no gap is negative; with
"at_most" no distance is exceeded; with "equal" none is missed by more than is said; and the rows
themselves, which are feasible, are neither better than the point nor than the bound.
"""

import warnings

import mpmath as mp
import numpy as np

from conemetric import MaximumVarianceUnfolding

from .outcome import Outcome, timed

DIGITS = 50
KINDS = ("plain", "copies", "near copies", "flat", "nearly flat", "line", "grid", "clusters")
SLACK = 1e-5  # relative: rounding makes rows infeasible, and shrinks them until they are feasible


def rows(rng):
    """(X, kind): 8 to 24 rows in 1 to 4 dimensions."""
    kind = KINDS[rng.integers(len(KINDS))]
    n, D = int(rng.integers(8, 20)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, D))
    some = rng.integers(n, size=int(rng.integers(1, n // 2 + 2)))
    if kind == "copies":
        X = X[rng.integers(max(4, n // 2), size=n + 5)]
    elif kind == "near copies":
        near = 10.0 ** rng.uniform(-15, -3) * rng.normal(size=(len(some), D))
        X = np.vstack([X, X[some] + near])
    elif kind == "flat":
        X = X[:, :1] * rng.normal(size=3) + rng.normal(size=n)[:, None] * rng.normal(size=3)
    elif kind == "nearly flat":
        X = np.column_stack([X, 10.0 ** rng.uniform(-10, -3) * rng.normal(size=n)])
    elif kind == "line":
        X = np.vstack([X[:, :1], X[some, :1]]) * rng.normal(size=2)
    elif kind == "grid":
        X = np.round(X)
    elif kind == "clusters":
        X = np.round(X) + 10.0 ** rng.uniform(-9, -2) * rng.normal(size=X.shape)
    if rng.random() < 0.3:
        X = X + 10.0 ** rng.uniform(0, 6) * rng.normal(size=X.shape[1])
        kind += ", moved"
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-6, 6)
        kind += ", scaled"
    return X, kind


def squared(a, b):
    return mp.fsum((mp.mpf(float(x)) - mp.mpf(float(y))) ** 2 for x, y in zip(a, b, strict=True))


def dual_value(model, X):
    """D(u) of the stored multipliers: rows that coincide are one point of a larger mass."""
    _, first, place, mass = np.unique(
        X + 0.0, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    n, root = len(first), [mp.sqrt(int(c)) for c in mass]
    total = mp.mpf(len(X))
    # the constant function gets the eigenvalue -1, which the positive part ignores
    K = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            K[i, j] = (i == j) - 2 * root[i] * root[j] / total
    linear = mp.mpf(0)
    for (a, b), given in zip(model.edges_, model.multipliers_, strict=True):
        u, i, j = mp.mpf(float(given)), place[a], place[b]
        linear -= u * squared(X[a], X[b])
        K[i, i] -= u / root[i] ** 2
        K[j, j] -= u / root[j] ** 2
        K[i, j] += u / (root[i] * root[j])
        K[j, i] += u / (root[i] * root[j])
    values = mp.eigsy(K, eigvals_only=True)
    if np.isinf(model.sigma_):
        largest = max(values)
        return linear / (1 - largest) if largest < 1 else -mp.inf
    positive = mp.fsum(value**2 for value in values if value > 0)
    return linear - mp.mpf(model.sigma_) / 2 * positive


def value_of_rows(X, sigma, shrinks):
    """The objective of the rows of X, shrunk as far as that improves it if they may shrink."""
    n, D = X.shape
    exact = [[mp.mpf(float(x)) for x in row] for row in X]
    mean = [mp.fsum(row[j] for row in exact) / n for j in range(D)]
    centred = [[row[j] - mean[j] for j in range(D)] for row in exact]
    gram = [[mp.fsum(row[i] * row[j] for row in centred) for j in range(D)] for i in range(D)]
    trace = mp.fsum(gram[j][j] for j in range(D))
    square = mp.fsum(entry**2 for line in gram for entry in line) / mp.mpf(sigma)
    s = min(mp.mpf(1), trace / square) if shrinks and square > 0 else mp.mpf(1)
    return s**2 * square / 2 - s * trace


def disagreements(model, X):
    """What the certificate claims and the digits do not bear out."""
    proof, at_most = model.certificate_, model.constraint == "at_most"
    exact = dual_value(model, X)
    if proof.dual > exact:
        yield f"dual {proof.dual:.12g}, but D(u) is {mp.nstr(exact, 15)}"
    if proof.relative_gap < 0:
        yield f"a gap of {proof.relative_gap:.2e}"
    if proof.status == "converged" and not (proof.relative_gap <= model.tol >= proof.violation):
        yield f"converged with a gap of {proof.relative_gap:.2e}, violation {proof.violation:.2e}"
    own = value_of_rows(X, model.sigma_, at_most)
    if proof.dual > own:
        yield f"dual {proof.dual:.12g}, but the rows have {mp.nstr(own, 15)}"
    if (at_most or proof.status == "converged") and proof.primal > own + SLACK * abs(own):
        yield f"primal {proof.primal:.12g}, but the rows have {mp.nstr(own, 15)}"
    Y, longest, worst = model.embedding_, mp.mpf(0), mp.mpf(0)
    for a, b in model.edges_:
        wanted, reached = squared(X[a], X[b]), squared(Y[a], Y[b])
        longest = max(longest, wanted)
        worst = max(worst, reached - wanted if at_most else abs(reached - wanted))
    if worst > longest * (proof.violation * (1 + 1e-6) + (0 if at_most else 1e-14)):
        yield f"distances missed by {mp.nstr(worst / longest, 5)}, claimed {proof.violation:.2e}"


def attempt(number):
    """Fit number ``number``; the two constraints take turns."""
    rng = np.random.default_rng(number)
    X, kind = rows(rng)
    model = MaximumVarianceUnfolding(
        int(rng.integers(2, 6)),
        n_components=len(X) - 1,
        constraint=("at_most", "equal")[number % 2],
        sigma=np.inf if rng.random() < 0.15 else "auto",
        tol=float(rng.choice([1e-2, 1e-3, 1e-6])),
    )
    what = f"{' '.join(repr(model).split())} to {kind} rows, {X.shape[0]} x {X.shape[1]}"
    with warnings.catch_warnings(), mp.workdps(DIGITS):
        warnings.simplefilter("ignore")
        try:
            _, seconds = timed(model.fit, X)
        except Exception as error:
            refused = isinstance(error, ValueError) and "coincide" in str(error)
            return Outcome(
                number, what, type(error).__name__, faults=() if refused else (f"{error}",)
            )
        faults = tuple(disagreements(model, X))
    return Outcome(number, what, str(model.certificate_.status), seconds, faults=faults)
