"""Commands and studies that hold a decision by a coarse search beside forests and boosting of few
trees.
"""

from functools import partial

import pytest

from conemetric.studies.deciding import BASELINES

FEW_TREES = {"n_estimators": 10}, {"max_iter": 10}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch, coarse_search):
    for kind, models in BASELINES.items():
        few = [partial(model, **few) for model, few in zip(models, FEW_TREES, strict=True)]
        monkeypatch.setitem(BASELINES, kind, few)
