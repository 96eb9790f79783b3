"""Commands and studies that hold a decision by a coarse search beside forests and boosting of few
trees.
"""

import pytest
from sklearn.base import clone

from conemetric.app.studies.deciding import BASELINES

FEW_TREES = {"n_estimators": 10}, {"max_iter": 10}


@pytest.fixture(autouse=True)
def few_trees(monkeypatch, coarse_search):
    for kind, models in BASELINES.items():
        few = [clone(m).set_params(**few) for m, few in zip(models, FEW_TREES, strict=True)]
        monkeypatch.setitem(BASELINES, kind, few)
