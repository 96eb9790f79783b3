"""Numbers and certificates as JSON values, and certificates read back."""

import math
import sys
from typing import Any

import numpy as np

from ..problems.base import Bounds
from ..solvers.base import Certificate, Status
from .checked import require

__all__ = ["certificate_from", "certificate_values", "is_number", "json_value"]

ROUNDING = 1e-6  # a feasible point's relative gap is at least minus this
SAME = 1e-9  # relative difference of gaps up to rounding
BOUNDS = ("primal", "dual", "gap", "relative_gap", "violation")


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


def is_number(value: Any) -> bool:
    """Whether a JSON value is a float; infinities and NaN are written as strings."""
    if isinstance(value, str):
        return value in ("inf", "-inf", "nan")
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max


def certificate_values(certificate: Certificate | None) -> dict[str, Any] | None:
    """A certificate as JSON values; None for None."""
    if certificate is None:
        return None
    return {name: json_value(value) for name, value in vars(certificate).items()}


def certificate_from(values: dict[str, Any] | None, path: Any) -> Certificate | None:
    """The certificate of a header; an error if it is malformed or no fit can have given it."""
    if values is None:
        return None

    def holds(condition, fault):
        require(condition, path, f"has a certificate that cannot be {fault}")

    holds(set(values) == {*BOUNDS, "status"}, f"read: its fields are {sorted(values)[:12]}")
    status = values["status"]
    holds(status in list(Status), f"read: status is {str(status)[:80]}")
    for name in BOUNDS:
        holds(is_number(values[name]), f"read: {name} is {str(values[name])[:80]}")
    primal, dual, gap, relative_gap, violation = (float(values[name]) for name in BOUNDS)
    certificate = Certificate.from_bounds(Bounds(primal, dual, violation), Status(status))
    holds(
        violation >= 0 and math.isclose(gap, certificate.gap, rel_tol=SAME),
        f"true: primal {primal}, dual {dual}, gap {gap}, violation {violation}",
    )
    holds(
        math.isclose(relative_gap, certificate.relative_gap, rel_tol=SAME),
        f"true: the relative gap is {certificate.relative_gap}, not {relative_gap}",
    )
    holds(
        violation != 0 or relative_gap >= -ROUNDING,
        f"true: the objective {primal} is below the bound {dual}",
    )
    return certificate
