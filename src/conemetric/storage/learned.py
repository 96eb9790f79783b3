"""What was learned as one affine map, preprocessing included: a metric, or a map of queries."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..core.arrays import as_array, like, namespace
from ..core.fields import (
    ArrayField,
    Each,
    Field,
    Number,
    Plain,
    Stored,
    Text,
    check,
    expect,
)
from ..core.warn import warn_user
from ..engine.certificate import Certificate
from ..engine.kernel_map import KernelMap
from ..estimators.base import CertifiedEstimator, MahalanobisMetric
from ..estimators.checks import FIT_AND_TRANSFORM, FIT_AND_USE, because
from ..estimators.kernel_coordinates import KernelCoordinates
from ..estimators.validation import validate_points
from ..ranking.model import RankingModel
from ..ranking.top_k import Ranking
from ..tables import TableEncoder
from ..tables.columns import positions
from .folding import METRICS, folded
from .parts import PARTS, check_scores, check_sizes, promise_of


@dataclass(eq=False, repr=False)
class LearnedMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Stored, CertifiedEstimator):
    """An affine map without the estimator that learned it; see `LearnedMetric`.

    ``LearnedMap.from_estimator`` makes a `LearnedMetric` or a `LearnedAdapter`.

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
    encoder : TableEncoder, default=None
        Encodes a table before the map; ``feature_names`` are then the names of its features.
    notes : dict, default=None
        Further JSON values to keep.
    scores : dict, default=None
        What `rank` adds up, of a metric learned from judgements: ``weights`` by name,
        ``normalization`` of the columns, and the ``similarity`` that compares mapped points.
    document_components : array (rank, n_features), default=None
        Map of the documents if it is not that of the queries.
    kernel : KernelMap, default=None
        Maps rows to the coordinates of a kernel, which ``components`` then applies to, one column for
        each coordinate.
    """

    components: Annotated[np.ndarray, ArrayField("f", ("rank", "columns"))]
    offset: Annotated[np.ndarray, ArrayField("f", ("rank",))]
    _: KW_ONLY
    method: Annotated[str, Text()] = "LearnedMetric"
    parameters: Annotated[dict[str, Any] | None, Plain(dict)] = None
    certificate: Annotated[Certificate | None, Plain(dict, optional=True)] = None
    feature_names: Annotated[Sequence[str] | None, Each(Text(), "features", optional=True)] = None
    preprocessing: Annotated[Sequence[str], Each(Text())] = ()
    fill: Annotated[np.ndarray | None, ArrayField("f", ("features",), optional=True)] = None
    encoder: Annotated[TableEncoder | None, Field(optional=True)] = None
    notes: Annotated[dict[str, Any] | None, Plain(dict)] = None
    scores: Annotated[dict[str, Any] | None, Plain(dict, optional=True)] = None
    document_components: Annotated[
        np.ndarray | None, ArrayField("f", ("rank", "columns"), optional=True)
    ] = None
    kernel: Annotated[KernelMap | None, Field(optional=True)] = None
    _maps: ClassVar[str]  # what it is a map of
    _has_none: ClassVar[dict[str, str]]  # the fields that it lacks, and what errors then expect
    _is_no_other: ClassVar[str]  # what to do instead, to whoever wants the other kind of map
    _expected_failed_checks = because(
        "it comes fitted, by its parameters: fit changes nothing, and rows have the features of the map",
        FIT_AND_USE,
        FIT_AND_TRANSFORM,
        ("check_no_attributes_set_in_init", "check_do_not_raise_errors_in_init_or_set_params"),
    )

    def __post_init__(self) -> None:
        self.components_: Any = self.components
        self.certificate_: Any = self.certificate
        self.n_features_in_ = self.components.shape[1]
        if self.kernel is not None:
            self.kernel_coordinates_: Any = KernelCoordinates._of_map(self.kernel)
            self.n_features_in_ = self.kernel.n_features

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Iterable[str] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> Any:
        """Fold a fitted estimator, or a pipeline of `StandardScaler`, `PCA` and an
        estimator, into one affine map; a `SimpleImputer` may come first.

        Parameters
        ----------
        estimator : fitted estimator of this library, or Pipeline that ends in one
            Also scikit-learn's `NeighborhoodComponentsAnalysis` and
            `LinearDiscriminantAnalysis`, which have no certificate. A `LearnedMetric` or
            `LearnedAdapter` is returned as it is, or with the arguments below in place of its own.
        feature_names : sequence of str, default=None
            Names of the columns; by default those of the data frame in ``fit``, if any.
        notes : dict, default=None

        Returns
        -------
        LearnedMetric, or LearnedAdapter of a `QueryAdapter`
        """
        given: dict[str, Any] = {}
        if notes is not None:
            given["notes"] = notes
        if feature_names is not None:
            given["feature_names"] = [str(name) for name in feature_names]
        is_learned = isinstance(estimator, LearnedMap)
        if is_learned:
            learned = estimator
            parameters = estimator.get_params(deep=False)
        else:
            learned, parameters = folded(estimator)
        kind: Any = LearnedAdapter
        if isinstance(learned, METRICS):
            kind = LearnedMetric
        if not issubclass(kind, cls):
            raise TypeError(kind._is_no_other)
        if is_learned and not given:  # as it is, so that loading and saving changes nothing
            return estimator
        metric = kind(**{**parameters, **given})
        # new names or notes do not change the distance, so its threshold still holds
        for name in ("threshold_", "threshold_promise_"):
            if getattr(learned, name, None) is not None:
                setattr(metric, name, getattr(learned, name))
        return metric

    @property
    def columns(self) -> list[str] | None:
        """The columns needed in a data frame, in order; None if features have no names."""
        if self.encoder is not None:
            if not hasattr(self.encoder, "feature_names_in_"):
                return None
            return [column.name for column in self.encoder.columns_]
        if self.feature_names is None:
            return None
        return list(self.feature_names)

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
        return namespace(X).where(X == X, X, like(self.fill, X))  # NaN alone differs from itself

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Do nothing: the metric is already learned."""
        return self

    def transform(self, X: Any) -> Any:
        """Map rows.

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
            if issparse(X):
                X = X.toarray()
            X = np.asarray(X)
        if hasattr(X, "columns"):
            given = list(X.columns)
            columns = self.columns
            if columns not in (None, given):  # without names, columns count by their place
                positions(given, columns, "; the metric needs all of metric.columns.")
                X = X[columns]
            X = X.to_numpy()
        X = validate_points(self, self.fill_missing(X))
        if self.kernel is not None:
            X = self.kernel_coordinates_._mapped(X)
        mapped = X @ like(self.components_, X).T
        mapped += like(self.offset, X)
        return mapped

    def rank(self, queries: Any, documents: Any, scores: Any = None, k: int = 10) -> Ranking:
        """The first ``k`` documents of every query, as by the `QueryAdapter` or
        `RelevanceMetric` that learned this metric.

        Parameters
        ----------
        queries, documents, scores, k
            As in `QueryAdapter.rank`.

        Returns
        -------
        documents, scores : arrays (n_queries, min(k, n_documents)) on the host
        """
        if self.model_ is None:
            raise TypeError(
                f"{self.method} was not learned from judged queries, so there is no sum of scores "
                "to rank by; rank by the distance of transform(queries) and transform(documents)."
            )
        return self.model_.rank(queries, documents, scores, k)

    @property
    def model_(self) -> RankingModel | None:
        """What `rank` uses; None of a metric that was not learned from judged queries."""
        if self.scores is None:
            return None
        documents = self.document_components
        if self._maps == "rows":
            documents = self.components
        return RankingModel(self.components, documents, **self.scores)

    @property
    def score_weights_(self) -> dict[str, float]:
        """Weights of the embedding and of columns of scores; empty if none were learned."""
        if not self.scores:
            return {}
        return dict(self.scores["weights"])

    @property
    def normalization_(self) -> str | None:
        """How columns of scores are scaled."""
        if not self.scores:
            return None
        return self.scores["normalization"]

    def replaced(self, **changed: Any) -> Self:
        """The same with other parameters."""
        return type(self)(**{**self.get_params(deep=False), **changed})

    def of_features(self) -> Self:
        """The map of encoded rows, ``metric.encoder.transform(table)``, without the encoder."""
        return self.replaced(encoder=None)

    def for_vectors(self, system: str, *, fills: bool = False, kernels: bool = False) -> Self:
        """Return self, for a ``system`` that maps vectors: refuses a map of tables, or of a kernel
        unless the system knows ``kernels``, and warns of one that fills missing values, unless the
        system ``fills`` them too.
        """
        if self.kernel is not None and not kernels:
            raise TypeError(
                f"this metric has a {self.kernel.kernel} kernel, and {system} takes linear maps: pass "
                "it the rows of metric.transform, whose Euclidean distance is the learned one; use "
                "export.to_onnx, which knows kernels; or learn with kernel=None."
            )
        if self.encoder is not None:
            raise TypeError(
                f"this metric encodes tables (TableEncoder), and {system} takes vectors: save it "
                "(save_metric), export load_metric(path).of_features(), and pass that rows encoded by "
                "load_metric(path).encoder.transform(table)."
            )
        if self.fill is not None and not fills:
            warn_user(
                f"this metric fills missing values, and {system} does not; pass it complete rows "
                "(LearnedMetric.from_estimator(metric).fill_missing(X)), or use export.to_onnx, which "
                "fills them."
            )
        return self

    def state(self) -> dict[str, Any]:
        """The metric as a nested dict of JSON values and arrays."""
        threshold = getattr(self, "threshold_", None)
        if threshold is not None:
            threshold = float(threshold)
        promise = getattr(self, "threshold_promise_", None)
        if promise is not None:
            promise = asdict(promise)
        parameters = self.get_params(deep=False).items()
        stored = {name: _stored(value, FIELDS[name]) for name, value in parameters}
        if self.kernel is None:
            del stored["kernel"]  # files of linear metrics are as before there were kernels
        return stored | {
            "maps": self._maps,
            "parameters": self.parameters or {},
            "notes": self.notes or {},
            "threshold": threshold,
            "threshold_promise": promise,
        }

    @classmethod
    def from_state(cls, state: Any, within: str = "") -> Any:
        """The metric of such a state, after checking all of it."""
        if isinstance(state, dict):  # files of linear metrics have no kernel
            state = {"kernel": None, **state}
        sizes = check(state, FIELDS, within)
        given = dict(state)
        shape = sizes["rank"], sizes["columns"]
        fits = 1 <= shape[0] <= shape[1]
        expect(fits, "components.shape", shape, "at most as many rows as columns")
        for name, stored in PARTS.items():
            if given[name] is not None:
                given[name] = stored.from_state(given[name], name)
        check_sizes(given, sizes)
        check_scores(given["scores"])
        kind: Any = LearnedAdapter
        if given.pop("maps") == "rows":
            kind = LearnedMetric
        expect(issubclass(kind, cls), "maps", kind._maps, f"those of a {cls.__name__}")
        for name, expected in kind._has_none.items():
            expect(given[name] is None, name, given[name], expected)
        threshold = given.pop("threshold")
        promise = given.pop("threshold_promise")
        fits = promise is None or threshold is not None
        expect(fits, "threshold_promise", promise, "a threshold")
        metric: Any = kind(**given)
        if threshold is not None:
            metric.set_threshold(threshold)
        if promise is not None:
            metric.threshold_promise_ = promise_of(promise)
        return metric

    def __sklearn_clone__(self):
        return self  # it comes fitted, and a copy would not be

    @property
    def _n_features_out(self) -> int:
        return len(self.components)

    def __sklearn_is_fitted__(self):
        return True

    def __repr__(self, N_CHAR_MAX=700):
        rank = len(self.components)
        name = type(self).__name__
        return f"<{name} of {self.method}: {self.n_features_in_} features to {rank} dimensions>"


class LearnedMetric(LearnedMap, MahalanobisMetric):
    """A learned metric without its estimator: an affine map whose output is compared by
    Euclidean distance.

    `load_metric` and `LearnedMetric.from_estimator` make one. It is a fitted scikit-learn
    transformer, to put before a `KNeighborsClassifier` in a pipeline; ``fit`` and
    `sklearn.base.clone` do not change it.

    Parameters
    ----------
    components, offset, method, parameters, certificate, feature_names, preprocessing, fill, \
encoder, notes, scores, document_components, kernel
        As in `LearnedMap`.

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

    _maps = "rows"
    _has_none = {"document_components": "none"}
    _is_no_other = "This estimator is a distance, not a map of queries; use LearnedMetric."

    def _features(self, X):
        self.for_vectors("a distance of two points", fills=True, kernels=True)
        return super()._features(self.fill_missing(X))

    def _of_columns(self):
        metric = self.for_vectors("a step of a pipeline", kernels=True)
        return metric.replaced(kernel=None, feature_names=None, fill=None)

    def truncated(self, n_components: int) -> "LearnedMetric":
        """The first ``n_components`` directions (the longest, but for metrics of scikit-learn, which keep
        their order), without the certificate, which holds for all directions together.
        """
        if not 1 <= n_components <= len(self.components):
            raise ValueError(
                f"n_components={n_components}; this metric has 1 to {len(self.components)} "
                "directions."
            )
        if n_components == len(self.components):
            return self
        kept = {"components": self.components[:n_components], "offset": self.offset[:n_components]}
        return self.replaced(**kept, certificate=None)


class LearnedAdapter(LearnedMap):
    """What a `QueryAdapter` learned, without it: a map of the queries, and of the documents if
    they are shortened. It defines no distance.

    `load_metric` and ``LearnedMap.from_estimator`` make one.

    Parameters
    ----------
    components, offset, method, parameters, certificate, feature_names, preprocessing, fill, \
encoder, notes, scores, document_components, kernel
        As in `LearnedMap`.
    """

    _maps = "queries"
    _has_none = {"threshold": "none: it is no distance", "kernel": "none"}
    _is_no_other = (
        "This estimator maps queries only and is not a distance: map the queries by transform and "
        "search the existing index of the documents."
    )


FIELDS = LearnedMap.declared() | {
    "maps": Text(("rows", "queries")),
    "threshold": Number(nan=True, optional=True),
    "threshold_promise": Plain(dict, optional=True),
}


def _stored(value: Any, declared: Field) -> Any:
    """A parameter as files hold it: objects by their state, numbers in float64."""
    if value is None:
        return None
    if hasattr(value, "state"):
        return value.state()
    if isinstance(declared, ArrayField):
        return np.ascontiguousarray(value, np.float64)
    if isinstance(declared, Each):
        return list(value)
    return value
