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
    """Return points and labels of a kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    y = rng.integers(0, 4, n)
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


def neighbours(queries, y, references, reference_y, *, k, same, own):
    """Return the numbers of the k nearest references of each query, one pair of points at a time.

    They have the label of the query, or (not ``same``) another; -1 where there are too few. ``own`` is
    the reference that is the query itself.
    """
    eps = max(np.finfo(points.dtype).eps for points in (queries, references))
    rule = tie_rule(queries.shape[1], eps)
    queries = queries.astype(np.float64)
    references = references.astype(np.float64)
    nearest = np.full((len(queries), k), -1)
    for i, x in enumerate(queries):
        has_right_label = (reference_y == y[i]) == same
        is_other_point = np.arange(len(references)) != own[i]
        left = np.flatnonzero(has_right_label & is_other_point)
        distance = np.sqrt(((references[left] - x) ** 2).sum(1))
        width = rule.per_length * np.linalg.norm(x)
        ranked = []
        while len(ranked) < k and len(left):
            least = distance.min()
            tied = distance <= least + width + rule.slope * least
            ranked.extend(left[tied])  # in the order of their numbers
            left = left[~tied]
            distance = distance[~tied]
        nearest[i, : min(k, len(ranked))] = ranked[:k]
    return nearest
