"""Rules fitted to more rows, in the metrics and with the choice of a first fit."""

from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from cases import first_of
from sklearn.datasets import load_diabetes, load_wine

from conemetric import MetricClassifier, MetricRegressor


def fitted(kind):
    """A copy of an estimator that is fitted once, and the rows of which it knows a part."""
    return deepcopy(fitted_once(kind))


@cache
def fitted_once(kind):
    if kind == "classes":
        X, y = load_wine(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], np.array(["a", "b", "c"])[y[order]]
        return MetricClassifier(random_state=0).fit(X[:110], y[:110]), X, y
    X, y = load_diabetes(return_X_y=True)
    return MetricRegressor(random_state=0).fit(X[:200], y[:200]), X[:300], y[:300]


@pytest.mark.costly
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_same_rows_give_the_same_decision(kind):
    estimator, X, y = fitted(kind)
    n = estimator.n_kept_
    before = estimator.predict(X)
    again = estimator.refit(X[:n], y[:n]).predict(X)
    if kind == "classes":
        np.testing.assert_array_equal(again, before)
    else:
        np.testing.assert_allclose(again, before, rtol=1e-6)


@pytest.mark.parametrize("rule", ["kernel", "neighbors"])
@pytest.mark.parametrize("weighed", ["classes", "rows", "both"])
def test_weights_count_again(rule, weighed):
    rng = np.random.default_rng(1)
    y = (rng.random(80) < 0.25).astype(int)
    X = rng.normal(size=(80, 3)) + 0.7 * y[:, None]
    by_class = None if weighed == "rows" else {0: 1, 1: 20}
    weights = None if weighed == "classes" else rng.uniform(0.2, 20, 80) * (rng.random(80) < 0.8)
    options = {"metric": None, "classifier": rule, "class_weight": by_class, "random_state": 0}
    estimator = MetricClassifier(**options).fit(X, y, weights)
    before = estimator.decision_function(X)
    again = estimator.refit(X, y, weights).decision_function(X)
    np.testing.assert_allclose(again, before, atol=1e-12)
    if weights is not None:
        without = estimator.refit(X, y).decision_function(X)
        assert abs(without - before).max() > 1e-3


@first_of("kind", ["classes", "numbers"])
def test_more_rows_are_used_and_the_choice_stays(kind):
    estimator, X, y = fitted(kind)
    chosen, evidence, held_out = str(estimator.blend_), estimator.evidence_, estimator.n_held_out_
    maps = [part.L for part in estimator.blend_.parts]
    estimator.refit(X, y)
    assert estimator.n_kept_ == len(X) and str(estimator.blend_) == chosen
    assert estimator.evidence_ is evidence and estimator.n_held_out_ == held_out
    for part, L in zip(estimator.blend_.parts, maps, strict=True):
        assert L is None or np.array_equal(part.L, L)
    of_second_part = estimator.explain(X[-3:], 1, by="targets").rows.max() >= len(X) // 2
    assert of_second_part
    assert estimator.score(X, y) > (0.97 if kind == "classes" else 0.45)


def test_what_cannot_be_refitted_is_said():
    estimator, X, y = fitted("classes")
    with pytest.raises(ValueError, match="y has 'd', a class not seen during fit"):
        estimator.refit(X[:3], ["a", "b", "d"])
    with pytest.raises(ValueError, match="y has 2 entries for 3 rows"):
        estimator.refit(X[:3], y[:2])


def test_evidence_and_warnings_name_things_as_the_user_does():
    rng = np.random.default_rng(0)
    y = np.repeat(["no", "yes", "maybe"], [60, 60, 2])
    X = rng.normal(size=(122, 3)) + (y == "yes")[:, None]
    with pytest.warns(UserWarning, match=r"1 of 3 classes have 3 or fewer rows \(first: 'maybe'\)"):
        estimator = MetricClassifier(random_state=0).fit(X, y)
    assert f"% wrong, cross-validated on {estimator.evidence_.n_rows} rows" in str(
        estimator.evidence_
    )
