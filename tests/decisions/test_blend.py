"""Weights of a blend are the optimum of their program, and its scores are crossed."""

import cvxpy as cp
import numpy as np
import pytest
from cases import pairs_of

from conemetric import MetricClassifier, MetricRegressor
from conemetric.decisions.blend import blend_trials, simplex_weights
from conemetric.decisions.neighbors import NeighborVote
from conemetric.decisions.rule import Judge, Trial

KINDS = {
    "random": lambda rng, n, K: rng.normal(size=(n, K)),
    "alike": lambda rng, n, K: rng.normal(size=(n, 1)) + 1e-3 * rng.normal(size=(n, K)),
    "equal": lambda rng, n, K: np.repeat(rng.normal(size=(n, 1)), K, axis=1),
    "one better": lambda rng, n, K: rng.normal(size=(n, K)) * np.r_[0.01, np.ones(K - 1)],
    "one exact": lambda rng, n, K: rng.normal(size=(n, K)) * np.r_[0.0, np.ones(K - 1)],
    "more than rows": lambda rng, n, K: rng.normal(size=(3, K)),
}


@pairs_of(kind=KINDS, K=(2, 5, 12), size=(1e-6, 1.0, 1e6))
def test_weights_are_those_of_a_conic_solver(kind, K, size, seed):
    residuals = KINDS[kind](np.random.default_rng(seed), 40, K)
    w, certificate = simplex_weights(size * residuals)
    assert (w >= 0).all() and w.sum() == pytest.approx(1)
    x = cp.Variable(K, nonneg=True)
    optimum = cp.Problem(cp.Minimize(cp.sum_squares(residuals @ x)), [cp.sum(x) == 1]).solve(
        solver=cp.CLARABEL
    )
    value = float(((residuals @ w) ** 2).sum())
    unit = (residuals**2).sum()
    assert certificate.primal == pytest.approx(size**2 * value, abs=1e-9 * size**2 * unit)
    assert value <= optimum + 1e-6 * unit
    assert certificate.dual <= size**2 * (optimum + 1e-7 * unit)
    assert certificate.gap <= 1e-8 * size**2 * unit


def judge_of(Y):
    return Judge(Y, np.ones(len(Y)), lambda scores, truth: ((scores - truth) ** 2).mean(1))


def trial(number, scores, judge):
    return Trial(f"m{number}", NeighborVote(number + 1), scores, judge(scores))


@pytest.mark.parametrize("n_partitions", [1, 2])
def test_the_scores_of_a_fold_do_not_depend_on_its_targets(n_partitions, seed):
    rng = np.random.default_rng(seed)
    y, orders = rng.normal(size=(60, 1)), [rng.permutation(60) for _ in range(n_partitions)]
    held_out = [rows for order in orders for rows in np.split(order, 3)]
    judged = np.concatenate(held_out)
    scores = [y[judged] + s * rng.normal(size=(len(judged), 1)) for s in (0.4, 0.5, 0.6, 0.7)]

    def blended(y):
        judge = judge_of(y[judged])
        contests = [
            [trial(k, scores[k], judge), trial(k + 1, scores[k + 1], judge)] for k in (0, 2)
        ]
        return blend_trials(contests, judge, held_out, 3).scores

    changed, rows = y.copy(), held_out[1]  # their targets change in every partition
    changed[rows] = rng.permutation(y[rows])
    before, after = blended(y), blended(changed)
    np.testing.assert_array_equal(before[20:40], after[20:40])
    assert not np.array_equal(before[:20], after[:20])


def test_parts_that_weigh_little_are_left_out(seed):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(200, 1))
    judge = judge_of(Y)
    contests = [[trial(k, Y + rng.normal(size=Y.shape), judge)] for k in range(8)]
    blended = blend_trials(contests, judge, np.split(np.arange(200), 2), 3)
    assert len(blended.trials) == 3 and sum(blended.weights) == pytest.approx(1)
    assert list(blended.weights) == sorted(blended.weights, reverse=True)
    assert blend_trials(contests, judge, [np.arange(200)], 1).weights == (1.0,)


@pytest.mark.parametrize("kind", [MetricClassifier, MetricRegressor])
def test_a_blend_predicts_the_mixture_of_its_parts(kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
    y = y > np.median(y) if kind is MetricClassifier else y
    model = kind(None, random_state=0).fit(X, y)
    parts = model.blend_.parts
    assert sum(part.weight for part in parts) == pytest.approx(1)
    assert model.chosen_ is parts[0].trial and model.blend_.certificate.status == "converged"
    assert [part.weight for part in parts] == sorted((p.weight for p in parts), reverse=True)
    rows = (X - model._preparation.centre) / model.scale_
    mixture = sum(p.weight * p.fitted.scores(rows if p.L is None else rows @ p.L) for p in parts)
    if kind is MetricRegressor:
        np.testing.assert_allclose(model.predict(X), mixture[:, 0] * y.std() + y.mean())
    else:
        np.testing.assert_array_equal(model.predict(X), model.classes_[mixture.argmax(1)])


@pytest.mark.parametrize("kind", [MetricClassifier, MetricRegressor])
def test_neighbours_alone_try_no_kernel(kind):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] > 0
    rule = {"classifier" if kind is MetricClassifier else "regressor": "neighbors"}
    model = kind(None, random_state=0, **rule).fit(X, y)
    assert {trial.rule.name for trial in model.trials_} == {"neighbors"}
    assert len(model.blend_.parts) == 1 and model.certificate_ is None
