import numpy as np
import pytest
from scipy import stats

from conemetric.evaluation.statistics import (
    mean_interval,
    paired_difference,
    randomisation_test,
)


def test_interval_covers_the_mean_as_often_as_promised():
    rng = np.random.default_rng(0)
    covered = 0
    for values in rng.normal(5.0, 2.0, (2000, 8)):
        low, high = mean_interval(values, confidence=0.9)
        covered += low <= 5.0 <= high
    assert covered / 2000 == pytest.approx(0.9, abs=0.02)


def test_one_run_bounds_nothing():
    assert mean_interval([3.0]) == (-np.inf, np.inf)


def test_values_are_needed():
    with pytest.raises(ValueError, match=r"values has shape \(0,\); .*one number per run"):
        mean_interval([])


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence="):
        mean_interval([1.0, 2.0], confidence)
    with pytest.raises(ValueError, match="confidence="):
        paired_difference([1.0, 2.0], [2.0, 2.5], confidence=confidence)


@pytest.mark.parametrize("n", [2, 13, 14, 60])  # with up to 13 all signs are tried
@pytest.mark.parametrize("kind", ["numbers", "ties", "zeros"])
def test_the_randomisation_test_is_that_of_scipy(kind, n, seed):
    differences = np.random.default_rng(seed).normal(0.1, size=n)
    differences = np.round(differences) if kind == "ties" else differences
    differences[::2] *= kind != "zeros"
    options = {"permutation_type": "samples", "n_resamples": 9999, "random_state": 7}
    peer = stats.permutation_test((differences,), np.mean, vectorized=True, **options)
    assert randomisation_test(differences, seed=7) == pytest.approx(peer.pvalue, abs=1e-12)


def test_without_a_word_the_interval_is_of_95_percent_from_9999_resamples():
    before, after = np.random.default_rng(0).normal(size=(2, 40))
    result = paired_difference(before, after + 5)
    assert result == paired_difference(before, after + 5, confidence=0.95, n_resamples=9999)
    assert result.p_value == pytest.approx(2 / (9999 + 1))  # no flip of signs is as extreme
    narrow = paired_difference(before, after + 5, confidence=0.5)
    assert result.low < narrow.low and narrow.high < result.high
