"""Rows kept apart from the choice judge a decision of many rows, and nothing else is made of them."""

import numpy as np
import pytest
from cases import first_of
from scipy import stats

from conemetric import MetricClassifier, MetricRegressor
from conemetric.decisions import apart, base, kernel
from conemetric.decisions.apart import keep_apart

N, N_CHOSEN, N_JUDGED = 240, 90, 60


@pytest.fixture
def many(monkeypatch):
    """As if some hundreds of rows were many."""
    monkeypatch.setattr(base, "MAX_ROWS_IN_FOLDS", N_CHOSEN)
    monkeypatch.setattr(base, "MAX_ROWS_TO_CHOOSE", N_CHOSEN)
    monkeypatch.setattr(apart, "MAX_JUDGED", N_JUDGED)
    monkeypatch.setattr(kernel, "MAX_ROWS_FACTORED", 100)


def curve(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("grouped", [False, True])
def test_every_row_learns_or_judges(grouped, many, seed):
    rng = np.random.default_rng(seed)
    strata = rng.integers(0, 3, N)
    groups = rng.integers(0, 12, N) if grouped else None
    found = keep_apart(rng.permutation(N), strata, groups)
    judged = found.judged
    assert 0 < len(judged) <= N_JUDGED and len(found.parts) == apart.N_PARTS
    assert not np.isin(judged, found.learn).any()
    if not grouped:
        assert sorted([*judged, *found.learn]) == list(range(N))
        return
    assert not np.isin(groups[judged], groups[found.learn]).any()
    of_parts = [set(groups[part]) for part in found.parts]
    assert len(set.union(*of_parts)) == sum(map(len, of_parts))


def test_the_only_row_of_a_class_judges_nothing(many):
    strata = np.r_[0, np.ones(N - 1, int)]
    assert not np.isin(0, keep_apart(np.arange(N), strata, None).judged)


def test_too_few_groups_are_not_kept_apart(many):
    assert keep_apart(np.arange(N), np.zeros(N, int), np.arange(N) % 2) is None
    X, y = curve(0)
    model = MetricRegressor(None, random_state=0).fit(X, y, groups=np.arange(N) % 2)
    assert model.evidence_.n_rows == len(np.unique(model._evidence_rows))


@pytest.mark.costly
@pytest.mark.parametrize("metric", [None, "auto"])
def test_nothing_is_learned_from_rows_that_judge(metric, many, seed):
    """Other numbers in their place change no score that they are judged by."""
    X, y = curve(seed)
    model = MetricRegressor(metric, random_state=0).fit(X, y)
    assert model.evidence_.n_rows == N_JUDGED == model.n_held_out_
    judged = model._evidence_rows
    other = y.copy()
    other[judged] = np.random.default_rng(seed).permutation(y[judged])
    again = MetricRegressor(metric, random_state=0).fit(X, other)
    assert np.array_equal(again._evidence_rows, judged)
    assert [trial.rule for trial in again.trials_] == [trial.rule for trial in model.trials_]
    for one, two in zip(model.trials_, again.trials_, strict=True):
        np.testing.assert_allclose(two.scores, one.scores, atol=1e-6)
    assert again.evidence_.r2 < model.evidence_.r2


def test_scores_are_those_of_a_fit_without_the_rows_that_judge(many, seed):
    X, y = curve(seed)
    model = MetricRegressor(None, random_state=0, regressor="kernel").fit(X, y)
    judged = model._evidence_rows
    others = np.setdiff1d(np.arange(N), judged)
    rows = X / model.scale_
    for trial in model.trials_[1:]:
        Z = rows[others]
        power = 1 if trial.rule.by_columns else 2
        mean = (abs(Z[:, None] - Z) ** power).sum(2).mean()
        K, across = (
            trial.rule.values((abs(A[:, None] - Z) ** power).sum(2) / mean)
            for A in (Z, rows[judged])
        )
        Y = (y[others] - model._y_mean) / model._y_scale
        a = np.linalg.solve(K + trial.rule.ridge * np.eye(len(K)), Y - Y.mean())
        # conjugate gradients end early where a fit is only judged
        np.testing.assert_allclose(trial.scores[:, 0], across @ a + Y.mean(), atol=0.1)


def test_all_rows_are_used_and_the_fit_is_certified(many):
    X, y = curve(0)
    model = MetricRegressor(None, random_state=0, regressor="kernel").fit(X, y)
    assert model.n_kept_ == N
    assert model.certificate_.status == "converged"
    assert model.score(X, y) > 0.8


def test_classes_are_chosen_on_some_rows_and_judged_by_others(many, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, N)
    X = rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[y]
    model = MetricClassifier(random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    assert model.evidence_.n_rows == N_JUDGED == model.n_held_out_
    assert model.evidence_.usual in model.evidence_.error
    assert model.predict_set(X, 0.2).any(1).all()
    assert model.decide(X[:5], n_rows=2).explanation.rows.shape == (5, 2)


@pytest.mark.turns(2)
@first_of("alpha", [0.1, 0.3])
def test_intervals_hold_the_true_number_as_often_as_promised(alpha, many):
    held = []
    for seed in range(12):
        X, y = curve(seed, N + 200)
        model = MetricRegressor(None, random_state=0, regressor="kernel").fit(X[:N], y[:N])
        low, high = model.predict_interval(X[N:], alpha).T
        held.append(((low <= y[N:]) & (y[N:] <= high)).mean())
    standard_error = np.std(held, ddof=1) / len(held) ** 0.5
    assert np.mean(held) > 1 - alpha - stats.norm.ppf(0.999) * standard_error
    assert np.mean(held) < 1 - alpha / 4
