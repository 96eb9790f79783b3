"""Rows of Dask collections as blocks, one per partition, validated."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..constraints.labels import refuse_missing_labels
from ..core.arrays import is_dask
from ..core.dates import refuse_dates
from ..core.extras import require
from ..core.vectors import same
from ..core.weights import check_range
from .threads import Threads
from .vectors import BlockSpace, BlockVector
from .visits import Engine

CHUNK = 1 << 12  # rows converted to float64 at a time
# Rows of each block in the sample, so that 20 blocks give the 1000 of all by which
# `estimators.fit_warnings` judges a metric in memory: a share of 0.1 of them, its limit, then has a
# standard error of 0.01.
SAMPLED = 50
MOST_SAMPLED = 1000


def engine_in_use() -> Engine:
    """The engine of the enclosing ``with`` block; else the cluster of the current
    `distributed.Client`; else threads of this process.
    """
    chosen = Engine.in_use.get()
    if chosen is not None:
        return chosen
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        from .cluster import Cluster

        with suppress(ValueError):  # there is no client
            return Cluster(distributed.default_client())
    return Threads()


class Partition(NamedTuple):
    """The rows of one block: the number of the partition, X, and y and weights or None."""

    number: int
    X: Any
    y: Any
    weights: Any


@dataclass(frozen=True)
class BlockRows:
    """Validated rows in blocks, none of them empty.

    Each block has a partition number and a count of rows. ``mean`` and ``spread`` are the mean of
    all rows and the mean square about it, in float64; ``sample`` holds some rows of every block.
    Without labels, ``classes`` and ``class_counts`` (n_blocks, n_classes) are None.
    """

    space: BlockSpace
    partitions: BlockVector
    weighted: bool
    numbers: np.ndarray
    counts: np.ndarray
    n_features: int
    dtype: np.dtype
    mean: np.ndarray
    spread: np.ndarray
    sample: np.ndarray
    classes: np.ndarray | None = None
    class_counts: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def first(self) -> dict[int, int]:
        """The number, among all rows, of each partition's first row."""
        firsts = np.cumsum(self.counts) - self.counts
        return dict(zip(self.numbers.tolist(), firsts.tolist(), strict=True))


def read(X: Any, y: Any = None, weights: Any = None, labelled: bool = True) -> BlockRows:
    """Validate the partitions of X, rows (n, D) or tuples of points (m, k, D), with the y and
    weights of its rows or tuples. These may be arrays if the chunks of X are known;
    ``labelled`` tells whether y holds labels.
    """
    refuse_dates(X)
    space = BlockSpace(engine_in_use())
    dtype = _precision(X)
    beside = {"y": y, "sample_weight": weights}
    partitions = checked_partitions(space, partial(_checked, dtype=dtype), X, beside, "rows of X")
    return summarised(space, partitions, labelled and y is not None, dtype)


def _precision(X: Any) -> np.dtype:
    """Return single precision if every column of the collection has no more, else double."""
    dtypes = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    for dtype in dtypes:
        if not np.issubdtype(dtype, np.floating) or dtype.itemsize > 4:
            return np.dtype(np.float64)
    return np.dtype(np.float32)


def checked_partitions(
    space: BlockSpace, check: Callable[..., Any], X: Any, beside: dict[str, Any], things: str
) -> BlockVector:
    """The vector of ``check(number, partition of X, *partitions beside it)``."""
    parts = _partitions(X)
    columns = [parts]
    for name, values in beside.items():
        columns.append(_beside(X, values, name, len(parts), things))
    delayed_check = require("dask", "cluster").delayed(check, pure=False)
    tasks = []
    for number, of_partition in enumerate(zip(*columns, strict=True)):
        tasks.append(delayed_check(number, *of_partition))
    # mapped, if by nothing, so that the pieces are kept: a source is read again by every visit
    return space.map(same, space.source(tasks))


def summarised(
    space: BlockSpace, partitions: BlockVector, labelled: bool, dtype: np.dtype
) -> BlockRows:
    """The rows of these partitions, without the empty ones."""
    of_all = space.gather(_facts, partitions, labelled=labelled)
    not_empty = [block for block, facts in enumerate(of_all) if facts.n_rows]
    if not not_empty:
        raise ValueError(f"X has no rows in its {len(of_all)} partitions; pass at least three.")
    of_blocks = [of_all[block] for block in not_empty]
    widths = sorted({facts.width for facts in of_blocks})
    if len(widths) > 1:
        raise ValueError(f"X has partitions with {widths} features; pass the same features in all.")
    counts = np.array([facts.n_rows for facts in of_blocks])
    means = np.array([facts.mean for facts in of_blocks])
    spreads = np.array([facts.spread for facts in of_blocks])
    mean = np.average(means, axis=0, weights=counts)
    # within the blocks, and of the blocks' means about the common one
    spread = np.average(spreads + (means - mean) ** 2, axis=0, weights=counts)
    sample = np.concatenate([facts.sample for facts in of_blocks])
    evenly = np.unique(np.linspace(0, len(sample) - 1, MOST_SAMPLED).astype(int))
    rows = BlockRows(
        space=space,
        partitions=space.select(partitions, not_empty),
        weighted=of_blocks[0].weighted,
        numbers=np.array([facts.number for facts in of_blocks]),
        counts=counts,
        n_features=widths[0],
        dtype=dtype,
        mean=mean,
        spread=spread,
        sample=sample[evenly],
    )
    if not labelled:
        return rows
    classes = np.unique(np.concatenate([facts.classes for facts in of_blocks]))
    class_counts = np.zeros((len(of_blocks), len(classes)), np.int64)
    for row, facts in zip(class_counts, of_blocks, strict=True):
        row[np.searchsorted(classes, facts.classes)] = facts.class_counts
    return replace(rows, classes=classes, class_counts=class_counts)


def _partitions(collection: Any) -> list[Any]:
    """Return the delayed partitions, whole along every axis but the first."""
    if not hasattr(collection, "chunks"):
        # unused columns are not read; a full optimisation would also merge partitions,
        # differently for one column than for many
        return list(collection.simplify().to_delayed(optimize_graph=False))
    if any(len(sizes) > 1 for sizes in collection.chunks[1:]):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(collection.to_delayed().ravel())


def _beside(X: Any, values: Any, name: str, n_parts: int, things: str) -> list[Any]:
    """Return the partitions of the y or the weights that go with the ``things`` in X."""
    if values is None:
        return [None] * n_parts
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    are_known = not np.isnan(sizes).any()
    if not is_dask(values):
        if not are_known:
            raise ValueError(
                f"{name} is an array, and X's partitions have unknown lengths; pass {name} as a dask "
                "collection partitioned like X, or call X.compute_chunk_sizes() first."
            )
        values = np.asarray(values)
    has_length = hasattr(values, "chunks") or not is_dask(values)
    n_values = values.shape[0] if has_length else np.nan
    if are_known and not np.isnan(n_values) and n_values != sum(sizes):
        n = sum(sizes)
        raise ValueError(f"{name} has {n_values} values for the {n} {things}; pass one for each.")
    if not is_dask(values):
        return np.split(values, np.cumsum(sizes)[:-1])
    if are_known and hasattr(values, "chunks") and values.chunks[0] != sizes:
        values = values.rechunk({0: sizes})
    parts = _partitions(values)
    if len(parts) != n_parts:
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {n_parts}; make them agree."
        )
    return parts


# ---- functions that are mapped over the blocks


def _checked(number: int, X: Any, y: Any, weights: Any, dtype: np.dtype) -> Partition:
    """Return a valid `Partition`; tuples of points become rows."""
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    X = np.asarray(X)
    where = f"in partition {number}"
    try:
        X = X.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds values that are not numbers {where}: {error}") from None
    if X.ndim not in (2, 3):
        raise ValueError(f"X has shape {X.shape} {where}; pass rows (n, D) or tuples (m, k, D).")
    if not np.isfinite(X).all():
        raise ValueError(f"X contains NaN or infinity {where}; drop those rows or impute them.")
    y = _vector(y, "y", len(X), where)
    weights = _vector(weights, "sample_weight", len(X), where)
    if y is not None:
        refuse_missing_labels(y, f" {where}")
    X, y, weights = without_zeros(weights, dtype, where, X, y)
    return Partition(number, np.ascontiguousarray(X.reshape(-1, X.shape[-1])), y, weights)


def _vector(values: Any, name: str, n: int, where: str) -> np.ndarray | None:
    """Return one value for each of the n rows of a partition."""
    if values is None:
        return None
    values = np.asarray(values)
    if values.ndim > 1:  # a data frame of one column
        values = values.reshape(len(values), -1)[:, 0]
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} values for {n} rows {where}; split it like X.")
    return values


def without_zeros(weights: Any, dtype: Any, where: str, *parts: Any) -> tuple[Any, ...]:
    """Return the parts and the weights of a partition where these are not zero; refuse invalid ones."""
    if weights is None:
        return *parts, None
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"sample_weight is negative or not finite {where}; pass finite ones >= 0.")
    check_range(weights, dtype, f"sample_weight {where}")
    positive = weights > 0
    weighed: list[Any] = []
    for part in (*parts, weights.astype(dtype)):
        if part is not None:
            part = part[positive]
        weighed.append(part)
    return tuple(weighed)


class Facts(NamedTuple):
    """What `summarised` needs to know of a block."""

    weighted: bool
    number: int
    n_rows: int
    width: int
    mean: np.ndarray
    spread: np.ndarray
    sample: np.ndarray
    classes: Any
    class_counts: Any


def _facts(partition: Partition, labelled: bool) -> Facts:
    X = partition.X
    mean = np.zeros(X.shape[1])
    if len(X):
        mean = X.mean(0, dtype=np.float64)
    spread = np.zeros(X.shape[1])
    for start in range(0, len(X), CHUNK):
        spread += ((X[start : start + CHUNK] - mean) ** 2).sum(0)
    classes: Any = []
    class_counts: Any = []
    if labelled:
        classes, class_counts = np.unique(partition.y, return_counts=True)
    return Facts(
        weighted=partition.weights is not None,
        number=partition.number,
        n_rows=len(X),
        width=X.shape[1],
        mean=mean,
        spread=spread / max(1, len(X)),
        sample=X[:: max(1, len(X) // SAMPLED)][:SAMPLED].copy(),  # a view would keep all rows
        classes=classes,
        class_counts=class_counts,
    )
