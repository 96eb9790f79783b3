"""Counts and names in messages."""

from collections.abc import Sequence


def plural(n: int, noun: str) -> str:
    """A count with its noun: 1 row, 2,000 rows, 2 queries."""
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else many}"


def listed(names: Sequence[object], most: int = 8) -> str:
    """The first few names, in quotes."""
    return first_few([f"'{name}'" for name in names], most)


def first_few(parts: Sequence[str], most: int) -> str:
    """The first few parts, and how many more there are."""
    more = f" and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(parts[:most]) + more


def shortened(text: str, longest: int) -> str:
    """The text, or its beginning if it has more characters than this."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
