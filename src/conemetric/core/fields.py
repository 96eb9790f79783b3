"""Stored fields, each declared once: what a field may hold and how it relates to others.

An object that can be stored has ``state()``, a nested dict of JSON values and NumPy arrays, and
a classmethod ``from_state(state)`` that checks the dict against its declared fields and rebuilds
the object. `Stored` gives both to a dataclass::

    @dataclass(frozen=True)
    class Model(Stored):
        n_neighbors: Annotated[int, Number(1, whole=True)]
        points: Annotated[np.ndarray, Array("f", ("n", "d"))]
        held_out: Annotated[np.ndarray, Array("iu", ("h",), low=0, below="n", increasing=True)]
        kernel: Annotated[str, Text(("gaussian", "laplacian"))]

Sizes are names: every field of the same `check` must agree on them. A check reads values and
shapes only and allocates nothing that grows with what the state claims.
"""

import dataclasses
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

LARGEST = 1e150  # of a finite number: its square is still finite
MAX_TEXT = 1 << 20  # characters
MAX_LABEL_BYTES = 1 << 28  # of labels as one NumPy array
MAX_DEPTH = 20  # of plain values

Sizes = dict[str, int]
State = dict[str, Any]  # of JSON values and arrays
E = TypeVar("E")


class FieldError(ValueError):
    """A stored field that cannot be used: its dotted name, its value and what was expected."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        shown = reprlib.repr(value)
        if isinstance(value, np.ndarray):
            shown = f"an array {value.shape} of {value.dtype}"
        super().__init__(f"{name} is {shown}; expected {expected}")


def check(
    values: object, fields: Mapping[str, "Field"], within: str = "", sizes: Sizes | None = None
) -> Sizes:
    """Refuse values that are not exactly these fields, naming the first that is not and what they
    are ``within``. Return the sizes found, beside those known; a size comes before the entries
    that must be ``below`` it.
    """
    sizes = {} if sizes is None else sizes
    if not isinstance(values, dict):
        raise FieldError(within or "state", values, "an object with named fields")
    for name in values:
        expect(name in fields, _join(within, name), values[name], "no such field")
    for name in fields:
        expect(name in values, _join(within, name), "missing", "this field")
    for name, each in fields.items():
        each.check_given(_join(within, name), values[name], sizes)
    return sizes


def expect(condition: object, name: str, value: object, expected: str) -> None:
    """Refuse a field unless a condition holds that relates it to others."""
    if not condition:
        raise FieldError(name, value, expected)


def with_parameters(cls: Callable[..., E], parameters: Any, within: str) -> E:
    """A scikit-learn estimator with stored parameters, validated."""
    try:
        estimator: Any = cls(**parameters)
        estimator._validate_params()
    except (TypeError, ValueError) as error:
        raise FieldError(within, parameters, f"those of it ({error})") from error
    return estimator


class Stored:
    """Mixin of a dataclass whose state is its fields, all declared as ``Annotated[type, Field]``."""

    @classmethod
    def declared(cls) -> dict[str, "Field"]:
        """What each field may hold."""
        fields: Any = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {each.name: each.type.__metadata__[0] for each in fields}

    def state(self) -> State:
        """The fields as a dict of JSON values and arrays."""
        return {name: getattr(self, name) for name in self.declared()}

    @classmethod
    def from_state(cls, state: Any, within: str = "state") -> Self:
        """The object of such a state, checked."""
        check(state, cls.declared(), within)
        return cls(**state)


@dataclass(frozen=True)
class Field:
    """What a field may hold, here any value; None too if it is ``optional``."""

    optional: bool = field(default=False, kw_only=True)

    def check_given(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check the value unless it is None and may be."""
        if value is not None or not self.optional:
            self.check(name, value, sizes)

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check the value against the sizes that are known, and enter its own."""


@dataclass(frozen=True)
class Plain(Field):
    """A JSON value of a type, such as notes or a truth value."""

    kind: type = dict

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        fits = isinstance(value, self.kind) and _is_plain(value)
        expect(fits, name, value, f"a {self.kind.__name__} of plain values")


@dataclass(frozen=True)
class Number(Field):
    """A number from ``low`` to ``high``; above and below them if ``strict``."""

    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = field(default=False, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    nan: bool = field(default=False, kw_only=True)  # NaN and infinities are allowed too

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        number = isinstance(value, int if self.whole else (int, float))
        allowed = self.nan and isinstance(value, float) and not math.isfinite(value)
        fits = number and not isinstance(value, bool) and (allowed or _inside(self, value))
        expect(fits, name, value, f"{'an integer' if self.whole else 'a number'} {_range(self)}")


@dataclass(frozen=True)
class Text(Field):
    """A string, one of ``choices`` if there are any."""

    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, str) and len(value) <= MAX_TEXT, name, value, "a string")
        known = not self.choices or value in self.choices
        expect(known, name, value, f"one of {', '.join(self.choices)}")


@dataclass(frozen=True)
class Array(Field):
    """A NumPy array with a dtype of one of ``kinds`` ("f", "iu", "b") and a shape of named or fixed
    sizes, finite, its entries from ``low`` to ``high`` (between, if ``strict``) and less than the
    size ``below``.
    """

    kinds: str
    shape: tuple[str | int, ...]
    low: float = field(default=-LARGEST, kw_only=True)
    high: float = field(default=LARGEST, kw_only=True)
    below: str | None = field(default=None, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    increasing: bool = field(default=False, kw_only=True)  # strictly

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        expected = f"an array ({', '.join(map(str, self.shape))}) of numbers {_range(self)}"
        expect(isinstance(value, np.ndarray), name, value, expected)
        expect(value.dtype.kind in self.kinds, f"{name}.dtype", str(value.dtype), expected)
        expect(value.ndim == len(self.shape), f"{name}.shape", value.shape, expected)
        _enter(f"{name}.shape", self.shape, value.shape, sizes)
        if value.dtype.kind == "b" or not value.size:
            return
        least, most = value.min().item(), value.max().item()  # NaN if any is
        for entry in (least, most):
            fits = math.isfinite(entry) and _inside(self, entry)
            expect(fits, f"an entry of {name}", entry, expected)
        if self.below is not None:
            limit = f"less than {self.below} = {sizes[self.below]}"
            expect(most < sizes[self.below], f"an entry of {name}", most, limit)
        rises = not self.increasing or bool((value[1:] > value[:-1]).all())
        expect(rises, name, "not increasing", "increasing numbers")


@dataclass(frozen=True)
class Each(Field):
    """A list whose entries all satisfy one declaration; sizes hold within an entry only."""

    entry: Field = field(default_factory=Field)
    size: str | None = None
    least: int = 0
    distinct: bool = field(default=False, kw_only=True)
    container: ClassVar[Any] = list

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        kind, distinct = self.container.__name__, "distinct " * self.distinct
        expected = f"a {kind} of at least {self.least} {distinct}entries"
        fits = isinstance(value, self.container) and len(value) >= self.least
        expect(fits, name, value, expected)
        if self.size is not None:
            _enter(name, (self.size,), (len(value),), sizes)
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            self.entry.check_given(_join(name, key), entry, dict(sizes))
        expect(not self.distinct or len(set(value)) == len(value), name, value, expected)


class Named(Each):
    """An object of any names, whose values all satisfy one declaration."""

    container = dict


# ---- labels: NumPy vectors of strings, numbers or booleans, which files keep as JSON

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
LABEL_DTYPES = {"str": str, "object": object, "bool": bool} | {
    name: np.dtype(name).type for name in (*INTEGERS, "float16", "float32", "float64")
}
LABEL_TYPES = (str, bool, int, float)


@dataclass(frozen=True)
class Labels(Field):
    """Labels as `labels_state` gives them, all different: at least ``least``, of a named ``size``."""

    size: str = "n_labels"
    least: int = 1

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        listed = Each(Field(), self.size, self.least)
        check(value, {"dtype": Text(tuple(LABEL_DTYPES)), "values": listed}, name, sizes)
        labels = value["values"]
        plain = all(isinstance(label, LABEL_TYPES) for label in labels)
        size = len(labels) * 4 * max((len(x) for x in labels if isinstance(x, str)), default=0)
        fits = plain and size <= MAX_LABEL_BYTES and len(set(labels)) == len(labels)
        try:
            back = labels_from_state(value).tolist() if fits else []
        except (OverflowError, ValueError):
            back = []
        same = back == labels and list(map(type, back)) == list(map(type, labels))
        expect(same, f"{name}.values", labels, f"distinct labels of dtype {value['dtype']}")


def storable_labels(labels: np.ndarray) -> np.ndarray:
    """The labels as they are when they have been stored and loaded: in native byte order, text no wider
    than the longest, and one of the two C types that are integers of 64 bits.
    """
    return labels_from_state(labels_state(labels))


def labels_state(labels: np.ndarray) -> dict[str, Any]:
    """Labels (strings, numbers, booleans) as JSON values; see `Labels`."""
    labels = np.asarray(labels)
    dtype = "str" if labels.dtype.kind == "U" else labels.dtype.name
    values = labels.tolist()
    if dtype not in LABEL_DTYPES or not all(isinstance(value, LABEL_TYPES) for value in values):
        raise TypeError(
            f"labels y of dtype {labels.dtype} cannot be saved; pass text, or integers or floats of "
            "at most 64 bits."
        )
    return {"dtype": dtype, "values": values}


def labels_from_state(state: Mapping[str, Any]) -> np.ndarray:
    """The labels of a state that `check` has accepted."""
    dtype: Any = LABEL_DTYPES[state["dtype"]]
    return np.array(state["values"], dtype)


# ---- helpers


def _enter(name: str, names: Sequence[str | int], shape: Sequence[int], sizes: Sizes) -> None:
    """Enter sizes; refuse one that differs from the same size of another field."""
    for each, size in zip(names, shape, strict=True):
        known = each if isinstance(each, int) else sizes.setdefault(each, size)
        expect(size == known, name, tuple(shape), f"{each} = {known}")


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        value = list(value.values())
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(_is_plain(each, depth + 1) for each in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _join(within: str, name: object) -> str:
    return f"{within}.{name!s:.80}".removeprefix(".")


def _inside(bounds: Number | Array, value: float) -> bool:
    if bounds.strict:
        return bounds.low < value < bounds.high
    return bounds.low <= value <= bounds.high


def _range(bounds: Number | Array) -> str:
    low, high, strict = bounds.low, bounds.high, bounds.strict
    if high < LARGEST:
        return f"{'between' if strict else 'from'} {low:g} {'and' if strict else 'to'} {high:g}"
    if low <= -LARGEST:
        return "that is finite"
    return f"{'above' if strict else 'of at least'} {low:g}"
