"""States in files: what is read is what was written, and what no state has is refused."""

import json

import numpy as np
import pytest
from safetensors.numpy import load, save

from conemetric.core.fields import FieldError, Number, check
from conemetric.storage.checked import (
    MetricFileError,
    digest,
    fields_of_file,
    join_state,
    read_state,
    split_state,
    write_state,
)


def state():
    rng = np.random.default_rng(0)
    return {
        "text": "x.y",
        "numbers": {"inf": np.inf, "low": -np.inf, "half": 0.5, "none": None, "yes": True},
        "rows": rng.normal(size=(5, 3)),
        "fortran": np.asfortranarray(rng.normal(size=(5, 3))),
        "hashes": np.array([2**64 - 1], np.uint64),
        "mask": np.array([True, False]),
        "parts": [{"alpha": rng.normal(size=4).astype(np.float32)}, {"alpha": np.arange(4)}],
        "empty": {"list": [], "dict": {}, "array": np.empty((0, 2))},
        "dotted.name": {"x": np.ones(1)},
    }


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.flags.f_contiguous == other.flags.f_contiguous
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


def test_a_file_holds_a_state_to_the_bit(tmp_path):
    path = tmp_path / "some.safetensors"
    write_state(path, "decision", 7, state())
    assert_same(read_state(path, "decision", 7), state())
    assert "parts.0.alpha" in load(path.read_bytes())
    with pytest.raises(MetricFileError, match="holds a decision, not a metric"):
        read_state(path, "metric", 7)
    with pytest.raises(MetricFileError, match="upgrade conemetric"):
        read_state(path, "decision", 6)


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rows": {"$tensor": "fortran"}}, "^rows is"),
        ({"rows": {"$tensor": "rows", "order": "X"}}, "^rows is"),
        ({"rows": {"$tensor": ["rows"]}}, "^rows is"),
        ({"rows": {"$tensor": "rows", "more": 1}}, "^rows is"),
        ({"rows": None}, "^rows is an array"),
        ({"text": {"$float": "1e5"}}, "^text is"),
        ({"text": {"$float": "inf", "x": 1}}, "^text is"),
        ({"text": {"$tensor": "none"}}, "^text is"),
    ],
)
def test_what_no_state_has_is_refused(change, match):
    header, arrays = split_state(state())
    with pytest.raises(FieldError, match=match):
        join_state({**header, **change}, arrays)


def written(path, header, arrays):
    """A crafted file with a valid checksum."""
    text = json.dumps(header)
    metadata = {"conemetric": text, "sha256": digest(text, arrays)}
    path.write_bytes(save(arrays, metadata))


def test_crafted_headers_are_refused(tmp_path):
    path = tmp_path / "crafted.safetensors"
    written(path, {"format": 1, "kind": "metric", "state": nested(900)}, {"x": np.ones(1)})
    with pytest.raises(MetricFileError):
        read_state(path, "metric", 1)
    written(path, {"format": 1, "kind": "metric"}, {"x": np.ones(1)})
    with pytest.raises(MetricFileError, match="other fields than format, kind, state"):
        read_state(path, "metric", 1)
    written(path, {"format": 1, "kind": "metric", "state": {}}, {"x": np.ones(1)})
    with pytest.raises(MetricFileError, match="x is an array"):
        read_state(path, "metric", 1)


def test_a_refused_field_names_the_file():
    with (
        pytest.raises(MetricFileError, match=r"'m.safetensors' .* width is 0; expected a number"),
        fields_of_file("m.safetensors"),
    ):
        check({"width": 0}, {"width": Number(0, strict=True)})
