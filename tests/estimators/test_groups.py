"""Rows of one group are held out together in the folds within an estimator."""

import numpy as np
import pytest
from sklearn.base import clone

from conemetric import AutoMetric, MetricClassifier, MetricRegressor
from conemetric.automatic.folds import group_folds, stratified_folds

ESTIMATORS = [
    AutoMetric(candidates={}, random_state=0),
    MetricClassifier(metric=None, random_state=0),
    MetricRegressor(metric=None, random_state=0),
]


def people(seed, n_people=24, n_rows=8):
    """Rows about a centre of each person, who is ill or well: nothing else tells."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n_people), n_rows)
    X = 3 * rng.normal(size=(n_people, 5))[who] + rng.normal(size=(len(who), 5))
    return X, rng.permutation(np.arange(n_people) % 2)[who], who


@pytest.mark.parametrize("n_groups", [2, 4, 30])
def test_folds_hold_out_whole_groups(n_groups, seed):
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(n_groups, size=200), rng.integers(3, size=200)
    folds = stratified_folds(rng.permutation(200), labels, 5, groups)
    assert len(folds) == min(5, n_groups)
    for fold in folds:
        assert not set(groups[fold.train]) & set(groups[fold.held_out])
    held_out = np.concatenate([fold.held_out for fold in folds])
    assert sorted(held_out) == list(range(200))


def test_names_of_groups_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    groups, labels = rng.integers(12, size=100), rng.integers(2, size=100)
    drawn, names = rng.permutation(100), rng.permutation(12)
    one, other = (group_folds(drawn, labels, 4, each) for each in (groups, names[groups]))
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left[1], right[1])


def test_a_class_that_only_one_group_has_is_not_judged():
    groups = np.repeat(np.arange(6), 10)
    labels = np.where(groups == 5, 2, np.arange(60) % 2)
    folds = stratified_folds(np.random.default_rng(0).permutation(60), labels, 3, groups)
    judged = np.concatenate([fold.held_out for fold in folds])
    assert set(labels[judged]) == {0, 1} and len(judged) == 50
    with pytest.raises(ValueError, match=r"groups has every class in one group only"):
        stratified_folds(np.arange(60), groups, 3, groups)


@pytest.mark.costly
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_evidence_is_for_new_groups(estimator):
    """Neighbours are of the same person, which says all of known people and nothing of others."""
    X, ill, who = people(0)
    target = ill + 0.001 * np.arange(len(ill)) if isinstance(estimator, MetricRegressor) else ill
    alone = clone(estimator).fit(X, target)
    grouped = clone(estimator).fit(X, target, groups=who.astype(str))
    if isinstance(estimator, MetricRegressor):
        assert alone.evidence_.r2 > 0.6 and grouped.evidence_.r2 < 0.3
    else:
        name = "Euclidean" if isinstance(estimator, AutoMetric) else alone.evidence_.usual
        assert alone.evidence_.error[name] < 0.1 and grouped.evidence_.error[name] > 0.3


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_groups_that_do_not_fit_are_refused(estimator):
    X, ill, who = people(0)
    with pytest.raises(ValueError, match=r"groups has 5 entries for 192 rows"):
        estimator.fit(X, ill, groups=who[:5])
    with pytest.raises(ValueError, match="groups has one group"):
        estimator.fit(X, ill, groups=np.zeros(len(X)))


def test_groups_of_rows_that_count():
    """Those of rows without a weight are left out with them."""
    X, ill, who = people(0)
    weights = (who % 3 > 0).astype(float)
    one = MetricClassifier(metric=None, random_state=0).fit(X, ill, weights, groups=who)
    kept = weights > 0
    other = MetricClassifier(metric=None, random_state=0).fit(X[kept], ill[kept], groups=who[kept])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.evidence_ == other.evidence_
