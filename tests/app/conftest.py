"""Commands and studies that hold a decision beside forests and boosting of few trees."""

from functools import partial

import pytest

from conemetric.app.studies.deciding import BASELINES

FEW_TREES = {"random forest": {"n_estimators": 10}, "histogram boosting": {"max_iter": 10}}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    for kind, models in BASELINES.items():
        few = {name: partial(make, **FEW_TREES[name]) for name, make in models.items()}
        monkeypatch.setitem(BASELINES, kind, few)
