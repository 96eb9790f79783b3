"""Learned metrics and fitted decisions, each in one file: safetensors with a checked JSON header.
Loading a file never executes anything in it.

A metric is one affine map, x -> components x + offset, with scaler and PCA folded in, and the
encoding of a table before it: loading it needs neither the estimator nor the preprocessing. The
header records the method, its parameters, the certificate, the feature names, the threshold of
pairs with its promise, and the weights of the scores that a ranking adds up.

A decision is the state of a `MetricClassifier` or `MetricRegressor`: the training rows that decide,
the encoding or scaling and the maps, the fitted rules and the held-out scores, without the fitted
metric and the rules that were tried and not chosen.
"""

from collections.abc import Sequence
from typing import Any

from ..core.fields import Field, Plain, Text, check
from ..decisions.classifier import MetricClassifier
from ..decisions.regressor import MetricRegressor
from .checked import AnyPath, fields_of_file, read_state, write_state
from .learned import LearnedMap

METRIC_FORMAT = 1  # the state of a `LearnedMap`
DECISION_FORMAT = 1  # the state of an estimator
ESTIMATORS: dict[str, type[MetricClassifier | MetricRegressor]] = {
    "MetricClassifier": MetricClassifier,
    "MetricRegressor": MetricRegressor,
}
FIELDS = {"estimator": Text(tuple(ESTIMATORS)), "decision": Field(), "notes": Plain(dict)}


def save_metric(
    path: AnyPath,
    estimator: Any,
    *,
    feature_names: Sequence[str] | None = None,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a learned metric to one safetensors file, atomically.

    Parameters
    ----------
    path : str or path
    estimator : fitted estimator, Pipeline that ends in one, LearnedMetric or LearnedAdapter
    feature_names : sequence of str, default=None
        Names of the columns; by default those that the estimator knows, if any.
    notes : dict, default=None
        Further JSON values to keep; by default those of a `LearnedMetric`.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric, load_metric, save_metric
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.safetensors")
    >>> save_metric(path, FrobMetric().fit(X, y))
    >>> metric = load_metric(path)
    >>> metric.method, metric.transform(X).shape[0], metric.certificate.status.value
    ('FrobMetric', 150, 'converged')
    >>> folder.cleanup()
    """
    metric = LearnedMap.from_estimator(estimator, feature_names=feature_names, notes=notes)
    with fields_of_file(path):
        LearnedMap.from_state(metric.state())  # an error now rather than at loading
    write_state(path, "metric", METRIC_FORMAT, metric.state())


def load_metric(path: AnyPath) -> Any:
    """Read a metric written by `save_metric`, after checking the whole file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LearnedMetric, or LearnedAdapter of a `QueryAdapter`

    Raises
    ------
    MetricFileError
        If the file is not a metric file, is damaged, or has a newer format.
    """
    state = read_state(path, "metric", METRIC_FORMAT)
    with fields_of_file(path):
        return LearnedMap.from_state(state)


def save_decision(
    path: AnyPath,
    estimator: MetricClassifier | MetricRegressor,
    *,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a fitted classifier or regressor to one safetensors file, atomically.

    Parameters
    ----------
    path : str or path
    estimator : fitted MetricClassifier or MetricRegressor
    notes : dict, default=None
        Further JSON values to keep; `load_decision` gives them as ``notes_``.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import MetricClassifier, load_decision, save_decision
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = MetricClassifier(metric=None, random_state=0).fit(X, y)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.safetensors")
    >>> save_decision(path, classifier)
    >>> bool((load_decision(path).predict_proba(X) == classifier.predict_proba(X)).all())
    True
    >>> folder.cleanup()
    """
    name = _name_of(estimator)
    if not isinstance(notes, dict | None):
        raise TypeError(f"notes is a {type(notes).__name__}; pass a dict of JSON values.")
    if notes is None:
        notes = getattr(estimator, "notes_", {})
    state = estimator.state()
    with fields_of_file(path):
        type(estimator).from_state(state)  # an error now rather than at loading
    state = {"estimator": name, "decision": state, "notes": notes}
    write_state(path, "decision", DECISION_FORMAT, state)


def _name_of(estimator: MetricClassifier | MetricRegressor) -> str:
    """The name of what a file holds; a subclass is stored as the class that it is of."""
    for name, each in ESTIMATORS.items():
        if isinstance(estimator, each):
            return name
    raise TypeError(
        f"estimator is a {type(estimator).__name__}; pass a fitted MetricClassifier or "
        "MetricRegressor, and save metrics with save_metric."
    )


def load_decision(path: AnyPath) -> MetricClassifier | MetricRegressor:
    """Read a classifier or regressor written by `save_decision`, after checking the whole file.

    It predicts exactly as the saved one did and needs no training data. Parameters that are not
    plain values, such as an estimator given as ``metric``, have their defaults.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    MetricClassifier or MetricRegressor

    Raises
    ------
    MetricFileError
        If the file is not a decision file, is damaged, or has a newer format.
    """
    state = read_state(path, "decision", DECISION_FORMAT)
    with fields_of_file(path):
        check(state, FIELDS)
        estimator = ESTIMATORS[state["estimator"]].from_state(state["decision"])
    estimator.notes_ = state["notes"]
    return estimator
