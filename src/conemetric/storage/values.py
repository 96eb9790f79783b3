"""Numbers and certificates as JSON values."""

import math
from typing import Any

import numpy as np

from ..solvers.base import Certificate, Status

__all__ = ["certificate_from_values", "certificate_values", "json_value", "number_from_value"]


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


def certificate_from_values(values: Any) -> Certificate | None:
    """The certificate that `certificate_values` gave; a `FieldError` if no fit can have given it."""
    if isinstance(values, dict):
        values = {key: number_from_value(value) for key, value in values.items()}
    return None if values is None else Certificate.from_state(values)
