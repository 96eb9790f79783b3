"""Search for neighbours, wherever the points are."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_random_state

from ..core.arrays import Array, is_torch, like, namespace, on_device, take, to_numpy
from ..core.sparse_rows import SparseRows
from . import host, sparse
from .ranks import LabelledRows, NearestByLabel, NearestRows, SearchQuery
from .ties import column_extent, numbers_on_demand, row_keys, rows_of, tie_numbers

# The fewest and the most impostors of n_impostors="auto".
MIN_IMPOSTORS = 3
MAX_IMPOSTORS = 10
# Share of points whose impostors nearer than their farthest target "auto" finds all.
COVERED_SHARE = 2 / 3
# A distance below this share of another is surely smaller: rounding cannot have made it so.
SURELY_NEARER = 1 - 1e-6

MAX_ROWS_IN_BLOCKS = 200_000  # rows of a Dask collection up to which all are searched
N_REFERENCES = 20_000  # rows of the sample that is searched beyond


class Neighbours(NamedTuple):
    """Nearest points of the same label (``targets``) and of others (``impostors``), row numbers (n,
    k) in the library of X, nearest first; -1 if there are too few.
    """

    targets: Any
    impostors: Any


# ---- by label


def neighbours_by_label(
    X: Any, y: Any, n_targets: int, n_impostors: int | str, references: np.ndarray | None = None
) -> Neighbours:
    """Find the nearest points of the same and of other labels for every row of X.

    X is an array, tensor or SparseRows; ties are decided by values, not by the order of rows (see
    `ties`). Labels y are encoded by `constraints.check_labels`: -1 means none, and such a row has no
    neighbours and is nobody's neighbour. ``references`` are labelled rows to search among; default:
    all.

    ``n_impostors="auto"`` finds as many as two points in three have nearer than their farthest target,
    but at least 3 and at most 10: if classes overlap that much, three impostors are a small and noisy
    part of those to push away.
    """
    max_impostors = MAX_IMPOSTORS if n_impostors == "auto" else int(n_impostors)
    if min(n_targets, max_impostors) < 1:
        raise ValueError(f"{n_targets=} and {n_impostors=} must both be at least 1.")
    y = to_numpy(y)
    labelled = np.flatnonzero(y >= 0)
    if len(labelled) < len(y):
        if references is not None:
            references = np.searchsorted(labelled, references)
        among_labelled = neighbours_by_label(
            take(X, labelled), y[labelled], n_targets, n_impostors, references
        )
        targets = _spread(among_labelled.targets, labelled, len(y))
        return Neighbours(targets, _spread(among_labelled.impostors, labelled, len(y)))
    by_label = _nearest_by_label(X, y, n_targets, max_impostors, references)
    impostors = by_label.other.numbers
    if n_impostors == "auto":
        counts = nearer_impostors(
            to_numpy(by_label.same.distances), to_numpy(by_label.other.distances)
        )
        impostors = impostors[:, : enough_impostors(counts)]
    return Neighbours(rows_of(by_label.same.numbers, len(y)), rows_of(impostors, len(y)))


def _nearest_by_label(
    X: Any, y: np.ndarray, n_targets: int, n_impostors: int, references: np.ndarray | None
) -> NearestByLabel:
    """Search all rows, or these references, by the `tie_numbers` of all rows."""
    n = len(y)
    points = LabelledRows(X, y)
    extent = None
    if references is None:
        rows = np.arange(n)
        searched = points
        own = rows
    else:
        rows = references
        # of all rows, as in blocks, where a block does not know which of its rows are references
        extent = column_extent(X)
        searched = LabelledRows(take(X, rows), y[rows])
        own = np.full(n, -1)
        own[rows] = np.arange(len(rows))
    numbers = tie_numbers(row_keys(searched.X, extent), rows, n)
    query = SearchQuery(points, searched, n_targets, n_impostors, own, numbers.__getitem__)
    return exact_search(query)


def _spread(neighbours: Array, rows: np.ndarray, n: int) -> Array:
    """Return neighbours of some rows among themselves in an array with a row for each of n points."""
    xp = namespace(neighbours)
    at = like(rows, neighbours)
    spread = xp.full((n, neighbours.shape[1]), -1, dtype=neighbours.dtype, device=neighbours.device)
    spread[at] = xp.where(neighbours >= 0, at[neighbours], -1)
    return spread


def nearer_impostors(target_distances: np.ndarray, impostor_distances: np.ndarray) -> np.ndarray:
    """Count the points with a target that have 0, 1, 2, ... impostors nearer than their farthest one."""
    farthest = np.where(target_distances < np.inf, target_distances, -np.inf).max(1)
    n_nearer = (impostor_distances < SURELY_NEARER * farthest[:, None]).sum(1)
    has_target = farthest >= 0
    return np.bincount(n_nearer[has_target], minlength=impostor_distances.shape[1] + 1)


def enough_impostors(counts: np.ndarray) -> int:
    """Return the number for ``n_impostors="auto"``, from the counts of `nearer_impostors`."""
    place = int(np.ceil(COVERED_SHARE * (counts.sum() - 1)))
    return max(MIN_IMPOSTORS, int(np.searchsorted(np.cumsum(counts), place, side="right")))


# ---- any points


def exact_search(query: SearchQuery) -> NearestByLabel:
    """Search exactly where the points are: on the host, or on their device."""
    X = query.queries.X
    xp = namespace(X, query.references.X)
    if isinstance(X, SparseRows):
        return sparse.search(query)
    if on_device(X):
        from . import gpu

        return gpu.search(query)
    queries = _in_numpy(query.queries)
    references = queries if query.among_themselves else _in_numpy(query.references)
    by_label = host.search(query._replace(queries=queries, references=references))
    in_library = []
    for rows in by_label:
        numbers = like(rows.numbers, X, xp.int64)
        in_library.append(NearestRows(numbers, like(rows.distances, X, xp.float64)))
    return NearestByLabel(*in_library)


def _in_numpy(points: LabelledRows) -> LabelledRows:
    """Return NumPy arrays in rows, for which alone kernels are compiled."""
    return LabelledRows(np.ascontiguousarray(to_numpy(points.X)), points.y)


def nearest(queries: Any, references: Any, k: int, keys: np.ndarray | None = None) -> NearestRows:
    """Return row numbers and distances (q, k) of the ``k`` nearest references of every query.

    They are in the library of the queries (arrays, tensors or sparse matrices), nearest first.
    ``references=None`` searches the queries themselves, each without itself. Of ties the reference
    with the lower key comes first (default: `ties.row_keys` of the references).
    """
    points = _unlabelled(queries)
    if references is None:
        searched = points
        own = np.arange(len(points.y))
        n_searched = len(searched.y) - 1
    else:
        searched = _unlabelled(references)
        own = np.full(len(points.y), -1)
        n_searched = len(searched.y)
    if not 1 <= k <= n_searched:
        raise ValueError(f"k={k} must be from 1 to {n_searched}, the number of points searched.")
    n = len(searched.y)
    if keys is None:
        numbers = numbers_on_demand(searched.X)
    else:
        numbers = tie_numbers(keys, np.arange(n), n).__getitem__
    found = exact_search(SearchQuery(points, searched, k, 0, own, numbers)).same
    return NearestRows(rows_of(found.numbers, n), found.distances)


def _unlabelled(X: Any) -> LabelledRows:
    """Check points, and give them all the same label."""
    if not is_torch(X):
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
        if issparse(X):
            X = SparseRows(X)
    return LabelledRows(X, np.zeros(X.shape[0], np.int64))


# ---- among a sample


def sample_size(
    n_references: int | str | None, n_rows: int, max_rows: float = MAX_ROWS_IN_BLOCKS
) -> int | None:
    """Return how many rows to search among, None for all.

    "auto" takes all of up to ``max_rows`` rows (any number in memory), else `N_REFERENCES`.
    """
    if n_references == "auto":
        n_references = N_REFERENCES if n_rows > max_rows else None
    if n_references is None or int(n_references) >= n_rows:
        return None
    return int(n_references)


def sample_classes(
    class_sizes: Any, n_references: int, n_targets: int, random_state: Any
) -> list[np.ndarray]:
    """Sample every class in proportion, but at least the rows that its points need for their targets.

    Return ascending numbers among the rows of each class, independent of partitions. A
    ``random_state`` of None is a fixed seed, so that two fits agree.
    """
    if random_state is None:
        random_state = 0
    rng = check_random_state(random_state)
    class_sizes = np.asarray(class_sizes)
    in_proportion = np.round(n_references * class_sizes / class_sizes.sum()).astype(np.int64)
    counts = np.minimum(np.maximum(in_proportion, n_targets + 1), class_sizes)
    samples = []
    for size, count in zip(class_sizes.tolist(), counts.tolist(), strict=True):
        samples.append(np.sort(rng.choice(size, count, replace=False)))
    return samples


def sample_rows(y: np.ndarray, n_references: int, n_targets: int, random_state: Any) -> np.ndarray:
    """Return a sample as of `sample_classes`, as ascending numbers of rows with labels y (integers,
    -1: none).
    """
    labelled = np.flatnonzero(y >= 0)
    class_sizes = np.bincount(y[labelled])
    in_order_of_classes = labelled[np.argsort(y[labelled], kind="stable")]
    rows_by_class = np.split(in_order_of_classes, np.cumsum(class_sizes)[:-1])
    samples = sample_classes(class_sizes, n_references, n_targets, random_state)
    sampled = [rows[sample] for rows, sample in zip(rows_by_class, samples, strict=True)]
    return np.sort(np.concatenate(sampled))
