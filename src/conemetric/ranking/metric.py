"""RelevanceMetric: a distance learned from judged queries, near the one that is there."""

import numpy as np

from ..core import spectral
from ..core.arrays import namespace, transposed
from ..estimators.base import MahalanobisMetric
from ..estimators.prior import PRIOR_PARAMETERS, prior_matrix
from ..operators import from_triplets
from ..problems.frobenius import FrobeniusProgram
from .base import JUDGED_PARAMETERS, JudgedEstimator
from .top_k import nearest_documents


class RelevanceMetric(JudgedEstimator, MahalanobisMetric):  # type: ignore[misc]
    """Mahalanobis metric in which relevant documents are nearer to their query than
    others, learned from judgements about the metric that is there.

    Solves, over positive semidefinite M and comparisons (q, b, w) of a query with a
    better and a worse document, ::

        min 1/2 ||M - M0||_F^2 + C sum of weights max(0, 1 - ((q - w)' M (q - w) - (q - b)' M (q - b)))

    in coordinates without units (`estimators.judged`), with M0 the plain distance or
    the metric given, and returns a proof of how far from the optimum it stopped. Maps
    queries and documents: both go into the index by `transform`.

    Parameters
    ----------
    C : float or "auto", default="auto"
        Weight of the loss, free of units; near 0 the embedding stays as it is. "auto"
        chooses by nDCG@10 on held-out queries, along paths that begin at the embedding
        as it is, together with the margin and the kind of negatives; where nothing is
        better than it by more than a standard error it says so and changes nothing.
    prior : "identity", array-like (n_features, n_features) or fitted metric, default="identity"
        The metric to stay near: the Euclidean distance of the embedding (normalise the
        rows where the index compares by cosine), or one learned before.
    n_hard, n_random : int, default=10
        Unjudged documents to which each relevant one is preferred: the nearest to the
        query, and any. With ``C="auto"``, all at random where that does better, because
        near documents may be relevant though nobody judged them.
    n_components : int, default=None
        Keep this many leading directions, by the spread of the documents in the learned
        space; the first few coordinates of more are those of fewer. None keeps all.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    random_state : int, RandomState or None
        Draws random negatives and the queries held out.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``.
    setting_ : Setting
        C, margin and negatives used; C = 0 where the embedding was left as it is.
    C_ : float
    candidates_ : list of Candidate
        All settings tried by ``C="auto"`` and their nDCG@10 on held-out queries, with
        standard errors of the gain; the first is the embedding as it is.
    certificate_ : Certificate
        Objective of the metric, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    comparisons_, multipliers_ : arrays (m, 3), (m,)
        [query, better, worse], queries without a relevant document left out, and the
        dual solution.

    See Also
    --------
    QueryAdapter : maps the queries alone; the documents' index stays.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import RelevanceMetric
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(200, 8))
    >>> relevant = rng.integers(200, size=60)
    >>> noise = np.repeat([0.1, 3.0], 4)  # half of the features say nothing
    >>> queries = documents[relevant] + noise * rng.normal(size=(60, 8))
    >>> relevance = np.column_stack([np.arange(60), relevant])
    >>> metric = RelevanceMetric(random_state=0).fit(queries, documents, relevance)
    >>> bool(metric.candidates_[0].mean < 0.2), metric.score(queries, documents, relevance) > 0.9
    (True, True)
    """

    _parameter_constraints = {
        **JUDGED_PARAMETERS,
        "prior": [option for option in PRIOR_PARAMETERS["prior"] if option is not None],
    }
    _program_type = FrobeniusProgram
    _margins = (0.1,)
    _similarity = "euclidean"

    def __init__(
        self,
        C="auto",
        *,
        prior="identity",
        n_hard=10,
        n_random=10,
        n_components=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.prior = prior
        self.n_hard = n_hard
        self.n_random = n_random
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def transform_queries(self, Q):
        """`transform`, by the name that `QueryAdapter` shares."""
        return self.transform(Q)

    def transform_documents(self, D):
        """`transform`, by the name that `QueryAdapter` shares."""
        return self.transform(D)

    def _frozen(self, data):
        M0 = prior_matrix(self.prior, data.documents, self.n_features_in_, 1.0)
        return M0 if isinstance(self.prior, str) else spectral.factor(M0)

    def _nearest(self, map_, queries, documents, k, excluded=None):
        return nearest_documents(queries @ map_, documents @ map_, k, "euclidean", excluded)

    def _size(self, queries, better, worse):
        return float(((queries - worse) ** 2).sum(1).mean())

    def _operator(self, queries, documents, triplets):
        points = namespace(queries).concat([queries, documents])
        return from_triplets(points, triplets + np.array([0, len(queries), len(queries)]))

    def _matrix(self, map_):
        return map_ @ map_.T

    def _map(self, data, T, point):
        """Turned such that documents spread most along the first coordinate."""
        L = T @ point
        _, axes = spectral.eigh(L.T @ data.covariance @ L)
        return spectral.with_fixed_signs(L @ axes)

    def _point(self, inverse, map_):
        return inverse @ map_

    def _cut(self, data, map_):
        return map_[:, : self.n_components]

    def _set(self, data, map_):
        self.components_ = transposed(map_)
