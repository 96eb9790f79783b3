"""ONNX models give the learned map, in onnxruntime."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import (
    BoostMetric,
    FrobMetric,
    LearnedMetric,
    RelativeComparisons,
    TableEncoder,
    load_metric,
    save_metric,
)
from conemetric.export import register_onnx_converters, to_onnx

X, y = load_wine(return_X_y=True)
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.mark.cases(2)
def test_a_session_of_its_own_gives_the_learned_map(case, tmp_path, fresh):
    to_onnx(case.metric, tmp_path / "metric.onnx")
    np.save(tmp_path / "X.npy", case.X)
    mapped, facts = fresh(f"""
import json, numpy as np, onnxruntime
session = onnxruntime.InferenceSession({str(tmp_path / "metric.onnx")!r})
(mapped,) = session.run(None, {{"X": np.load({str(tmp_path / "X.npy")!r})}})
print(json.dumps([mapped.tolist(), session.get_modelmeta().custom_metadata_map]))
""")
    assert (np.abs(mapped - case.Z) <= case.slack).all()
    certificate = json.loads(facts["conemetric.certificate"])
    assert certificate["primal"] == case.learned.certificate.primal
    assert certificate["status"] == case.learned.certificate.status
    assert json.loads(facts["conemetric.method"]) == case.learned.method


def test_missing_values_are_filled_as_in_training(tmp_path):
    holes = X.copy()
    holes[::5, 2] = np.nan
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), FrobMetric()).fit(holes, y)
    to_onnx(pipeline, tmp_path / "metric.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "metric.onnx")
    (mapped,) = session.run(None, {"X": holes.astype(np.float32)})
    wanted = pipeline.transform(holes)
    np.testing.assert_allclose(mapped, wanted, atol=1e-4 * np.abs(wanted).max())


def test_skl2onnx_converts_a_pipeline_with_a_metric_in_it(dtype, tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    register_onnx_converters()
    pipeline = make_pipeline(
        StandardScaler(), FrobMetric(n_components=5), KNeighborsClassifier(3)
    ).fit(X, y)
    model = skl2onnx.to_onnx(pipeline, X[:1].astype(dtype), options={"zipmap": False})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (name,) = (given.name for given in session.get_inputs())
    labels, shares = session.run(None, {name: X.astype(dtype)})
    wanted = pipeline.predict_proba(X)
    assert np.abs(shares - wanted).max(axis=1).mean() < 0.02  # ties may fall either way
    assert (labels == wanted.argmax(axis=1)).mean() > 0.98


@pytest.mark.parametrize("estimator", [BoostMetric(max_iter=20, tol=1.0), RelativeComparisons()])
def test_skl2onnx_converts_every_linear_metric(estimator, dtype):
    skl2onnx = pytest.importorskip("skl2onnx")
    register_onnx_converters()
    estimator.fit(X, y)
    model = skl2onnx.to_onnx(estimator, X[:1].astype(dtype))
    (mapped,) = onnxruntime.InferenceSession(model.SerializeToString()).run(
        None, {"X": X.astype(dtype)}
    )
    wanted = estimator.transform(X)
    assert mapped.dtype == dtype
    scale = np.abs(X) @ np.abs(estimator.components_.T)
    assert (np.abs(mapped - wanted) <= 20 * np.finfo(dtype).eps * scale).all()


@pytest.mark.cases(6)
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent"])
@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_skl2onnx_fills_missing_values_as_to_onnx_does(
    strategy, in_pipeline, seed, dtype, tmp_path
):
    skl2onnx = pytest.importorskip("skl2onnx")
    register_onnx_converters()
    holes = np.where(np.random.default_rng(seed).random(X.shape) < 0.1, np.nan, X)
    pipeline = make_pipeline(SimpleImputer(strategy=strategy), StandardScaler(), FrobMetric())
    save_metric(tmp_path / "metric.safetensors", pipeline.fit(holes, y))
    metric = load_metric(tmp_path / "metric.safetensors")
    converted = make_pipeline(metric, StandardScaler()).fit(holes) if in_pipeline else metric
    wanted = converted.transform(holes)
    model = skl2onnx.to_onnx(converted, X[:1].astype(dtype))
    (mapped,) = onnxruntime.InferenceSession(model.SerializeToString()).run(
        None, {"X": holes.astype(dtype)}
    )
    assert mapped.dtype == dtype
    slack = 1e4 * np.finfo(dtype).eps * np.abs(wanted).max()
    np.testing.assert_allclose(mapped, wanted, rtol=0, atol=slack)


def test_a_metric_that_is_not_linear_is_refused(tmp_path):
    metric = RelativeComparisons(basis=rbf_kernel).fit(X, y)
    with pytest.raises(ValueError, match="kernel"):
        to_onnx(metric, tmp_path / "metric.onnx")
    assert not list(tmp_path.iterdir())


def test_skl2onnx_refuses_a_loaded_metric_of_tables():
    skl2onnx = pytest.importorskip("skl2onnx")
    register_onnx_converters()
    metric = LearnedMetric.from_estimator(make_pipeline(TableEncoder(), FrobMetric()).fit(X, y))
    pipeline = make_pipeline(metric, KNeighborsClassifier(3)).fit(X, y)
    with pytest.raises(TypeError, match="ONNX takes vectors"):  # before, it left the encoding out
        skl2onnx.to_onnx(pipeline, X[:1].astype(np.float32))
