"""Decision files: what is loaded decides exactly as what was saved, and damage is refused."""

import json
import struct

import numpy as np
import pandas
import pytest
from safetensors.numpy import load, save
from sklearn.datasets import load_wine

from conemetric import (
    FrobMetric,
    MetricClassifier,
    MetricRegressor,
    load_decision,
    load_metric,
    save_decision,
    save_metric,
)
from conemetric.storage import MetricFileError
from conemetric.storage.checked import digest

X, y = load_wine(return_X_y=True)
TRAIN, TEST = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
CLASSES = {
    "str": np.array(["Barolo", "Grignolino", "Barbera"]),
    "object": np.array(["Barolo", "Grignolino", "Barbera"], object),
    "int": np.array([7, -3, 2**40]),
    "uint8": np.array([0, 200, 255], np.uint8),
    "float": np.array([-1.0, 0.0, 5.0]),
    "bool": np.array([True, False, False]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decision.safetensors"


def saved_and_loaded(path, estimator):
    save_decision(path, estimator)
    return load_decision(path)


def assert_same_explanations(one, other):
    for name in ("rows", "shares", "nearness"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("rule", ["neighbors", "kernel"])
@pytest.mark.parametrize("n_landmarks", ["auto", 20])
def test_a_classifier_decides_the_same(path, classes, rule, n_landmarks):
    labels = CLASSES[classes][y]
    weights = (np.arange(TRAIN.sum()) % 3 > 0).astype(float)
    before = MetricClassifier(
        metric=None, classifier=rule, n_landmarks=n_landmarks, random_state=0
    ).fit(X[TRAIN], labels[TRAIN], sample_weight=weights)
    after = saved_and_loaded(path, before)
    assert after.classes_.dtype == before.classes_.dtype
    for method in ("predict", "predict_proba", "predict_set", "decision_function"):
        np.testing.assert_array_equal(getattr(after, method)(X), getattr(before, method)(X))
    assert_same_explanations(after.explain(X[TEST]), before.explain(X[TEST]))
    assert str(after.chosen_) == str(before.chosen_)
    assert after.get_params() == before.get_params()
    for name in ("evidence_", "certificate_", "temperature_"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize("rule", ["neighbors", "kernel"])
@pytest.mark.parametrize("n_landmarks", ["auto", 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_regressor_decides_the_same(path, rule, n_landmarks, dtype):
    rows = X.astype(dtype)
    before = MetricRegressor(regressor=rule, n_landmarks=n_landmarks, random_state=0)
    before.fit(rows[TRAIN, 1:], rows[TRAIN, 0])
    after = saved_and_loaded(path, before)
    for method in ("predict", "predict_interval"):
        found, expected = (getattr(each, method)(rows[:, 1:]) for each in (after, before))
        np.testing.assert_array_equal(found, expected)
    assert_same_explanations(after.explain(rows[TEST, 1:]), before.explain(rows[TEST, 1:]))
    assert after.evidence_ == before.evidence_


@pytest.mark.parametrize("metric", ["auto", None, FrobMetric()])
def test_learned_metrics_names_and_notes_are_kept(path, metric):
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(13)])
    before = MetricClassifier(metric=metric, random_state=0).fit(frame[TRAIN], y[TRAIN])
    save_decision(path, before, notes={"rows": 89})
    after = load_decision(path)
    np.testing.assert_array_equal(after.predict_proba(frame), before.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        after.predict(frame[frame.columns[::-1]])
    again = saved_and_loaded(path, after)
    assert again.notes_ == {"rows": 89}
    np.testing.assert_array_equal(again.predict_proba(frame), before.predict_proba(frame))


def test_without_held_out_rows_there_are_still_predictions(path):
    before = MetricClassifier(metric=None).fit(X[[0, 70]], y[[0, 70]])
    after = saved_and_loaded(path, before)
    assert after.evidence_ is None
    np.testing.assert_array_equal(after.predict_proba(X), before.predict_proba(X))


# ---- what is refused


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "decision.safetensors"
    estimator = MetricClassifier(metric=None, classifier="kernel", random_state=0)
    save_decision(path, estimator.fit(X[TRAIN], y[TRAIN]))
    return path.read_bytes()


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file_is_refused(path, contents, seed):
    rng, data = np.random.default_rng(seed), bytearray(contents)
    size = struct.unpack("<Q", data[:8])[0]
    if seed % 3 == 0:  # a bit of the arrays
        data[rng.integers(8 + size, len(data))] ^= 1 << rng.integers(8)
    elif seed % 3 == 1:  # cut short
        data = data[: rng.integers(len(data))]
    else:  # a digit of the header
        digits = [i for i in range(8, 8 + size) if chr(data[i]).isdigit()]
        data[rng.choice(digits)] ^= 1
    path.write_bytes(data)
    with pytest.raises(MetricFileError, match="decision"):
        load_decision(path)


def put(**values):
    return lambda header, arrays: header.update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(format=2), "format 2 is newer"),
        (put(format="1"), "no format number"),
        (put(kind="metric"), "holds a metric, not a decision"),
        (put(estimator="Pipeline"), "the estimator is Pipeline"),
        (put(estimator=["MetricClassifier"]), "the estimator is"),
        (put(extra=1), "the keys are"),
        (put(parameters=[]), "parameters is not an object"),
        (put(parameters={"other": 1}), "values that do not fit"),
        (put(rule={"kernel": "cubic", "width": 1.0, "ridge": 1.0}), "the rule is"),
        (put(rule={"kernel": "gaussian", "width": 1.0}), "values that do not fit"),
        (put(rule={"n_neighbors": 3, "weights": "uniform"}), "the arrays are"),
        (put(scale="wide"), "values that do not fit"),
        (put(classes={"dtype": "<i8", "values": [0, 1]}), "the arrays are"),
        (put(classes={"dtype": "<M8[s]", "values": [0, 1, 2]}), "values that do not fit"),
        (put(classes=None), "classes are not listed"),
        (put(evidence={}), "values that do not fit"),
        (put(evidence={"error": {}}), "values that do not fit"),
        (put(feature_names=["a"]), "feature_names differ"),
        (put(certificate=3), "certificate is not an object"),
        (lambda header, arrays: arrays.pop("Z"), "the arrays are"),
        (lambda header, arrays: arrays.update(Y=arrays["Y"][:, :2].copy()), "the arrays are"),
        (lambda header, arrays: arrays.update(keys=arrays["weights"]), "holds keys of type F64"),
        (lambda header, arrays: arrays["X"].fill(np.nan), "NaN or infinity"),
    ],
)
def test_a_forged_file_is_refused(path, contents, change, message):
    outer = json.loads(contents[8 : 8 + struct.unpack("<Q", contents[:8])[0]])
    header, arrays = json.loads(outer["__metadata__"]["conemetric"]), load(contents)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    text = json.dumps(header)
    path.write_bytes(save(arrays, {"conemetric": text, "sha256": digest(text, arrays)}))
    with pytest.raises(MetricFileError, match=message):
        load_decision(path)


def test_metrics_and_decisions_are_not_mixed_up(path, contents):
    path.write_bytes(contents)
    with pytest.raises(MetricFileError, match="holds a decision, not a metric"):
        load_metric(path)
    save_metric(path, FrobMetric().fit(X, y))
    with pytest.raises(MetricFileError, match="holds a metric, not a decision"):
        load_decision(path)
    with pytest.raises(TypeError, match="save_metric"):
        save_decision(path, FrobMetric().fit(X, y))
    with pytest.raises(FileNotFoundError, match="no decision file"):
        load_decision(path.with_name("none"))


def test_folders_and_notes_that_cannot_be_used_are_named(tmp_path):
    model = MetricClassifier(metric=None, random_state=0).fit(X, y)
    with pytest.raises(FileNotFoundError, match=r"no folder '.*absent' for 'a.safetensors'; make"):
        save_decision(tmp_path / "absent" / "a.safetensors", model)
    for notes, kind, message in (
        ([1], TypeError, "notes is a list; give a dict"),
        ({"a": object()}, TypeError, "notes of JSON values"),
        ({"a": float("nan")}, ValueError, "notes of JSON values"),
    ):
        with pytest.raises(kind, match=message):
            save_decision(tmp_path / "a.safetensors", model, notes=notes)
    assert not list(tmp_path.iterdir())
