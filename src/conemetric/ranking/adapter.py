"""QueryAdapter: a linear map of the queries, learned from judgements; documents stay."""

from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core import spectral
from ..core.arrays import like
from ..core.sklearn_private import StrOptions
from ..operators.bilinear import from_comparisons
from ..problems.bilinear import BilinearProgram
from .base import JUDGED_PARAMETERS, JudgedEstimator, check_rows
from .top_k import nearest_documents, unit_rows


class QueryAdapter(JudgedEstimator):
    """Linear map of queries under which relevant documents score higher than others;
    documents and their index stay as they are.

    Solves, over all square W and comparisons (q, b, w) of a query with a better and a
    worse document, ::

        min 1/2 ||W - W0||_F^2 + C sum of weights max(0, 1 - q' W (b - w))

    in coordinates without units (`estimators.judged`), with W0 the embedding's own
    scores, and returns a proof of how far from the optimum it stopped. A new query is
    mapped by `transform_queries`, then searched for in the index as it is.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the loss, free of units; near 0 the embedding stays as it is. "auto"
        chooses by nDCG@10 on held-out queries, along paths that begin at the embedding
        as it is, together with the margin and the kind of negatives; where nothing is
        better than it by more than a standard error it says so and changes nothing.
    similarity : {"cosine", "inner"}, default="cosine"
        How the index compares a query with its documents.
    n_hard, n_random : int, default=10
        Unjudged documents to which each relevant one is preferred: the nearest to the
        query, and any. With ``C="auto"``, all at random where that does better, because
        near documents may be relevant though nobody judged them.
    n_components : int, default=None
        Make the embedding shorter: map queries and documents to this many directions,
        in the order of how much the documents extend along them. None maps queries
        only.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    random_state : int, RandomState or None
        Draws random negatives and the queries held out.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (n_features, n_features) or (n_components, n_features)
        ``transform_queries(Q) = Q @ components_.T``.
    document_components_ : array (n_components, n_features) or None
        ``transform_documents(D) = D @ document_components_.T``; None where documents
        stay as they are.
    setting_ : Setting
        C, margin and negatives used; C = 0 where the embedding was left as it is.
    C_ : float
    candidates_ : list of Candidate
        All settings tried by ``C="auto"`` and their nDCG@10 on held-out queries, with
        standard errors of the gain; the first is the embedding as it is.
    certificate_ : Certificate
        Objective of the map, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    comparisons_, multipliers_ : arrays (m, 3), (m,)
        [query, better, worse], queries without a relevant document left out, and the
        dual solution.

    See Also
    --------
    RelevanceMetric : maps queries and documents.

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
        **JUDGED_PARAMETERS,
        "similarity": [StrOptions({"cosine", "inner"})],
    }
    _program_type = BilinearProgram
    _margins = (0.1, 0.03)

    @property
    def _similarity(self):
        return self.similarity

    def __init__(
        self,
        C="auto",
        *,
        similarity="cosine",
        n_hard=10,
        n_random=10,
        n_components=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.similarity = similarity
        self.n_hard = n_hard
        self.n_random = n_random
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def transform_queries(self, Q):
        """Map queries to where the documents are.

        Parameters
        ----------
        Q : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_features) or (n, n_components)
        """
        return self._transform(Q, "Q", "components_")

    def transform_documents(self, D):
        """Documents as they are, or in the ``n_components`` directions kept.

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
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{name} has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        components = getattr(self, attribute)
        return X if components is None else X @ like(components, X).T

    def __sklearn_is_fitted__(self):
        return hasattr(self, "components_")

    def _validate(self, queries, documents, relevance, reset):
        data = super()._validate(queries, documents, relevance, reset)
        if self.similarity == "inner":
            return data
        # the length of a query ranks nothing; of equal lengths, all count the same
        return replace(data, queries=unit_rows(data.queries), documents=unit_rows(data.documents))

    def _frozen(self, data):
        return like(np.eye(self.n_features_in_), data.documents)

    def _nearest(self, map_, queries, documents, k, excluded=None):
        return nearest_documents(queries @ map_, documents, k, "inner", excluded)

    def _size(self, queries, better, worse):
        squares = (queries**2).sum(1) * ((better - worse) ** 2).sum(1)
        return float(squares.mean()) ** 0.5

    def _operator(self, queries, documents, triplets):
        return from_comparisons(queries, documents, triplets)

    def _matrix(self, map_):
        return map_

    def _map(self, data, T, point):
        return T @ point @ T

    def _point(self, inverse, map_):
        return inverse @ map_ @ inverse

    def _cut(self, data, map_):
        V = self._directions(data, map_)
        return map_ @ V @ V.T

    def _set(self, data, map_):
        self.components_, self.document_components_ = map_.T, None
        if self.n_components is not None:
            V = self._directions(data, map_)
            self.components_, self.document_components_ = V.T @ map_.T, V.T

    def _directions(self, data, like_):
        """Where the documents extend most, ``n_components`` orthonormal columns."""
        _, axes = spectral.eigh(data.second_moment)
        return like(spectral.with_fixed_signs(axes[:, : self.n_components]), like_)
