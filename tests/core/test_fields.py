"""Declared fields: what fits is accepted, and each deviation is refused by the field's name."""

import tracemalloc
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pytest
from cases import each

from conemetric.core.fields import (
    ArrayField,
    Each,
    FieldError,
    Labels,
    Named,
    Number,
    Plain,
    Stored,
    Text,
    check,
    labels_from_state,
    labels_state,
)

FIELDS = {
    "n_neighbors": Number(1, whole=True),
    "width": Number(0, strict=True),
    "share": Number(0, 1),
    "loss": Number(nan=True),
    "exact": Plain(bool),
    "kernel": Text(("gaussian", "laplacian")),
    "names": Each(Text(), "d", distinct=True),
    "points": ArrayField("f", ("n", "d")),
    "pair": ArrayField("f", (2,), optional=True),
    "held_out": ArrayField("iu", ("h",), low=0, below="n", increasing=True),
    "keys": ArrayField("u", ("n",), high=np.inf),
    "coefficients": ArrayField("f", ("n", "t")),
    "columns": Each(ArrayField("f", ("v",), low=0), least=1),
    "weights": Named(Number(0)),
    "classes": Labels("t", 2),
    "notes": Plain(dict),
}


def good():
    return {
        "n_neighbors": 3,
        "width": 0.5,
        "share": 1,
        "loss": float("nan"),
        "exact": True,
        "kernel": "laplacian",
        "names": ["a", "b"],
        "points": np.ones((4, 2)),
        "pair": None,
        "held_out": np.array([0, 3]),
        "keys": np.arange(4, dtype=np.uint64) + np.uint64(2**63),
        "coefficients": np.zeros((4, 2)),
        "columns": [np.ones(1), np.ones(2)],
        "weights": {"bm25": 0.25},
        "classes": {"dtype": "str", "values": ["no", "yes"]},
        "notes": {"any": [1, None, {"x": "y"}]},
    }


def test_what_fits_is_accepted_and_sizes_are_returned():
    assert check(good(), FIELDS) == {"d": 2, "n": 4, "h": 2, "t": 2}


@dataclass(frozen=True)
class Model(Stored):
    n_neighbors: Annotated[int, Number(1, whole=True)]
    points: Annotated[np.ndarray, ArrayField("f", ("n", "d"))]
    name: ClassVar[str] = "model"


def test_the_state_of_a_dataclass_is_its_declared_fields():
    model = Model(3, np.ones((2, 1)))
    assert list(model.state()) == ["n_neighbors", "points"]
    assert Model.from_state(model.state()).points is model.points
    with pytest.raises(
        FieldError, match=r"rule\.n_neighbors is 0; expected an integer of at least 1"
    ):
        Model.from_state({**model.state(), "n_neighbors": 0}, "rule")
    with pytest.raises(FieldError, match="name is 'model'; expected no such field"):
        Model.from_state({**model.state(), "name": "model"})


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@each(
    ("name", "value"),
    [
        *[("n_neighbors", bad) for bad in (0, -3, "a", 2.0, True, None, 10**400)],
        *[("width", bad) for bad in (0, -1.0, float("nan"), float("inf"), 1e200, [])],
        *[("share", bad) for bad in (1.5, -0.1)],
        *[("loss", bad) for bad in ("nan", 1e200)],
        *[("exact", bad) for bad in (1, None, "true")],
        *[("kernel", bad) for bad in ("", "Gaussian", 3, ["gaussian"])],
        *[("names", bad) for bad in (["a", "a"], ["a", 1], "ab", ("a", "b"))],
        *[("points", np.full((4, 2), bad)) for bad in (np.nan, np.inf, 1e151)],
        *[("points", bad) for bad in (np.ones(4), np.ones((4, 3)), np.ones((4, 2), int), [[1.0]])],
        *[("points", bad) for bad in (np.ones((4, 2), object), np.ones((4, 2), complex))],
        ("pair", np.ones(3)),
        *[("held_out", np.array(bad)) for bad in ([3, 0], [0, 0], [0, 4], [-1, 0], [0.0, 1.0])],
        ("keys", np.zeros(4, np.int64)),
        *[("coefficients", bad) for bad in (None, {}, np.zeros((3, 2)))],
        *[("columns", bad) for bad in ([], {}, [np.ones((1, 2))], [np.ones(2), -np.ones(1)])],
        *[("weights", bad) for bad in ([], {"bm25": -1.0}, {"bm25": None})],
        *[("classes", {"dtype": "str", "values": bad}) for bad in (["a"], ["a", "a"], ["a", 1])],
        *[("classes", {"dtype": "<U100000000", "values": bad}) for bad in (["a", "b"],)],
        *[("classes", {"dtype": "uint8", "values": bad}) for bad in ([1, 300], [0, True], [0, -1])],
        *[("classes", {"dtype": "float32", "values": bad}) for bad in ([0.1, 0.5], [0, 1])],
        ("classes", {"dtype": "object", "values": ["a", ["b"]]}),
        ("classes", {"dtype": "str", "values": ["a", "b", "c"]}),
        *[("notes", bad) for bad in ([], {1: 2}, {"x": np.ones(2)}, {"x": nested(100)})],
        ("unknown", 1),
    ],
)
def test_each_deviation_is_refused_by_name(name, value):
    with pytest.raises(FieldError, match=name) as caught:
        check({**good(), name: value}, FIELDS)
    assert "expected" in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize("name", FIELDS)
def test_a_missing_field_is_named(name):
    state = good()
    del state[name]
    with pytest.raises(FieldError, match=f"^{name} is 'missing'"):
        check(state, FIELDS)


def test_claims_do_not_allocate():
    long = {"dtype": "str", "values": ["a" * 1_000_000, *map(str, range(2000))]}
    state = {**good(), "classes": long}
    tracemalloc.start()
    with pytest.raises(FieldError, match="classes"):
        check(state, FIELDS)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "a"]),
        np.array(["b", "a"], object),
        np.array(["b", 2, True, 0.5], object),
        np.array([2**62, -1]),
        np.array([0, 255], np.uint8),
        np.array([0.1, -0.0], np.float32),
        np.array([True, False]),
    ],
)
def test_labels_come_back_with_their_dtype(labels):
    state = labels_state(labels)
    check({"labels": state}, {"labels": Labels()})
    back = labels_from_state(state)
    assert back.dtype == labels.dtype
    np.testing.assert_array_equal(back, labels)


@pytest.mark.parametrize("labels", [np.array([1j]), np.array([None], object)])
def test_labels_that_json_lacks_are_refused(labels):
    with pytest.raises(TypeError, match="cannot be saved; pass text"):
        labels_state(labels)
