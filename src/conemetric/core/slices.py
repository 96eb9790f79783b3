"""Long arrays in slices, so that intermediate results stay small."""

HELD = 1 << 24  # numbers of an intermediate result held at a time: 128 MiB in float64


def slices(n: int, width: int = 1, held: int | None = None) -> list[slice]:
    """Slices of ``n`` rows, each with at most ``held`` numbers (default: `HELD`) where every row
    has ``width`` of them, but at least one row.
    """
    step = max(1, (HELD if held is None else held) // max(1, width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
