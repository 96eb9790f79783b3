"""The path of `FrobMetric` over C, and the choice of C by cross-validation."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.model_selection import StratifiedKFold

from conemetric import FrobMetric, FrobMetricCV, frobmetric_path


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_path_agrees_with_single_fits(iris):
    X, y = iris
    for metric in frobmetric_path(X, y, Cs=[1.0, 0.01, 0.1], tol=1e-6):
        assert metric.objective_ == pytest.approx(
            FrobMetric(C=metric.C_, tol=1e-6).fit(X, y).objective_, rel=3e-6
        )
        assert metric.n_features_in_ == 4


def test_path_checks_its_arguments_and_keeps_feature_names(iris):
    X, y = iris
    for wrong in ([-1.0], [np.nan], [], [[1.0]], "a", [np.inf]):
        with pytest.raises(ValueError, match="Cs="):
            frobmetric_path(X, y, Cs=wrong)
    with pytest.raises(ValueError, match="'tol' parameter"):
        frobmetric_path(X, y, Cs=[1.0], tol=-1)
    with pytest.raises(TypeError, match="takes Cs, a list, and not C; pass Cs alone"):
        frobmetric_path(X, y, Cs=[1.0], C=5.0)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    first, second = frobmetric_path(frame, y, Cs=[1.0, 2.0])
    assert first.get_params()["C"] == 1.0
    assert second.get_params()["C"] == 2.0
    assert list(first.feature_names_in_) == list("abcd")


def test_cross_validation_picks_the_best_score():
    X, y = load_wine(return_X_y=True)
    metric = FrobMetricCV(Cs=4, cv=3, random_state=0).fit(X, y)
    assert metric.scores_.shape == (3, 4)
    assert metric.Cs_[metric.scores_.mean(axis=0).argmax()] == metric.C_
    assert metric.objective_ == pytest.approx(
        FrobMetric(C=metric.C_).fit(X, y).objective_, rel=2e-3
    )
    with pytest.raises(ValueError, match="Cs="):
        FrobMetricCV(Cs=[1.0, -1.0]).fit(X, y)


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.costly
def test_rows_are_read_once(iris, by_number, column):
    X, y = iris
    search = FrobMetricCV(Cs=2, cv=2, random_state=0)
    expected = clone(search).fit(X, y)
    if by_number:
        search.set_params(preprocessor=X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(np.arange(len(X)) if by_number else X, y[:, None] if column else y)
    assert len(caught) == column  # a column of labels is named once
    assert_allclose(search.scores_, expected.scores_)
    assert_allclose(search.components_, expected.components_)


@pytest.mark.parametrize("factor", [0.0, 0.5])
@pytest.mark.parametrize("listed", [False, True])
def test_weights_of_classes_go_with_folds_that_lack_a_class(iris, factor, listed):
    X, y = iris
    few = np.r_[0:103]  # three rows of the last class
    X, y = X[few], y[few]
    folds = list(StratifiedKFold(2).split(X[:100], y[:100]))  # nothing of the last class
    search = FrobMetricCV(Cs=2, cv=folds if listed else 2, class_weight={2: factor}, n_targets=1)
    metric = search.fit(X, y)
    assert np.isfinite(metric.scores_).all()
    alone = FrobMetric(metric.C_, class_weight={2: factor}, n_targets=1).fit(X, y)
    assert_allclose(metric.objective_, alone.objective_)


def test_impostors_that_all_coincide_are_refused_with_a_remedy_of_this_estimator():
    X, y = np.repeat(np.eye(2), 8, axis=0), np.tile([0, 1], 8)
    search = FrobMetricCV(Cs=2, cv=2, n_targets=1, n_impostors=1, random_state=0)
    with pytest.raises(
        ValueError, match=r"so Cs cannot be scaled.*raise n_imp.*pass Cs as numbers"
    ):
        search.fit(X, y)
    for remedy in ({"Cs": [1.0, 10.0]}, {"n_impostors": 6}):
        assert clone(search).set_params(**remedy).fit(X, y).certificate_.meets(1e-3)
    search.set_params(Cs=[1.0], prior="identity")
    with pytest.raises(ValueError, match=r"so prior cannot be scaled.*pass prior as numbers"):
        search.fit(X, y)
