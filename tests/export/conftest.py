"""Metrics to export, and bounds on the rounding of float32."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric, LearnedMetric, load_metric, save_metric

X, y = load_wine(return_X_y=True)
KINDS = ["estimator", "pipeline", "file", "flat"]


@pytest.fixture(params=KINDS)
def case(request, tmp_path):
    """A metric in one of the forms it has, its rows, and a bound on float32's error of its map."""
    if request.param == "estimator":
        metric = FrobMetric().fit(X, y)
    elif request.param == "flat":
        metric = FrobMetric(n_components=2).fit(X, y)
    else:
        metric = make_pipeline(StandardScaler(), PCA(8), FrobMetric()).fit(X, y)
    if request.param == "file":
        save_metric(tmp_path / "metric.safetensors", metric)
        metric = load_metric(tmp_path / "metric.safetensors")
    learned = LearnedMetric.from_estimator(metric)
    # every product and sum may round, and so may A, b and x before them
    size = np.abs(X) @ np.abs(learned.components.T) + np.abs(learned.offset)
    slack = (X.shape[1] + 4) * np.finfo(np.float32).eps * size
    return SimpleNamespace(
        metric=metric, learned=learned, X=X.astype(np.float32), Z=metric.transform(X), slack=slack
    )


@pytest.fixture
def fresh():
    """``fresh(code)``: the JSON that ``code`` prints in a process of its own, without conemetric."""

    def call(code):
        guard = "import sys; sys.modules['conemetric'] = None\n"
        done = subprocess.run(
            [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", guard + code],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return call
