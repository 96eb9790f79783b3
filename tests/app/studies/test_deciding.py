"""The decision of a study takes over the blend that was learned."""

from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from conemetric.app.studies import Options, deciding, run_study
from conemetric.app.studies.supervision import Labelled

X, y = load_wine(return_X_y=True)


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize("impute", [None, "mean"])
def test_the_learned_metric_is_that_of_the_study(scale, impute):
    rows = X.copy()
    if impute:
        rows[::9, 2] = np.nan
    study = run_study(Labelled(rows, y), Options(scale=scale, impute=impute, time_budget=None))
    decision = deciding.decide(study).estimator
    L = decision._linear_map
    np.testing.assert_allclose(L.T / decision.scale_, study.metric.components, rtol=1e-9)
    assert decision.evidence_.n_rows == study.evidence.n_rows


@pytest.mark.parametrize("limit", ["MOST_COMPARED", "MOST_CLASSES"])
def test_forest_and_boosting_are_left_out_where_they_would_be_slow(monkeypatch, limit):
    study = run_study(Labelled(X, y), Options(method="frob"))
    compared = ["MetricClassifier", "random forest", "histogram boosting"]
    assert list(deciding.decide(study).judgements) == compared
    monkeypatch.setattr(deciding, limit, 2)
    assert list(deciding.decide(study).judgements) == ["MetricClassifier"]


class Probe(DummyClassifier):
    """Notes how many threads its fits may use."""

    seen: ClassVar[list[int]] = []

    def __init__(self, random_state=None):
        super().__init__(random_state=random_state)

    def fit(self, X, y):
        self.seen.append(max(pool["num_threads"] for pool in threadpool_info()))
        return super().fit(X, y)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("small", [False, True])
def test_the_comparison_takes_one_thread_where_the_problem_is_small(monkeypatch, threads, small):
    study = run_study(Labelled(X, y), Options(method="frob"))
    monkeypatch.setattr(deciding, "MIN_PARALLEL_WORK", X.size if small else 0)
    monkeypatch.setattr(Probe, "seen", [])
    monkeypatch.setitem(deciding.BASELINES, "labels", (Probe(), Probe()))
    with threadpool_limits(threads):
        deciding.decide(study)
    assert Probe.seen == [1 if small else threads] * 2
