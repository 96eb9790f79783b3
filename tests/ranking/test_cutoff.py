"""The promise of a cut-off, by the exact distribution of what calibration draws."""

import numpy as np
import pytest
from scipy.stats import binom

from conemetric import calibrate_cutoff


def calibrated(n_deep, n, alpha, confidence):
    """The cut-off of n queries whose one relevant document is second for ``n_deep``, else first."""
    ranking = np.tile([0, 1], (n, 1))
    relevance = np.column_stack([np.arange(n), np.arange(n) < n_deep])
    return calibrate_cutoff(ranking, relevance, alpha=alpha, confidence=confidence).k


@pytest.mark.parametrize("n", [30, 61])
@pytest.mark.parametrize(("alpha", "confidence"), [(0.1, 0.95), (0.2, 0.9), (0.3, 0.99)])
def test_too_many_new_queries_are_missed_only_as_often_as_promised(n, alpha, confidence):
    """A share alpha of all queries needs two documents: passing on one breaks the promise."""
    too_few = np.array([calibrated(j, n, alpha, confidence) == 1 for j in range(n + 1)])
    assert too_few[0] and not too_few[-1] and (np.diff(too_few.astype(int)) <= 0).all()
    assert binom.pmf(np.arange(n + 1), n, alpha) @ too_few <= 1 - confidence
    # and no smaller cut-off would keep it: one more query missed would be too many
    assert binom.cdf(too_few.sum(), n, alpha) > 1 - confidence


def test_as_many_queries_as_the_promise_takes_are_enough():
    n = 22  # the fewest with 0.9 ** n <= 1 - 0.9
    assert calibrated(0, n, 0.1, 0.9) == 1
    with pytest.raises(ValueError, match=rf"that takes {n}\.$"):
        calibrated(0, n - 1, 0.1, 0.9)
