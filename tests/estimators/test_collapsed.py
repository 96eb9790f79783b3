"""Metrics that collapse the rows come with a warning."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from conemetric import (
    BoostMetric,
    CollapsedMetricWarning,
    DMLEig,
    FrobMetric,
    LMNNEig,
    NuMax,
    RelativeComparisons,
)
from conemetric.estimators.fit_warnings import warn_if_collapsed

LINE = np.arange(40.0)[:, None] * [[1.0, 0.5]]
ALTERNATING = np.arange(40) % 2  # every point is nearer to the other class than to its own


@pytest.mark.parametrize(
    "estimator",
    [FrobMetric(), LMNNEig(), BoostMetric(), RelativeComparisons()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_the_zero_metric_is_named_with_a_remedy(estimator, asarray, dtype):
    X = asarray(LINE.astype(dtype))
    with pytest.warns(CollapsedMetricWarning, match=f"{type(estimator).__name__} learned is zero"):
        metric = clone(estimator).fit(X, ALTERNATING)
    assert metric.certificate_.status == "converged"
    assert float(abs(metric.transform(X)).max()) == 0
    with pytest.warns(CollapsedMetricWarning, match="n_impostors.* or keep the Euclidean distance"):
        metric.fit(X, ALTERNATING)


def test_points_that_fall_on_few_places_are_counted():
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    X = np.c_[10.0 * y, rng.normal(size=60)]
    with pytest.warns(CollapsedMetricWarning, match="maps 60 distinct rows of X to 2 points"):
        RelativeComparisons(basis=[[1.0], [0.0]]).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        FrobMetric(),
        FrobMetric(n_components=1),
        LMNNEig(),
        BoostMetric(max_iter=20),
        RelativeComparisons(),
        DMLEig(),
        NuMax(0.3),
    ],
    ids=str,
)
def test_useful_metrics_do_not_warn(estimator):
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedMetricWarning)
        clone(estimator).fit(X[::2], y[::2])
        repeated = np.repeat(X[::15], 20, axis=0)  # no metric tells equal rows apart
        clone(estimator).fit(repeated + np.linspace(0, 1e-3, 200)[:, None], np.repeat(y[::15], 20))


def test_a_warning_names_the_estimator():
    X, y = load_iris(return_X_y=True)
    for estimator in (FrobMetric(tol=1e-9, max_iter=1), BoostMetric(max_iter=1)):
        with pytest.warns(UserWarning, match=f"^{type(estimator).__name__} ended as") as caught:
            estimator.fit(X, y)
        assert caught[0].filename == __file__


@pytest.mark.parametrize("n_rows", [30, 1500])
@pytest.mark.parametrize("place", [0, 0.3337, 1])
def test_one_row_that_differs_is_enough(n_rows, place, asarray):
    """Whether or not the sample of rows that is looked at contains it."""
    X = np.ones((n_rows, 2))
    X[round(place * (n_rows - 1))] = 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedMetricWarning)
        warnings.filterwarnings("ignore", "pairs of rows coincide")
        metric = NuMax(0.3).fit(asarray(X))
    assert float(abs(metric.components_).max()) > 0.1


@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("n_rows", [10, 1500])
def test_of_rows_that_coincide_only_the_zero_metric_has_collapsed(n_rows, zero):
    L = np.full((3, 2), 0.0 if zero else 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_collapsed(np.ones((n_rows, 3)), L, "Some", "something else", True)
    assert [item.category for item in caught] == [CollapsedMetricWarning] * zero


def test_a_solver_that_ended_early_is_not_called_optimal():
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.warns(CollapsedMetricWarning, match="ended before the optimum") as caught:
        warn_if_collapsed(X, np.zeros((2, 1)), "Some", "something else", False)
    assert "optimal" not in str(caught[0].message)
