"""Decision files: what is loaded decides exactly as what was saved, and damage is refused."""

import json
import struct

import numpy as np
import pandas
import pytest
from cases import case
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
from conemetric.decisions.rules import RULES
from conemetric.storage import MetricFileError
from conemetric.storage.checked import digest

pytestmark = pytest.mark.usefixtures("coarse_search")
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


@pytest.mark.cases(6)
@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("rule", RULES)
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
    assert str(after.blend_) == str(before.blend_)
    assert after.get_params() == before.get_params()
    for name in ("evidence_", "certificate_", "temperature_"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize(
    "labels",
    [
        *(y.astype(dtype) for dtype in "bBhHiIlLqQefd"),
        y.astype(">i4"),
        np.array(["a", "b", "c"], "U9")[y],  # wider than the longest
        pandas.Series(y, dtype="Int64"),
        pandas.Series(y > 0, dtype="boolean"),
    ],
    ids=lambda labels: f"{labels.dtype.str}" if hasattr(labels.dtype, "str") else labels.dtype.name,
)
def test_loaded_classes_and_predictions_have_the_dtype_of_fit(path, labels):
    before = MetricClassifier(metric=None, classifier="neighbors", random_state=0).fit(X, labels)
    after = saved_and_loaded(path, before)
    for one, other in (
        (before.classes_, after.classes_),
        (before.predict(X), after.predict(X)),
    ):
        assert one.dtype == other.dtype and one.dtype.char == other.dtype.char
        np.testing.assert_array_equal(one, other)


@pytest.mark.cases(6)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_landmarks", ["auto", 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_regressor_decides_the_same(path, rule, n_landmarks, dtype):
    rows = X.astype(dtype)
    metric = "auto" if dtype is np.float64 else None
    before = MetricRegressor(metric, regressor=rule, n_landmarks=n_landmarks, random_state=0)
    before.fit(rows[TRAIN, 1:], rows[TRAIN, 0])
    after = saved_and_loaded(path, before)
    for method in ("predict", "predict_interval"):
        found, expected = (getattr(each, method)(rows[:, 1:]) for each in (after, before))
        np.testing.assert_array_equal(found, expected)
    assert_same_explanations(after.explain(rows[TEST, 1:]), before.explain(rows[TEST, 1:]))
    assert after.evidence_ == before.evidence_


@pytest.mark.parametrize("metric", ["auto", None, FrobMetric()])
@pytest.mark.costly
def test_learned_metrics_names_and_notes_are_kept(path, metric):
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(13)])
    before = MetricClassifier(metric=metric, random_state=0).fit(frame[TRAIN], y[TRAIN])
    save_decision(path, before, notes={"rows": 89})
    after = load_decision(path)
    np.testing.assert_array_equal(after.predict_proba(frame), before.predict_proba(frame))
    reordered = after.predict_proba(frame[frame.columns[::-1]])
    np.testing.assert_array_equal(reordered, before.predict_proba(frame))
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


def test_a_damaged_file_is_refused(path, contents):
    for seed in range(40):
        with case(seed=seed):
            path.write_bytes(damaged(contents, seed))
            with pytest.raises(MetricFileError, match="decision"):
                load_decision(path)


def damaged(contents, seed):
    rng, data = np.random.default_rng(seed), bytearray(contents)
    size = struct.unpack("<Q", data[:8])[0]
    if seed % 3 == 0:  # a bit of the arrays
        data[rng.integers(8 + size, len(data))] ^= 1 << rng.integers(8)
    elif seed % 3 == 1:  # cut short
        data = data[: rng.integers(len(data))]
    else:  # a digit of the header
        digits = [i for i in range(8, 8 + size) if chr(data[i]).isdigit()]
        data[rng.choice(digits)] ^= 1
    return data


def forged(path, contents, change):
    """A file with a valid checksum whose header or arrays were changed."""
    outer = json.loads(contents[8 : 8 + struct.unpack("<Q", contents[:8])[0]])
    header, arrays = json.loads(outer["__metadata__"]["conemetric"]), load(contents)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    text = json.dumps(header)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    path.write_bytes(save(arrays, {"conemetric": text, "sha256": digest(text, arrays)}))


def put(where, value):
    """Set a dotted field of the state."""

    def change(header, arrays):
        *names, last = where.split(".")
        place = header["state"]["decision"]
        for name in names:
            place = place[int(name) if isinstance(place, list) else name]
        place[last] = value

    return change


def put_array(name, value):
    def change(header, arrays):
        arrays[f"decision.{name}"] = value(arrays[f"decision.{name}"])

    return change


def outside(**values):
    return lambda header, arrays: header.update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (outside(format=2), "format 2 is newer"),
        (outside(format="1"), "no format number"),
        (outside(kind="metric"), "holds a metric, not a decision"),
        (lambda header, _: header["state"].update(estimator="Pipeline"), "estimator is 'Pipeline'"),
        (put("extra", 1), "no such field"),
        (put("parameters", []), "parameters"),
        (put("parameters", {"other": 1}), "parameters"),
        (put("parameters", {"n_landmarks": -1}), "parameters"),
        (put("parts.0.setting.kernel", "cubic"), "parts.0.setting.kernel is 'cubic'"),
        (
            put("parts.0.setting", {"kernel": "gaussian", "width": 1.0}),
            "parts.0.setting.ridge is 'missing'",
        ),
        (put("parts.0.setting.width", 0), "parts.0.setting.width is 0"),
        (put("parts.0.setting.ridge", -1.0), "parts.0.setting.ridge is -1.0"),
        (put("parts.0.rule", "neighbors"), "parts.0.setting.kernel"),
        (put("parts.0.weight", 0.9), "sum of the weights"),
        (put("parts.0.fitted.scale", 0), "fitted.scale is 0"),
        (put("parts.0.fitted.scale", "wide"), "fitted.scale is 'wide'"),
        (put("parts.0.fitted.certificate", 3), "certificate is 3"),
        (put("classes", {"dtype": "int64", "values": [0, 1]}), "classes|shape"),
        (put("classes.dtype", "<U100000000"), "classes.dtype"),
        (put("classes", {"dtype": "str", "values": ["a", "a", "b"]}), "classes.values"),
        (put("classes", {"dtype": "object", "values": [["a"], "b", "c"]}), "classes.values"),
        (put("temperature", {"$float": "nan"}), "temperature"),
        (put("temperature", 0), "temperature is 0"),
        (put("evidence", {}), "evidence.error"),
        (put("evidence.n_rows", -3), "evidence.n_rows is -3"),
        (put("feature_names", ["a"]), "feature_names"),
        (lambda header, arrays: arrays.pop("decision.X"), "X"),
        (put_array("Y", lambda Y: Y[:, :2].copy()), "Y.shape|t = "),
        (put_array("keys", lambda keys: keys.astype(float)), "keys.dtype"),
        (put_array("X", lambda X: np.full_like(X, np.nan)), "an entry of .* is (nan|inf)"),
        (put_array("scale", np.zeros_like), "scale"),
        (put_array("weights", lambda w: -w), "weights"),
        (put_array("held_out", lambda h: h[::-1].copy()), "held_out is 'not sorted'"),
        (put_array("rows", lambda rows: rows[::-1].copy()), "rows"),
    ],
)
def test_a_forged_file_is_refused(path, contents, change, message):
    forged(path, contents, change)
    with pytest.raises(MetricFileError, match=message):
        load_decision(path)


VALUES = [0, -3, 1.5, 1e300, -1e-300, True, None, "", "a", [], {}, [[]], {"$float": "inf"}]


def leaves(value, path=()):
    """The places of all values of a state."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in items:
        if isinstance(each, dict | list) and each and "$tensor" not in each:
            yield from leaves(each, (*path, key))
        else:
            yield (*path, key)


@pytest.mark.parametrize("batch", range(6))
@pytest.mark.costly
def test_crafted_files_are_refused_by_name_or_used(path, contents, batch):
    """300 files with valid checksums: any value or array replaced."""
    rng = np.random.default_rng(batch)
    for _ in range(50):

        def change(header, arrays):
            state = header["state"]
            if rng.random() < 0.3:
                name = rng.choice(sorted(arrays))
                array = arrays[name]
                changes = [np.zeros_like, lambda a: a[::-1], lambda a: a[:-1], np.negative]
                with np.errstate(all="ignore"):
                    arrays[name] = changes[rng.integers(4)](array)
                return
            places = list(leaves(state))
            *names, last = places[rng.integers(len(places))]
            for name in names:
                state = state[name]
            state[last] = VALUES[rng.integers(len(VALUES))]

        forged(path, contents, change)
        try:
            loaded = load_decision(path)
        except MetricFileError:
            continue
        assert np.isfinite(loaded.predict_proba(X)).all()
        assert set(loaded.predict(X)) <= set(loaded.classes_.tolist())
        loaded.predict_set(X, alpha=0.2)
        loaded.explain(X[:2])
        str(loaded.evidence_), str(loaded.blend_)


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
        ([1], TypeError, "notes is a list; pass a dict"),
        ({"a": object()}, TypeError, "notes of JSON values"),
    ):
        with pytest.raises(kind, match=message):
            save_decision(tmp_path / "a.safetensors", model, notes=notes)
    assert not list(tmp_path.iterdir())


def test_weights_of_columns_are_a_square_map(path, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 4))
    estimator = MetricRegressor(regressor="kernel", random_state=0).fit(rows, abs(rows[:, 0]))
    save_decision(tmp_path / "saved", estimator)
    state = estimator.state()
    at = [i for i, part in enumerate(estimator.blend_.parts) if part.trial.rule.by_columns]
    assert at, [str(part) for part in estimator.blend_.parts]
    name = f"parts.{at[0]}.map"
    wide = put_array(name, lambda L: np.concatenate([L, L[:, :1]], axis=1))
    forged(path, (tmp_path / "saved").read_bytes(), wide)
    with pytest.raises(MetricFileError, match="weights of columns"):
        load_decision(path)
    assert state["parts"][at[0]]["map"].shape == (4, 4)
