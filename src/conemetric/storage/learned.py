"""A learned metric as one affine map, preprocessing included."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from ..core.arrays import as_array, like, namespace
from ..core.fields import (
    Array,
    Field,
    FieldError,
    Named,
    Nested,
    Number,
    Plain,
    Text,
    Texts,
    check,
    expect,
)
from ..estimators.base import MahalanobisMetric
from ..evaluation.thresholds import ThresholdPromise
from ..ranking.base import check_rows
from ..ranking.columns import EMBEDDING, NORMALIZATIONS
from ..ranking.sums import rank_by_sum, weighted_columns
from ..ranking.top_k import SIMILARITIES, check_depth, tie_ranks, unit_rows
from ..solvers.base import Certificate
from ..tables import TableEncoder
from .folding import folded
from .frames import check_categories, frame_features, source_columns

__all__ = ["LearnedMetric"]

PLAIN_FIELDS = ("method", "categories", "scores")  # kept as they are
FIELDS = {
    "components": Array("f", ("rank", "features")),
    "offset": Array("f", ("rank",)),
    "method": Text(),
    "parameters": Plain(dict),
    "certificate": Plain(dict, optional=True),
    "feature_names": Texts("features", distinct=False, optional=True),
    "preprocessing": Texts(distinct=False),
    "fill": Array("f", ("features",), optional=True),
    "categories": Named(Texts(), optional=True),
    "encoder": Field(optional=True),
    "notes": Plain(dict),
    "scores": Nested(
        {
            "weights": Named(Number(0)),
            "normalization": Text(tuple(NORMALIZATIONS), optional=True),
            "similarity": Text(tuple(SIMILARITIES)),
        },
        optional=True,
    ),
    "threshold": Number(nan=True, optional=True),
    "threshold_promise": Plain(dict, optional=True),
}


class LearnedMetric(MahalanobisMetric):
    """A learned metric without its estimator: an affine map whose output is compared by
    Euclidean distance.

    `load_metric` and `LearnedMetric.from_estimator` make one. It is a fitted scikit-learn
    transformer, to put before a `KNeighborsClassifier` in a pipeline; ``fit`` and
    `sklearn.base.clone` do not change it.

    Parameters
    ----------
    components : array (rank, n_features)
    offset : array (rank,)
        ``transform(X) = X @ components.T + offset``; distances do not depend on it.
    method : str
        Class name of the estimator that learned the metric.
    parameters : dict, default=None
        Parameters of that estimator.
    certificate : Certificate, default=None
        Certificate of the fit.
    feature_names : sequence of str, default=None
    preprocessing : sequence of str, default=()
        Names of the steps folded into the map.
    fill : array (n_features,), default=None
        Replaces missing values (NaN) of each feature; None requires complete rows.
    categories : dict of str to list of str, default=None
        Columns of text and their categories. Each category is a feature, named
        ``column=category`` in ``feature_names``: 1 where the column has it, else 0.
    encoder : TableEncoder, default=None
        Encodes a table before the map; ``feature_names`` are then the names of its features.
    notes : dict, default=None
        Further JSON values to keep.
    scores : dict, default=None
        What `rank` adds up, of a metric learned from judgements: ``weights`` by name,
        ``normalization`` of the columns, and the ``similarity`` that compares mapped points.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from conemetric import FrobMetric, LearnedMetric
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), FrobMetric()).fit(X, y)
    >>> metric = LearnedMetric.from_estimator(pipeline)
    >>> bool(abs(metric.transform(X) - pipeline.transform(X)).max() < 1e-9)
    True
    """

    certificate: Any  # a Certificate or None
    certificate_: Any

    def __init__(
        self,
        components: np.ndarray,
        offset: np.ndarray,
        *,
        method: str = "LearnedMetric",
        parameters: dict[str, Any] | None = None,
        certificate: Certificate | None = None,
        feature_names: Sequence[str] | None = None,
        preprocessing: Sequence[str] = (),
        fill: np.ndarray | None = None,
        categories: dict[str, list[str]] | None = None,
        encoder: TableEncoder | None = None,
        notes: dict[str, Any] | None = None,
        scores: dict[str, Any] | None = None,
    ) -> None:
        self.components = self.components_ = components
        self.offset = offset
        self.method = method
        self.parameters = parameters
        self.certificate = self.certificate_ = certificate
        self.feature_names = feature_names
        self.preprocessing = preprocessing
        self.fill = fill
        self.categories = categories
        self.encoder = encoder
        self.notes = notes
        self.scores = scores
        self.n_features_in_ = components.shape[1]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Iterable[str] | None = None,
        categories: dict[str, list[str]] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> "LearnedMetric":
        """Fold a fitted estimator, or a pipeline of `StandardScaler`, `PCA` and an
        estimator, into one affine map; a `SimpleImputer` may come first.

        Parameters
        ----------
        estimator : fitted estimator of this library, or Pipeline that ends in one
            Also scikit-learn's `NeighborhoodComponentsAnalysis` and
            `LinearDiscriminantAnalysis`, which have no certificate. A `LearnedMetric` is
            returned as it is, or with the arguments below in place of its own.
        feature_names : sequence of str, default=None
            Names of the columns; by default those of the data frame in ``fit``, if any.
        categories : dict of str to list of str, default=None
            Categories of the columns of text behind features ``column=category``.
        notes : dict, default=None

        Returns
        -------
        LearnedMetric
        """
        names = None if feature_names is None else [str(name) for name in feature_names]
        given = {"feature_names": names, "categories": categories, "notes": notes}
        given = {key: value for key, value in given.items() if value is not None}
        if isinstance(estimator, cls):
            return estimator._with(**given)
        learned, parameters = folded(estimator)
        metric = cls(**{**parameters, **given})
        for name in ("threshold_", "threshold_promise_"):
            if getattr(learned, name, None) is not None:
                setattr(metric, name, getattr(learned, name))
        return metric

    @property
    def columns(self) -> list[str] | None:
        """The columns needed in a data frame, in order; None if features have no names.

        These are the ``feature_names``, with each column of text listed once.
        """
        if self.encoder is not None:
            named = hasattr(self.encoder, "feature_names_in_")
            return [column.name for column in self.encoder.columns_] if named else None
        if self.feature_names is None:
            return None
        return source_columns(self.feature_names, self.categories)

    def _validate_X(self, X, reset=False, min_samples=1):
        if hasattr(X, "columns"):
            columns = self.columns
            X = X.to_numpy() if columns is None else frame_features(X, columns, self.categories)
        return super()._validate_X(self.fill_missing(X), reset, min_samples)

    def fill_missing(self, X: Any) -> Any:
        """Rows with missing values (NaN) replaced by ``fill``; unchanged if that is None.

        Examples
        --------
        >>> import numpy as np
        >>> from conemetric.storage import LearnedMetric
        >>> metric = LearnedMetric(np.eye(2), np.zeros(2), fill=np.array([1.0, 2.0]))
        >>> metric.fill_missing(np.array([[np.nan, 5.0]]))
        array([[1., 5.]])
        """
        if self.fill is None:
            return X
        X = as_array(X)
        if X.ndim != 2 or X.shape[1] != len(self.fill):
            raise ValueError(
                f"X has shape {tuple(X.shape)}; the metric takes rows of {len(self.fill)} numbers."
            )
        return namespace(X).where(X == X, X, like(self.fill, X))

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing: the metric is already learned."""
        return self

    def transform(self, X: Any) -> Any:
        """Map rows to the space where the learned metric is the Euclidean one.

        Parameters
        ----------
        X : array-like (n, n_features), or data frame
            From a data frame the metric takes its ``columns`` by name, if it has names,
            and ignores all others. Of a metric with an ``encoder``, rows of the table.

        Returns
        -------
        array (n, rank)
        """
        if self.encoder is not None:
            X = self.encoder.transform(X)
            X = X.toarray() if issparse(X) else np.asarray(X)
        X = self._validate_X(X)
        mapped = X @ like(self.components_, X).T
        mapped += like(self.offset, X)
        return mapped

    def rank(
        self, queries: Any, documents: Any, scores: Any = None, k: int = 10
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first ``k`` documents of every query, as by the `QueryAdapter` or
        `RelevanceMetric` that learned this metric.

        Parameters
        ----------
        queries : array-like or tensor (n_queries, n_features)
        documents : array-like or tensor (n_documents, n_features)
            Of a `QueryAdapter` with ``n_components``, as mapped by `transform_documents`.
        scores : dict of str to sparse matrix, default=None
            The columns with a weight, as in ``fit``.
        k : int, default=10

        Returns
        -------
        documents, scores : arrays (n_queries, min(k, n_documents)) on the host
        """
        if self.scores is None:
            raise TypeError(
                f"{self.method} was not learned from judged queries, so there is no sum of scores "
                "to rank by; rank by the distance of transform(queries) and transform(documents)."
            )
        check_depth(k)
        weights, normalization = self.score_weights_, self.normalization_
        queries, documents = check_rows(queries, "queries"), check_rows(documents, "documents")
        namespace(queries, documents)  # refuses mixed libraries
        shape, similarity = (len(queries), len(documents)), self.scores["similarity"]
        columns = weighted_columns(scores, weights, normalization, shape)
        ties = tie_ranks(documents)
        if similarity == "cosine":
            queries, documents = unit_rows(queries), unit_rows(documents)
        queries = self.transform(queries)
        if not self.maps_queries_only:
            documents = self.transform(documents)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f"documents has {documents.shape[1]} features, but mapped queries have "
                f"{queries.shape[1]}; map the documents as when the adapter was learned."
            )
        return rank_by_sum(queries, documents, similarity, columns, weights, normalization, k, ties)

    @property
    def score_weights_(self) -> dict[str, float]:
        """Weights of the embedding and of columns of scores; empty if none were learned."""
        return dict(self.scores["weights"]) if self.scores else {}

    @property
    def normalization_(self) -> str | None:
        """How columns of scores are scaled."""
        return self.scores["normalization"] if self.scores else None

    @property
    def maps_queries_only(self) -> bool:
        """Whether this is the map of a `QueryAdapter`, which defines no distance."""
        return self.method == "QueryAdapter"

    def distance_or_refuse(self) -> Self:
        """Return self; an error for a map of queries only, which defines no distance."""
        if self.maps_queries_only:
            raise TypeError(
                "This metric maps queries only and is not a distance: map the queries by transform "
                "and search the existing index of the documents (export.to_llama_index writes it "
                "as an adapter)."
            )
        return self

    def get_mahalanobis_matrix(self) -> Any:
        self.distance_or_refuse()
        return super().get_mahalanobis_matrix()

    def pair_distance(self, pairs: Any) -> Any:
        self.distance_or_refuse()
        return super().pair_distance(pairs)

    def get_metric(self) -> Any:
        self.distance_or_refuse()
        return super().get_metric()

    def of_features(self) -> "LearnedMetric":
        """The map of encoded rows, ``metric.encoder.transform(table)``, without the encoder."""
        return self._with(encoder=None)

    def state(self) -> dict[str, Any]:
        """The metric as a nested dict of JSON values and arrays."""
        promise = self.threshold_promise_
        threshold = getattr(self, "threshold_", None)
        return {
            **{name: getattr(self, name) for name in PLAIN_FIELDS},
            **{name: _float64(getattr(self, name)) for name in ("components", "offset", "fill")},
            "parameters": self.parameters or {},
            "preprocessing": list(self.preprocessing),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "notes": self.notes or {},
            "certificate": self.certificate and self.certificate.state(),
            "encoder": self.encoder and self.encoder.state(),
            "threshold": None if threshold is None else float(threshold),
            "threshold_promise": None if promise is None else asdict(promise),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "LearnedMetric":
        """The metric of such a state, after checking all of it."""
        sizes = check(state, FIELDS)
        rank, n_features = sizes["rank"], sizes["features"]
        fits = 1 <= rank <= n_features
        expect(fits, "components.shape", (rank, n_features), "at most as many rows as columns")
        given = dict(state)
        threshold, promise = given.pop("threshold"), given.pop("threshold_promise")
        if given["certificate"] is not None:
            given["certificate"] = Certificate.from_state(given["certificate"])
        if given["encoder"] is not None:
            given["encoder"] = encoder = TableEncoder.from_state(given["encoder"])
            names = encoder.get_feature_names_out().tolist()
            fits = names == given["feature_names"]
            expect(fits, "feature_names", given["feature_names"], "those of the encoder")
        if given["categories"] is not None:
            check_categories(given["feature_names"], given["categories"])
        if given["scores"] is not None:
            _check_scores(given["scores"])
        metric = cls(**given)
        if threshold is not None:
            metric.set_threshold(threshold)
            metric.threshold_promise_ = None if promise is None else _promise(promise)
        expect(
            threshold is not None or promise is None, "threshold_promise", promise, "a threshold"
        )
        return metric

    def truncated(self, n_components: int) -> "LearnedMetric":
        """The best approximation of this metric by ``n_components`` directions, without the
        certificate, which holds for all directions together.
        """
        if not 1 <= n_components <= len(self.components):
            raise ValueError(
                f"n_components={n_components}; this metric has 1 to {len(self.components)} "
                "directions."
            )
        if n_components == len(self.components):
            return self
        kept = {"components": self.components[:n_components], "offset": self.offset[:n_components]}
        return self._with(**kept, certificate=None)

    def _with(self, **changed):
        return LearnedMetric(**{**self.get_params(deep=False), **changed}) if changed else self

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def __repr__(self, N_CHAR_MAX=700):
        rank, n_features = self.components.shape
        return f"<LearnedMetric of {self.method}: {n_features} features to {rank} dimensions>"


def _float64(array):
    return None if array is None else np.ascontiguousarray(array, np.float64)


def _check_scores(scores):
    """Refuse weights, a normalisation and a similarity that `rank` cannot use."""
    weights = scores["weights"]
    expect(EMBEDDING in weights, "scores.weights", sorted(weights)[:9], f"one of {EMBEDDING}")
    weighted = [name for name, weight in weights.items() if weight and name != EMBEDDING]
    scaled = scores["normalization"] is not None or not weighted
    expect(scaled, "scores.normalization", None, f"a scale for {weighted[:9]}")


def _promise(values):
    try:
        return ThresholdPromise(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise FieldError("threshold_promise", values, f"one that can be true: {error}") from error
