"""Stored fields, each declared once: what a field may hold and how it relates to others.

An object that can be stored has ``state()``, a nested dict of JSON values and NumPy arrays, and
a classmethod ``from_state(state)`` that checks the dict against its declared fields and rebuilds
the object::

    FIELDS = {
        "n_neighbors": Number(1, whole=True),
        "points": Array("f", ("n", "d")),
        "held_out": Array("iu", ("h",), low=0, below="n", increasing=True),
        "kernel": Text(("gaussian", "laplacian")),
    }
    check(state, FIELDS)

Sizes are names: every field of the same `check` must agree on them. A check reads values and
shapes only and allocates nothing that grows with what the state claims.
"""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = [
    "Array",
    "Each",
    "Field",
    "FieldError",
    "Flag",
    "Labels",
    "Named",
    "Nested",
    "Number",
    "Plain",
    "Text",
    "Texts",
    "check",
    "expect",
    "labels_from_state",
    "labels_state",
]

LARGEST = 1e150  # of a finite number: its square is still finite
MAX_TEXT = 1 << 20  # characters
MAX_LABEL_BYTES = 1 << 28  # of labels as one NumPy array
MAX_DEPTH = 20  # of plain values

Sizes = dict[str, int]


class FieldError(ValueError):
    """A stored field that cannot be used: its dotted name, its value and what was expected."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name, self.expected = name, expected
        super().__init__(f"{name} is {_shown(value)}; expected {expected}")


def check(
    values: object,
    fields: Mapping[str, "Field"],
    within: str = "",
    sizes: Sizes | None = None,
) -> Sizes:
    """Refuse values that are not exactly these fields; return the sizes found.

    Parameters
    ----------
    values : dict
        Of a name to a JSON value or a NumPy array.
    fields : dict of str to Field
    within : str, default=""
        Dotted name of what the values belong to, for messages.
    sizes : dict of str to int, default=None
        Sizes already known.

    Raises
    ------
    FieldError
    """
    sizes = {} if sizes is None else sizes
    if not isinstance(values, dict):
        raise FieldError(within or "state", values, "an object with named fields")
    for name in values:
        if name not in fields:
            raise FieldError(_join(within, name), values[name], "no such field")
    for name in fields:
        if name not in values:
            raise FieldError(_join(within, name), "missing", fields[name].expected())
    given = [
        (_join(within, name), values[name], each)
        for name, each in fields.items()
        if not (values[name] is None and each.optional)
    ]
    for name, value, each in given:
        each.measure(name, value, sizes)
    for name, value, each in given:
        each.check(name, value, sizes)
    return sizes


def expect(condition: object, name: str, value: object, expected: str) -> None:
    """Refuse a field unless a condition holds that relates it to others."""
    if not condition:
        raise FieldError(name, value, expected)


@dataclass(frozen=True)
class Field:
    """What a field may hold; None too if it is ``optional``."""

    optional: bool = field(default=False, kw_only=True)

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check the type and enter the sizes."""

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check the value, once all sizes are known."""

    def expected(self) -> str:
        """What a message says the field must be."""
        return "a value"


@dataclass(frozen=True)
class Plain(Field):
    """Any JSON value, such as notes; ``kind`` restricts the type (dict, list)."""

    kind: type = object

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, self.kind) and _is_plain(value), name, value, self.expected())

    def expected(self) -> str:
        return "plain values" if self.kind is object else f"a {self.kind.__name__} of plain values"


@dataclass(frozen=True)
class Flag(Field):
    """True or false."""

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, bool), name, value, self.expected())

    def expected(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Number(Field):
    """A number from ``low`` to ``high``; above and below them if ``strict``."""

    low: float = -LARGEST
    high: float = LARGEST
    whole: bool = field(default=False, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    nan: bool = field(default=False, kw_only=True)  # NaN and infinities are allowed too

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        number = isinstance(value, int if self.whole else (int, float))
        expect(number and not isinstance(value, bool), name, value, self.expected())
        if self.nan and isinstance(value, float) and not math.isfinite(value):
            return
        strict = self.low < value < self.high
        expect(
            strict or (not self.strict and self.low <= value <= self.high),
            name,
            value,
            self.expected(),
        )

    def expected(self) -> str:
        kind = "an integer" if self.whole else "a number"
        return f"{kind} {_range(self.low, self.high, self.strict)}"


@dataclass(frozen=True)
class Text(Field):
    """A string, one of ``choices`` if there are any."""

    choices: tuple[str, ...] = ()

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, str) and len(value) <= MAX_TEXT, name, value, self.expected())
        expect(not self.choices or value in self.choices, name, value, self.expected())

    def expected(self) -> str:
        return f"one of {', '.join(self.choices)}" if self.choices else "a string"


@dataclass(frozen=True)
class Texts(Field):
    """A list of strings, of a named ``size`` if given."""

    size: str | None = None
    distinct: bool = field(default=True, kw_only=True)
    choices: tuple[str, ...] = field(default=(), kw_only=True)

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        listed = isinstance(value, list) and all(
            isinstance(each, str) and len(each) <= MAX_TEXT for each in value
        )
        expect(listed, name, value, self.expected())
        expect(not self.distinct or len(set(value)) == len(value), name, value, self.expected())
        known = not self.choices or set(value) <= set(self.choices)
        expect(known, name, value, f"some of {', '.join(self.choices)}")
        if self.size is not None:
            _enter(name, (self.size,), (len(value),), sizes)

    def expected(self) -> str:
        return f"a list of {'distinct ' * self.distinct}strings"


@dataclass(frozen=True)
class Array(Field):
    """A NumPy array with a dtype of one of ``kinds`` ("f", "iu", "b") and a shape of named or fixed
    sizes, finite, its entries at least ``low`` (above, if ``strict``), at most ``high`` and less
    than the size ``below``.
    """

    kinds: str
    shape: tuple[str | int, ...]
    low: float = field(default=-LARGEST, kw_only=True)
    high: float = field(default=LARGEST, kw_only=True)
    below: str | None = field(default=None, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    increasing: bool = field(default=False, kw_only=True)  # strictly
    distinct: bool = field(default=False, kw_only=True)

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, np.ndarray), name, value, self.expected())
        kind = value.dtype.kind
        expect(kind in self.kinds, f"{name}.dtype", str(value.dtype), self.expected())
        expect(value.ndim == len(self.shape), f"{name}.shape", value.shape, self.expected())
        _enter(f"{name}.shape", self.shape, value.shape, sizes)

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if value.dtype.kind == "b" or not value.size:
            return
        finite = np.isfinite(value)
        if not finite.all():
            raise FieldError(f"an entry of {name}", value[~finite][0].item(), self.expected())
        least, most = value.min().item(), value.max().item()
        above = self.low < least if self.strict else self.low <= least
        expect(above, f"the least entry of {name}", least, self.expected())
        expect(most <= self.high, f"the largest entry of {name}", most, self.expected())
        if self.below is not None:
            limit = f"less than {self.below} = {sizes[self.below]}"
            expect(most < sizes[self.below], f"the largest entry of {name}", most, limit)
        if self.increasing:
            rises = bool((value[1:] > value[:-1]).all())
            expect(rises, name, "not increasing", self.expected())
        if self.distinct:
            expect(len(np.unique(value)) == value.size, name, "not distinct", self.expected())

    def expected(self) -> str:
        what = {"f": "floats", "b": "booleans"}.get(self.kinds, "numbers")
        order = "increasing " * self.increasing + "distinct " * self.distinct
        shape = ", ".join(map(str, self.shape))
        return f"an array ({shape}) of {order}{what} {_range(self.low, self.high, self.strict)}"


@dataclass(frozen=True)
class Nested(Field):
    """An object with fields of its own, which share the sizes of those around it."""

    fields: Mapping[str, Field] = field(default_factory=dict)

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        check(value, self.fields, name, sizes)

    def expected(self) -> str:
        return "an object with named fields"


@dataclass(frozen=True)
class Each(Field):
    """A list whose entries all satisfy one declaration; sizes hold within an entry only."""

    entry: Field = field(default_factory=Plain)
    size: str | None = None
    least: int = 0

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, list) and len(value) >= self.least, name, value, self.expected())
        if self.size is not None:
            _enter(name, (self.size,), (len(value),), sizes)

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        for number, entry in enumerate(value):
            _check_one(f"{name}.{number}", entry, self.entry, dict(sizes))

    def expected(self) -> str:
        return f"a list{f' of at least {self.least}' if self.least else ''}"


@dataclass(frozen=True)
class Named(Field):
    """An object of any names, whose values all satisfy one declaration."""

    entry: Field = field(default_factory=Plain)

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, dict), name, value, self.expected())
        for key, entry in value.items():
            _check_one(_join(name, key), entry, self.entry, dict(sizes))

    def expected(self) -> str:
        return "an object"


# ---- labels: NumPy vectors of strings, numbers or booleans, which files keep as JSON

LABEL_DTYPES = {"str": str, "object": object, "bool": bool} | {
    np.dtype(code).name: np.dtype(code).type for code in "bBhHiIlLqQefd"
}


@dataclass(frozen=True)
class Labels(Field):
    """Labels as `labels_state` gives them, all different: at least ``least``, of a named ``size``."""

    size: str = "n_labels"
    least: int = 1

    def measure(self, name: str, value: Any, sizes: Sizes) -> None:
        check(value, {"dtype": Text(tuple(LABEL_DTYPES)), "values": Plain(list)}, name)
        labels, dtype = value["values"], value["dtype"]
        _enter(f"{name}.values", (self.size,), (len(labels),), sizes)
        expect(len(labels) >= self.least, f"{name}.values", labels, self.expected())
        kinds = {"str": str, "bool": bool, "object": (str, bool, int, float)}
        allowed: Any = kinds.get(dtype, float if dtype.startswith("float") else int)
        for number, label in enumerate(labels):
            fits = isinstance(label, allowed) and (
                not isinstance(label, bool) or dtype in ("bool", "object")
            )
            expect(fits, f"{name}.values.{number}", label, f"a label of dtype {dtype}")
        size = len(labels) * 4 * max((len(x) for x in labels if isinstance(x, str)), default=0)
        expect(size <= MAX_LABEL_BYTES, f"{name}.values", f"{size:,} bytes", "less")
        expect(len(set(labels)) == len(labels), f"{name}.values", labels, "distinct labels")

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        try:
            same = labels_from_state(value).tolist() == value["values"]
        except (OverflowError, ValueError):
            same = False
        expect(same, f"{name}.values", value["values"], f"labels of dtype {value['dtype']}")

    def expected(self) -> str:
        return f"at least {self.least} distinct labels and their dtype"


def labels_state(labels: np.ndarray) -> dict[str, Any]:
    """Labels (strings, numbers, booleans) as JSON values; see `Labels`."""
    labels = np.asarray(labels)
    dtype = "str" if labels.dtype.kind == "U" else labels.dtype.name
    values = labels.tolist()
    if dtype not in LABEL_DTYPES or not all(isinstance(v, (str, bool, int, float)) for v in values):
        raise TypeError(f"labels of dtype {labels.dtype} cannot be stored; give text or numbers.")
    return {"dtype": dtype, "values": values}


def labels_from_state(state: Mapping[str, Any]) -> np.ndarray:
    """The labels of a state that `check` has accepted."""
    dtype: Any = LABEL_DTYPES[state["dtype"]]
    return np.array(state["values"], dtype)


# ---- helpers


def _check_one(name, value, declared, sizes):
    if value is None and declared.optional:
        return
    declared.measure(name, value, sizes)
    declared.check(name, value, sizes)


def _enter(name, names, shape, sizes):
    """Enter sizes; refuse one that differs from the same size of another field."""
    for each, size in zip(names, shape, strict=True):
        known = each if isinstance(each, int) else sizes.setdefault(each, size)
        expect(size == known, name, tuple(shape), f"{each} = {known}")


def _is_plain(value: Any, depth: int = 0) -> bool:
    if depth > MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v, depth + 1) for k, v in value.items())
    if isinstance(value, list):
        return all(_is_plain(each, depth + 1) for each in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _join(within: str, name: object) -> str:
    shown = name if isinstance(name, str) else repr(name)
    return f"{within}.{shown:.80}" if within else f"{shown:.80}"


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array {value.shape} of {value.dtype}"
    return reprlib.repr(value)


def _range(low: float, high: float, strict: bool) -> str:
    if high >= LARGEST:
        if low <= -LARGEST:
            return "that is finite"
        return f"{'above' if strict else 'of at least'} {low:g}"
    return f"{'between' if strict else 'from'} {low:g} {'and' if strict else 'to'} {high:g}"
