"""Blends of metrics: the weighted mean of their matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..core import spectral
from ..core.weights import check_weights
from .checked import same_state
from .learned import LearnedMetric


def blend(metrics: Sequence[Any], weights: Any = None, *, X: Any = None) -> LearnedMetric:
    """Blend fitted metrics into one: M = sum_k w_k M_k / s_k.

    The mean of the matrices of different methods is often better than any of them, because
    they make different errors; `AutoMetric` learns such a blend and its weights.

    Parameters
    ----------
    metrics : sequence of fitted estimators of this library, pipelines that end in one, or LearnedMetric
        All of the same features. A pipeline's scaler and PCA belong to its metric, so metrics with
        different preprocessing can be blended. Fitted `NeighborhoodComponentsAnalysis` and
        `LinearDiscriminantAnalysis` of scikit-learn are accepted too.
    weights : array-like (n_metrics,), default=None
        Nonnegative; only their ratios matter. None weighs all the same.
    X : array-like (n, n_features), default=None
        Rows that put the metrics on a common scale: s_k is their mean squared distance by
        metric k. With None, s_k is the mean eigenvalue of M_k, which is the same up to a
        factor if the columns of X are standardised.

    Returns
    -------
    LearnedMetric

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from conemetric import BoostMetric, FrobMetric, blend
    >>> X, y = load_wine(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> metrics = [FrobMetric().fit(X, y), BoostMetric(v=1.0, loss="logistic").fit(X, y)]
    >>> metric = blend(metrics, weights=[2, 1], X=X)
    >>> metric.method, metric.n_features_in_
    ('blend of FrobMetric, BoostMetric', 13)
    """
    learned = [LearnedMetric.from_estimator(metric) for metric in metrics]
    if not learned:
        raise ValueError("metrics is empty; pass at least one fitted metric.")
    if any(metric.kernel is not None for metric in learned):
        raise TypeError(
            "metrics has one of a kernel, whose matrix applies to coordinates of its own; blend metrics "
            "that were learned with kernel=None."
        )
    weights = check_weights(weights, len(learned), "metrics", "weights")
    weights = weights / weights.sum()
    names = _common_features(learned)
    covariance = _covariance(X, learned[0].n_features_in_)
    where = ""
    if X is not None:
        where = " between all rows of X"
    scaled = []
    parameters = {}
    for number, (metric, weight) in enumerate(zip(learned, weights, strict=True), 1):
        parameters[f"{number}: {metric.method}"] = float(weight)
        # a metric without weight needs no scale either, and may be zero
        if weight > 0:
            scaled.append(_scaled(metric, weight, covariance, where))
    # the stacked maps are a factor of the sum already, but with as many
    # rows as all metrics together
    L = spectral.canonical_factor(np.concatenate(scaled).T)
    methods = dict.fromkeys(metric.method for metric in learned)  # each once, in order
    return LearnedMetric(
        np.ascontiguousarray(L.T),
        np.zeros(L.shape[1]),
        method=f"blend of {', '.join(methods)}",
        parameters=parameters,
        feature_names=names,
        fill=learned[0].fill,
        encoder=learned[0].encoder,
    )


def _covariance(X: Any, n_features: int) -> np.ndarray:
    """Twice the covariance of rows: its product with a metric is their mean squared distance. Without
    rows, one with which it is the mean eigenvalue.
    """
    if X is None:
        return np.eye(n_features) / n_features
    X = check_array(X, dtype=np.float64, ensure_min_samples=2, input_name="X")
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {X.shape[1]} features, the metrics have {n_features}; pass rows of "
            "the features they were learned from."
        )
    # of one column NumPy gives a number
    return 2 * np.cov(X, rowvar=False, bias=True).reshape(n_features, n_features)


def _scaled(metric: LearnedMetric, weight: float, covariance: np.ndarray, where: str) -> np.ndarray:
    """The map of a metric at its scale, times the root of its weight."""
    components = np.asarray(metric.components, np.float64)
    scale = float(((components @ covariance) * components).sum())
    if not scale > 0:
        raise ValueError(
            f"the metric of {metric.method} is zero{where}, so it has no scale to blend by; "
            "leave it out."
        )
    return (weight / scale) ** 0.5 * components


def _common_features(learned: Sequence[LearnedMetric]) -> list[str] | None:
    """The names of the features, or None if no metric has them."""
    sizes = {metric.n_features_in_ for metric in learned}
    if len(sizes) > 1:
        raise ValueError(
            f"the metrics have {sorted(sizes)} features; blend metrics of the same features."
        )
    preprocessing = []
    for metric in learned:
        state = metric.state()
        preprocessing.append([state["fill"], state["encoder"]])
    first, *others = preprocessing
    if not all(same_state(other, first) for other in others):
        raise ValueError(
            "the metrics treat categories or missing values differently; blend metrics with the same "
            "preprocessing."
        )
    named = [list(metric.feature_names) for metric in learned if metric.feature_names is not None]
    if any(names != named[0] for names in named):
        raise ValueError(
            "the metrics name their features differently, or in another order; fit them on the "
            "same columns."
        )
    if not named:
        return None
    return named[0]
