"""Displays of metrics learned from frames, tensors and files."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from conemetric import FrobMetric, LearnedMetric
from conemetric.app.plotting import (
    IsometryDisplay,
    MetricComparisonDisplay,
    SpectrumDisplay,
    VerificationDisplay,
)

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
    pairs = np.random.default_rng(0).integers(len(X), size=(60, 2))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = MetricComparisonDisplay.from_estimator(metric, given, y).after
        ratios = IsometryDisplay.from_estimator(metric, given, n_pairs=100).ratios
        area = VerificationDisplay.from_estimator(metric, given, pairs, same).curves["learned"][2]
        SpectrumDisplay.from_estimator(metric)
    reference = FrobMetric().fit(X, y)
    expected = MetricComparisonDisplay.from_estimator(reference, X, y).after
    np.testing.assert_allclose(after, expected, atol=1e-6 * abs(expected).max())
    np.testing.assert_allclose(
        ratios, IsometryDisplay.from_estimator(reference, X, n_pairs=100).ratios, rtol=1e-6
    )
    assert area == pytest.approx(
        VerificationDisplay.from_estimator(reference, X, pairs, same).curves["learned"][2]
    )


def test_minus_one_means_different():
    X, y = load_iris(return_X_y=True)
    metric, pairs = FrobMetric().fit(X, y), [[0, 1], [0, 60]]
    signs, flags = (
        VerificationDisplay.from_estimator(metric, X, pairs, same) for same in ([1, -1], [1, 0])
    )
    for name, curve in flags.curves.items():
        for ours, theirs in zip(signs.curves[name], curve, strict=True):
            np.testing.assert_array_equal(ours, theirs)
