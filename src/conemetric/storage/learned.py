"""A learned metric as one affine map, with its preprocessing."""

import math

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
from ..solvers.base import Status

# learned elsewhere, kept as ours are
ELSEWHERE = (NeighborhoodComponentsAnalysis, LinearDiscriminantAnalysis)


class LearnedMetric(MahalanobisMetric):
    """A metric on its own, as loaded from a file: an affine map whose output is
    compared by Euclidean distance.

    It is a fitted scikit-learn transformer: put it before a `KNeighborsClassifier` in a
    pipeline; ``fit`` and `sklearn.base.clone` leave it as it is. Made by `load_metric`
    or `LearnedMetric.from_estimator`.

    Parameters
    ----------
    components : array (rank, n_features)
    offset : array (rank,)
        ``transform(X) = X @ components.T + offset``; distances do not depend on it.
    method : str
        Class name of the estimator that learned it.
    parameters : dict, default=None
        The parameters of that estimator.
    certificate : Certificate, default=None
        What was proven about the fit.
    feature_names : sequence of str, default=None
    preprocessing : sequence of str, default=()
        The steps folded into the map, in words.
    fill : array (n_features,), default=None
        What stands for a missing value (NaN) of each feature; None where rows must be
        complete.
    categories : dict of str to list of str, default=None
        Columns of words, and the values that are features of their own, named
        ``column=value`` in ``feature_names``: 1 where the column has that value, else 0.
    notes : dict, default=None
        Anything else worth keeping, as JSON values.

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

    def __init__(
        self,
        components,
        offset,
        *,
        method="LearnedMetric",
        parameters=None,
        certificate=None,
        feature_names=None,
        preprocessing=(),
        fill=None,
        categories=None,
        notes=None,
    ):
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
        self.n_features_in_ = components.shape[1]

    @classmethod
    def from_estimator(cls, estimator, *, feature_names=None, categories=None, notes=None):
        """Fold a fitted estimator, or a pipeline of `StandardScaler`, `PCA` and an
        estimator, into one affine map; a `SimpleImputer` may come first.

        Parameters
        ----------
        estimator : fitted estimator of this library, or Pipeline that ends in one
            scikit-learn's `NeighborhoodComponentsAnalysis` and
            `LinearDiscriminantAnalysis` are taken too; they have no certificate.
        feature_names : sequence of str, default=None
            Names of the columns; taken from the estimator where it saw a data frame.
        categories : dict of str to list of str, default=None
            Columns of words behind features named ``column=value``.
        notes : dict, default=None

        Returns
        -------
        LearnedMetric
        """
        if isinstance(estimator, cls):
            return estimator
        steps = (
            [step for _, step in estimator.steps]
            if isinstance(estimator, Pipeline)
            else [estimator]
        )
        steps = [step for step in steps if step not in (None, "passthrough")]
        learned = steps[-1]
        if not isinstance(learned, (MahalanobisMetric, QueryAdapter, *ELSEWHERE)):
            raise TypeError(
                f"The last step is {type(learned).__name__}, which is not a metric of conemetric."
            )
        if feature_names is None:
            feature_names = getattr(steps[0], "feature_names_in_", None)
        words = [_in_words(step) for step in steps[:-1]]
        fill = _fill_values(steps.pop(0)) if isinstance(steps[0], SimpleImputer) else None
        components, offset = _affine(steps[0])
        for step in steps[1:]:
            A, b = _affine(step)
            components, offset = A @ components, A @ offset + b
        return cls(
            components,
            offset,
            method=type(learned).__name__,
            parameters={
                name: plain(value) for name, value in learned.get_params(deep=False).items()
            },
            certificate=getattr(learned, "certificate_", None),
            feature_names=None if feature_names is None else [str(name) for name in feature_names],
            preprocessing=words,
            fill=fill,
            categories=categories,
            notes=notes,
        )

    @property
    def columns(self):
        """The columns a data frame needs, in their order; None where they have no names.

        ``feature_names``, but for columns of words, which stand there once for each
        value.
        """
        if self.feature_names is None:
            return None
        return columns_of(self.feature_names, self.categories)

    def _validate_X(self, X, reset=False, min_samples=1):
        if hasattr(X, "columns"):
            X = self._numbers(X)
        return super()._validate_X(self.fill_missing(X), reset, min_samples)

    def fill_missing(self, X):
        """The rows with missing values (NaN) filled as the metric fills them; as they are where
        it fills none.

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

    def _numbers(self, frame):
        """The numbers of a data frame, words turned to 0 and 1."""
        wanted, found = self.columns, list(frame.columns)
        if wanted is not None and found != wanted:
            missing = [name for name in wanted if name not in set(found)]
            fault = (
                f"has no column {missing[0]!r}"
                if missing
                else "has other columns, or the same in another order"
            )
            raise ValueError(f"X {fault}; select metric.columns first.")
        if not self.categories:
            return frame.to_numpy()
        features = []
        for column in wanted:
            if column in self.categories:
                words = np.array(
                    [word if isinstance(word, str) else None for word in frame[column]],
                    dtype=object,
                )
                features += [words == value for value in self.categories[column]]
            else:
                features.append(np.asarray(frame[column]))
        return np.column_stack([np.asarray(values, np.float64) for values in features])

    def fit(self, X=None, y=None):
        """Do nothing: the metric is learned already."""
        return self

    def transform(self, X):
        """Map rows to the space where the learned metric is the Euclidean one.

        Parameters
        ----------
        X : array-like (n, n_features), or data frame with the columns of ``columns``

        Returns
        -------
        array (n, rank)
        """
        X = self._validate_X(X)
        mapped = X @ like(self.components_, X).T
        mapped += like(self.offset, X)
        return mapped

    @property
    def maps_queries_only(self) -> bool:
        """Whether the map is one of queries alone (`QueryAdapter`), and no distance."""
        return self.method == "QueryAdapter"

    def distance_or_refuse(self) -> "LearnedMetric":
        """Itself, unless it is a map of queries alone, for what needs a distance."""
        if self.maps_queries_only:
            raise TypeError(
                "This is a map of queries alone, not a distance: map the queries by transform and "
                "search the documents' index as it is (export.to_llama_index writes it as an "
                "adapter)."
            )
        return self

    def get_mahalanobis_matrix(self):
        self.distance_or_refuse()
        return super().get_mahalanobis_matrix()

    def pair_distance(self, pairs):
        self.distance_or_refuse()
        return super().pair_distance(pairs)

    def get_metric(self):
        self.distance_or_refuse()
        return super().get_metric()

    def truncated(self, n_components):
        """The best approximation of this metric by one of ``n_components`` directions.

        Without the certificate, which is about all directions.
        """
        if not 1 <= n_components <= len(self.components):
            raise ValueError(
                f"n_components={n_components}; this metric has 1 to {len(self.components)} "
                "directions."
            )
        if n_components == len(self.components):
            return self
        kept = {"components": self.components[:n_components], "offset": self.offset[:n_components]}
        return LearnedMetric(**{**self.get_params(deep=False), **kept, "certificate": None})

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def __repr__(self, N_CHAR_MAX=700):
        rank, n_features = self.components.shape
        return f"<LearnedMetric of {self.method}: {n_features} features to {rank} dimensions>"


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
    if isinstance(step, MahalanobisMetric):
        step.get_mahalanobis_matrix()  # refuses a metric that is not linear in x
        A = to_numpy(step.components_).astype(np.float64)
        return A, np.zeros(len(A))
    if isinstance(step, QueryAdapter):
        A = to_numpy(step.components_).astype(np.float64)
        return A, np.zeros(len(A))
    if isinstance(step, ELSEWHERE):
        corners = np.concatenate([np.zeros((1, step.n_features_in_)), np.eye(step.n_features_in_)])
        offset, *columns = step.transform(corners)
        return (np.array(columns) - offset).T, offset
    raise TypeError(
        f"{type(step).__name__} cannot be folded into a metric file; before a metric use "
        "StandardScaler or PCA, and SimpleImputer before these, "
        "or transform the data first and save the metric alone."
    )


def _fill_values(imputer):
    """What an imputer puts in the place of missing values."""
    check_is_fitted(imputer)
    fill = np.asarray(imputer.statistics_, np.float64)
    missing = imputer.missing_values
    if missing == missing or imputer.add_indicator or not np.isfinite(fill).all():
        raise TypeError(
            f"{imputer} cannot be kept with a metric; use one that replaces NaN in columns that "
            "are not empty, without indicators."
        )
    return fill


def _in_words(step):
    name = type(step).__name__
    if isinstance(step, PCA):
        return f"{name}({step.n_components_})"
    return f"{name}({step.strategy})" if isinstance(step, SimpleImputer) else name


def columns_of(feature_names, categories):
    """The columns behind features, in their order."""
    of_words = {
        f"{column}={value}": column
        for column, values in (categories or {}).items()
        for value in values
    }
    return list(dict.fromkeys(of_words.get(name, name) for name in feature_names))


def expanded(columns, categories):
    """The features of columns: one for each value of a column of words."""
    return [
        name
        for column in columns
        for name in (
            [f"{column}={value}" for value in categories[column]]
            if column in (categories or {})
            else [column]
        )
    ]


def certificate_values(certificate):
    """A certificate as a dictionary that JSON can hold; None for none."""
    return (
        None
        if certificate is None
        else {name: plain(value) for name, value in vars(certificate).items()}
    )


def plain(value):
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
