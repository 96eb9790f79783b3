"""Collections of judged queries that have something to teach."""

import numpy as np


def collection(seed=0, n_queries=60, n_documents=120, D=6, dtype=np.float64):
    """Queries near two relevant documents in half of the features, and anywhere in the
    others; unit rows.
    """
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(n_documents, D))
    first = rng.integers(n_documents, size=n_queries)
    queries = documents[first] + 0.2 * rng.normal(size=(n_queries, D))
    queries[:, D // 2 :] = rng.normal(size=(n_queries, D - D // 2))
    near = ((queries[:, None, : D // 2] - documents[:, : D // 2]) ** 2).sum(2)
    second = np.argsort(near, axis=1)[:, 1]
    rows = np.arange(n_queries)
    relevance = np.concatenate(
        [
            np.column_stack([rows, first, rows * 0 + 2]),
            np.column_stack([rows, second, rows * 0 + 1]),
        ]
    )
    relevance = relevance[np.unique(relevance[:, :2], axis=0, return_index=True)[1]]
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (queries, documents)]
    return unit[0].astype(dtype), unit[1].astype(dtype), relevance


def part(collection, queries):
    """The collection of some queries, renumbered."""
    Q, D, relevance = collection
    new = np.full(len(Q), -1)
    new[queries] = np.arange(len(queries))
    kept = relevance[new[relevance[:, 0]] >= 0]
    return Q[queries], D, np.column_stack([new[kept[:, 0]], kept[:, 1:]])
