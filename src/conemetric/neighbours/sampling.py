"""A random sample of rows to search neighbours among, where all rows would be too many."""

import numpy as np
from sklearn.utils import check_random_state

ALL_UP_TO = 200_000  # rows of a dask collection that are searched among all; above, a sample
N_REFERENCES = 20_000  # rows of the sample


def n_references_for(n_references, n_rows, partitioned):
    """How many references to search among, or None for all rows.

    "auto" takes all rows of an array in memory and of a dask collection of up to
    `ALL_UP_TO` rows, else `N_REFERENCES`.
    """
    if n_references == "auto":
        return N_REFERENCES if partitioned and n_rows > ALL_UP_TO else None
    return None if n_references is None or n_references >= n_rows else int(n_references)


def choose_references(class_sizes, n_references, n_targets, random_state):
    """Which rows of each class are references: of every class its share, but no fewer than
    its points need for their targets.

    Parameters
    ----------
    class_sizes : integer array (n_classes,)
    n_references, n_targets : int
    random_state : int, RandomState or None

    Returns
    -------
    list of integer arrays
        For each class, ascending numbers among the rows of that class, in their order: so
        the choice does not depend on how rows are partitioned.

    Examples
    --------
    >>> from conemetric.neighbours.sampling import choose_references
    >>> [len(chosen) for chosen in choose_references([1000, 100, 2], 110, 3, random_state=0)]
    [100, 10, 2]
    """
    rng = check_random_state(random_state)
    class_sizes = np.asarray(class_sizes)
    share = np.round(n_references * class_sizes / class_sizes.sum()).astype(np.int64)
    wanted = np.minimum(np.maximum(share, n_targets + 1), class_sizes)
    return [
        np.sort(rng.choice(size, count, replace=False))
        for size, count in zip(class_sizes.tolist(), wanted.tolist(), strict=True)
    ]


def reference_rows(y, n_references, n_targets, random_state):
    """Row numbers of the references among points with labels y, integers from 0 (-1: none);
    ascending.
    """
    labelled = np.flatnonzero(y >= 0)
    sizes = np.bincount(y[labelled])
    by_class = np.split(labelled[np.argsort(y[labelled], kind="stable")], np.cumsum(sizes)[:-1])
    chosen = choose_references(sizes, n_references, n_targets, random_state)
    return np.sort(
        np.concatenate([rows[pick] for rows, pick in zip(by_class, chosen, strict=True)])
    )
