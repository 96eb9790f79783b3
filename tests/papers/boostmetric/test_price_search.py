"""The search for the price of trace, where no metric has a positive value."""

import numpy as np
import pytest
from oracles import soft_margin_optimum
from scipy import sparse

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


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("constant", [0.0, 358239.33242552105])  # the mean of the second is rounded
def test_a_column_that_does_not_vary_gets_no_trace(form, constant, seed):
    """There a metric would do no harm, and nothing else."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 4))
    triplets = rng.permuted(np.tile(np.arange(40), (160, 1)), axis=1)[:, :3]
    plain = BoostMetric(v=0.1, loss="hinge").fit(X, triplets=triplets)
    wider = np.column_stack([X, np.full(len(X), constant)])
    metric = BoostMetric(v=0.1, loss="hinge").fit(form(wider), triplets=triplets)
    assert plain.objective_ > 0.01
    assert metric.objective_ == pytest.approx(plain.objective_, rel=2e-3)
    M = metric.get_mahalanobis_matrix()
    assert np.trace(M[:4, :4]) == pytest.approx(1)


def test_a_column_that_repeats_others_leaves_no_room_outside_the_span():
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 5), density=0.5, rng=rng).toarray()
    triplets = rng.permuted(np.tile(np.arange(60), (160, 1)), axis=1)[:, :3]
    wider = np.column_stack([X, X[:, 0] - X[:, 1]])
    dense, thin = (
        BoostMetric(v=0.1, loss="hinge").fit(form(wider), triplets=triplets)
        for form in (np.asarray, sparse.csr_array)
    )
    assert dense.objective_ > 1e-3
    assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-3)
