"""Metric files that were damaged, or written by someone hostile with a valid checksum.

Each is refused as no metric file, or is the same metric (damaged), or one that can be
used and saved again and whose certificate can be true (hostile).
"""

import json
import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import load, save

from conemetric import FrobMetric, load_metric, save_metric
from conemetric.storage import MetricFileError
from conemetric.storage.checked import digest

from .outcome import Outcome, timed

HOSTILE = (
    *("null", "true", "-1", "0", "1e308", "1e999", "-1e-320", "NaN", "Infinity", '"nan"', '""'),
    *('"\\u0000"', '"\\ud800"', "[]", "{}", "[[]]", '{"": null}', "1" * 5000, "[" * 2000),
    *("[4, 4]", "[-1, 4]", '["a", "b", "c", "d"]', '{"a": ["b"]}', '"converged"', '"truncated"'),
)


def same(metric, other):
    return metric.get_params(deep=False).keys() == other.get_params(deep=False).keys() and all(
        np.array_equal(value, getattr(other, name))
        for name, value in metric.get_params(deep=False).items()
    )


@cache
def original():
    """The bytes of a metric file."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric"
        save_metric(path, FrobMetric().fit(X + y[:, None], y), feature_names=list("abcd"))
        return path.read_bytes()


def damaged(rng):
    """The bytes after an accident: (what happened, bytes)."""
    data, kind = bytearray(original()), int(rng.integers(5))
    header = 8 + struct.unpack("<Q", data[:8])[0]
    if kind == 0:
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        return "a bit flipped", data
    if kind == 1:
        data[rng.integers(header)] ^= 1 << rng.integers(8)
        return "a bit of the header flipped", data
    if kind == 2:
        return "cut short", data[: rng.integers(len(data))]
    if kind == 3:
        return "lengthened", data + rng.bytes(rng.integers(1, 50))
    start = rng.integers(8, len(data))
    data[start : start + rng.integers(1, 20)] = rng.bytes(rng.integers(0, 20))
    return "a stretch overwritten", data


def forged(rng):
    """Other contents under a valid checksum: (what was changed, bytes)."""
    data = original()
    outer = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
    header, arrays = json.loads(outer["__metadata__"]["conemetric"]), load(data)
    if rng.random() < 0.3:
        name = str(rng.choice(sorted(arrays)))
        arrays[name] = spoiled(rng, arrays[name])
        text, what = json.dumps(header), f"{name} is {arrays[name].dtype} {arrays[name].shape}"
    else:
        state = header["state"]
        place = (state["certificate"], state, state, header)[rng.integers(4)]
        key = str(rng.choice(sorted(place)))
        value = HOSTILE[rng.integers(len(HOSTILE))]
        place[key] = "@"
        text, what = json.dumps(header).replace('"@"', value), f"{key} is {value[:12]}"
    return what, save(arrays, {"conemetric": text, "sha256": digest(text, arrays)})


def spoiled(rng, array):
    changes = (
        lambda: np.where(rng.random(array.shape) < 0.3, np.nan, array),
        lambda: np.where(rng.random(array.shape) < 0.3, np.inf, array),
        lambda: array * 1e300,
        lambda: array * 1e-320,
        lambda: array.astype(np.float32),
        lambda: array.astype(np.int64),
        lambda: array[:0],
        lambda: array[..., None],
        lambda: np.tile(array, 3),
    )
    return np.ascontiguousarray(changes[rng.integers(len(changes))]())


def use(metric, folder):
    """What one does with a metric; raises where something is wrong with it."""
    metric.transform(np.zeros((3, metric.n_features_in_)))
    metric.get_mahalanobis_matrix()
    save_metric(folder / "again", metric)
    if not same(load_metric(folder / "again"), metric):
        raise AssertionError("saved again it is another metric")
    proof = metric.certificate
    if proof is not None and proof.violation == 0 and not proof.gap >= -1e-6 * abs(proof.primal):
        raise AssertionError(f"a certificate that cannot be true: {proof}")


def attempt(number):
    """File number ``number``: damaged where it is even, hostile where it is odd."""
    rng = np.random.default_rng(number)
    hostile = number % 2 == 1
    what, data = forged(rng) if hostile else damaged(rng)
    what = f"a {'hostile' if hostile else 'damaged'} file: {what}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric"
        path.write_bytes(data)
        try:
            metric, seconds = timed(load_metric, path)
        except MetricFileError as error:
            faults = () if str(path) in str(error) else (f"the file is not named: {error}",)
            return Outcome(number, what, "refused", faults=faults)
        except Exception as error:
            return Outcome(number, what, type(error).__name__, faults=(repr(error)[:200],))
        path.write_bytes(original())
        if not hostile and not same(metric, load_metric(path)):
            return Outcome(number, what, "loaded", seconds, faults=("it is another metric",))
        try:
            use(metric, Path(folder))
        except Exception as error:
            return Outcome(number, what, "loaded", seconds, faults=(repr(error)[:200],))
        return Outcome(number, what, "loaded", seconds)
