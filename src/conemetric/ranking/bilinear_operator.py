"""Scores of documents for queries: from a matrix W to one number per comparison, and back.

A comparison r = (query, better, worse) requires a higher score of the better document, where q'W d
is the score of a document d for a query q:

    forward   A(W)_r = q_r' W (b_r - w_r)        adjoint   A*(u) = sum_r u_r q_r (b_r - w_r)'

Work is done once per unique (query, document) pair: with P the sparse matrix of queries x documents
that holds each pair's multiplier, A*(u) = Q' P D. Documents are centred once, which changes no
comparison but keeps every digit of them.
"""

from functools import cached_property
from typing import Any, Self

import numpy as np

from ..core.arrays import like, namespace, zeros
from ..engine.operators.base import Operator, kernels_of, starts


class BilinearOperator(Operator):
    """Comparisons of documents for queries; see the module docstring.

    `from_comparisons` centres the documents; ``query`` and ``document`` are the unique pairs,
    sorted; ``better`` and ``worse`` number the two pairs of every comparison.
    """

    def __init__(
        self, queries: Any, documents: Any, query: Any, document: Any, better: Any, worse: Any
    ):
        self.queries, self.documents = queries, documents
        self.query, self.document = query, document
        self.better, self.worse = better, worse
        self.n_constraints, self.n_features = better.shape[0], queries.shape[1]
        self.reference = zeros(0, queries)
        self._first = starts(query, len(queries))

    @property
    def dense_work(self) -> float:
        tallest = max(len(self.queries), len(self.documents), self.n_features)
        return float(tallest) * self.n_features**2

    def forward(self, W: Any) -> Any:
        pairs = self.query, self.document
        scores = kernels_of(self.queries).inner_products(self.queries @ W, self.documents, *pairs)
        return scores[self.better] - scores[self.worse]

    def adjoint(self, u: Any) -> Any:
        sums, pairs = kernels_of(self.queries).weighted_sums, (self.document, self._first)
        return self.queries.T @ sums(self._net(u), self.documents, *pairs)

    def _net(self, u):
        """For each pair, multipliers of comparisons it wins minus those of comparisons it loses."""
        if self.xp is np:
            won, lost = (np.bincount(pair, u, self.n_pairs) for pair in (self.better, self.worse))
            return (won - lost).astype(self.dtype, copy=False)
        order, start = self._by_pair
        return kernels_of(self.queries).segment_sums(self.xp.cat([u, -u])[order], start)

    @cached_property
    def _by_pair(self):
        ends = self.xp.cat([self.better, self.worse])
        order = self.xp.argsort(ends, stable=True)
        return order, starts(ends[order], self.n_pairs)

    @property
    def n_pairs(self) -> int:
        return self.query.shape[0]

    def astype(self, dtype: Any) -> Self:
        if self.dtype == dtype:
            return self
        queries, documents = (like(X, X, dtype) for X in (self.queries, self.documents))
        return type(self)(queries, documents, self.query, self.document, self.better, self.worse)

    def subset(self, index: Any) -> "BilinearOperator":
        index = like(index, self.better, self.xp.int64)
        better, worse = self.better[index], self.worse[index]
        columns = self.query[better], self.document[better], self.document[worse]
        return from_comparisons(self.queries, self.documents, self.xp.stack(columns, 1))


def from_comparisons(queries: Any, documents: Any, comparisons: Any) -> BilinearOperator:
    """Operator with a row per comparison, document j before k for query i: q_i'W (d_j - d_k)."""
    xp, n = namespace(queries, documents), len(documents)
    comparisons = like(comparisons, queries, xp.int64)
    i, j, k = (comparisons[:, column] for column in range(3))
    keys, number = xp.unique(xp.concat([i * n + j, i * n + k]), return_inverse=True)
    used_queries, query = xp.unique(keys // n, return_inverse=True)
    used_documents, document = xp.unique(keys % n, return_inverse=True)
    query, document, number = (like(part, queries, xp.int32) for part in (query, document, number))
    queries, documents = queries[used_queries], documents[used_documents]
    ends = number[: len(i)], number[len(i) :]
    return BilinearOperator(queries, documents - documents.mean(0), query, document, *ends)
