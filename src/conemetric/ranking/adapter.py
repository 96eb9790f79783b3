"""Maps learned from relevance judgements: of the queries alone, or of queries and documents."""

from dataclasses import dataclass
from typing import Any, Literal

from ..core.sklearn_private import StrOptions
from ..estimators.base import MahalanobisMetric
from ..estimators.checks import FIT, FIT_AND_TRANSFORM, FIT_AND_USE, because
from ..estimators.prior import PRIOR_PARAMETERS
from .base import OTHER_ARGUMENTS, RANKING_PARAMETERS, RankingEstimator
from .engines import ENGINES
from .forms import BilinearForm, DistanceForm


@dataclass(eq=False, repr=False, kw_only=True)
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
        Weight of the loss, free of units; near 0 the embedding hardly changes. "auto" chooses C,
        the margin, the kind of negatives and whether columns of scores help, by nDCG@10 on
        held-out queries; if no setting is significantly better than the embedding
        (`conemetric.ranking.candidates`), it warns and changes nothing.
    similarity : {"cosine", "inner"}, default="cosine"
        How the index compares a query with its documents.
    n_hard, n_random : int, default=10
        Unjudged documents to rank below each relevant one: the nearest to the query, and random
        ones. ``C="auto"`` also tries random ones only, because near ones may be relevant.
    normalization : {"auto", "raw", "range", "spread"}, default="auto"
        How columns of scores are scaled (`conemetric.ranking.columns`): as the search system does
        (`conemetric.export.to_hybrid_query`), or the best on held-out queries.
    target : str, default=None
        The search engine that will rank: "pgvector", "duckdb", "sqlite", "qdrant", "milvus",
        "lancedb", "elasticsearch" or "opensearch" (`conemetric.ranking.engines`). Columns are then
        scaled, cut and added up as it can, so that the query that
        `conemetric.export.to_hybrid_query` writes ranks as `rank` does. Pass ``scores`` that the
        engine itself lists. None: nothing is exported, or to an engine that suits.
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
        ``transform_documents(D) = D @ document_components_.T``; None leaves them unchanged.
    model_ : RankingModel
        Maps and weights together: what `rank` uses, without the training data.
    setting_ : Setting
        C, margin and negatives used; C = 0 if the embedding is unchanged.
    C_ : float
    score_weights_, score_multipliers_ : dict of str to float
        Weights of the embedding's own scores ("embedding": 1, or 0 if columns alone do better) and
        of every column in its normalisation; and multipliers of the latter being at least 0.
    normalization_ : str or None
        How columns are scaled; None without columns.
    candidates_ : list of Candidate
        All settings tried by ``C="auto"`` and their nDCG@10 on held-out queries, with
        standard errors of the gain; the first is the unchanged embedding, and with ``scores``
        every column alone and plain mixes follow. With few queries, the best map and the best
        map with columns have means over several splits, and the others are not compared with them.
    chosen_ : Candidate
        The one of them that was chosen.
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

    similarity: Literal["cosine", "inner"] = "cosine"
    target: str | None = None

    _parameter_constraints = {
        **RANKING_PARAMETERS,
        "similarity": [StrOptions({"cosine", "inner"})],
        "target": [StrOptions(set(ENGINES)), None],
    }

    @property
    def _form(self) -> BilinearForm:
        return BilinearForm(self.similarity, self.target)

    @property
    def document_components_(self) -> Any:
        return self.model_.document_map


@dataclass(eq=False, repr=False, kw_only=True)
class RelevanceMetric(RankingEstimator, MahalanobisMetric):  # type: ignore[misc]
    """Mahalanobis metric in which relevant documents are nearer to their query than
    others, learned from judgements and close to the metric in use.

    Solves, over positive semidefinite M and comparisons (q, b, w) of a query with a
    better and a worse document, ::

        min 1/2 ||M - M0||_F^2 + C sum of weights max(0, 1 - ((q - w)' M (q - w) - (q - b)' M (q - b)))

    in coordinates without units (`conemetric.ranking.program`), where M0 is the Euclidean distance
    or ``prior``, and certifies how far from the optimum it stopped. Map both queries and documents
    by `transform`. Other scores (BM25, a cross-encoder) may join as columns, as in `QueryAdapter`.

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

    _expected_failed_checks = because(
        OTHER_ARGUMENTS,
        FIT_AND_USE,
        FIT,
        FIT_AND_TRANSFORM,
        ("check_requires_y_none", "check_transformer_n_iter"),
    )
    _parameter_constraints = {
        **RANKING_PARAMETERS,
        "prior": [option for option in PRIOR_PARAMETERS["prior"] if option is not None],
    }

    @property
    def _form(self) -> DistanceForm:
        return DistanceForm(self.prior)

    def _store(self, *learned):
        # one of `partial_fit` belongs to the metric that is replaced
        for name in ("threshold_", "threshold_promise_"):
            self.__dict__.pop(name, None)
        super()._store(*learned)
