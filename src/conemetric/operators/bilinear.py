"""Scores of documents for queries: from a matrix W to one number per comparison, and back.

A comparison r = (query, better, worse) requires a higher score of the better document, where q'W d
is the score of a document d for a query q:

    forward   A(W)_r = q_r' W (b_r - w_r)        adjoint   A*(u) = sum_r u_r q_r (b_r - w_r)'

Work is done once per unique (query, document) pair: with P the sparse matrix of queries x documents
that holds each pair's multiplier, A*(u) = Q' P D. No array of size (comparisons x features) is ever
formed. Documents are centred once, which changes no comparison but keeps every digit of them.
"""

from abc import abstractmethod
from typing import Any, Self

from ..core.arrays import like, namespace, zeros
from .base import Operator


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
        self.n_constraints = better.shape[0]
        self.n_features = queries.shape[1]
        self.xp = namespace(queries)
        self._prepare()

    @abstractmethod
    def _prepare(self):
        """Build what the backend needs."""

    @abstractmethod
    def pair_scores(self, mapped: Any) -> Any:
        """Inner product of each unique pair's mapped query (row of Q W) and document."""

    @abstractmethod
    def distribute(self, u: Any) -> Any:
        """For each pair, multipliers of comparisons it wins minus those of comparisons it loses."""

    @abstractmethod
    def weighted_documents(self, w: Any) -> Any:
        """P D: the sum of the documents of each query, weighted by ``w`` (one per pair)."""

    def forward(self, W: Any) -> Any:
        scores = self.pair_scores(self.queries @ W)
        return scores[self.better] - scores[self.worse]

    def forward_factor(self, L: Any) -> Any:
        return self.forward(L @ L.T)

    def adjoint(self, u: Any) -> Any:
        return self.queries.T @ self.weighted_documents(self.distribute(u))

    @property
    def dtype(self) -> Any:
        return self.queries.dtype

    @property
    def n_pairs(self) -> int:
        return self.query.shape[0]

    def empty_constraint_vector(self) -> Any:
        return zeros(self.n_constraints, self.queries)

    def astype(self, dtype: Any) -> Self:
        if self.dtype == dtype:
            return self
        queries, documents = (like(X, X, dtype) for X in (self.queries, self.documents))
        pairs = self.query, self.document, self.better, self.worse
        return type(self)(queries, documents, *pairs)

    def subset(self, index: Any) -> Self:
        index = like(index, self.better, self.xp.int64)
        better, worse = self.better[index], self.worse[index]
        columns = self.query[better], self.document[better], self.document[worse]
        return type(self)(*compared(self.queries, self.documents, self.xp.stack(columns, 1)))


def compared(queries: Any, documents: Any, comparisons: Any) -> tuple[Any, ...]:
    """The arguments of a `BilinearOperator`: what is compared, and the unique pairs."""
    xp, n = namespace(queries, documents), len(documents)
    comparisons = like(comparisons, queries, xp.int64)
    i, j, k = (comparisons[:, column] for column in range(3))
    keys, number = xp.unique(xp.concat([i * n + j, i * n + k]), return_inverse=True)
    used_queries, query = xp.unique(keys // n, return_inverse=True)
    used_documents, document = xp.unique(keys % n, return_inverse=True)
    query, document, number = (like(part, queries, xp.int32) for part in (query, document, number))
    better, worse = number[: len(i)], number[len(i) :]
    queries, documents = queries[used_queries], documents[used_documents]
    documents = documents - documents.mean(0)
    return queries, documents, query, document, better, worse
