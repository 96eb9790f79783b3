"""RelevanceMetric: a Mahalanobis metric learned from relevance judgements."""

from functools import reduce
from operator import matmul
from typing import Any, Literal

import numpy as np

from ..core import spectral
from ..core.arrays import namespace, transposed
from ..estimators.base import MahalanobisMetric
from ..estimators.prior import PRIOR_PARAMETERS, prior_matrix
from ..operators import from_triplets
from ..operators.columns import joined
from ..problems.frobenius import FrobeniusProgram
from .base import RANKING_PARAMETERS, RankingEstimator
from .top_k import search

__all__ = ["RelevanceMetric"]


class RelevanceMetric(RankingEstimator, MahalanobisMetric):  # type: ignore[misc]
    """Mahalanobis metric in which relevant documents are nearer to their query than
    others, learned from judgements and close to the metric in use.

    Solves, over positive semidefinite M and comparisons (q, b, w) of a query with a
    better and a worse document, ::

        min 1/2 ||M - M0||_F^2 + C sum of weights max(0, 1 - ((q - w)' M (q - w) - (q - b)' M (q - b)))

    in coordinates without units (`conemetric.ranking.program`), where M0 is the Euclidean
    distance or ``prior``, and certifies how far from the optimum it stopped. Map both
    queries and documents by `transform`. Other scores (BM25, a cross-encoder) may join as
    columns, as in `QueryAdapter`.

    Parameters
    ----------
    prior : "identity", array-like (n_features, n_features) or fitted metric, default="identity"
        The metric to stay close to: the Euclidean distance of the embedding (normalise the
        rows if the index compares by cosine), or one learned before.
    n_components : int, default=None
        Keep this many leading directions, by the spread of the documents in the learned
        space; a smaller number keeps the first of them. None keeps all.
    C, n_hard, n_random, normalization, tol, max_iter, random_state, verbose
        As in `QueryAdapter`.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``.
    setting_, C_, score_weights_, score_multipliers_, normalization_, candidates_, \
certificate_, objective_, n_iter_, history_, comparisons_, multipliers_
        As in `QueryAdapter`.

    See Also
    --------
    QueryAdapter : maps only the queries; the documents' index stays unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import RelevanceMetric
    >>> rng = np.random.default_rng(0)
    >>> documents = rng.normal(size=(200, 8))
    >>> relevant = rng.integers(200, size=60)
    >>> noise = np.repeat([0.1, 3.0], 4)  # half of the features are noise
    >>> queries = documents[relevant] + noise * rng.normal(size=(60, 8))
    >>> relevance = np.column_stack([np.arange(60), relevant])
    >>> metric = RelevanceMetric(random_state=0).fit(queries, documents, relevance)
    >>> bool(metric.candidates_[0].mean < 0.2), metric.score(queries, documents, relevance) > 0.9
    (True, True)
    """

    _parameter_constraints = {
        **RANKING_PARAMETERS,
        "prior": [option for option in PRIOR_PARAMETERS["prior"] if option is not None],
    }
    _program_type = _joint_type = FrobeniusProgram
    _margins = (0.1,)
    _similarity = "euclidean"

    def __init__(
        self,
        C: float | Literal["auto"] = "auto",
        *,
        prior: Any = "identity",
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
        self.prior = prior
        self.n_hard = n_hard
        self.n_random = n_random
        self.normalization = normalization
        self.n_components = n_components
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def transform_queries(self, Q: Any) -> Any:
        """The same as `transform`, under the name `QueryAdapter` uses."""
        return self.transform(Q)

    def transform_documents(self, D: Any) -> Any:
        """The same as `transform`, under the name `QueryAdapter` uses."""
        return self.transform(D)

    def _initial_map(self, data):
        M0 = prior_matrix(self.prior, data.documents, self.n_features_in_, 1.0)
        return M0 if isinstance(self.prior, str) else spectral.factor(M0)

    def _search(self, factors, queries, documents, k, **options):
        map_ = reduce(matmul, factors)
        return search(queries @ map_, documents @ map_, k, "euclidean", **options)

    def _comparison_size(self, queries, better, worse):
        return float(((queries - worse) ** 2).sum(1).mean())

    def _operator(self, queries, documents, triplets):
        points = namespace(queries).concat([queries, documents])
        return from_triplets(points, triplets + np.array([0, len(queries), len(queries)]))

    def _matrix(self, map_):
        return map_ @ map_.T

    def _factors(self, T, point):
        return T, point

    def _map(self, data, T, point):
        """Rotated so that documents spread most along the first coordinate."""
        L = T @ point
        _, axes = spectral.eigh(L.T @ data.covariance @ L)
        # a factor of two blocks may have more columns than the first has rows
        return spectral.with_fixed_signs((L @ axes)[:, : len(L)])

    def _point(self, inverse, map_):
        return inverse @ map_

    def _parted(self, point, n_columns):
        return point[:-n_columns], (point[-n_columns:] ** 2).sum(1)

    def _joined(self, point, v):
        return joined(point, v**0.5)

    def _truncate(self, data, map_):
        return map_[:, : self.n_components]

    def _store_map(self, data, map_):
        self._forget_threshold()
        self.components_ = transposed(map_)
