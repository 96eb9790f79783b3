"""Metric files: a saved metric is loaded unchanged, and a damaged file is refused unless it
still holds the same metric.
"""

import errno
import json
import os
import pickle
import struct
import tracemalloc

import numpy as np
import pandas
import pytest
from cases import case
from safetensors.numpy import load_file, save
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from conemetric import (
    FrobMetric,
    LearnedAdapter,
    LearnedMetric,
    RelativeComparisons,
    TableEncoder,
    blend,
    load_metric,
    save_metric,
)
from conemetric.core.arrays import to_numpy
from conemetric.engine.certificate import Bounds, Certificate, Status
from conemetric.storage import MetricFileError, atomic_path
from conemetric.storage.checked import digest, same_state, split_state

X, y = load_iris(return_X_y=True)
NAMES = ["sepal length", "sepal width", "Blütenlänge", "petal width"]


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(StandardScaler(), PCA(3, whiten=True), FrobMetric()).fit(X, y)


@pytest.fixture
def file(tmp_path, fitted):
    path = tmp_path / "metric.safetensors"
    save_metric(path, fitted, feature_names=NAMES, notes={"rows": 150})
    return path


def test_one_metric_gives_one_file(tmp_path, fitted):
    """Safetensors alone writes its metadata in an order that changes from call to call."""
    contents = set()
    for number in range(20):
        save_metric(tmp_path / f"{number}.safetensors", fitted, feature_names=NAMES)
        contents.add((tmp_path / f"{number}.safetensors").read_bytes())
    assert len(contents) == 1
    assert load_file(tmp_path / "0.safetensors").keys() == {"components", "offset"}


def test_what_is_saved_comes_back(file, fitted):
    metric = load_metric(file)
    np.testing.assert_allclose(metric.transform(X), fitted.transform(X), atol=1e-10)
    assert metric.method == "FrobMetric"
    assert metric.certificate == fitted[-1].certificate_
    assert metric.feature_names == NAMES
    assert metric.preprocessing == ["StandardScaler", "PCA(3)"]
    assert metric.parameters["n_targets"] == 3
    assert metric.notes == {"rows": 150}
    pairs = np.stack([X[:50], X[50:100]], axis=1)
    expected = np.linalg.norm(fitted.transform(X[:50]) - fitted.transform(X[50:100]), axis=1)
    np.testing.assert_allclose(metric.pair_distance(pairs), expected)


@pytest.mark.parametrize("names", [None, ["a", "b", "c", "d"]])
@pytest.mark.parametrize("notes", [None, {}, {"rows": 7}])
def test_names_and_notes_replace_those_of_a_loaded_metric(file, tmp_path, names, notes):
    before = load_metric(file)
    save_metric(tmp_path / "again", before, feature_names=names, notes=notes)
    after = load_metric(tmp_path / "again")
    assert after.feature_names == (NAMES if names is None else names)
    assert after.notes == ({"rows": 150} if notes is None else notes)
    assert (before.feature_names, before.notes) == (NAMES, {"rows": 150})
    assert after.certificate == before.certificate
    np.testing.assert_array_equal(after.components, before.components)


@pytest.mark.parametrize(
    "steps", [(), (StandardScaler(with_mean=False),), (StandardScaler(with_std=False),), (PCA(2),)]
)
def test_preprocessing_is_folded(steps):
    pipeline = make_pipeline(*steps, FrobMetric()).fit(X, y)
    np.testing.assert_allclose(
        LearnedMetric.from_estimator(pipeline).transform(X), pipeline.transform(X), atol=1e-10
    )


def test_missing_values_are_filled_as_in_training(tmp_path, asarray):
    holes = X.copy()
    holes[::7, 1] = np.nan
    steps = SimpleImputer(strategy="median"), StandardScaler(), FrobMetric()
    pipeline = make_pipeline(*steps).fit(holes, y)
    save_metric(tmp_path / "metric.safetensors", pipeline)
    metric = load_metric(tmp_path / "metric.safetensors")
    assert metric.preprocessing == ["SimpleImputer(median)", "StandardScaler"]
    mapped = to_numpy(metric.transform(asarray(holes)))
    np.testing.assert_allclose(mapped, pipeline.transform(holes), atol=1e-10)
    assert metric.truncated(1).transform(holes).shape == (150, 1)


@pytest.mark.parametrize(
    "imputer",
    [SimpleImputer(missing_values=-1), SimpleImputer(add_indicator=True)],
    ids=["another value", "indicators"],
)
def test_an_imputer_that_does_more_is_refused(imputer):
    holes = X.copy()
    holes[::7, 1] = imputer.missing_values
    with pytest.raises(TypeError, match="cannot be kept with a metric"):
        LearnedMetric.from_estimator(make_pipeline(imputer, FrobMetric()).fit(holes, y))


def put(**values):
    return lambda header: {**header, "state": {**header["state"], **values}}


def put_in_header(**values):
    return lambda header: {**header, **values}


PAIRS = np.random.default_rng(0).integers(0, 150, (400, 2))
SIMILAR = np.where(y[PAIRS[:, 0]] == y[PAIRS[:, 1]], 1, -1)
THRESHOLDS = {
    "set": lambda metric: metric.set_threshold(2),
    "endless": lambda metric: metric.set_threshold(np.inf),
    "calibrated": lambda metric: metric.calibrate_threshold(X[PAIRS], SIMILAR),
    "max_fpr": lambda metric: metric.calibrate_threshold(
        X[PAIRS], SIMILAR, "max_fpr", alpha=np.float32(0.05)
    ),
    "min_tpr": lambda metric: metric.calibrate_threshold(
        X[PAIRS], SIMILAR, "min_tpr", alpha=0.1, confidence=0.9
    ),
}


@pytest.mark.parametrize("kind", THRESHOLDS)
@pytest.mark.parametrize("start", ["estimator", "loaded"])
def test_a_threshold_and_its_promise_come_back(file, tmp_path, kind, start):
    metric = FrobMetric().fit(X, y) if start == "estimator" else load_metric(file)
    path = tmp_path / "threshold.safetensors"
    save_metric(path, THRESHOLDS[kind](metric))
    again = load_metric(path)
    assert again.threshold_ == metric.threshold_
    assert again.threshold_promise_ == metric.threshold_promise_
    assert (again.threshold_promise_ is not None) == (kind in ("max_fpr", "min_tpr"))
    np.testing.assert_array_equal(again.predict(X[PAIRS]), metric.predict(X[PAIRS]))
    # another distance has no threshold
    for other in (again.truncated(1), blend([again, again])):
        assert not hasattr(other, "threshold_") and other.threshold_promise_ is None


def test_a_threshold_is_kept_with_other_notes(tmp_path):
    metric = LearnedMetric.from_estimator(FrobMetric().fit(X, y)).set_threshold(2)
    save_metric(tmp_path / "metric.safetensors", metric, notes={"rows": 150})
    assert load_metric(tmp_path / "metric.safetensors").threshold_ == 2


def test_a_distance_is_no_map_of_queries(fitted):
    with pytest.raises(TypeError, match="is a distance, not a map of queries"):
        LearnedAdapter.from_estimator(fitted)


@pytest.fixture
def promised(file):
    save_metric(file, THRESHOLDS["max_fpr"](load_metric(file)))
    return file


def promise(**values):
    """A header that makes another promise."""
    return lambda header: put(threshold_promise={**header["state"]["threshold_promise"], **values})(
        header
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put(threshold="wide"), "threshold is 'wide'; expected a number"),
        (put(threshold=None), "threshold_promise is .*expected a threshold"),
        (put(threshold_promise=[1]), "threshold_promise is"),
        (promise(alpha=1e-4), "needs at least 29,956 dissimilar pairs"),
        (promise(alpha=1e-300), "alpha=1e-300"),
        (promise(alpha="0.1"), "alpha='0.1'"),
        (promise(confidence=1), "confidence=1"),
        (promise(errors=200), "errors=200"),
        (promise(errors=-1), "errors=-1"),
        (promise(n=10**400), "threshold_promise is .* can be true"),
        (promise(n=299.5), "must be integers"),
        (promise(strategy="always"), "strategy='always'"),
        (promise(strategy=[]), "threshold_promise is .* can be true"),
        (promise(more=1), "threshold_promise is .* can be true"),
    ],
)
def test_a_promise_that_cannot_be_true_is_refused(promised, change, message):
    forged(promised, change)
    with pytest.raises(MetricFileError, match=message):
        load_metric(promised)


def test_what_cannot_be_folded_is_refused():
    pipeline = make_pipeline(MinMaxScaler(), FrobMetric()).fit(X, y)
    with pytest.raises(TypeError, match="MinMaxScaler cannot be folded"):
        LearnedMetric.from_estimator(pipeline)
    with pytest.raises(ValueError, match="metric of a kernel"):
        LearnedMetric.from_estimator(RelativeComparisons(basis=rbf_kernel).fit(X[::2], y[::2]))
    with pytest.raises(TypeError, match="KNeighborsClassifier, which is not a metric"):
        LearnedMetric.from_estimator(make_pipeline(FrobMetric(), KNeighborsClassifier()).fit(X, y))


def test_saving_a_loaded_metric_keeps_everything(file, tmp_path):
    again = tmp_path / "again.safetensors"
    save_metric(again, load_metric(file))
    assert same_metric(load_metric(again), load_metric(file))


@pytest.fixture(params=["numbers", "numbers with missing values"])
def named(request, tmp_path):
    """A loaded metric with feature names, columns of values, and the rows they stand for."""
    rows = np.where(X > 6, np.nan, X) if "missing" in request.param else X
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), FrobMetric()).fit(rows, y)
    save_metric(tmp_path / "metric.safetensors", pipeline, feature_names=NAMES)
    metric = load_metric(tmp_path / "metric.safetensors")
    return metric, dict(zip(NAMES, rows.T, strict=True)), rows


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("seed", range(3))
def test_columns_of_a_data_frame_are_taken_by_name(named, library, seed):
    """In any order, among others that are ignored."""
    frames = pytest.importorskip(library)
    metric, columns, rows = named
    wanted = metric.transform(rows)
    rng = np.random.default_rng(seed)
    more = {**columns, "date": ["2024-01-01"] * 150, "id": np.arange(150)}
    for chosen in (columns, more):
        order = rng.permutation(list(chosen)).tolist()
        frame = frames.DataFrame({name: chosen[name] for name in order})
        np.testing.assert_array_equal(metric.transform(frame), wanted)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("n_missing", [1, 2, 4])
def test_missing_columns_are_named(named, library, n_missing):
    frames = pytest.importorskip(library)
    metric, columns, _ = named
    missing = metric.columns[-n_missing:]
    frame = frames.DataFrame({name: v for name, v in columns.items() if name not in missing})
    with pytest.raises(ValueError, match=r"metric\.columns") as caught:
        metric.transform(frame)
    assert all(repr(name) in str(caught.value) for name in missing)


def test_a_column_that_comes_twice_is_refused(named):
    metric, columns, _ = named
    frame = pandas.DataFrame(columns)
    with pytest.raises(ValueError, match="more than one column 'sepal width'"):
        metric.transform(pandas.concat([frame, frame["sepal width"]], axis=1))


def test_a_data_frame_without_stored_names_is_taken_in_its_order(tmp_path):
    save_metric(tmp_path / "metric.safetensors", FrobMetric().fit(X, y))
    metric = load_metric(tmp_path / "metric.safetensors")
    frame = pandas.DataFrame(X, columns=NAMES)
    np.testing.assert_array_equal(metric.transform(frame), metric.transform(X))


def test_it_is_a_fitted_transformer(file):
    metric = load_metric(file)
    assert clone(metric) is metric
    error = 1 - make_pipeline(metric, KNeighborsClassifier(3)).fit(X, y).score(X, y)
    assert error < 0.05
    same = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(same.transform(X), metric.transform(X))
    assert "4 features to 3" in repr(metric)


def test_truncated_keeps_the_leading_directions(file):
    metric = load_metric(file)
    np.testing.assert_array_equal(metric.truncated(2).transform(X), metric.transform(X)[:, :2])
    assert metric.truncated(3).certificate == metric.certificate
    assert metric.truncated(2).certificate is None  # what was proven is not about this metric
    with pytest.raises(ValueError, match="n_components=9"):
        metric.truncated(9)


def test_an_estimator_survives_pickle(fitted):
    same = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(same.transform(X), fitted.transform(X))


# ---- damage


def same_metric(metric, reference):
    return metric.get_params(deep=False).keys() == reference.get_params(deep=False).keys() and all(
        np.array_equal(value, getattr(reference, name))
        for name, value in metric.get_params(deep=False).items()
    )


def mutated(data, rng, kind):
    """Bytes of a file with some of them changed, or of another length."""
    header = 8 + struct.unpack("<Q", data[:8])[0]
    data = bytearray(data)
    if kind == "a bit":
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
    elif kind == "length":
        cut = rng.random() < 0.8
        return data[: rng.integers(len(data))] if cut else data + bytes(rng.integers(1, 50))
    elif kind == "a stretch of the header":
        start = rng.integers(8, header)
        data[start : start + rng.integers(1, 20)] = rng.bytes(rng.integers(0, 20))
    else:
        data[rng.integers(header)] ^= 1 << rng.integers(8)
    return data


@pytest.mark.parametrize(
    "kind", ["a bit", "length", "a stretch of the header", "a bit of the header"]
)
def test_a_mutated_file_is_refused_or_the_same(file, kind, seed):
    reference, whole = load_metric(file), file.read_bytes()
    for number in range(50):
        with case(seed=seed, number=number):
            rng = np.random.default_rng([seed, number])
            file.write_bytes(mutated(whole, rng, kind))
            try:
                metric = load_metric(file)
            except MetricFileError as error:
                assert str(file) in str(error)
            else:
                assert same_metric(metric, reference)


def forged(file, change_header=None, change_arrays=None):
    """A file with a valid checksum but other contents, as someone hostile would write it."""
    metric = load_metric(file)
    arrays = {"components": metric.components.copy(), "offset": metric.offset.copy()}
    raw = file.read_bytes()
    outer = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
    header = json.loads(outer["__metadata__"]["conemetric"])
    if change_header:
        header = change_header(header)
    if change_arrays:
        change_arrays(arrays)
    text = header if isinstance(header, str) else json.dumps(header)
    file.write_bytes(save(arrays, {"conemetric": text, "sha256": digest(text, arrays)}))


def ranking_sum(**changes):
    """Weights of scores as a header holds them, changed."""
    weights = {"embedding": 1.0, "bm25": 0.5}
    plain = {"normalization": "raw", "similarity": "cosine", "target": None, "window": None}
    return {"weights": weights, **plain, **changes}


def certify(**values):
    """A header whose certificate is another one, its gaps as they follow unless given."""

    def change(header):
        certificate = {**header["state"]["certificate"], **values}
        bounds = Bounds(certificate["primal"], certificate["dual"], certificate["violation"])
        follows = Certificate.from_bounds(bounds, Status.CONVERGED)
        gaps = {name: getattr(follows, name) for name in ("gap", "relative_gap")}
        certificate = {**certificate, **gaps, **values}
        return put(certificate=split_state(certificate)[0])(header)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put_in_header(format=2), "format 2 is newer"),
        (put_in_header(format="1"), "no format number"),
        (put_in_header(extra=1), "other fields than format, kind, state"),
        (put_in_header(state=[]), "components is an array"),
        (put(scores=[]), "scores is"),
        (put(scores={"weights": {"embedding": 1.0}}), "scores.similarity is 'missing'"),
        (put(scores=ranking_sum(weights={"a": 1.0})), "scores.weights is"),
        (put(scores=ranking_sum(weights={"embedding": -1.0})), "scores.weights.embedding is -1"),
        (put(scores=ranking_sum(weights={"embedding": "1"})), "scores.weights.embedding is '1'"),
        (put(scores=ranking_sum(normalization="middle")), "scores.normalization is 'middle'"),
        (put(scores=ranking_sum(normalization=None)), "scores.normalization is None"),
        (put(scores=ranking_sum(similarity="hamming")), "scores.similarity is 'hamming'"),
        (put(scores=ranking_sum(target="solr")), "scores.target is 'solr'"),
        (put(scores=ranking_sum(window=0)), "scores.window is 0"),
        (put(extra=1), "extra is 1; expected no such field"),
        (put(encoder=3), "encoder is 3"),
        (put(maps="documents"), "maps is 'documents'"),
        (put(maps=["rows"]), "maps is"),
        (put(maps="queries", threshold=1.0), "threshold is 1.0"),
        (put(feature_names=["a"]), "feature_names or fill is 1"),
        (put(feature_names=[1, 2, 3, 4]), "feature_names.0 is 1"),
        (put(preprocessing="x"), "preprocessing is 'x'"),
        (put(method=7), "method is 7"),
        (put(parameters=[]), "parameters is"),
        (put(certificate={"primal": 1.0}), "certificate.dual is 'missing'"),
        (put(certificate=3), "certificate is 3"),
        (certify(dual=1e9), "certificate.relative_gap is"),
        (certify(gap=0.0), "certificate.gap is"),
        (certify(relative_gap=1e-9), "certificate.relative_gap is"),
        (certify(primal=np.nan, gap=np.nan, relative_gap=np.nan), "certificate.gap is"),
        (certify(violation=-1.0), "certificate.violation is"),
        (certify(violation=np.nan), "certificate.violation is"),
        (certify(status="proven"), "certificate.status is"),
        (put(certificate={"primal": 10**400}), "certificate"),
        (lambda header: "[" * 100_000, "not JSON"),
        (lambda header: '{"format": ' + "1" * 5000 + "}", "not JSON"),
        (lambda header: '{"format": NaN}', "not JSON"),
        (lambda header: "7", "not an object"),
    ],
)
def test_a_hostile_header_is_refused(file, change, message):
    forged(file, change)
    with pytest.raises(MetricFileError, match=message):
        load_metric(file)


@pytest.mark.parametrize(
    "values", [{"dual": -np.inf}, {"violation": 0.5, "dual": 1e9}, {"primal": 0.0, "dual": 0.0}]
)
def test_certificates_that_can_be_true_are_read(file, values):
    forged(file, certify(**values))
    certificate = load_metric(file).certificate
    assert all(getattr(certificate, name) == float(value) for name, value in values.items())


def test_a_damaged_file_is_refused_in_bounded_memory(tmp_path):
    path, block = tmp_path / "large.safetensors", 1 << 25
    save_metric(path, LearnedMetric(np.ones((2048, 4096)), np.zeros(2048)))
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\1")
    tracemalloc.start()
    with pytest.raises(MetricFileError, match="checksum"):
        load_metric(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < block < path.stat().st_size


def spoil(name, value):
    def change(arrays):
        arrays[name] = value(arrays[name])

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil("components", lambda a: np.where(a == a[0, 0], np.nan, a)), "an entry of .* is nan"),
        (spoil("components", lambda a: a * 1e300), "entry of components is"),
        (spoil("components", lambda a: a.astype(np.int64)), "components.dtype is"),
        (spoil("components", lambda a: a[:2]), "offset.shape is"),
        (spoil("offset", lambda a: a[:, None]), "offset.shape is"),
        (lambda arrays: arrays.pop("offset"), "offset is"),
        (lambda arrays: arrays.update(more=np.zeros(2)), "more is an array"),
    ],
)
def test_hostile_arrays_are_refused(file, change, message):
    forged(file, change_arrays=change)
    with pytest.raises(MetricFileError, match=message):
        load_metric(file)


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "other.safetensors"
    other.write_bytes(save({"weights": np.zeros(3)}))
    with pytest.raises(MetricFileError, match="not one that conemetric wrote"):
        load_metric(other)
    with pytest.raises(FileNotFoundError, match="no metric file"):
        load_metric(tmp_path)


def test_a_metric_that_is_not_finite_is_not_saved(tmp_path):
    with pytest.raises(MetricFileError, match="an entry of components is nan"):
        save_metric(tmp_path / "bad", LearnedMetric(np.full((1, 2), np.nan), np.zeros(1)))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_a_full_disk_names_the_file(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device.*kept\.csv") as caught,
        atomic_path(tmp_path / "kept.csv"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as file.write() raises it
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_tensors_and_frames_come_out_as_asked(fitted):
    metric = LearnedMetric.from_estimator(fitted)
    expected = metric.transform(X)
    frame = LearnedMetric.from_estimator(fitted).set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(metric.get_feature_names_out())
    np.testing.assert_array_equal(frame.to_numpy(), expected)
    torch = pytest.importorskip("torch")
    for dtype, rtol in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        mapped = metric.transform(torch.as_tensor(X, dtype=dtype))
        assert mapped.dtype == dtype
        np.testing.assert_allclose(mapped.numpy(), expected, rtol=rtol, atol=rtol)


def test_notes_that_are_not_json_are_refused(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"notes is .* expected a dict of plain values"):
        save_metric(tmp_path / "metric.safetensors", fitted, notes={"a": object()})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("steps", [(), (StandardScaler(),), (StandardScaler(), PCA(3))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_metric_is_folded_with_its_offset(file, steps, dtype):
    metric = load_metric(file)
    metric = LearnedMetric(metric.components[:, :3].astype(dtype), metric.offset)
    pipeline = make_pipeline(*steps, metric).fit(X[:, :3])
    folded = LearnedMetric.from_estimator(pipeline)
    np.testing.assert_allclose(folded.transform(X[:, :3]), pipeline.transform(X[:, :3]), atol=1e-10)


def test_an_unfitted_pipeline_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save_metric(tmp_path / "none.safetensors", make_pipeline(StandardScaler(), FrobMetric()))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("steps", [(), (StandardScaler(), PCA(4))])
@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.costly
def test_a_table_encoder_is_folded_in(tmp_path, library, steps, sparse_output):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    table = {
        "width": [None if rng.random() < 0.2 else x for x in X[:, 0].tolist()],
        "colour": [
            None if rng.random() < 0.1 else c for c in rng.choice(["red", "blue", "x"], 150)
        ],
        "id": np.arange(150).tolist(),
        "length": X[:, 2].tolist(),
        "day": [f"2024-01-{d:02d}" for d in rng.integers(1, 29, 150)],
    }
    encoder = TableEncoder(sparse_output=sparse_output and not steps)
    pipeline = make_pipeline(encoder, *steps, FrobMetric()).fit(frames.DataFrame(table), y)
    path = tmp_path / "metric.safetensors"
    save_metric(path, pipeline)
    metric = load_metric(path)
    assert metric.columns == ["width", "colour", "length", "day"]
    assert metric.feature_names[:2] == ["width", "width=(missing)"]
    new = {**table, "colour": ["green", *table["colour"][1:]], "other": table["id"]}
    new = frames.DataFrame(dict(reversed(new.items())))
    expected = pipeline.transform(new)
    np.testing.assert_allclose(metric.transform(new), expected, atol=1e-10)
    features = pipeline[0].transform(new)
    features = features.toarray() if sparse_output and not steps else features
    np.testing.assert_allclose(metric.of_features().transform(features), expected, atol=1e-10)
    assert same_state(metric.state(), LearnedMetric.from_estimator(pipeline).state())
    both = blend([metric, metric])
    ratio = both.transform(new).var(0).sum() / expected.var(0).sum()
    assert np.allclose(both.transform(new).var(0).sum(), ratio * expected.var(0).sum())
    with pytest.raises(ValueError, match="X has no column 'length', which was present during fit"):
        metric.transform(frames.DataFrame({k: v for k, v in table.items() if k != "length"}))
    with pytest.raises(ValueError, match="'width' holds 'wide', which is not a number"):
        metric.transform(frames.DataFrame({**table, "width": ["wide"] * 150}))
    other = make_pipeline(TableEncoder(), FrobMetric()).fit(frames.DataFrame(table)[:100], y[:100])
    with pytest.raises(ValueError, match="categories or missing values differently"):
        blend([metric, other])


def crafted(state, rng):
    """A state with one field, at any depth, replaced by something else."""
    keys = list(state) if isinstance(state, dict) else list(range(len(state)))
    key = keys[rng.integers(len(keys))]
    value = state[key]
    copy = dict(state) if isinstance(state, dict) else list(state)
    if isinstance(value, (dict, list)) and value and "$tensor" not in value and rng.random() < 0.8:
        copy[key], name = crafted(value, rng)
        return copy, f"{key}.{name}"
    others = [
        None,
        -3,
        0,
        1e200,
        "a",
        "<U100000000",
        True,
        [],
        {},
        [[["x"]]],
        {"$float": "nan"},
        7.5,
    ]
    copy[key] = others[rng.integers(len(others))]
    return copy, str(key)


def test_a_crafted_file_is_refused_by_name_or_used(tmp_path, crafted_metric):
    """Every declared field replaced, with a valid checksum."""
    for seed in range(300):
        with case(seed=seed):
            check_crafted(tmp_path / "crafted.safetensors", *crafted_metric, seed)


def check_crafted(path, reference, table, seed):
    header, arrays = split_state(reference.state())
    rng = np.random.default_rng(seed)
    if seed % 3:
        header, name = crafted(header, rng)
    else:
        name = list(arrays)[rng.integers(len(arrays))]
        array = arrays[name].astype(np.float64)
        kind = seed // 3 % 5
        if kind < 3 and array.size:
            array.flat[rng.integers(array.size)] = [np.nan, 1e300, -1.0][kind]
        arrays[name] = array[:-1] if kind == 3 else array.astype(np.int64) if kind == 4 else array
    text = json.dumps({"format": 1, "kind": "metric", "state": header})
    path.write_bytes(save(arrays, {"conemetric": text, "sha256": digest(text, arrays)}))
    tracemalloc.start()
    try:
        metric = load_metric(path)
        mapped = metric.transform(table)
        assert np.isfinite(mapped).all() and mapped.shape == (len(table), len(metric.components))
        assert metric.columns and repr(metric)
        if metric.certificate is not None:
            assert metric.certificate.dual <= metric.certificate.primal * (1 + 1e-6)
    except MetricFileError as error:
        names = [*filter(lambda part: not part.isdigit(), name.split(".")), ".shape"]
        assert any(part in str(error) for part in names)
    except ValueError as error:  # a column that the crafted encoder wants
        assert "column" in str(error)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


@pytest.fixture(scope="module")
def crafted_metric():
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(
        {
            "width": np.where(rng.random(150) < 0.2, np.nan, X[:, 0]),
            "colour": rng.choice(["red", "blue", "green"], 150),
            "size": pandas.Categorical(rng.choice(["s", "l"], 150), ["s", "l"], ordered=True),
            "flag": rng.random(150) < 0.4,
            "day": [f"2024-01-{d:02d}" for d in rng.integers(1, 29, 150)],
            "name": [f"name {i}" for i in range(150)],
        }
    )
    metric = make_pipeline(TableEncoder(), FrobMetric()).fit(table, y)
    metric = LearnedMetric.from_estimator(metric, notes={"rows": 150})
    return metric.set_threshold(1.5), table


def test_a_component_without_variance_is_divided_as_by_pca(dtype):
    rng = np.random.default_rng(0)
    rows = np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))]).astype(dtype)
    pipeline = make_pipeline(PCA(whiten=True), FrobMetric()).fit(rows, y)
    new = rng.normal(size=(20, 6)).astype(dtype)
    wanted = pipeline.transform(new)
    mapped = LearnedMetric.from_estimator(pipeline).transform(new)
    np.testing.assert_allclose(mapped, wanted, atol=1e-4 * abs(wanted).max())


def test_a_loaded_metric_of_tables_compares_no_raw_rows(tmp_path):
    scaled = X * [1, 100, 0.01, 1]  # as many features as columns: nothing else would tell
    pipeline = make_pipeline(TableEncoder(), FrobMetric()).fit(scaled, y)
    save_metric(tmp_path / "metric.safetensors", pipeline)
    metric = load_metric(tmp_path / "metric.safetensors")
    calls = [
        lambda: metric.pair_distance(scaled[None, :2]),
        lambda: metric.get_metric()(*scaled[:2]),
        lambda: LearnedMetric.from_estimator(make_pipeline(metric)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"encodes tables .*of_features\(\)"):
            call()
    wanted = np.linalg.norm(np.subtract(*metric.transform(scaled[:2])))
    encoded = metric.encoder.transform(scaled[:2])
    of_features = metric.of_features()
    assert of_features.pair_distance(encoded[None]) == pytest.approx(wanted)
    assert of_features.get_metric()(*encoded) == pytest.approx(wanted)


def test_a_loaded_metric_that_fills_missing_values_fills_them_for_distances():
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), FrobMetric()).fit(holes, y)
    metric = LearnedMetric.from_estimator(pipeline)
    one, other = holes[np.isnan(holes).any(1)][:2]
    wanted = np.linalg.norm(np.subtract(*pipeline.transform([one, other])))
    assert metric.get_metric()(one, other) == pytest.approx(wanted)
    with pytest.warns(UserWarning, match="a step of a pipeline does not"):
        LearnedMetric.from_estimator(make_pipeline(metric))
