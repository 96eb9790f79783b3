"""Features of grey images: histograms over cells of local binary patterns and of
gradient directions.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

LBP_CELLS = (7, 5)  # rows and columns of cells
# pixels along a cell's side, directions, cells along a block's side
HOG_CELL, HOG_BINS, HOG_BLOCK = 8, 9, 2


def local_binary_patterns(images):
    """Square roots of the histograms of uniform local binary patterns (8 neighbours,
    radius 1) over a grid of cells.

    Parameters
    ----------
    images : array (n, height, width)

    Returns
    -------
    array (n, cells * 59)

    Examples
    --------
    >>> import numpy as np
    >>> local_binary_patterns(np.zeros((2, 62, 47))).shape
    (2, 2065)
    """
    centre = images[:, 1:-1, 1:-1]
    height, width = centre.shape[1:]
    shifts = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]  # around the centre
    code = np.zeros(centre.shape, dtype=np.uint8)
    for bit, (down, right) in enumerate(shifts):
        code |= (images[:, down : down + height, right : right + width] >= centre).astype(
            np.uint8
        ) << bit
    label = _uniform_labels()[code]
    rows, columns = (
        np.arange(size) * cells // size
        for size, cells in zip((height, width), LBP_CELLS, strict=True)
    )
    cell = rows[:, None] * LBP_CELLS[1] + columns
    bins = LBP_CELLS[0] * LBP_CELLS[1] * 59
    flat = (cell * 59 + label).reshape(len(images), -1) + np.arange(len(images))[:, None] * bins
    return np.sqrt(
        np.bincount(flat.ravel(), minlength=len(images) * bins).reshape(len(images), bins)
    )


def _uniform_labels():
    """Patterns with at most two changes between 0 and 1 around the circle have a bin
    each, the others share one.
    """
    codes = np.arange(256)
    bits = codes[:, None] >> np.arange(8) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(1) <= 2
    labels = np.full(256, 58)
    labels[uniform] = np.arange(uniform.sum())
    return labels


def oriented_gradients(images):
    """Histograms of oriented gradients: 9 directions without sign, cells of 8 x 8
    pixels, overlapping blocks of 2 x 2 cells.

    A pixel counts by the length of its gradient; each block is scaled to unit length,
    cut at 0.2 and scaled again.

    Parameters
    ----------
    images : array (n, height, width)
        Pixels right and below of the last whole cell are left out.

    Returns
    -------
    array (n, blocks * 36)

    References
    ----------
    Dalal & Triggs, "Histograms of oriented gradients for human detection", CVPR 2005.

    Examples
    --------
    >>> import numpy as np
    >>> oriented_gradients(np.zeros((2, 62, 47))).shape
    (2, 864)
    """
    images = np.asarray(images, dtype=float)
    n, height, width = images.shape
    rows, columns = height // HOG_CELL, width // HOG_CELL
    down, right = np.zeros_like(images), np.zeros_like(images)
    down[:, 1:-1] = images[:, 2:] - images[:, :-2]
    right[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    whole = (slice(None), slice(rows * HOG_CELL), slice(columns * HOG_CELL))
    length = np.hypot(down, right)[whole]
    direction = (np.degrees(np.arctan2(down, right)) % 180)[whole]
    bins = np.minimum((direction * HOG_BINS / 180).astype(np.int64), HOG_BINS - 1)
    cell = (
        np.arange(rows * HOG_CELL)[:, None] // HOG_CELL * columns
        + np.arange(columns * HOG_CELL) // HOG_CELL
    )
    cell = cell + np.arange(n)[:, None, None] * rows * columns
    flat = np.bincount(
        (cell * HOG_BINS + bins).ravel(), length.ravel(), minlength=n * rows * columns * HOG_BINS
    )
    cells = flat.reshape(n, rows, columns, HOG_BINS) / HOG_CELL**2
    blocks = np.moveaxis(sliding_window_view(cells, (HOG_BLOCK, HOG_BLOCK), axis=(1, 2)), 3, 5)
    blocks = blocks.reshape(n, -1, HOG_BLOCK**2 * HOG_BINS)
    blocks = _unit(np.minimum(_unit(blocks), 0.2))
    return blocks.reshape(n, -1)


def _unit(blocks):
    """Blocks of unit length; those without any gradient stay zero."""
    return blocks / np.sqrt((blocks * blocks).sum(-1, keepdims=True) + 1e-10)
