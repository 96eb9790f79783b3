"""Displays of metrics learned from frames, tensors and files."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from conemetric import FrobMetric, LearnedMetric
from conemetric.plotting import MetricComparisonDisplay, SpectrumDisplay

pytest.importorskip("matplotlib").use("agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("kind", ["array", "list", "frame", "tensor", "loaded"])
def test_every_metric_can_be_shown(kind):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    given = X
    if kind == "list":
        given = X.tolist()
    elif kind == "frame":
        given = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    elif kind == "tensor":
        given = pytest.importorskip("torch").as_tensor(X)
    metric = FrobMetric().fit(given, y)
    metric = LearnedMetric.from_estimator(metric) if kind == "loaded" else metric
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = MetricComparisonDisplay.from_estimator(metric, given, y).after
        SpectrumDisplay.from_estimator(metric)
    reference = FrobMetric().fit(X, y)
    expected = MetricComparisonDisplay.from_estimator(reference, X, y).after
    np.testing.assert_allclose(after, expected, atol=1e-6 * abs(expected).max())
