"""A state, a nested dict of JSON values and NumPy arrays, as the JSON header and the arrays of a
file, and back.

Arrays are kept as tensors under their dotted names, and the header refers to them; floats that
JSON lacks are written as text.
"""

import math
from typing import Any

import numpy as np

from ..core.fields import expect
from ..solvers.base import Certificate, Status

TENSOR, FLOAT, ORDER = "$tensor", "$float", "order"  # keys of what stands for a value
FLOATS = ("inf", "-inf", "nan")


def split_state(state: Any, name: str = "") -> tuple[Any, dict[str, np.ndarray]]:
    """The header and the arrays by dotted name. Arrays are C-contiguous; the header says which
    were in Fortran order, which decides the last bits of a matrix product.
    """
    arrays: dict[str, np.ndarray] = {}

    def split(value, name):
        if isinstance(value, np.ndarray):
            arrays[name] = np.ascontiguousarray(value)
            fortran = value.flags.f_contiguous and not value.flags.c_contiguous
            return {TENSOR: name, **({ORDER: "F"} if fortran else {})}
        if isinstance(value, dict):
            return {key: split(each, f"{name}.{key}".strip(".")) for key, each in value.items()}
        if isinstance(value, list):
            return [split(each, f"{name}.{number}") for number, each in enumerate(value)]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return {FLOAT: str(value)}
        return value

    return split(state, name), arrays


def join_state(header: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state that `split_state` took apart; a `FieldError` for one that no state has."""
    left = dict(arrays)

    def join(value, name):
        if isinstance(value, list):
            return [join(each, f"{name}.{number}") for number, each in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if TENSOR in value:
            order = value.get(ORDER, "C")
            known = value[TENSOR] == name and name in left and order in ("C", "F")
            expect(known and set(value) <= {TENSOR, ORDER}, name, value, "an array of the file")
            return np.asarray(left.pop(name), order=order)
        if FLOAT in value:
            text = value[FLOAT]
            known = isinstance(text, str) and text in FLOATS and len(value) == 1
            expect(known, name, value, f"one of {', '.join(FLOATS)}")
            return float(text)
        return {key: join(each, f"{name}.{key}".strip(".")) for key, each in value.items()}

    state = join(header, "")
    for name in left:
        expect(False, name, left[name], "an array that the header refers to")
    return state


def same_state(one: Any, other: Any) -> bool:
    """Whether two states are equal, arrays to the bit."""
    (header, arrays), (other_header, other_arrays) = split_state(one), split_state(other)
    return header == other_header and all(
        np.array_equal(array, other_arrays[name]) for name, array in arrays.items()
    )


# ---- values in headers that are read by others


def json_value(value: Any) -> Any:
    """``value`` as JSON can hold it; arrays and other objects become a description."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (str, int, bool, type(None))):
        return str(value) if isinstance(value, Status) else value
    if hasattr(value, "shape"):
        return f"array {tuple(value.shape)}"
    return type(value).__name__


def certificate_values(certificate: Certificate | None) -> dict[str, Any] | None:
    """A certificate as JSON values; None for None."""
    if certificate is None:
        return None
    return {name: json_value(value) for name, value in certificate.state().items()}


def number_from_value(value: Any) -> Any:
    """A number of a header, in which infinities and NaN are text; other values as they are."""
    return float(value) if value in ("inf", "-inf", "nan") else value
