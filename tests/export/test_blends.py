"""Blended metrics, which have no certificate, are exported like any other."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import AutoMetric, FrobMetric, blend, load_metric, save_metric
from conemetric.export import to_faiss, to_onnx

X, y = load_wine(return_X_y=True)
PARTS = {"frob": FrobMetric(), "lda": LinearDiscriminantAnalysis()}


@pytest.fixture(params=["automatic", "blend", "file"])
def metric(request, tmp_path):
    if request.param == "automatic":
        automatic = AutoMetric(candidates=PARTS, random_state=0)
        return make_pipeline(StandardScaler(), automatic).fit(X, y)
    parts = [make_pipeline(StandardScaler(), part).fit(X, y) for part in PARTS.values()]
    blended = blend(parts, X=X)
    if request.param == "blend":
        return blended
    save_metric(tmp_path / "blend.safetensors", blended)
    return load_metric(tmp_path / "blend.safetensors")


def assert_same_map(found, metric):
    wanted = metric.transform(X)
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())


def test_faiss(metric):
    pytest.importorskip("faiss")
    assert_same_map(to_faiss(metric).apply(X.astype(np.float32)), metric)


def test_onnx(metric, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    to_onnx(metric, tmp_path / "metric.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "metric.onnx")
    assert_same_map(session.run(None, {"X": X.astype(np.float32)})[0], metric)
