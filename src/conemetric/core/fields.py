"""Stored fields, each declared once: what a field may hold and how it relates to others.

An object that can be stored has ``state()``, a nested dict of JSON values and NumPy arrays, and
a classmethod ``from_state(state)`` that checks the dict against its declared fields and rebuilds
the object. `Stored` gives both to a dataclass::

    @dataclass(frozen=True)
    class Model(Stored):
        n_neighbors: Annotated[int, Number(1, whole=True)]
        points: Annotated[np.ndarray, ArrayField("f", ("n", "d"))]
        held_out: Annotated[np.ndarray, ArrayField("iu", ("h",), low=0, below="n", increasing=True)]
        kernel: Annotated[str, Text(("gaussian", "laplacian"))]

Sizes are names: every field of the same `check` must agree on them. A check reads values and
shapes only and allocates nothing that grows with what the state claims.
"""

import dataclasses
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

MAX_MAGNITUDE = 1e150  # of a finite number: its square is still finite
MAX_TEXT = 1 << 20  # characters of a string
MAX_LABEL_BYTES = 1 << 28  # memory of labels as one NumPy array
MAX_DEPTH = 20  # levels of lists and objects within each other
BYTES_PER_CHARACTER = 4  # of NumPy's strings, which all have the length of the longest

Sizes = dict[str, int]  # the number that each named size stands for
State = dict[str, Any]  # JSON values and arrays
C = TypeVar("C")
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
    """Refuse values that are not exactly these fields.

    The error names the first field that is not as declared; its name begins with ``within``, that of
    the object whose values these are. Fields are checked in the order in which they are declared, so
    that a size must be declared before the entries that must be ``below`` it.

    Return ``sizes``, those known before, with the sizes of these values.
    """
    if sizes is None:
        sizes = {}
    if not isinstance(values, dict):
        raise FieldError(within or "state", values, "an object with named fields")
    for name in values:
        expect(name in fields, _join(within, name), values[name], "no such field")
    for name in fields:
        expect(name in values, _join(within, name), "missing", "this field")
    for name, declared in fields.items():
        declared.check_unless_none(_join(within, name), values[name], sizes)
    return sizes


def expect(condition: object, name: str, value: object, expected: str) -> None:
    """Refuse the value of a field unless ``condition`` holds."""
    if not condition:
        raise FieldError(name, value, expected)


def with_parameters(cls: Callable[..., E], parameters: Any, within: str) -> E:
    """Return a scikit-learn estimator with stored parameters, validated."""
    try:
        estimator: Any = cls(**parameters)
        estimator._validate_params()
    except (TypeError, ValueError) as error:
        raise FieldError(within, parameters, f"those of it ({error})") from error
    return estimator


def named_class(
    state: Any, field: str, classes: Mapping[str, type[C]], within: str
) -> tuple[type[C], State]:
    """Return the one of ``classes`` that this field of a state names, and the other fields."""
    name = None
    if isinstance(state, dict):
        name = state.get(field)
    known = isinstance(name, str) and name in classes
    expect(known, f"{within}.{field}", name, f"one of {', '.join(classes)}")
    others = dict(state)
    del others[field]
    return classes[str(name)], others


class Stored:
    """Mixin of a dataclass whose state is its fields, all declared as ``Annotated[type, Field]``."""

    @classmethod
    def declared(cls) -> dict[str, "Field"]:
        """Return what each field may hold, in the order of the dataclass."""
        fields: Any = dataclasses.fields(cls)  # type: ignore[arg-type]
        return {declared.name: declared.type.__metadata__[0] for declared in fields}

    def state(self) -> State:
        """Return the fields as a dict of JSON values and arrays."""
        return {name: getattr(self, name) for name in self.declared()}

    @classmethod
    def from_state(cls, state: Any, within: str = "state") -> Self:
        """Check such a state and return the object that has it."""
        check(state, cls.declared(), within)
        return cls(**state)


# ---- what a field may hold


@dataclass(frozen=True)
class Field:
    """What a field may hold, here any value; None too if it is ``optional``."""

    optional: bool = field(default=False, kw_only=True)

    def check_unless_none(self, name: str, value: Any, sizes: Sizes) -> None:
        """Check the value, or accept None if the field is optional."""
        if value is None and self.optional:
            return
        self.check(name, value, sizes)

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        """Refuse a value that is not as declared, or that contradicts ``sizes``; add its own to them."""


@dataclass(frozen=True)
class Plain(Field):
    """A JSON value of a type, such as an object with notes, or a boolean."""

    kind: type = dict

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        fits = isinstance(value, self.kind) and _is_plain(value)
        expect(fits, name, value, f"a {self.kind.__name__} of plain values")


@dataclass(frozen=True)
class Number(Field):
    """A number from ``low`` to ``high``, or strictly between them if ``strict``."""

    low: float = -MAX_MAGNITUDE
    high: float = MAX_MAGNITUDE
    whole: bool = field(default=False, kw_only=True)  # integers only
    strict: bool = field(default=False, kw_only=True)
    nan: bool = field(default=False, kw_only=True)  # NaN and infinities are allowed too

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        if self.whole:
            expected = f"an integer {_range(self)}"
            types: tuple[type, ...] = (int,)
        else:
            expected = f"a number {_range(self)}"
            types = (int, float)
        # to Python, True is an integer
        is_number = isinstance(value, types) and not isinstance(value, bool)
        expect(is_number, name, value, expected)
        may_be_infinite = self.nan and isinstance(value, float) and not math.isfinite(value)
        expect(may_be_infinite or _inside(self, value), name, value, expected)


@dataclass(frozen=True)
class Text(Field):
    """A string, one of ``choices`` if there are any."""

    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        expect(isinstance(value, str) and len(value) <= MAX_TEXT, name, value, "a string")
        if self.choices:
            expect(value in self.choices, name, value, f"one of {', '.join(self.choices)}")


@dataclass(frozen=True)
class ArrayField(Field):
    """A NumPy array of finite numbers, or of booleans.

    Its dtype is of one of ``kinds`` ("f", "iu", "b") and its shape one of named or fixed sizes. Its
    entries lie from ``low`` to ``high``, or strictly between them if ``strict``, and below the size
    that ``below`` names.
    """

    kinds: str
    shape: tuple[str | int, ...]
    low: float = field(default=-MAX_MAGNITUDE, kw_only=True)
    high: float = field(default=MAX_MAGNITUDE, kw_only=True)
    below: str | None = field(default=None, kw_only=True)
    strict: bool = field(default=False, kw_only=True)
    increasing: bool = field(default=False, kw_only=True)  # every entry above the one before

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        expected = f"an array ({', '.join(map(str, self.shape))}) of numbers {_range(self)}"
        expect(isinstance(value, np.ndarray), name, value, expected)
        expect(value.dtype.kind in self.kinds, f"{name}.dtype", str(value.dtype), expected)
        expect(value.ndim == len(self.shape), f"{name}.shape", value.shape, expected)
        _enter(f"{name}.shape", self.shape, value.shape, sizes)
        if value.dtype.kind == "b" or value.size == 0:
            return
        smallest = value.min().item()
        largest = value.max().item()
        for entry in (smallest, largest):  # both are NaN if any entry is
            fits = math.isfinite(entry) and _inside(self, entry)
            expect(fits, f"an entry of {name}", entry, expected)
        if self.below is not None:
            size = sizes[self.below]
            expect(
                largest < size, f"an entry of {name}", largest, f"less than {self.below} = {size}"
            )
        if self.increasing:
            rises = bool((value[1:] > value[:-1]).all())
            expect(rises, name, "not increasing", "increasing numbers")


@dataclass(frozen=True)
class Each(Field):
    """A list of entries that all satisfy one declaration; sizes hold within an entry only."""

    entry: Field = field(default_factory=Field)
    size: str | None = None  # the name of the number of entries
    least: int = 0  # the fewest entries
    distinct: bool = field(default=False, kw_only=True)
    container: ClassVar[Any] = list

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        entries = "distinct entries" if self.distinct else "entries"
        expected = f"a {self.container.__name__} of at least {self.least} {entries}"
        fits = isinstance(value, self.container) and len(value) >= self.least
        expect(fits, name, value, expected)
        if self.size is not None:
            _enter(name, (self.size,), (len(value),), sizes)
        for key, entry in self._items(value):
            # a copy, so that sizes of one entry do not bind the next
            self.entry.check_unless_none(_join(name, key), entry, dict(sizes))
        if self.distinct:
            expect(len(set(value)) == len(value), name, value, expected)

    @staticmethod
    def _items(value: Any) -> Iterable[tuple[object, Any]]:
        """Return the entries, each with what names it in an error."""
        return enumerate(value)


class Named(Each):
    """An object with any names, whose values all satisfy one declaration."""

    container = dict

    @staticmethod
    def _items(value: Any) -> Iterable[tuple[object, Any]]:
        return value.items()


# ---- labels: NumPy vectors of strings, numbers or booleans, which files keep as JSON

# The dtypes of labels, by their names: strings, booleans, objects that are one of LABEL_TYPES, and
# numbers of at most 64 bits. Two C types may be integers of 64 bits; a name stands for one of them.
LABEL_DTYPES: dict[str, type] = {"str": str, "object": object, "bool": bool}
for _name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
    LABEL_DTYPES[_name] = np.dtype(_name).type
for _name in ("float16", "float32", "float64"):
    LABEL_DTYPES[_name] = np.dtype(_name).type
LABEL_TYPES = (str, bool, int, float)


@dataclass(frozen=True)
class Labels(Field):
    """Labels as `labels_state` returns them, all different: ``least`` or more, of a named ``size``."""

    size: str = "n_labels"
    least: int = 1

    def check(self, name: str, value: Any, sizes: Sizes) -> None:
        entries = Each(Field(), self.size, self.least)
        check(value, {"dtype": Text(tuple(LABEL_DTYPES)), "values": entries}, name, sizes)
        labels = value["values"]
        fits = _are_plain_and_distinct(labels) and _come_back(value)
        expect(fits, f"{name}.values", labels, f"distinct labels of dtype {value['dtype']}")


def _are_plain_and_distinct(labels: list[Any]) -> bool:
    """Tell whether labels have the right types, differ, and fit in memory as one array."""
    if not all(isinstance(label, LABEL_TYPES) for label in labels):
        return False
    # one long label makes all of NumPy's strings long: few bytes of a file could fill memory
    longest = max((len(label) for label in labels if isinstance(label, str)), default=0)
    if len(labels) * longest * BYTES_PER_CHARACTER > MAX_LABEL_BYTES:
        return False
    return len(set(labels)) == len(labels)


def _come_back(state: Mapping[str, Any]) -> bool:
    """Tell whether an array of the stored dtype holds these labels unchanged, types included."""
    labels = state["values"]
    try:
        restored = labels_from_state(state).tolist()
    except (OverflowError, ValueError):
        return False
    return restored == labels and list(map(type, restored)) == list(map(type, labels))


def storable_labels(labels: np.ndarray) -> np.ndarray:
    """The labels as they are when they have been stored and loaded: in native byte order, text no wider
    than the longest, and one of the two C types that are integers of 64 bits.
    """
    return labels_from_state(labels_state(labels))


def labels_state(labels: np.ndarray) -> dict[str, Any]:
    """Return labels (strings, numbers, booleans) as JSON values; see `Labels`."""
    labels = np.asarray(labels)
    dtype = labels.dtype.name
    if labels.dtype.kind == "U":  # whose name tells the length of the longest
        dtype = "str"
    values = labels.tolist()
    if dtype not in LABEL_DTYPES or not all(isinstance(value, LABEL_TYPES) for value in values):
        raise TypeError(
            f"labels y of dtype {labels.dtype} cannot be saved; pass text, or integers or floats of "
            "at most 64 bits."
        )
    return {"dtype": dtype, "values": values}


def labels_from_state(state: Mapping[str, Any]) -> np.ndarray:
    """Return the labels of a state that `check` has accepted."""
    dtype: Any = LABEL_DTYPES[state["dtype"]]
    return np.array(state["values"], dtype)


# ---- helpers


def _enter(name: str, names: Sequence[str | int], shape: Sequence[int], sizes: Sizes) -> None:
    """Add the sizes of a shape to ``sizes``.

    A size that is declared as a number, or that another field has already entered under the same
    name, must be that number.
    """
    for declared, size in zip(names, shape, strict=True):
        if isinstance(declared, int):
            expected = declared
        else:
            expected = sizes.setdefault(declared, size)
        expect(size == expected, name, tuple(shape), f"{declared} = {expected}")


def _is_plain(value: object, depth: int = 0) -> bool:
    """Tell whether a value is one that JSON can hold, without too many levels."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        value = list(value.values())
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(_is_plain(entry, depth + 1) for entry in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _join(within: str, name: object) -> str:
    """Return the dotted name of a field, cut where a file claims a name of many characters."""
    return f"{within}.{name!s:.80}".removeprefix(".")


def _inside(bounds: Number | ArrayField, value: float) -> bool:
    """Tell whether a number lies within the bounds; NaN does not."""
    if bounds.strict:
        return bounds.low < value < bounds.high
    return bounds.low <= value <= bounds.high


def _range(bounds: Number | ArrayField) -> str:
    """Return the bounds in words."""
    low = bounds.low
    high = bounds.high
    if high < MAX_MAGNITUDE:
        if bounds.strict:
            return f"between {low:g} and {high:g}"
        return f"from {low:g} to {high:g}"
    if low <= -MAX_MAGNITUDE:
        return "that is finite"
    if bounds.strict:
        return f"above {low:g}"
    return f"of at least {low:g}"
