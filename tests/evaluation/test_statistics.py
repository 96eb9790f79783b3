import numpy as np
import pytest

from conemetric.evaluation.statistics import mean_interval, paired_difference


def test_interval_covers_the_mean_as_often_as_promised():
    rng = np.random.default_rng(0)
    covered = 0
    for values in rng.normal(5.0, 2.0, (2000, 8)):
        interval = mean_interval(values, confidence=0.9)
        covered += interval.low <= 5.0 <= interval.high
    assert covered / 2000 == pytest.approx(0.9, abs=0.02)


def test_one_run_bounds_nothing():
    interval = mean_interval([3.0])
    assert interval.mean == 3.0 and interval.low == -np.inf and interval.high == np.inf


def test_values_are_needed():
    with pytest.raises(ValueError, match="one number per run"):
        mean_interval([])


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence="):
        mean_interval([1.0, 2.0], confidence)
    with pytest.raises(ValueError, match="confidence="):
        paired_difference([1.0, 2.0], [2.0, 2.5], confidence=confidence)
