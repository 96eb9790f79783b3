"""Search for neighbours, wherever the points are."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state

from ..core.arrays import is_torch, like, namespace, on_device, take, to_numpy
from ..core.sparse_rows import SparseRows
from . import exact, sparse
from .ranks import Found, LabelledRows, Nearest, SearchQuery
from .ties import numbers_on_demand, row_keys, rows_of, tie_numbers

FEWEST_IMPOSTORS, MOST_IMPOSTORS = 3, 10  # of n_impostors="auto"
MAX_ROWS_IN_BLOCKS = 200_000  # of a Dask collection, up to which all are searched
N_REFERENCES = 20_000  # rows of the sample beyond
COVERED_SHARE = 2 / 3  # share of points that "auto" gives all impostors nearer than a target
NEARER = 1 - 1e-6  # share of another distance below which rounding cannot have put one


class Neighbours(NamedTuple):
    """Nearest points of the same label (``targets``) and of others (``impostors``), row numbers (n,
    k) in the library of X, nearest first; -1 if there are too few.
    """

    targets: Any
    impostors: Any


def neighbours_by_label(
    X: Any, y: Any, n_targets: int, n_impostors: int | str, references: np.ndarray | None = None
) -> Neighbours:
    """Nearest points of the same and of other labels for every row of X, an array, tensor or
    SparseRows; ties are decided by values, not by the order of rows (see `ties`).

    Labels y are encoded by `constraints.check_labels`: -1 means none, and such a row has no
    neighbours and is nobody's neighbour. ``n_impostors="auto"`` finds as many as two points in
    three have nearer than their farthest target, but at least 3 and at most 10: if classes overlap
    that much, three impostors are a small and noisy part of those to push away. ``references`` are
    labelled rows to search among; default: all.
    """
    most = MOST_IMPOSTORS if n_impostors == "auto" else int(n_impostors)
    if min(n_targets, most) < 1:
        raise ValueError(f"{n_targets=} and {n_impostors=} must both be at least 1.")
    labelled = np.flatnonzero(to_numpy(y) >= 0)
    if len(labelled) < len(y):
        if references is not None:
            references = np.searchsorted(labelled, references)
        return _among(labelled, X, y, n_targets, n_impostors, references)
    points, n = LabelledRows(X, to_numpy(y)), len(y)
    searched, rows = points, np.arange(n)
    own = rows
    if references is not None:
        rows, own = references, np.full(n, -1)
        own[rows] = np.arange(len(rows))
        searched = LabelledRows(take(X, rows), points.y[rows])
    numbers = tie_numbers(row_keys(searched.X), rows, n).__getitem__
    found = exact_search(SearchQuery(points, searched, n_targets, most, own, numbers))
    if n_impostors == "auto":
        most = enough_of(nearer_impostors(*(to_numpy(part.distances) for part in found)))
    targets, impostors = found.same.numbers, found.other.numbers[:, :most]
    return Neighbours(rows_of(targets, n), rows_of(impostors, n))


def _among(rows, X, y, *options):
    """The neighbours of these rows among themselves, in arrays with a row for every point."""
    found = neighbours_by_label(take(X, rows), to_numpy(y)[rows], *options)

    def spread(near):
        at, xp = like(rows, near), namespace(near)
        out = xp.full((len(y), near.shape[1]), -1, dtype=near.dtype, device=near.device)
        out[at] = xp.where(near >= 0, at[near], -1)
        return out

    return Neighbours(spread(found.targets), spread(found.impostors))


def nearer_impostors(target_distances: np.ndarray, impostor_distances: np.ndarray) -> np.ndarray:
    """How many points with a target have 0, 1, 2, ... impostors nearer than their farthest target."""
    farthest = np.where(target_distances < np.inf, target_distances, -np.inf).max(1)
    nearer = (impostor_distances < NEARER * farthest[:, None]).sum(1)
    return np.bincount(nearer[farthest >= 0], minlength=impostor_distances.shape[1] + 1)


def enough_of(counts: np.ndarray) -> int:
    """The number for ``n_impostors="auto"``, from the counts of `nearer_impostors`."""
    place = int(np.ceil(COVERED_SHARE * (counts.sum() - 1)))
    return max(FEWEST_IMPOSTORS, int(np.searchsorted(np.cumsum(counts), place, side="right")))


def exact_search(query: SearchQuery) -> Nearest:
    """Search exactly where the points are: on the host, or on their device."""
    X = query.queries.X
    namespace(X, query.references.X)
    if isinstance(X, SparseRows):
        return sparse.search(query)
    if on_device(X):
        from . import gpu

        return gpu.search(query)
    # NumPy arrays in rows, for which alone kernels are compiled
    queries, references = (LabelledRows(np.ascontiguousarray(to_numpy(X)), y) for X, y in query[:2])
    if query.references is query.queries:
        references = queries
    xp, found = namespace(X), exact.search(query._replace(queries=queries, references=references))
    return Nearest(*(Found(like(i, X, xp.int64), like(d, X, xp.float64)) for i, d in found))


def nearest(queries: Any, references: Any, k: int, keys: np.ndarray | None = None) -> Found:
    """Row numbers and distances (q, k) of the ``k`` nearest references of every query, nearest
    first, in the library of the queries: arrays, tensors or sparse matrices.

    ``references=None`` searches the queries themselves, each without itself. Of ties the reference
    with the lower key comes first (default: `ties.row_keys` of the references).
    """
    points = _unlabelled(queries)
    searched, own = points, np.arange(len(points.y))
    if references is not None:
        searched, own = _unlabelled(references), np.full(len(points.y), -1)
    n = len(searched.y)
    n_there = n - (references is None)
    if not 1 <= k <= n_there:
        raise ValueError(f"k={k} must be from 1 to {n_there}, the number of points searched.")
    given = None if keys is None else tie_numbers(keys, np.arange(n), n)
    numbers = numbers_on_demand(searched.X) if given is None else given.__getitem__
    found = exact_search(SearchQuery(points, searched, k, 0, own, numbers))
    return Found(rows_of(found.same.numbers, n), found.same.distances)


def _unlabelled(X):
    if not is_torch(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        X = SparseRows(X) if issparse(X) else X
    return LabelledRows(X, np.zeros(X.shape[0], np.int64))


# ---- among a sample


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
