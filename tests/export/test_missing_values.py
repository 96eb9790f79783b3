"""A metric that fills missing values: ONNX fills them, every other export warns."""

import json
import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric, LearnedMetric, TableEncoder, load_metric, save_metric
from conemetric.export import to_faiss, to_onnx, to_sentence_transformers, to_sql

X, y = load_wine(return_X_y=True)


def model_folder(folder):
    """The listing of a saved sentence-transformers model, which is all that is read of it."""
    folder.mkdir()
    (folder / "modules.json").write_text("[]")
    return folder


EXPORTS = {
    "FAISS": ("faiss", lambda metric, path: to_faiss(metric)),
    "sentence-transformers": (
        "json",
        lambda metric, path: to_sentence_transformers(metric, model_folder(path)),
    ),
    "SQL": ("json", lambda metric, path: to_sql(metric, "duckdb")),
    "ONNX": ("onnx", lambda metric, path: to_onnx(metric, path)),
}


def fitted(strategy, seed):
    """A pipeline and rows with missing values; no imputer for None."""
    rng = np.random.default_rng(seed)
    rows = X if strategy is None else np.where(rng.random(X.shape) < 0.1, np.nan, X)
    imputer = [] if strategy is None else [SimpleImputer(strategy=strategy)]
    return make_pipeline(*imputer, StandardScaler(), FrobMetric(tol=0.1)).fit(rows, y), rows


@pytest.mark.cases(6)
@pytest.mark.parametrize("system", EXPORTS)
@pytest.mark.parametrize("strategy", [None, "mean", "median"])
@pytest.mark.parametrize("form", ["pipeline", "file"])
def test_exports_that_do_not_fill_missing_values_warn(system, strategy, form, tmp_path):
    library, export = EXPORTS[system]
    pytest.importorskip(library)
    metric, _ = fitted(strategy, seed=0)
    if form == "file":
        save_metric(tmp_path / "metric.safetensors", metric)
        metric = load_metric(tmp_path / "metric.safetensors")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        export(metric, tmp_path / "out")
    messages = [str(each.message) for each in caught if "fills missing values" in str(each.message)]
    assert len(messages) == (strategy is not None and system != "ONNX")
    for message in messages:
        assert f"{system} does not" in message
        assert "fill_missing" in message and "to_onnx" in message


@pytest.mark.parametrize("strategy", ["mean", "median"])
@pytest.mark.parametrize("seed", range(3))
def test_the_remedy_gives_the_learned_map(strategy, seed):
    pipeline, rows = fitted(strategy, seed)
    with pytest.warns(UserWarning, match="fill_missing"):
        text = to_sql(pipeline, "duckdb")
    filled = LearnedMetric.from_estimator(pipeline).fill_missing(rows)
    lines = re.findall(r"array_inner_product\(.*?, (\[.*?\])::FLOAT.*?\) \+ (\S+?),?\n", text)
    A = np.array([json.loads(row) for row, _ in lines])
    b = np.array([float(shift) for _, shift in lines])
    wanted = pipeline.transform(rows)
    np.testing.assert_allclose(filled @ A.T + b, wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("system", EXPORTS)
def test_exports_refuse_a_metric_of_tables_and_take_its_map(system, tmp_path):
    library, export = EXPORTS[system]
    pytest.importorskip(library)
    table = np.where(np.arange(len(X))[:, None] % 9, X[:, :3], np.nan)
    pipeline = make_pipeline(TableEncoder(), FrobMetric(tol=0.1)).fit(table, y)
    with pytest.raises(TypeError, match=rf"{system} takes vectors: .*of_features\(\)"):
        export(pipeline, tmp_path / "refused")
    metric = LearnedMetric.from_estimator(pipeline)
    encoded = metric.encoder.transform(table)
    np.testing.assert_allclose(metric.of_features().transform(encoded), pipeline.transform(table))
    export(metric.of_features(), tmp_path / "out")
