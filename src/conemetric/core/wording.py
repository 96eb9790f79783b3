"""Counts and names in messages."""

from collections.abc import Sequence

LEAST_GROUPED = 1e4  # numbers below have no separators of thousands
LARGEST_IN_DIGITS = 1e15


def plural(n: int, noun: str) -> str:
    """Return a count with its noun: 1 row, 2,000 rows, 2 queries."""
    if n == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{n:,} {noun[:-1]}ies"
    return f"{n:,} {noun}s"


def listed(names: Sequence[object], max_names: int = 8) -> str:
    """Return the first few names, in quotes, and how many more there are."""
    return first_few([f"'{name}'" for name in names], max_names)


def first_few(parts: Sequence[str], max_parts: int) -> str:
    """Return the first few parts, and how many more there are."""
    shown = ", ".join(parts[:max_parts])
    n_more = len(parts) - max_parts
    if n_more > 0:
        return f"{shown} and {n_more} more"
    return shown


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning if it has more characters than this."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 3]}..."


def figure(value: float) -> str:
    """Return a number with four digits that count, large ones without an exponent: 19,390."""
    digits = f"{value:.4g}"
    if not LEAST_GROUPED <= abs(float(digits)) < LARGEST_IN_DIGITS:
        return digits
    return f"{float(digits):,.0f}"
