"""Files and ONNX models of metrics with a kernel."""

import subprocess
import sys

import numpy as np
import pytest
from learners import NO_PROGRAM, check_complete
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    KernelCoordinates,
    LearnedMetric,
    LMNNEig,
    RelativeComparisons,
    blend,
    load_metric,
    save_metric,
)
from conemetric.export import to_onnx, to_sql
from conemetric.storage import MetricFileError

X, Y = load_iris(return_X_y=True)
X, Y = X[::3], Y[::3]
KERNELS = ["gaussian", "laplacian", "cosine"]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
ESTIMATORS = [
    FrobMetric(),
    FrobMetricCV(Cs=2, cv=2, random_state=0),
    BoostMetric(max_iter=20),
    DMLEig(),
    LMNNEig(),
    RelativeComparisons(random_state=0),
]
check_complete(ESTIMATORS, "kernel", without=NO_PROGRAM)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SCRIPT = """
import sys
import numpy as np
from conemetric import load_metric
folder = sys.argv[1]
for number in range(int(sys.argv[2])):
    pairs = np.load(f"{folder}/pairs.npy")
    distances = [load_metric(f"{folder}/{number}.safetensors").pair_distance(pairs.astype(kind))
                 for kind in ("f8", "f4")]
    np.savez(f"{folder}/{number}.npz", *distances)
"""


def test_a_file_gives_the_same_bits_in_another_process(tmp_path, seed):
    """Each estimator with one of the kernels and precisions, the other one tomorrow."""
    given = [("gaussian", "f8"), ("laplacian", "f4")]
    metrics = [
        clone(estimator).set_params(kernel=kernel).fit(X.astype(dtype), Y)
        for number, estimator in enumerate(ESTIMATORS)
        for kernel, dtype in [given[(number + seed) % 2]]
    ]
    pairs = X[np.random.default_rng(0).integers(0, len(X), (20, 2))]
    np.save(tmp_path / "pairs.npy", pairs)
    for number, metric in enumerate(metrics):
        save_metric(tmp_path / f"{number}.safetensors", metric)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(len(metrics))]
    subprocess.run(command, check=True)
    for number, metric in enumerate(metrics):
        with np.load(tmp_path / f"{number}.npz") as found:
            for name, kind in zip(found.files, ("f8", "f4"), strict=True):
                distances = metric.pair_distance(pairs.astype(kind))
                assert np.array_equal(found[name], distances), (metric, kind)


@every_kernel
def test_preprocessing_is_kept_before_the_kernel(kernel, tmp_path):
    pipeline = make_pipeline(StandardScaler(), PCA(3), FrobMetric(kernel=kernel)).fit(X, Y)
    save_metric(tmp_path / "file.safetensors", pipeline)
    metric = load_metric(tmp_path / "file.safetensors")
    assert_allclose(metric.transform(X), pipeline.transform(X), atol=1e-8)
    assert metric.n_features_in_ == 4
    assert metric.preprocessing == ["StandardScaler", "PCA(3)"]
    assert metric.truncated(1).transform(X).shape == (len(X), 1)
    with pytest.raises(ValueError, match="use transform"):
        metric.get_mahalanobis_matrix()
    again = LearnedMetric.from_estimator(make_pipeline(StandardScaler().fit(X), metric))
    scaled = StandardScaler().fit_transform(X)
    assert_allclose(again.transform(X), metric.transform(scaled), atol=1e-8)


@every_kernel
def test_onnx_carries_the_kernel(kernel, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    for metric in (
        FrobMetric(kernel=kernel).fit(X, Y),
        make_pipeline(StandardScaler(), BoostMetric(kernel=kernel, max_iter=20)).fit(X, Y),
    ):
        to_onnx(metric, tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
        rows = np.concatenate([X, X[:1] * 0]).astype(np.float32)
        (found,) = session.run(None, {"X": rows})
        expected = metric.transform(rows.astype(float))
        assert_allclose(found, expected, atol=2e-3 * abs(expected).max())


@every_kernel
def test_pipelines_with_a_kernel_convert(kernel):
    onnxruntime = pytest.importorskip("onnxruntime")
    skl2onnx = pytest.importorskip("skl2onnx")
    from conemetric.export import register_onnx_converters

    register_onnx_converters()
    metric = FrobMetric(kernel=kernel)
    pipeline = make_pipeline(StandardScaler(), metric, KNeighborsClassifier(3)).fit(X, Y)
    model = skl2onnx.to_onnx(pipeline, X[:1].astype("f4"))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    labels = session.run(None, {"X": X.astype("f4")})[0]
    assert np.mean(labels == pipeline.predict(X)) > 0.98


def test_what_takes_linear_maps_names_what_to_do():
    metric = FrobMetric(kernel="gaussian").fit(X, Y)
    with pytest.raises(TypeError, match=r"gaussian kernel.*rows of metric\.transform"):
        to_sql(metric, "pgvector")
    with pytest.raises(TypeError, match="kernel=None"):
        blend([metric, FrobMetric().fit(X, Y)])


def test_a_function_cannot_be_kept(tmp_path):
    metric = FrobMetric(kernel=lambda A, B: A @ B.T).fit(X, Y)
    with pytest.raises(TypeError, match="function cannot be kept in a file"):
        save_metric(tmp_path / "file.safetensors", metric)


def test_a_state_that_does_not_fit_is_refused():
    coordinates = KernelCoordinates(n_components=5)
    state = LearnedMetric.from_estimator(FrobMetric(kernel=coordinates).fit(X, Y)).state()
    for change in (
        {"projection": np.ones((len(state["kernel"]["landmarks"]), 4))},
        {"landmarks": np.ones((3, 4))},
        {"kernel": "polynomial"},
        {"width": float("nan")},
    ):
        with pytest.raises((MetricFileError, ValueError)):
            LearnedMetric.from_state({**state, "kernel": {**state["kernel"], **change}})
    with pytest.raises(ValueError, match="feature_names"):
        LearnedMetric.from_state({**state, "feature_names": list("abcde")})


def test_files_of_linear_metrics_have_no_kernel():
    metric = LearnedMetric.from_estimator(FrobMetric().fit(X, Y))
    assert "kernel" not in metric.state()
    assert LearnedMetric.from_state(metric.state()).kernel is None
