"""Checkpoints: nothing in one is executed, and one that cannot be read says so."""

import json
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import save
from sklearn.exceptions import ConvergenceWarning

from conemetric import BoostMetric, FrobMetric, LMNNEig
from conemetric.blocks.checkpoint import read_array, write_array

da = pytest.importorskip("dask.array")

METRICS = {
    "FrobMetric": FrobMetric(C=100.0, tol=0.0, max_iter=22),
    "LMNNEig": LMNNEig(tol=0.0, max_iter=22),
    "BoostMetric": BoostMetric(
        solver="stagewise", loss="exponential", v=1e-7, tol=0.0, max_iter=22
    ),
}


class Trap:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def fit(name, folder):
    rng = np.random.default_rng(13)
    y = rng.integers(0, 3, 120)
    X = da.from_array(rng.normal(size=(120, 4)) + 0.7 * y[:, None], chunks=(60, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        METRICS[name].fit(X, da.from_array(y, chunks=60), checkpoint=str(folder))


@pytest.fixture(scope="module", params=METRICS)
def kept(request, tmp_path_factory):
    """(name of a metric, folder of its checkpoint)."""
    folder = tmp_path_factory.mktemp("kept")
    fit(request.param, folder)
    assert (folder / "state").exists()
    return request.param, folder


@pytest.fixture
def checkpoint(kept, tmp_path):
    """The same, to be damaged."""
    return kept[0], Path(shutil.copytree(kept[1], tmp_path / "checkpoint"))


def damages(mark):
    """By name: what becomes of the bytes of a file."""
    yield "pickle", lambda text: pickle.dumps(Trap(mark))
    yield (
        "array of objects",
        lambda text: b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}" + pickle.dumps(Trap(mark)),
    )
    yield "empty", lambda text: b""
    yield "one byte less", lambda text: text[:-1]
    yield "junk", lambda text: np.random.default_rng(0).bytes(len(text))
    yield "JSON", lambda text: b"[1, 2]"
    yield "nested JSON", lambda text: b"[" * 100_000
    yield "other arrays", lambda text: save({"a": np.ones(3), "b": np.ones(3)})


@pytest.mark.cases(6)
@pytest.mark.parametrize("damage", [name for name, _ in damages(None)])
def test_a_damaged_file_is_named_and_never_executed(checkpoint, damage, tmp_path):
    name, folder = checkpoint
    mark = tmp_path / "executed"
    change = dict(damages(mark))[damage]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        path.write_bytes(change(whole))
        with pytest.raises(ValueError, match=r"pass another folder .* or empty this one") as raised:
            fit(name, folder)
        assert str(path) in str(raised.value)
        path.write_bytes(whole)
    assert not mark.exists()


def test_the_label_is_compared_before_any_other_file_is_opened(checkpoint):
    name, folder = checkpoint
    record = json.loads((folder / "state").read_text())
    (folder / "state").write_text(json.dumps({**record, "label": {"estimator": "Other"}}))
    shutil.rmtree(folder / str(record["serial"]))
    with pytest.raises(ValueError, match="'Other' there"):
        fit(name, folder)


@pytest.mark.parametrize("more", [-1, 1])
def test_arrays_of_another_shape_are_refused(checkpoint, more):
    name, folder = checkpoint
    state = json.loads((folder / "state").read_text())
    for path in sorted((folder / str(state["serial"])).rglob("*")):
        if path.is_file() and np.ndim(read_array(str(path))):
            whole, array = path.read_bytes(), read_array(str(path))
            write_array(array[:-1] if more < 0 else np.concatenate([array, array]), str(path))
            with pytest.raises(ValueError, match=r"checkpoint .* or empty this one"):
                fit(name, folder)
            path.write_bytes(whole)


@pytest.mark.parametrize("serial", ["../../precious", 0, True, None])
def test_a_number_of_a_state_is_no_path(checkpoint, serial):
    name, folder = checkpoint
    precious = folder.parent / "precious"
    precious.mkdir()
    record = json.loads((folder / "state").read_text())
    (folder / "state").write_text(json.dumps({**record, "serial": serial}))
    with pytest.raises(ValueError, match="state' is damaged"):
        fit(name, folder)
    assert precious.exists()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (4, 0)])
@pytest.mark.parametrize("order", ["C", "F", "C, every other"])
def test_an_array_comes_back_bit_by_bit_and_in_its_order(dtype, shape, order, tmp_path):
    array = np.random.default_rng(0).normal(size=shape).astype(dtype, order=order[0])
    if order == "C, every other" and shape:
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    write_array(array, str(tmp_path / "array"))
    found = read_array(str(tmp_path / "array"))
    assert_array_equal(found, array, strict=True)
    if array.size and len(order) == 1:
        assert found.strides == array.strides
