"""A learned metric as one affine map, preprocessing included."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import as_array, like, namespace, to_numpy
from ..estimators.base import MahalanobisMetric
from ..ranking.adapter import QueryAdapter
from ..ranking.base import RankingEstimator, check_rows
from ..ranking.sums import rank_by_sum, weighted_columns
from ..ranking.top_k import check_depth, tie_ranks, unit_rows
from ..solvers.base import Certificate, Status

__all__ = ["LearnedMetric", "certificate_values"]

MOST_NAMED = 5  # missing columns in a message
SKLEARN_METRICS = (NeighborhoodComponentsAnalysis, LinearDiscriminantAnalysis)


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
        if isinstance(estimator, cls):
            given = {"feature_names": feature_names, "categories": categories, "notes": notes}
            return estimator._with(
                **{key: value for key, value in given.items() if value is not None}
            )
        named_steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
        steps = [step for _, step in named_steps if step not in (None, "passthrough")]
        learned = steps[-1]
        if not isinstance(learned, (MahalanobisMetric, QueryAdapter, *SKLEARN_METRICS)):
            raise TypeError(
                f"The last step is {type(learned).__name__}, which is not a metric of conemetric; "
                "give a fitted metric, or a pipeline that ends in one."
            )
        if feature_names is None:
            feature_names = getattr(steps[0], "feature_names_in_", None)
        preprocessing = [_describe(step) for step in steps[:-1]]
        fill = _fill_values(steps.pop(0)) if isinstance(steps[0], SimpleImputer) else None
        components, offset = _affine(steps[0])
        for step in steps[1:]:
            A, b = _affine(step)
            components, offset = A @ components, A @ offset + b
        metric = cls(
            components,
            offset,
            method=type(learned).__name__,
            parameters={
                name: json_value(value) for name, value in learned.get_params(deep=False).items()
            },
            certificate=getattr(learned, "certificate_", None),
            feature_names=None if feature_names is None else [str(name) for name in feature_names],
            preprocessing=preprocessing,
            fill=fill,
            categories=categories,
            notes=notes,
            scores=_learned_sum(learned, preprocessing),
        )
        for name in ("threshold_", "threshold_promise_"):
            if getattr(learned, name, None) is not None:
                setattr(metric, name, getattr(learned, name))
        return metric

    @property
    def columns(self) -> list[str] | None:
        """The columns needed in a data frame, in order; None if features have no names.

        These are the ``feature_names``, with each column of text listed once.
        """
        if self.feature_names is None:
            return None
        return source_columns(self.feature_names, self.categories)

    def _validate_X(self, X, reset=False, min_samples=1):
        if hasattr(X, "columns"):
            X = self._from_frame(X)
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

    def _from_frame(self, frame):
        """The features of a data frame: its columns by name, categories as 0 and 1."""
        columns = self.columns
        if columns is None:
            return frame.to_numpy()
        found = Counter(frame.columns)
        missing = [name for name in columns if name not in found]
        if missing:
            shown = ", ".join(map(repr, missing[:MOST_NAMED]))
            raise ValueError(
                f"X has no column {shown}{', ...' if len(missing) > MOST_NAMED else ''}; the metric "
                "needs all of metric.columns."
            )
        repeated = [name for name in columns if found[name] > 1]
        if repeated:
            raise ValueError(f"X has more than one column {repeated[0]!r}; keep one of them.")
        if not self.categories:
            return (frame if list(frame.columns) == columns else frame[columns]).to_numpy()
        features = []
        for column in columns:
            values = np.asarray(frame[column])
            if column in self.categories:
                text = [value if isinstance(value, str) else None for value in values]
                values = np.array(text, dtype=object)
                features += [values == category for category in self.categories[column]]
            else:
                features.append(values)
        return np.column_stack([np.asarray(values, np.float64) for values in features])

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing: the metric is already learned."""
        return self

    def transform(self, X: Any) -> Any:
        """Map rows to the space where the learned metric is the Euclidean one.

        Parameters
        ----------
        X : array-like (n, n_features), or data frame
            From a data frame the metric takes its ``columns`` by name, if it has names,
            and ignores all others.

        Returns
        -------
        array (n, rank)
        """
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


def _learned_sum(learned, preprocessing):
    """What a ranking adds up; None for other metrics."""
    if not isinstance(learned, RankingEstimator):
        return None
    weights = learned.score_weights_
    if preprocessing and len(weights) > 1:
        raise TypeError(
            "weights of scores cannot be kept behind preprocessing; transform the data first and "
            f"save the {type(learned).__name__} alone."
        )
    how = learned.normalization_, learned._similarity
    return {"weights": weights, "normalization": how[0], "similarity": how[1]}


def _affine(step):
    """(A, b) with transform(x) = A x + b, in float64."""
    check_is_fitted(step)
    if isinstance(step, StandardScaler):
        scale = 1 / step.scale_ if step.with_std else np.ones(step.n_features_in_)
        mean = step.mean_ if step.with_mean else np.zeros(step.n_features_in_)
        return np.diag(scale), -mean * scale
    if isinstance(step, PCA):
        A = step.components_.astype(np.float64)
        if step.whiten:
            A = A / np.sqrt(step.explained_variance_)[:, None]
        return A, -A @ step.mean_
    if isinstance(step, LearnedMetric):
        return step.components, step.offset
    if isinstance(step, SKLEARN_METRICS):
        corners = np.concatenate([np.zeros((1, step.n_features_in_)), np.eye(step.n_features_in_)])
        offset, *columns = step.transform(corners)
        return (np.array(columns) - offset).T, offset
    if isinstance(step, MahalanobisMetric):
        step.get_mahalanobis_matrix()  # refuses a metric that is not linear in x
    elif not isinstance(step, QueryAdapter):
        raise TypeError(
            f"{type(step).__name__} cannot be folded into a metric file; before a metric use "
            "StandardScaler or PCA, and SimpleImputer before these, or transform the data first "
            "and save the metric alone."
        )
    A = to_numpy(step.components_).astype(np.float64)
    return A, np.zeros(len(A))


def _fill_values(imputer):
    """The values by which an imputer replaces missing ones."""
    check_is_fitted(imputer)
    fill = np.asarray(imputer.statistics_, np.float64)
    missing = imputer.missing_values
    if missing == missing or imputer.add_indicator or not np.isfinite(fill).all():
        raise TypeError(
            f"{imputer} cannot be kept with a metric; use one that replaces NaN, adds no "
            "indicators, and was fitted on columns that are not empty."
        )
    return fill


def _describe(step):
    name = type(step).__name__
    if isinstance(step, PCA):
        return f"{name}({step.n_components_})"
    return f"{name}({step.strategy})" if isinstance(step, SimpleImputer) else name


def source_columns(
    feature_names: Iterable[str], categories: Mapping[str, Iterable[str]] | None
) -> list[str]:
    """The columns that features come from, in order."""
    column_of = {
        f"{column}={category}": column
        for column, values in (categories or {}).items()
        for category in values
    }
    return list(dict.fromkeys(column_of.get(name, name) for name in feature_names))


def certificate_values(certificate: Certificate | None) -> dict[str, Any] | None:
    """A certificate as JSON values; None for None."""
    if certificate is None:
        return None
    return {name: json_value(value) for name, value in vars(certificate).items()}


def json_value(value: Any) -> Any:
    """``value`` as JSON can hold it; arrays and other objects become a description."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (str, int, bool, type(None))):
        return str(value) if isinstance(value, Status) else value
    if hasattr(value, "shape"):
        return f"array {tuple(value.shape)}"
    return type(value).__name__
