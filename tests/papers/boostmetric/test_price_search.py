"""The search for the price of trace, where no metric has a positive value."""

import numpy as np
import pytest
from oracles import soft_margin_optimum

from conemetric import BoostMetric


def test_the_metric_that_harms_least_is_found_and_proved():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 8))
    triplets = np.array([rng.choice(9, 3, replace=False) for _ in range(160)])
    metric = BoostMetric(v=0.3, loss="hinge").fit(X, triplets=triplets)
    assert metric.certificate_.status == "converged"
    optimum = soft_margin_optimum(X, triplets, 0.3)
    assert optimum > 0
    assert metric.objective_ == pytest.approx(optimum, rel=1e-3)
    assert metric.certificate_.dual <= optimum * (1 + 1e-9)
