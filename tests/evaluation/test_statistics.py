import numpy as np
import pytest
from scipy import stats

from conemetric.evaluation.statistics import compare_runs, mean_interval


def test_interval_covers_the_mean_as_often_as_promised():
    rng = np.random.default_rng(0)
    covered = 0
    for values in rng.normal(5.0, 2.0, (2000, 8)):
        interval = mean_interval(values, confidence=0.9)
        covered += interval.low <= 5.0 <= interval.high
    assert covered / 2000 == pytest.approx(0.9, abs=0.02)


def test_one_run_says_nothing_about_the_mean():
    interval = mean_interval([3.0])
    assert interval.mean == 3.0 and interval.low == -np.inf and interval.high == np.inf


def test_without_overlap_the_corrected_test_is_students():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.3, 1, 12), rng.normal(0, 1, 12)
    result = compare_runs(a, b, test_share=1e-12)
    assert result.corrected_t == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-6)
    assert result.wilcoxon == stats.wilcoxon(a, b).pvalue
    assert result.difference == pytest.approx((a - b).mean())


def test_overlap_makes_the_corrected_test_more_careful():
    a, b = np.array([0.1, 0.12, 0.09, 0.11]), np.array([0.12, 0.15, 0.1, 0.14])
    assert compare_runs(a, b, 0.3).corrected_t > stats.ttest_rel(a, b).pvalue


def test_corrected_statistic_by_hand():
    difference = np.array([1.0, 2.0, 4.0])
    t = difference.mean() / np.sqrt(difference.var(ddof=1) * (1 / 3 + 0.5))
    assert compare_runs(difference, np.zeros(3), 0.5).corrected_t == pytest.approx(
        2 * stats.t.sf(t, 2)
    )


def test_equal_runs():
    assert compare_runs([0.1, 0.2], [0.1, 0.2], 0.2) == (0.0, 1.0, 1.0)
    assert compare_runs([0.25, 0.5], [0.0, 0.25], 0.2).corrected_t == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([]), "one number per run"),
        (lambda: compare_runs([1.0], [2.0], 0.2), "two or more"),
        (lambda: compare_runs([1.0, 2.0], [2.0], 0.2), "paired"),
        (lambda: compare_runs([1.0, 2.0], [2.0, 3.0], 0), "test_share=0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence="):
        mean_interval([1.0, 2.0], confidence)
