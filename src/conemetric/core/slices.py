"""Long arrays in slices, so that intermediate results stay small."""

MAX_HELD = 1 << 24  # numbers of an intermediate result held at a time: 128 MiB in float64


def slices(n_rows: int, width: int = 1, max_held: int | None = None) -> list[slice]:
    """Return slices that cover ``n_rows`` rows in order.

    Where every row needs ``width`` numbers, each slice needs at most ``max_held`` (default:
    `MAX_HELD`), but has at least one row.
    """
    if max_held is None:
        max_held = MAX_HELD
    rows_per_slice = max(1, max_held // max(1, width))
    starts = range(0, n_rows, rows_per_slice)
    return [slice(start, min(start + rows_per_slice, n_rows)) for start in starts]
