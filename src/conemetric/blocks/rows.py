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
from .program import Engine
from .threads import Threads
from .vectors import BlockSpace, BlockVector

CHUNK = 1 << 12  # rows converted to float64 at a time
# rows of each block, so that 20 blocks give the 1000 of all by which `estimators.fit_warnings` judges a
# metric in memory: a share of 0.1 of them, its limit, then has a standard error of 0.01
SAMPLED, MOST_SAMPLED = 50, 1000


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
    kinds = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    single = all(np.issubdtype(kind, np.floating) and kind.itemsize <= 4 for kind in kinds)
    space, dtype = BlockSpace(engine_in_use()), np.dtype(np.float32 if single else np.float64)
    beside = {"y": y, "sample_weight": weights}
    partitions = checked_partitions(space, partial(_checked, dtype=dtype), X, beside, "rows of X")
    return summarised(space, partitions, labelled and y is not None, dtype)


def checked_partitions(
    space: BlockSpace, check: Callable, X: Any, beside: dict[str, Any], things: str
) -> BlockVector:
    """The vector of ``check(number, partition of X, *partitions beside it)``."""
    parts = _partitions(X)
    columns = [_beside(X, values, name, len(parts), things) for name, values in beside.items()]
    task = require("dask", "cluster").delayed(check, pure=False)
    tasks = [task(k, *part) for k, part in enumerate(zip(parts, *columns, strict=True))]
    return space.map(same, space.source(tasks))


def summarised(
    space: BlockSpace, partitions: BlockVector, labelled: bool, dtype: np.dtype
) -> BlockRows:
    """The rows of these partitions, without the empty ones."""
    facts = space.gather(_facts, partitions, labelled=labelled)
    there = [block for block, fact in enumerate(facts) if fact["count"]]
    if not there:
        raise ValueError(f"X has no rows in its {len(facts)} partitions; give at least three.")
    partitions, facts = space.select(partitions, there), [facts[block] for block in there]
    widths = sorted({fact["width"] for fact in facts})
    if len(widths) > 1:
        raise ValueError(f"X has partitions with {widths} features; give the same to all.")
    names = "number", "count", "mean", "spread"
    numbers, counts, means, spreads = (np.array([fact[name] for fact in facts]) for name in names)
    mean = np.average(means, axis=0, weights=counts)
    spread = np.average(spreads + (means - mean) ** 2, axis=0, weights=counts)
    sample = np.concatenate([fact["sample"] for fact in facts])
    sample = sample[np.unique(np.linspace(0, len(sample) - 1, MOST_SAMPLED).astype(int))]
    weighted, moments = facts[0]["weighted"], (mean, spread, sample)
    rows = BlockRows(space, partitions, weighted, numbers, counts, widths[0], dtype, *moments)
    if not labelled:
        return rows
    classes = np.unique(np.concatenate([fact["classes"] for fact in facts]))
    class_counts = np.zeros((len(facts), len(classes)), np.int64)
    for row, fact in zip(class_counts, facts, strict=True):
        row[np.searchsorted(classes, fact["classes"])] = fact["class_counts"]
    return replace(rows, classes=classes, class_counts=class_counts)


def _partitions(collection):
    """Delayed partitions, whole along every axis but the first."""
    if not hasattr(collection, "chunks"):
        # unused columns are not read; a full optimisation would also merge partitions,
        # differently for one column than for many
        return list(collection.simplify().to_delayed(optimize_graph=False))
    if any(len(sizes) > 1 for sizes in collection.chunks[1:]):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(collection.to_delayed().ravel())


def _beside(X, values, name, n_parts, things):
    """Partitions of the y or the weights that go with the ``things`` in X."""
    if values is None:
        return [None] * n_parts
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    known = not np.isnan(sizes).any()
    if not is_dask(values):
        if not known:
            raise ValueError(
                f"{name} is an array, and X's partitions have unknown lengths; give {name} as a dask "
                "collection partitioned like X, or call X.compute_chunk_sizes() first."
            )
        values = np.asarray(values)
    n_values = np.nan if is_dask(values) and not hasattr(values, "chunks") else values.shape[0]
    if known and not np.isnan(n_values) and n_values != sum(sizes):
        n = sum(sizes)
        raise ValueError(f"{name} has {n_values} values for the {n} {things}; give one for each.")
    if not is_dask(values):
        return np.split(values, np.cumsum(sizes)[:-1])
    if known and hasattr(values, "chunks") and values.chunks[0] != sizes:
        values = values.rechunk({0: sizes})
    parts = _partitions(values)
    if len(parts) != n_parts:
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {n_parts}; make them agree."
        )
    return parts


# ---- functions that are mapped over the blocks


def _checked(number, X, y, weights, dtype):
    """A valid `Partition`; tuples of points become rows."""
    X = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
    where = f"in partition {number}"
    try:
        X = X.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds values that are not numbers {where}: {error}") from None
    if X.ndim not in (2, 3):
        raise ValueError(f"X has shape {X.shape} {where}; give rows (n, D) or tuples (m, k, D).")
    if not np.isfinite(X).all():
        raise ValueError(f"X contains NaN or infinity {where}; drop those rows or impute them.")
    y, weights = _vector(y, "y", len(X), where), _vector(weights, "sample_weight", len(X), where)
    if y is not None:
        refuse_missing_labels(y, f" {where}")
    X, y, weights = without_zeros(weights, dtype, where, X, y)
    return Partition(number, np.ascontiguousarray(X.reshape(-1, X.shape[-1])), y, weights)


def _vector(values, name, n, where):
    """One value for each of the n rows of a partition."""
    if values is None:
        return None
    values = np.asarray(values)
    values = values.reshape(len(values), -1)[:, 0] if values.ndim > 1 else values
    if len(values) != n:
        raise ValueError(f"{name} has {len(values)} values for {n} rows {where}; split it like X.")
    return values


def without_zeros(weights: Any, dtype: Any, where: str, *parts: Any) -> tuple:
    """The parts and the weights of a partition where these are not zero; refuses invalid ones."""
    if weights is None:
        return *parts, None
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"sample_weight is negative or not finite {where}; give finite ones >= 0.")
    check_range(weights, dtype, f"sample_weight {where}")
    there = weights > 0
    return tuple(None if part is None else part[there] for part in (*parts, weights.astype(dtype)))


def _facts(partition, labelled):
    X = partition.X
    mean = X.mean(0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
    spread = np.zeros(X.shape[1])
    for start in range(0, len(X), CHUNK):
        spread += ((X[start : start + CHUNK] - mean) ** 2).sum(0)
    classes, class_counts = np.unique(partition.y, return_counts=True) if labelled else ([], [])
    return {
        "weighted": partition.weights is not None,
        "number": partition.number,
        "count": len(X),
        "width": X.shape[1],
        "mean": mean,
        "spread": spread / max(1, len(X)),
        # a view would keep all rows in memory
        "sample": X[:: max(1, len(X) // SAMPLED)][:SAMPLED].copy(),
        "classes": classes,
        "class_counts": class_counts,
    }
