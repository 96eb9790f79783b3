"""Random small data sets and triplets, degenerate ones included, for comparisons with a
conic solver. Each takes its kind, its options and its seed apart.
"""

import numpy as np

from conemetric.constraints.in_memory import triplets_from_labels

KINDS = ("labels", "random", "duplicates", "collinear", "wide", "contradictory")


def random_triplets(rng, n, m):
    return np.array([rng.choice(n, 3, replace=False) for _ in range(m)])


def triplet_instance(kind, seed=0):
    """(X, triplets) with D from 2 to 12."""
    rng = np.random.default_rng(len(KINDS) * seed + KINDS.index(kind))
    D = int(rng.integers(2, 13))
    n = int(rng.integers(12, 25))
    if kind == "wide":
        D, n = 12, 8
    X = rng.normal(size=(n, D)) * rng.uniform(0.3, 2.0, D)
    if kind == "duplicates":
        X[1::3] = X[: len(X[1::3])]
    if kind == "collinear":
        X[:, -1] = X[:, 0] * 2
        X[:, D // 2] = 1.0
    if kind == "labels":
        return X, triplets_from_labels(X, rng.integers(0, 3, n), 2, 2)
    T = random_triplets(rng, n, int(rng.integers(10, 40)))
    if kind == "contradictory":
        T = np.vstack([T, T[:, [0, 2, 1]], T[:3]])
    return X, T


def triplet_matrices(X, T):
    """The dense A_r = d_ik d_ik' - d_ij d_ij', the oracle of the operator."""
    far, near = X[T[:, 0]] - X[T[:, 2]], X[T[:, 0]] - X[T[:, 1]]
    return np.einsum("mi,mj->mij", far, far) - np.einsum("mi,mj->mij", near, near)


BASES = ("identity", "random", "near-parallel", "wide", "repeated")


def comparison_instance(kind, basis, seed=0):
    """(X, triplets, A, C) for weights on the columns of A.

    L = (A'A) o (A'A) has a condition number of up to 1e8 for near-parallel columns, and
    is singular for wide and repeated ones.
    """
    number = len(BASES) * seed + BASES.index(basis)
    X, T = triplet_instance(kind, number)
    rng = np.random.default_rng(1000 + len(KINDS) * number + KINDS.index(kind))
    D = X.shape[1]
    columns = {"near-parallel": D + 1, "repeated": D + 2, "wide": min(D * (D + 1) // 2 + 3, 40)}
    A = np.eye(D) if basis == "identity" else rng.normal(size=(D, columns.get(basis, D)))
    if basis in ("near-parallel", "repeated"):
        A[:, -1] = A[:, 0] + 10.0 ** -rng.uniform(1, 4) * rng.normal(size=D)
    if basis == "repeated":
        A[:, -2] = A[:, 0]
    squared_distance = ((X[T[:, 0]] - X[T[:, 2]]) ** 2).sum(axis=1).mean()
    return X, T, A, 10.0 ** rng.uniform(-1, 5) / squared_distance**2 / len(T)


def comparison_rows(X, T, A):
    """The dense z = (A'x_i - A'x_k)^2 - (A'x_i - A'x_j)^2, one row per triplet."""
    Y = X @ A
    return (Y[T[:, 0]] - Y[T[:, 2]]) ** 2 - (Y[T[:, 0]] - Y[T[:, 1]]) ** 2


JUDGED_KINDS = ("plain", "contradictory", "coincident", "one direction", "lengths")


def judged_instance(kind, seed=0, dtype=np.float64):
    """Queries, documents and comparisons (query, better, worse): random, or with the
    degenerate features that real judgements have.
    """
    rng = np.random.default_rng(len(JUDGED_KINDS) * seed + JUDGED_KINDS.index(kind))
    n_queries, n_documents, D = (int(n) for n in rng.integers((1, 3, 1), (8, 15, 6)))
    Q, E = rng.normal(size=(n_queries, D)), rng.normal(size=(n_documents, D))
    m = int(rng.integers(8, 40))
    better = rng.integers(0, n_documents, m)
    worse = (better + rng.integers(1, n_documents, m)) % n_documents
    comparisons = np.column_stack([rng.integers(0, n_queries, m), better, worse])
    if kind == "contradictory":  # and each comparison twice
        comparisons = np.vstack([comparisons, comparisons, comparisons[:, [0, 2, 1]]])
    elif kind == "coincident":
        E[1:] = E[rng.integers(0, 2, n_documents - 1)]
    elif kind == "one direction":  # and a query of zeros
        Q[0] = 0
        E = np.outer(rng.normal(size=n_documents), E[0])
    elif kind == "lengths":  # very different ones
        Q *= 10.0 ** rng.uniform(-3, 3)
        E *= 10.0 ** rng.uniform(-3, 3, size=(n_documents, 1))
    return Q.astype(dtype), E.astype(dtype), comparisons
