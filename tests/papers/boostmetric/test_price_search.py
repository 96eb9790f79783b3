"""The search for the price of trace, where no metric has a positive value."""

import numpy as np
import pytest
from oracles import soft_margin_optimum

from conemetric import BoostMetric


@pytest.mark.parametrize("v", [0.02, 0.3])
def test_the_metric_that_harms_least_is_found_and_proved(v, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4))
    triplets = rng.permuted(np.tile(np.arange(30), (160, 1)), axis=1)[:, :3]
    metric = BoostMetric(v=v, loss="hinge").fit(X, triplets=triplets)
    assert metric.certificate_.status == "converged"
    optimum = soft_margin_optimum(X, triplets, v)
    assert optimum > 0.01
    assert metric.objective_ == pytest.approx(optimum, rel=1e-3)
    assert metric.certificate_.dual <= optimum * (1 + 1e-9)
