"""QueryAdapter: a linear map of the queries, learned from relevance judgements."""

from dataclasses import replace
from functools import reduce
from operator import matmul
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import spectral
from ..core.arrays import float64, like, namespace
from ..core.sklearn_private import StrOptions
from ..operators.columns import joined, parted
from ..operators.difference import from_comparisons
from ..problems.bilinear import BilinearProgram
from ..problems.mixed import MixedProgram
from .base import RANKING_PARAMETERS, RankingEstimator, check_rows
from .top_k import search, unit_rows

__all__ = ["QueryAdapter"]


class QueryAdapter(RankingEstimator):
    """Linear map of the queries that makes relevant documents score higher than others;
    the documents and their index stay unchanged.

    Solves, over all square W and comparisons (q, b, w) of a query with a better and a
    worse document, ::

        min 1/2 ||W - W0||_F^2 + C sum of weights max(0, 1 - q' W (b - w))

    in coordinates without units (`conemetric.ranking.program`), where W0 gives the
    embedding's own scores, and certifies how far from the optimum it stopped. Map a new
    query by `transform_queries`, then search the existing index. Other scores (BM25, a
    cross-encoder) may join as columns: ``fit(..., scores={"bm25": S})`` learns their weights
    in the same program, and `rank` adds them up.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the loss, free of units; near 0 the embedding hardly changes. "auto"
        chooses C, the margin and the kind of negatives by nDCG@10 on held-out queries, and
        whether columns of scores help; if no setting beats the embedding by more than a
        standard error, it warns and changes nothing.
    similarity : {"cosine", "inner"}, default="cosine"
        How the index compares a query with its documents.
    n_hard, n_random : int, default=10
        Unjudged documents to rank below each relevant one: the nearest to the query, and
        random ones. ``C="auto"`` also tries random ones only, because unjudged documents
        near the query may be relevant.
    normalization : {"auto", "raw", "range", "spread"}, default="auto"
        How columns of scores are scaled (`conemetric.ranking.columns`): the one that the search
        system uses (`conemetric.export.to_hybrid_query`), or the best on held-out queries.
    n_components : int, default=None
        Shorten the embedding: map queries and documents to this many directions, those
        along which the documents have the largest second moment. None maps queries only.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    random_state : int, RandomState or None
        Draws the random negatives and the held-out queries.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (n_features, n_features) or (n_components, n_features)
        ``transform_queries(Q) = Q @ components_.T``.
    document_components_ : array (n_components, n_features) or None
        ``transform_documents(D) = D @ document_components_.T``; None if documents stay
        unchanged.
    setting_ : Setting
        C, margin and negatives used; C = 0 if the embedding is unchanged.
    C_ : float
    score_weights_ : dict of str to float
        Weights of the embedding's own scores ("embedding": 1, or 0 if columns alone do better)
        and of every column given as ``scores``, in its normalisation. The final score is their
        weighted sum (`rank`).
    score_multipliers_ : dict of str to float
        Multipliers of the columns' weights being at least 0.
    normalization_ : str or None
        How columns are scaled; None without columns.
    candidates_ : list of Candidate
        All settings tried by ``C="auto"`` and their nDCG@10 on held-out queries, with
        standard errors of the gain; the first is the unchanged embedding, and with ``scores``
        every column alone and plain mixes follow.
    certificate_ : Certificate
        Objective of the map, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    comparisons_, multipliers_ : arrays (m, 3), (m,)
        [query, better, worse], where queries without a relevant document are not
        counted, and the dual solution.

    See Also
    --------
    RelevanceMetric : maps both queries and documents.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import QueryAdapter
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(200, 8))
    >>> relevant = rng.integers(200, size=80)
    >>> queries = np.roll(documents[relevant], 1, axis=1)  # as if from another encoder
    >>> relevance = np.column_stack([np.arange(80), relevant])
    >>> adapter = QueryAdapter(random_state=0).fit(queries, documents, relevance)
    >>> adapter.transform_queries(queries).shape
    (80, 8)
    >>> adapter.score(queries, documents, relevance) > 0.9
    True
    """

    _parameter_constraints = {
        **RANKING_PARAMETERS,
        "similarity": [StrOptions({"cosine", "inner"})],
    }
    _program_type = BilinearProgram
    _joint_type = MixedProgram
    _margins = (0.1, 0.03)

    def __init__(
        self,
        C: float | Literal["auto"] = "auto",
        *,
        similarity: Literal["cosine", "inner"] = "cosine",
        n_hard: int = 10,
        n_random: int = 10,
        normalization: Literal["auto", "raw", "range", "spread"] = "auto",
        n_components: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.similarity = similarity
        self.n_hard = n_hard
        self.n_random = n_random
        self.normalization = normalization
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _similarity(self) -> str:
        return self.similarity

    def transform_queries(self, Q: Any) -> Any:
        """Map queries to the space of the documents.

        Parameters
        ----------
        Q : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_features) or (n, n_components)
        """
        return self._transform(Q, "Q", "components_")

    def transform_documents(self, D: Any) -> Any:
        """Map documents to the ``n_components`` directions, or leave them unchanged.

        Parameters
        ----------
        D : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_features) or (n, n_components)
        """
        return self._transform(D, "D", "document_components_")

    def _transform(self, X, name, attribute):
        check_is_fitted(self)
        X = check_rows(X, name)
        self._check_width(X, name)
        components = getattr(self, attribute)
        return X if components is None else X @ like(components, X).T

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def _check_points(self, queries, documents, reset=False):
        points = super()._check_points(queries, documents, reset)
        if self.similarity == "inner":
            return points
        # the length of a query does not affect its ranking; unit length weighs all the same
        return tuple(map(unit_rows, points))

    def _initial_map(self, data):
        return like(np.eye(self.n_features_in_), data.documents)

    def _search(self, factors, queries, documents, k, **options):
        return search(reduce(matmul, factors, queries), documents, k, "inner", **options)

    def _comparison_size(self, queries, better, worse):
        squares = (queries**2).sum(1) * ((better - worse) ** 2).sum(1)
        return float(squares.mean()) ** 0.5

    def _operator(self, queries, documents, triplets):
        return from_comparisons(queries, documents, triplets)

    def _matrix(self, map_):
        return map_

    def _factors(self, T, point):
        return T, point, T

    def _map(self, data, T, point):
        return T @ point @ T

    def _point(self, inverse, map_):
        return inverse @ map_ @ inverse

    def _parted(self, point, n_columns):
        return parted(point, n_columns)

    def _joined(self, point, v):
        return joined(point, v)

    def _spanned(self, mapped):
        """W differs from W0 only in the span of the queries: q = B z, and B'W is learned."""
        if len(mapped.queries) > self.n_features_in_ // 2:  # a larger span saves too little
            return mapped, None
        basis, triangle = namespace(mapped.queries).linalg.qr(mapped.queries.T)
        prior = float64(basis).T @ mapped.comparisons.prior
        comparisons = replace(mapped.comparisons, prior=prior)
        return replace(mapped, queries=triangle.T, comparisons=comparisons), basis

    def _truncate(self, data, map_):
        V = self._directions(data, map_)
        return map_ @ V @ V.T

    def _store_map(self, data, map_):
        self.components_, self.document_components_ = map_.T, None
        if self.n_components is not None:
            V = self._directions(data, map_)
            self.components_, self.document_components_ = V.T @ map_.T, V.T

    def _directions(self, data, like_):
        """``n_components`` orthonormal columns: the documents' leading second moments."""
        _, axes = spectral.eigh(data.second_moment)
        return like(spectral.with_fixed_signs(axes[:, : self.n_components]), like_)
