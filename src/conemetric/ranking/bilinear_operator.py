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
from ..engine.operators.base import RestrictableOperator, kernels_of, starts


class BilinearOperator(RestrictableOperator):
    """Comparisons of documents for queries; see the module docstring.

    `from_comparisons` centres the documents; ``query`` and ``document`` are the unique pairs,
    sorted; ``better`` and ``worse`` number the two pairs of every comparison.
    """

    def __init__(
        self, queries: Any, documents: Any, query: Any, document: Any, better: Any, worse: Any
    ):
        self.queries = queries
        self.documents = documents
        self.query = query
        self.document = document
        self.better = better
        self.worse = worse
        self.n_constraints = better.shape[0]
        self.n_features = queries.shape[1]
        self.reference = zeros(0, queries)
        self._first = starts(query, len(queries))

    @property
    def dense_work(self) -> float:
        tallest = max(len(self.queries), len(self.documents), self.n_features)
        return float(tallest) * self.n_features**2

    def forward(self, W: Any) -> Any:
        inner_products = kernels_of(self.queries).inner_products
        scores = inner_products(self.queries @ W, self.documents, self.query, self.document)
        return scores[self.better] - scores[self.worse]

    def adjoint(self, u: Any) -> Any:
        weighted_sums = kernels_of(self.queries).weighted_sums
        sums = weighted_sums(self._net(u), self.documents, self.document, self._first)
        return self.queries.T @ sums

    def _net(self, u):
        """For each pair, multipliers of comparisons it wins minus those of comparisons it loses."""
        if self.xp is np:
            won = np.bincount(self.better, u, self.n_pairs)
            lost = np.bincount(self.worse, u, self.n_pairs)
            return (won - lost).astype(self.dtype, copy=False)
        # a device adds up in an order that changes from run to run, unless sorted by pair
        order, start = self._by_pair
        return kernels_of(self.queries).segment_sums(self.xp.cat([u, -u])[order], start)

    @cached_property
    def _by_pair(self):
        """The order of wins, then losses, by their pair, and where each pair begins in it."""
        ends = self.xp.cat([self.better, self.worse])
        order = self.xp.argsort(ends, stable=True)
        return order, starts(ends[order], self.n_pairs)

    @property
    def n_pairs(self) -> int:
        return self.query.shape[0]

    def astype(self, dtype: Any) -> Self:
        if self.dtype == dtype:
            return self
        queries = like(self.queries, self.queries, dtype)
        documents = like(self.documents, self.documents, dtype)
        return type(self)(queries, documents, self.query, self.document, self.better, self.worse)

    def subset(self, index: Any) -> "BilinearOperator":
        index = like(index, self.better, self.xp.int64)
        better = self.better[index]
        worse = self.worse[index]
        columns = (self.query[better], self.document[better], self.document[worse])
        return from_comparisons(self.queries, self.documents, self.xp.stack(columns, 1))


def from_comparisons(queries: Any, documents: Any, comparisons: Any) -> BilinearOperator:
    """Operator with a row per comparison, document j before k for query i: q_i'W (d_j - d_k)."""
    xp = namespace(queries, documents)
    n = len(documents)
    i, j, k = like(comparisons, queries, xp.int64).T
    # a pair of a query and a document as one number
    keys, number = xp.unique(xp.concat([i * n + j, i * n + k]), return_inverse=True)
    used_queries, query = xp.unique(keys // n, return_inverse=True)
    used_documents, document = xp.unique(keys % n, return_inverse=True)
    number = like(number, queries, xp.int32)
    queries = queries[used_queries]
    documents = documents[used_documents]
    return BilinearOperator(
        queries,
        documents - documents.mean(0),
        like(query, queries, xp.int32),
        like(document, queries, xp.int32),
        better=number[: len(i)],
        worse=number[len(i) :],
    )
