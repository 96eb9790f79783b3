"""A random sample of rows to search neighbours among, for data with too many rows to search all."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

MAX_ROWS_IN_BLOCKS = 200_000  # of a Dask collection, up to which all are searched
N_REFERENCES = 20_000  # rows of the sample beyond


def sample_size(
    n_references: int | str | None, n_rows: int, most: float = MAX_ROWS_IN_BLOCKS
) -> int | None:
    """How many rows to search among, None for all. "auto" takes all of up to ``most`` rows (any
    number in memory), else `N_REFERENCES`.
    """
    if n_references == "auto":
        n_references = N_REFERENCES if n_rows > most else None
    return None if n_references is None or int(n_references) >= n_rows else int(n_references)


def sample_classes(
    class_sizes: Any, n_references: int, n_targets: int, random_state: Any
) -> list[np.ndarray]:
    """Sample every class in proportion, but at least the rows that its points need for their
    targets: ascending numbers among the rows of each class, independent of partitions. A
    ``random_state`` of None is a fixed seed, so that two fits agree.

    Examples
    --------
    >>> from conemetric.neighbours.sampling import sample_classes
    >>> [len(chosen) for chosen in sample_classes([1000, 100, 2], 110, 3, random_state=0)]
    [100, 10, 2]
    """
    rng = check_random_state(0 if random_state is None else random_state)
    class_sizes = np.asarray(class_sizes)
    share = np.round(n_references * class_sizes / class_sizes.sum()).astype(np.int64)
    wanted = np.minimum(np.maximum(share, n_targets + 1), class_sizes)
    return [
        np.sort(rng.choice(size, count, replace=False))
        for size, count in zip(class_sizes.tolist(), wanted.tolist(), strict=True)
    ]


def sample_rows(y: np.ndarray, n_references: int, n_targets: int, random_state: Any) -> np.ndarray:
    """`sample_classes` of points with labels y (integers, -1: none), as ascending row numbers."""
    labelled = np.flatnonzero(y >= 0)
    sizes = np.bincount(y[labelled])
    by_class = np.split(labelled[np.argsort(y[labelled], kind="stable")], np.cumsum(sizes)[:-1])
    chosen = sample_classes(sizes, n_references, n_targets, random_state)
    picked = [rows[pick] for rows, pick in zip(by_class, chosen, strict=True)]
    return np.sort(np.concatenate(picked))
