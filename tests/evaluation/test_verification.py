import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conemetric.evaluation.verification import best_threshold, cross_validate, distance_score

PAIRS = st.lists(st.tuples(st.integers(-5, 5), st.booleans()), min_size=1, max_size=30)


@given(PAIRS)
def test_no_threshold_is_right_more_often(pairs):
    score, same = np.array([p[0] for p in pairs], dtype=float), np.array([p[1] for p in pairs])
    threshold, accuracy = best_threshold(score, same)
    assert np.mean((score >= threshold) == same) == pytest.approx(accuracy)
    others = [np.mean((score >= t) == same) for t in [-np.inf, np.inf, *score, *(score + 0.5)]]
    assert accuracy == pytest.approx(max(others))


def test_threshold_comes_from_the_other_folds():
    # in fold 0 the scores are shifted, so a threshold from fold 1 gets half of it wrong
    same, fold = np.array([1, 1, 0, 0] * 2, dtype=bool), np.repeat([0, 1], 4)
    score = np.array([12.0, 11, 10, 9, 2, 1, 0, -1])
    result = cross_validate(score, same, fold)
    assert result.accuracy.tolist() == [0.5, 0.5] and result.mean == 0.5


def test_roc_and_standard_error():
    rng = np.random.default_rng(0)
    same, fold = rng.random(400) < 0.5, np.arange(400) % 10
    score = same + rng.normal(size=400)
    result = cross_validate(score, same, fold)
    wins = np.mean(score[same][:, None] > score[~same])
    assert result.auc == pytest.approx(wins, abs=0.03)  # up to the folds' thresholds
    assert result.false_positive_rate[0] == 0 and result.true_positive_rate[-1] == 1
    assert 0.2 < result.equal_error_rate < 0.45
    assert result.standard_error == pytest.approx(result.accuracy.std(ddof=1) / 10**0.5)


def test_perfect_scores_have_no_error():
    same, fold = np.arange(20) % 2 == 0, np.arange(20) // 4
    result = cross_validate(same.astype(float), same, fold)
    assert (result.mean, result.auc, result.equal_error_rate) == (1.0, 1.0, 0.0)


def test_distance_score():
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert distance_score(None, X, np.array([[0, 1], [1, 1]])).tolist() == [-5.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: best_threshold([1.0, 2.0], [True]), "similar has shape"),
        (lambda: best_threshold([1.0, np.nan], [True, False]), "NaN"),
        (lambda: cross_validate([1, 2], [True, False], [0, 0]), "at least 2"),
        (lambda: best_threshold([], []), "score has shape"),
        (lambda: best_threshold([1.0, 2.0], [1, 2]), "similar must be boolean"),
        (lambda: cross_validate([1, 2], [1, 2], [0, 1]), "similar must be boolean"),
        (lambda: cross_validate([1, 2], [True, False], [0]), "fold has shape"),
        (lambda: cross_validate(np.zeros(3), [True, False], [0, 1]), "similar has shape"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_equal_error_rate_is_where_both_rates_are_closest():
    rng = np.random.default_rng(1)
    same, fold = rng.random(300) < 0.3, np.arange(300) % 2
    result = cross_validate(same + rng.normal(size=300), same, fold)
    wrong, missed = result.false_positive_rate, 1 - result.true_positive_rate
    closest = abs(wrong - missed).argmin()
    assert abs(wrong - missed)[closest] < 0.02
    assert result.equal_error_rate == pytest.approx((wrong + missed)[closest] / 2)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_roc_curve_is_that_of_the_scores(share, seed):
    rng = np.random.default_rng(seed)
    same, fold = np.arange(400) < 400 * share, rng.permutation(400) % 10
    # with few similar pairs the best threshold of some folds accepts none
    score = np.round(same + rng.normal(size=400) - 5, 1)
    result = cross_validate(score, same, fold)
    above, equal = (np.mean(f(score[same][:, None], score[~same])) for f in (np.greater, np.equal))
    assert result.auc == pytest.approx(above + equal / 2)
    shuffled = cross_validate(score, same, rng.permutation(fold))
    assert shuffled.equal_error_rate == result.equal_error_rate
