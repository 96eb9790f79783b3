"""The search for the price of trace, where the optimum is zero."""

import numpy as np
import pytest

from conemetric import BoostMetric


@pytest.mark.slow  # three seconds
def test_that_no_metric_is_better_than_none_is_proved():
    """The price has to fall to rounding, and ended at `max_iter` while it was solved on its way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 8))
    triplets = np.array([rng.choice(9, 3, replace=False) for _ in range(160)])
    with pytest.warns(UserWarning, match="learned is zero"):
        metric = BoostMetric(v=0.3, loss="hinge").fit(X, triplets=triplets)
    assert metric.certificate_.status == "converged"
    assert metric.certificate_.primal == metric.certificate_.dual == 0
