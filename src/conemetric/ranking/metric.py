"""RelevanceMetric: a Mahalanobis metric learned from relevance judgements."""

from dataclasses import dataclass
from typing import Any

from ..estimators.base import MahalanobisMetric
from ..estimators.prior import PRIOR_PARAMETERS
from .base import RANKING_PARAMETERS, RankingEstimator
from .forms import DistanceForm

__all__ = ["RelevanceMetric"]


@dataclass(eq=False, repr=False, kw_only=True)
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
    model_, setting_, C_, score_weights_, score_multipliers_, normalization_, candidates_, \
chosen_, certificate_, objective_, n_iter_, history_, comparisons_, multipliers_
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

    prior: Any = "identity"

    _parameter_constraints = {
        **RANKING_PARAMETERS,
        "prior": [option for option in PRIOR_PARAMETERS["prior"] if option is not None],
    }

    @property
    def _form(self) -> DistanceForm:
        return DistanceForm(self.prior)

    def _store(self, *learned):
        self._forget_threshold()
        super()._store(*learned)
