"""Neighbours by brute force in float64, and inputs that make it hard to agree with it."""

import numpy as np

from conemetric.neighbours.ranks import tie_rule

KINDS = [
    "plain",
    "grid",
    "duplicates",
    "offset",
    "one class is nearly all",
    "classes of two",
    "one far outlier",
    "all the same",
    "one line",
    "a narrow cluster in a wide one",
]


def labelled(kind, seed, dtype, n=90, n_features=5):
    """Points and labels of a kind."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, n_features)), rng.integers(0, 4, n)
    if kind == "grid":
        X = np.round(X)
    elif kind == "duplicates":
        X = X[rng.integers(0, n // 4, n)]
    elif kind == "offset":
        X = X + (1e8 if dtype == np.float64 else 1e3)
    elif kind == "one class is nearly all":
        y = np.where(np.arange(n) < n - 3, 1, 0)
    elif kind == "classes of two":
        y = rng.permutation(n) // 2
    elif kind == "one far outlier":
        X[0] *= 1e5
    elif kind == "all the same":
        X[:] = X[0]
    elif kind == "one line":
        X[:, 1:] = 0
    elif kind == "a narrow cluster in a wide one":
        X[: n // 2] *= 1e-3
    return X.astype(dtype), y


def neighbours(Q, y_Q, R, y_R, k, same, own):
    """Numbers of the nearest references, one pair of points at a time; -1 where there
    are too few.
    """
    slack, slope = tie_rule(Q.shape[1], max(np.finfo(part.dtype).eps for part in (Q, R)))
    Q, R = Q.astype(np.float64), R.astype(np.float64)
    found = np.full((len(Q), k), -1)
    for i, x in enumerate(Q):
        allowed = np.flatnonzero(((y_R == y_Q[i]) == same) & (np.arange(len(R)) != own[i]))
        distance = np.sqrt(((R[allowed] - x) ** 2).sum(1))
        ranked = []
        while len(ranked) < k and len(allowed):
            nearest = distance.min()
            tied = distance <= nearest + slack * np.linalg.norm(x) + slope * nearest
            ranked.extend(allowed[tied])  # in the order of their numbers
            allowed, distance = allowed[~tied], distance[~tied]
        found[i, : min(k, len(ranked))] = ranked[:k]
    return found
