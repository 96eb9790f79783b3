"""From dask arrays and dataframes to constraints in blocks, one block per partition.

Every partition of rows becomes a block: its rows, copies of the rows of other blocks that
its constraints need, and the constraints as row numbers among these. What moves between
blocks beforehand:

- from labels, all rows to all blocks (each searches its neighbours in every other), or,
  with references, one random sample of rows;
- from row numbers, the constraints to the block of their first row, and the other rows;
- from tuples of points, nothing.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..blocks.operator import BlockOperator, BlockSpace, BlockVector, Engine
from ..blocks.threads import Threads
from ..core.arrays import float64, like
from ..core.extras import require
from ..core.vectors import same
from ..core.weights import check_range, factors_of_classes
from ..neighbours import (
    MOST_IMPOSTORS,
    LabelledRows,
    SearchQuery,
    column_extent,
    enough_of,
    exact_search,
    merge,
    nearer_impostors,
    row_keys,
    rows_of,
    sample_classes,
    sample_size,
    tie_numbers,
)
from ..operators.span import Coordinates, Matrix
from ..operators.whitening import amount, ridge_of_spread, scatter, whitening
from .base import Constraints
from .in_memory import (
    check_class_sizes,
    check_pairs,
    check_similar,
    check_triplets,
    first_means_none,
    pairs_from_neighbours,
    refuse_missing_labels,
    triplets_from_neighbours,
)

CHUNK = 1 << 12  # rows converted to float64 at a time
SAMPLED, MOST_SAMPLED = 50, 1000  # rows of each block, and of all, on which a metric is tried


def is_dask(value: Any) -> bool:
    """Whether ``value`` is a dask collection, without importing dask."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr")


def engine_in_use() -> Engine:
    """The engine of the enclosing ``with`` block; else the cluster of the current
    `distributed.Client`; else threads of this process.
    """
    chosen = Engine.in_use.get()
    if chosen is not None:
        return chosen
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        from ..blocks.cluster import Cluster

        try:
            return Cluster(distributed.default_client())
        except ValueError:  # there is no client
            pass
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

    Attributes
    ----------
    space : BlockSpace
    partitions : BlockVector of Partition
    numbers, counts : integer arrays (n_blocks,)
        The partition number of each block, and its number of rows.
    n_features : int
    dtype : dtype
    mean, spread : arrays (n_features,)
        Mean of all rows, and mean square about it, in float64.
    sample : array (k, n_features)
        Some rows of every block.
    classes, class_counts : array (n_classes,), integer array (n_blocks, n_classes)
        None without labels.
    """

    space: BlockSpace
    partitions: BlockVector
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


@dataclass(frozen=True)
class ConstraintsInBlocks(Constraints):
    """Constraints in blocks, none of them empty.

    ``far`` holds copies of rows of other blocks, numbered after the block's own rows; None
    if there are none.
    """

    rows: BlockRows
    far: BlockVector | None
    index: BlockVector
    similar: BlockVector | None = None
    weights: BlockVector | None = None
    total: int = 0

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def space(self) -> BlockSpace:
        return self.rows.space

    @property
    def n_constraints(self) -> int:
        return self.total

    def coordinates(self) -> Coordinates:
        return Coordinates(self.rows.sample)

    def span(self) -> Coordinates:
        return self.coordinates()

    def whitened(self, similar_pairs: Callable, ridge: float) -> tuple[Coordinates, Any]:
        rows, space = self.rows, self.space
        pairs = space.recomputed(similar_pairs, self.index, self.similar, self.weights)
        found = replace(self, index=pairs).over(_scatter, keep=False)
        total, n_pairs = space.sum(same, found)
        if not n_pairs:
            raise ValueError("there are no similar pairs; give pairs of both kinds.")
        diagonal = ridge_of_spread(rows.spread, n_pairs, ridge)
        scale = diagonal[:, None] ** 0.5
        T = whitening(total / scale / scale.T).matrix / scale
        whitened = Coordinates((rows.sample - rows.mean) @ T, (Matrix(T),))
        return whitened, total + np.diag(diagonal)

    def over(self, function: Callable, /, *, keep: bool = True, **small: Any) -> BlockVector:
        """The vector of ``function(points, index, similar, **small)``; with ``keep=False``
        recomputed whenever it is needed.
        """
        make = self.space.map if keep else self.space.recomputed
        parts = self.rows.partitions, self.far, self.index, self.similar
        devices = getattr(self.space.engine, "devices", None)
        return make(_over, *parts, function=function, devices=devices, small=small)

    def narrowed(self, function: Callable, /) -> "ConstraintsInBlocks | None":
        index = self.over(function)
        if not self.space.sum(len, index):
            return None
        return _without_empty_blocks(replace(self, index=index, similar=None, weights=None))

    def operator(self, make: Callable, coordinates: Coordinates) -> BlockOperator:
        """In whitened coordinates in float64, kept only if the solve is in float64 too."""
        if not coordinates.maps:
            how, dtype, keep = {}, self.dtype, True
        else:
            (whitening,) = coordinates.maps
            assert isinstance(whitening, Matrix)
            how = {"T": whitening.matrix, "mean": self.rows.mean}
            dtype, keep = np.dtype(np.float64), self.dtype == np.float64
        pieces = self.over(_made, keep=keep, make=make, **how)
        return BlockOperator(pieces, self.n_constraints, self.rows.n_features, dtype)


# ---- reading


def read(X: Any, y: Any = None, weights: Any = None, labelled: bool = True) -> BlockRows:
    """Validate the partitions of X, rows (n, D) or tuples of points (m, k, D), with the y and
    weights of its rows or tuples. These may be arrays if the chunks of X are known;
    ``labelled`` says whether y are labels.
    """
    delayed, space = require("dask", "cluster").delayed, BlockSpace(engine_in_use())
    dtype, parts = _dtype(X), _partitions(X)
    beside = [_beside(X, y, "y", len(parts)), _beside(X, weights, "sample_weight", len(parts))]
    checked = delayed(_checked, pure=False)
    tasks = [
        checked(number, *part, dtype=dtype)
        for number, part in enumerate(zip(parts, *beside, strict=True))
    ]
    return _rows(space, space.map(same, space.source(tasks)), labelled and y is not None, dtype)


def _rows(space, partitions, labelled, dtype):
    facts = space.gather(_facts, partitions, labelled=labelled)
    there = [block for block, fact in enumerate(facts) if fact["count"]]
    if not there:
        raise ValueError(f"X has no rows in its {len(facts)} partitions; give at least three.")
    partitions, facts = space.select(partitions, there), [facts[block] for block in there]
    widths = sorted({fact["width"] for fact in facts})
    if len(widths) > 1:
        raise ValueError(f"X has partitions with {widths} features; give the same to all.")
    counts = np.array([fact["count"] for fact in facts])
    mean = sum(fact["count"] * fact["mean"] for fact in facts) / counts.sum()
    spread = (
        sum(fact["count"] * (fact["spread"] + (fact["mean"] - mean) ** 2) for fact in facts)
        / counts.sum()
    )
    sample = np.concatenate([fact["sample"] for fact in facts])
    rows = BlockRows(
        space,
        partitions,
        np.array([fact["number"] for fact in facts]),
        counts,
        widths[0],
        dtype,
        mean,
        spread,
        sample[np.unique(np.linspace(0, len(sample) - 1, MOST_SAMPLED).astype(int))],
    )
    if facts[0]["classes"] is None:
        return rows
    classes = np.unique(np.concatenate([fact["classes"] for fact in facts]))
    class_counts = np.zeros((len(facts), len(classes)), np.int64)
    for row, fact in zip(class_counts, facts, strict=True):
        row[np.searchsorted(classes, fact["classes"])] = fact["class_counts"]
    return replace(rows, classes=classes, class_counts=class_counts)


def _dtype(X):
    """float32 if all of X is in single precision or less, else float64."""
    kinds = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    single = all(
        np.issubdtype(kind, np.floating) and np.dtype(kind).itemsize <= 4 for kind in kinds
    )
    return np.dtype(np.float32 if single else np.float64)


def _partitions(collection):
    """Delayed partitions, whole along every axis but the first."""
    if not hasattr(collection, "chunks"):
        # unused columns are not read; a full optimisation would also merge partitions,
        # differently for one column than for many
        return list(collection.simplify().to_delayed(optimize_graph=False))
    if any(len(sizes) > 1 for sizes in collection.chunks[1:]):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(collection.to_delayed().ravel())


def _beside(X, values, name, n_partitions):
    """Partitions of the y or the weights that go with the rows of X."""
    if values is None:
        return [None] * n_partitions
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    known = not np.isnan(sizes).any()
    if not is_dask(values):
        if not known:
            raise ValueError(
                f"{name} is an array, but the lengths of X's partitions are unknown; give "
                f"{name} as a dask collection partitioned like X, or call "
                "X.compute_chunk_sizes() first."
            )
        values = np.asarray(values)
    n_values = np.nan if is_dask(values) and not hasattr(values, "chunks") else values.shape[0]
    if known and not np.isnan(n_values) and n_values != sum(sizes):
        raise ValueError(
            f"{name} has {n_values} values for the {sum(sizes)} rows of X; give one for each."
        )
    if not is_dask(values):
        return np.split(values, np.cumsum(sizes)[:-1])
    if known and hasattr(values, "chunks") and values.chunks[0] != sizes:
        values = values.rechunk({0: sizes})
    parts = _partitions(values)
    if len(parts) != n_partitions:
        raise ValueError(
            f"{name} has {len(parts)} partitions and X has {n_partitions}; partition them alike."
        )
    return parts


# ---- labels


def from_labels(
    rows: BlockRows,
    n_targets: int,
    n_impostors: int | str,
    n_references: int | str | None = "auto",
    random_state: Any = None,
    pairs: bool = False,
    class_weight: Any = None,
) -> ConstraintsInBlocks:
    """Triplets or pairs of each row with its nearest rows of the same and of other labels,
    found among all rows or among ``n_references`` of them.
    """
    if class_weight is not None:
        rows = _weighed_by_class(rows, class_weight)
    assert rows.classes is not None and rows.class_counts is not None
    check_class_sizes(rows.classes, rows.class_counts.sum(0), n_targets)
    if first_means_none(rows.classes):
        rows = _labelled(rows)
    space, first = rows.space, rows.first
    partitions = space.map(_encoded, rows.partitions, classes=rows.classes)
    most = MOST_IMPOSTORS if n_impostors == "auto" else n_impostors
    extents = np.array(space.gather(_column_extent, partitions))
    extent = extents[:, 0].min(0), extents[:, 1].max(0)
    numbering = {"first": first, "n_rows": rows.n_rows, "extent": extent}
    counts = {"n_targets": n_targets, "n_impostors": most, "numbering": numbering}
    n_sampled = sample_size(n_references, rows.n_rows, partitioned=True)
    sample = None
    if n_sampled is None:
        nearest = space.across(_nearest_across, partitions, partitions, **counts)
    else:
        sample = _sample(rows, partitions, n_sampled, n_targets, random_state)
        nearest = space.map(_nearest_in_sample, partitions, sample=sample, **counts)
    if n_impostors == "auto":
        most = enough_of(space.sum(_nearer, nearest))
    options = {"n_impostors": most, "pairs": pairs}
    found = space.map(_combined, partitions, nearest, first=first, n_rows=rows.n_rows, **options)
    weights = None
    if space.gather(_has_weights, partitions)[0]:
        weights = space.map(_weights_of_first, partitions, found, first=first)
    similar = space.map(_item, found, number=1) if pairs else None
    return _localised(rows, space.map(_item, found, number=0), similar, weights, sample)


def _weighed_by_class(rows, class_weight):
    """The rows with weights multiplied by ``class_weight``, without those of weight zero."""
    space, without = rows.space, int(first_means_none(rows.classes))
    in_sum = space.sum(_class_sums, rows.partitions, classes=rows.classes)
    factors = np.ones(len(rows.classes))
    factors[without:] = factors_of_classes(class_weight, rows.classes[without:], in_sum[without:])
    how = {"classes": rows.classes, "factors": factors}
    partitions = space.map(_times_factor, rows.partitions, **how)
    if factors.all():
        return replace(rows, partitions=partitions)
    return _rows(space, partitions, True, rows.dtype)


def _labelled(rows):
    """Only the rows that have a label."""
    space, there = rows.space, np.flatnonzero(rows.counts > rows.class_counts[:, 0])
    counts = (rows.counts - rows.class_counts[:, 0])[there]
    return replace(
        rows,
        partitions=space.select(space.map(_with_label, rows.partitions), there),
        numbers=rows.numbers[there],
        counts=counts,
        classes=rows.classes[1:],
        class_counts=rows.class_counts[there, 1:],
    )


def _sample(rows, partitions, n_references, n_targets, random_state):
    """(X, y, row numbers) of the references, by row number."""
    chosen = sample_classes(rows.class_counts.sum(0), n_references, n_targets, random_state)
    before = np.cumsum(rows.class_counts, 0) - rows.class_counts
    picks: dict[int, list] = {number: [] for number in rows.numbers.tolist()}
    for label, places in enumerate(chosen):
        block = np.searchsorted(before[:, label], places, side="right") - 1
        for b in np.unique(block):
            inside = places[block == b] - before[b, label]
            picks[int(rows.numbers[b])].append((label, inside))
    found = rows.space.gather(_picked, partitions, picks=picks, first=rows.first)
    X, y, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(numbers)
    return X[order], y[order], numbers[order]


# ---- row numbers and tuples


def from_numbers(
    rows: BlockRows, index: Any, similar: Any = None, weights: Any = None
) -> ConstraintsInBlocks:
    """Triplets (m, 3) or pairs (m, 2) of row numbers, array or dask array, each in the
    block of its first row.
    """
    delayed, space, first = require("dask", "cluster").delayed, rows.space, rows.first
    if not is_dask(index):
        index = np.asarray(index)
        parts: list = np.array_split(index, max(1, min(len(rows.counts), len(index))))
        sizes = np.cumsum([len(part) for part in parts])[:-1]
        beside = [
            [None] * len(parts) if each is None else np.split(np.asarray(each), sizes)
            for each in (similar, weights)
        ]
    else:
        parts = _partitions(index)
        beside = [
            _beside(index, similar, "similar", len(parts)),
            _beside(index, weights, "sample_weight", len(parts)),
        ]
    checked = delayed(_checked_numbers, pure=False)
    given = space.source(
        [
            checked(*part, n_rows=rows.n_rows, dtype=rows.dtype)
            for part in zip(parts, *beside, strict=True)
        ]
    )
    limits = {
        number: (first[number], first[number] + count)
        for number, count in zip(rows.numbers.tolist(), rows.counts.tolist(), strict=True)
    }
    mine = space.across(_mine, rows.partitions, space.map(same, given), limits=limits)
    similar = None if similar is None else space.map(_item, mine, number=1)
    weights = None if weights is None else space.map(_item, mine, number=2)
    return _localised(rows, space.map(_item, mine, number=0), similar, weights, None)


def from_tuples(rows: BlockRows, width: int) -> ConstraintsInBlocks:
    """The constraints of tuples of ``width`` points each, as `read` returns them; y says which
    pairs are similar.
    """
    space = rows.space
    index = space.map(_consecutive, rows.partitions, width=width)
    similar = space.map(_similar, rows.partitions) if width == 2 else None
    weights = None
    if space.gather(_has_weights, rows.partitions)[0]:
        weights = space.map(_item, rows.partitions, number=3)
    return _without_empty_blocks(ConstraintsInBlocks(rows, None, index, similar, weights))


def _localised(rows, index, similar, weights, sample):
    """Constraints by row numbers among all rows, renumbered within their blocks; rows of
    other blocks come from the sample, or from these blocks.
    """
    space, first = rows.space, rows.first
    needed = space.map(_needed, rows.partitions, index, first=first)
    if sample is None:
        far = space.across(_fetched, needed, rows.partitions, first=first)
    else:
        far = space.map(_from_sample, needed, sample=sample)
    local = space.map(_local, rows.partitions, index, needed, first=first)
    return _without_empty_blocks(ConstraintsInBlocks(rows, far, local, similar, weights))


def _without_empty_blocks(constraints):
    """The same without the blocks that have no constraint."""
    space, rows = constraints.space, constraints.rows
    counts = np.array(space.gather(len, constraints.index))
    if not counts.any():
        raise ValueError(
            "no partition has a constraint: no row has a target and an impostor; give more rows, "
            "or more of each class."
        )
    there = np.flatnonzero(counts)
    constraints = replace(constraints, total=int(counts.sum()))
    if len(there) == len(counts):
        return constraints
    vectors = {name: getattr(constraints, name) for name in ("far", "index", "similar", "weights")}
    selected = {
        name: None if vector is None else space.select(vector, there)
        for name, vector in vectors.items()
    }
    rows = replace(rows, partitions=space.select(rows.partitions, there))
    return replace(constraints, rows=rows, **selected)


# ---- functions that are mapped over the blocks


def _item(pieces, number):
    return pieces[number]


def _checked(number, X, y, weights, dtype):
    """A valid `Partition`; tuples of points become rows."""
    X = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
    where = f"in partition {number}"
    try:
        X = X.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X holds values that are not numbers {where}: {error}") from None
    if X.ndim not in (2, 3):
        raise ValueError(
            f"X has shape {X.shape} {where}; give rows (n, D), or tuples of points (m, k, D)."
        )
    if not np.isfinite(X).all():
        raise ValueError(
            f"X contains NaN or infinity {where}; drop those rows or impute them first."
        )
    beside = []
    for name, values in (("y", y), ("sample_weight", weights)):
        if values is not None:
            values = np.asarray(values)
            values = values.reshape(len(values), -1)[:, 0] if values.ndim > 1 else values
            if len(values) != len(X):
                raise ValueError(
                    f"{name} has {len(values)} values for {len(X)} rows {where}; partition it "
                    "like X."
                )
        beside.append(values)
    y, weights = beside
    if y is not None:
        refuse_missing_labels(y, f" {where}")
    if weights is not None:
        there = _weighing(weights, where, dtype)
        weights = weights.astype(dtype)
        X, y, weights = X[there], None if y is None else y[there], weights[there]
    return Partition(number, np.ascontiguousarray(X.reshape(-1, X.shape[-1])), y, weights)


def _weighing(weights, where, dtype):
    """Mask of the weights that are not zero, all of them valid."""
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(
            f"sample_weight is negative or not finite {where}; give finite weights >= 0."
        )
    check_range(weights, dtype, f"sample_weight {where}".strip())
    return weights > 0


def _facts(partition, labelled):
    X = partition.X
    mean = X.mean(0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
    spread = np.zeros(X.shape[1])
    for start in range(0, len(X), CHUNK):
        spread += ((X[start : start + CHUNK] - mean) ** 2).sum(0)
    classes = class_counts = None
    if labelled:
        classes, class_counts = np.unique(partition.y, return_counts=True)
    return {
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


def _encoded(partition, classes):
    return partition._replace(y=np.searchsorted(classes, partition.y))


def _class_sums(partition, classes):
    codes = np.searchsorted(classes, partition.y)
    return np.bincount(codes, partition.weights, len(classes)).astype(np.float64)


def _times_factor(partition, classes, factors):
    number, X, y, weights = partition
    factor = factors[np.searchsorted(classes, y)]
    keep = factor > 0
    factor = factor if weights is None else weights * factor
    check_range(factor, X.dtype, "sample_weight, times class_weight,")
    return Partition(number, X[keep], y[keep], factor[keep].astype(X.dtype))


def _with_label(partition):
    number, X, y, weights = partition
    keep = y != -1
    return Partition(number, X[keep], y[keep], None if weights is None else weights[keep])


def _has_weights(partition):
    return partition.weights is not None


def _picked(partition, picks, first):
    """The references of a block: rows, labels, row numbers among all rows."""
    number, X, y, _ = partition
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], [label for label, _ in picks[number]])
    chosen = [
        order[start + places] for start, (_, places) in zip(starts, picks[number], strict=True)
    ]
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))
    return X[rows], y[rows], first[number] + rows


def _column_extent(partition):
    return column_extent(partition.X)


def _numbers(X, rows, numbering):
    """The numbers of rows of a block in a search through all blocks."""
    return tie_numbers(row_keys(X, numbering["extent"]), rows, numbering["n_rows"])


def _nearest_in_sample(partition, sample, n_targets, n_impostors, numbering):
    number, X, y, _ = partition
    references, labels, rows = sample
    own_rows = numbering["first"][number] + np.arange(len(X))
    place = np.searchsorted(rows, own_rows)
    own = np.where(rows[np.minimum(place, len(rows) - 1)] == own_rows, place, -1)
    numbers = _numbers(references, rows, numbering)
    mine, sampled = LabelledRows(X, y), LabelledRows(references, labels)
    return exact_search(SearchQuery(mine, sampled, n_targets, n_impostors, own, numbers))


def _nearest_across(before, own, other, _, n_targets, n_impostors, numbering):
    """The nearest rows so far, and those of one more block."""
    (number, X, y, _), (other_number, Z, labels, _) = own, other
    numbers = _numbers(Z, numbering["first"][other_number] + np.arange(len(Z)), numbering)
    mine = LabelledRows(X, y)
    if number == other_number:
        theirs, own = mine, np.arange(len(X))
    else:
        theirs, own = LabelledRows(Z, labels), np.full(len(X), -1)
    found = exact_search(SearchQuery(mine, theirs, n_targets, n_impostors, own, numbers))
    return found if before is None else merge(X, before, found)


def _nearer(nearest):
    return nearer_impostors(nearest[2], nearest[3])


def _combined(partition, nearest, first, n_rows, n_impostors, pairs):
    """(constraints by row numbers, which pairs are similar) of the rows of a block."""
    lists = (rows_of(numbers, n_rows) for numbers in (nearest[0], nearest[1][:, :n_impostors]))
    index, similar = (
        pairs_from_neighbours(*lists) if pairs else (triplets_from_neighbours(*lists), None)
    )
    index[:, 0] += first[partition.number]  # neighbours are numbered among all rows already
    return index, similar


def _weights_of_first(partition, found, first):
    """A constraint weighs as much as its first row."""
    index, _ = found
    return partition.weights[index[:, 0] - first[partition.number]]


def _checked_numbers(index, similar, weights, n_rows, dtype):
    index = np.asarray(index)
    if not len(index):
        return index.astype(np.int64), similar, weights
    index = check_pairs(index, n_rows) if index.shape[-1] == 2 else check_triplets(index, n_rows)
    if similar is not None:
        similar = check_similar(similar, len(index))
    if weights is None:
        return index, similar, None
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(index),):
        raise ValueError(
            f"sample_weight has shape {weights.shape} for {len(index)} constraints; partition it "
            "like them."
        )
    there = _weighing(weights, "", dtype)
    return index[there], None if similar is None else similar[there], weights[there]


def _mine(before, partition, given, _, limits):
    """(index, similar, weights) of the constraints whose first row is in this block."""
    (low, high), (index, *_) = limits[partition.number], given
    inside = (index[:, 0] >= low) & (index[:, 0] < high)
    found = tuple(None if part is None else part[inside] for part in given)
    if before is None:
        return found
    return tuple(
        None if old is None else np.concatenate([old, new])
        for old, new in zip(before, found, strict=True)
    )


def _needed(partition, index, first):
    """Numbers of the rows of other blocks, ascending."""
    low = first[partition.number]
    numbers = np.unique(index)
    return numbers[(numbers < low) | (numbers >= low + len(partition.X))]


def _fetched(before, needed, partition, _, first):
    """The rows fetched so far, and those of one more block."""
    low = first[partition.number]
    inside = needed[(needed >= low) & (needed < low + len(partition.X))]
    found = partition.X[inside - low]
    return found if before is None else np.concatenate([before, found])


def _from_sample(needed, sample):
    references, _, numbers = sample
    return references[np.searchsorted(numbers, needed)]


def _local(partition, index, needed, first):
    low, count = first[partition.number], len(partition.X)
    own = (index >= low) & (index < low + count)
    return np.where(own, index - low, count + np.searchsorted(needed, index)).astype(np.int32)


def _consecutive(partition, width):
    return np.arange(len(partition.X), dtype=np.int32).reshape(-1, width)


def _similar(partition):
    return check_similar(partition.y, len(partition.y))


def _scatter(points, weighed_pairs, similar):
    """Scatter of the similar pairs of a block, in float64, and how much they weigh."""
    pairs, weights = weighed_pairs
    if not len(pairs):
        return np.zeros((points.shape[1], points.shape[1])), 0
    return scatter(float64(points), pairs, weights), amount(pairs, weights)


def _made(points, index, similar, make, T=None, mean=None):
    if T is None:
        return make(points, index)
    points = float64(points)
    return make((points - like(mean, points)) @ like(T, points), index)


def _over(partition, far, index, similar, function, devices, small):
    points = partition.X if far is None else np.concatenate([partition.X, far])
    if devices is not None:
        import torch

        points = torch.as_tensor(points, device=devices[partition.number % len(devices)])
    return function(points, index, similar, **small)
