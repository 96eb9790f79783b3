"""From dask arrays and dataframes to constraints in blocks, one block per partition.

Every partition of rows becomes a block: its rows, copies of the far ends that its
constraints need, and the constraints as row numbers among these. What goes between
blocks on the way is

- from labels, all rows to all blocks (each searches its neighbours in every other), or,
  with references, one random sample of rows;
- from row numbers, the constraints to the block of their first row, and the far ends;
- from tuples of points, nothing.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..blocks.operator import BlockOperator, BlockSpace, BlockVector, Engine
from ..core.extras import require
from ..core.vectors import same
from ..core.weights import check_range, factors_of_classes
from ..neighbours import (
    MOST_IMPOSTORS,
    Labelled,
    Nearest,
    Question,
    answer,
    choose_references,
    column_extent,
    enough_of,
    merge,
    n_references_for,
    nearer_impostors,
    row_keys,
    rows_of,
    tie_numbers,
)
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


def is_dask(value: Any) -> bool:
    """Whether ``value`` is a dask collection, without importing dask."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr")


def engine_in_use() -> Engine:
    """The engine of the ``with`` block we are in; else the cluster of the current
    `distributed.Client`; else this process.
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
    from ..blocks.threads import Threads

    return Threads()


@dataclass(frozen=True)
class Rows:
    """Rows in blocks, checked; no block is without.

    Attributes
    ----------
    space : BlockSpace
    pieces : BlockVector
        Of tuples (number of the partition, X, y, weights); y and weights are None where
        there are none.
    numbers, counts : integer arrays (n_blocks,)
        Of each block its partition, and its rows.
    n_features : int
    dtype : dtype
    mean, spread : arrays (n_features,)
        Of all rows, in float64: their mean, and the mean square about it.
    sample : array (k, n_features)
        Some rows of every block.
    classes, class_counts : array (n_classes,), integer array (n_blocks, n_classes)
        None without labels.
    """

    space: BlockSpace
    pieces: BlockVector
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
        """Of each partition the number of its first row among all rows."""
        firsts = np.cumsum(self.counts) - self.counts
        return dict(zip(self.numbers.tolist(), firsts.tolist(), strict=True))


@dataclass(frozen=True)
class Constraints:
    """Constraints in blocks; no block is without.

    Attributes
    ----------
    rows : Rows
    far : BlockVector or None
        Copies of rows of other blocks, numbered after the block's own rows.
    index : BlockVector
        Tuples (m, k) of these numbers.
    similar : BlockVector or None
        Of pairs, which are alike.
    weights : BlockVector or None
        One for each constraint.
    n_constraints : int
        In all blocks.
    """

    rows: Rows
    far: BlockVector | None
    index: BlockVector
    similar: BlockVector | None = None
    weights: BlockVector | None = None
    n_constraints: int = 0

    @property
    def space(self) -> BlockSpace:
        return self.rows.space

    def over(self, function, /, *, keep=True, **small) -> BlockVector:
        """The vector of ``function(points, index, similar, **small)``; with ``keep=False``
        computed whenever it is needed.
        """
        make = self.space.map if keep else self.space.passing
        parts = self.rows.pieces, self.far, self.index, self.similar
        devices = getattr(self.space.engine, "devices", None)
        return make(_over, *parts, function=function, devices=devices, small=small)

    def narrowed(self, function, /) -> "Constraints | None":
        """With ``function(points, index, similar)`` for its index; None where nothing is left."""
        index = self.over(function)
        if not self.space.sum(len, index):
            return None
        return _without_empty_blocks(replace(self, index=index, similar=None, weights=None))

    def operator(self, function, /, *, dtype=None, keep=True, **small) -> BlockOperator:
        """The operator whose pieces these are."""
        pieces = self.over(function, keep=keep, **small)
        dtype = self.rows.dtype if dtype is None else dtype
        return BlockOperator(pieces, self.n_constraints, self.rows.n_features, dtype)


# ---- reading


def read(X: Any, y: Any = None, weights: Any = None, labelled: bool = True) -> Rows:
    """Check the partitions of X, and what goes with its rows or tuples.

    Parameters
    ----------
    X : dask array (n, D) or (m, k, D), or dask dataframe
        Of tuples the rows are all their points, one tuple after the other.
    y, weights : dask array or series, or array-like where the chunks of X are known
        One for each row or tuple.
    labelled : bool, default=True
        Whether y are labels.
    """
    delayed, space = require("dask", "cluster").delayed, BlockSpace(engine_in_use())
    dtype, parts = _dtype(X), _partitions(X)
    beside = [_beside(X, y, "y", len(parts)), _beside(X, weights, "sample_weight", len(parts))]
    checked = delayed(_checked, pure=False)
    tasks = [
        checked(number, *part, dtype=dtype)
        for number, part in enumerate(zip(parts, *beside, strict=True))
    ]
    pieces = space.map(same, space.source(tasks))
    facts = space.gather(_facts, pieces, labelled=labelled and y is not None)
    there = [block for block, fact in enumerate(facts) if fact["count"]]
    if not there:
        raise ValueError(f"X has no rows in its {len(parts)} partitions; give at least three.")
    return _rows(space, space.select(pieces, there), [facts[block] for block in there], dtype)


def _rows(space, pieces, facts, dtype):
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
    rows = Rows(
        space,
        pieces,
        np.array([fact["number"] for fact in facts]),
        counts,
        widths[0],
        dtype,
        mean,
        spread,
        sample[np.unique(np.linspace(0, len(sample) - 1, 1000).astype(int))],
    )
    if facts[0]["classes"] is None:
        return rows
    classes = np.unique(np.concatenate([fact["classes"] for fact in facts]))
    class_counts = np.zeros((len(facts), len(classes)), np.int64)
    for row, fact in zip(class_counts, facts, strict=True):
        row[np.searchsorted(classes, fact["classes"])] = fact["class_counts"]
    return replace(rows, classes=classes, class_counts=class_counts)


def _dtype(X):
    """float32 where X is in single precision or less throughout, else float64."""
    kinds = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    single = all(
        np.issubdtype(kind, np.floating) and np.dtype(kind).itemsize <= 4 for kind in kinds
    )
    return np.dtype(np.float32 if single else np.float64)


def _partitions(collection):
    """Delayed partitions, whole along every axis but the first."""
    if not hasattr(collection, "chunks"):
        # columns that are not needed are not read; a full optimisation would also join
        # partitions, those of one column otherwise than those of many
        return list(collection.simplify().to_delayed(optimize_graph=False))
    if any(len(sizes) > 1 for sizes in collection.chunks[1:]):
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    return list(collection.to_delayed().ravel())


def _beside(X, values, name, n_partitions):
    """Partitions of what goes with the rows of X."""
    if values is None:
        return [None] * n_partitions
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    known = not np.isnan(sizes).any()
    if not is_dask(values):
        if not known:
            raise ValueError(
                f"{name} is an array, but the lengths of X's partitions are not known; give "
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
    rows: Rows,
    n_targets: int,
    n_impostors: int | str,
    n_references: int | str | None = "auto",
    random_state: Any = None,
    pairs: bool = False,
    class_weight: Any = None,
) -> Constraints:
    """Triplets, or pairs, of each row with its nearest rows of the same and of other labels.

    Parameters are those of `neighbours.neighbours_by_label`; the neighbours of a row are
    found among all rows, or among ``n_references`` of them.
    """
    if class_weight is not None:
        rows = _weighed_by_class(rows, class_weight)
    assert rows.classes is not None and rows.class_counts is not None
    check_class_sizes(rows.classes, rows.class_counts.sum(0), n_targets)
    if first_means_none(rows.classes):
        rows = _labelled(rows)
    space, first = rows.space, rows.first
    pieces = space.map(_encoded, rows.pieces, classes=rows.classes)
    most = MOST_IMPOSTORS if n_impostors == "auto" else n_impostors
    extents = np.array(space.gather(_column_extent, pieces))
    extent = extents[:, 0].min(0), extents[:, 1].max(0)
    numbering = {"first": first, "n_rows": rows.n_rows, "extent": extent}
    counts = {"n_targets": n_targets, "n_impostors": most, "numbering": numbering}
    n_sampled = n_references_for(n_references, rows.n_rows, partitioned=True)
    sample = None
    if n_sampled is None:
        nearest = space.across(_nearest_across, pieces, pieces, **counts)
    else:
        sample = _sample(rows, pieces, n_sampled, n_targets, random_state)
        nearest = space.map(_nearest_in_sample, pieces, sample=sample, **counts)
    if n_impostors == "auto":
        most = enough_of(space.sum(_nearer, nearest))
    options = {"n_impostors": most, "pairs": pairs}
    made = space.map(_combined, pieces, nearest, first=first, n_rows=rows.n_rows, **options)
    weights = None
    if space.gather(_has_weights, pieces)[0]:
        weights = space.map(_weights_of_first, pieces, made, first=first)
    similar = space.map(_part, made, part=1) if pairs else None
    return _localised(rows, space.map(_part, made, part=0), similar, weights, sample)


def _weighed_by_class(rows, class_weight):
    """With what ``class_weight`` makes of the weights; rows that weigh nothing are left out."""
    space, without = rows.space, int(first_means_none(rows.classes))
    in_sum = space.sum(_class_sums, rows.pieces, classes=rows.classes)
    factors = np.ones(len(rows.classes))
    factors[without:] = factors_of_classes(class_weight, rows.classes[without:], in_sum[without:])
    pieces = space.map(_times_factor, rows.pieces, classes=rows.classes, factors=factors)
    if factors.all():
        return replace(rows, pieces=pieces)
    facts = space.gather(_facts, pieces, labelled=True)
    there = [block for block, fact in enumerate(facts) if fact["count"]]
    return _rows(space, space.select(pieces, there), [facts[block] for block in there], rows.dtype)


def _labelled(rows):
    """Only the rows that have a label."""
    space, there = rows.space, np.flatnonzero(rows.counts > rows.class_counts[:, 0])
    pieces = space.select(space.map(_with_label, rows.pieces), there)
    counts = (rows.counts - rows.class_counts[:, 0])[there]
    return replace(
        rows,
        pieces=pieces,
        numbers=rows.numbers[there],
        counts=counts,
        classes=rows.classes[1:],
        class_counts=rows.class_counts[there, 1:],
    )


def _sample(rows, pieces, n_references, n_targets, random_state):
    """(X, y, row numbers) of the references, by row number."""
    chosen = choose_references(rows.class_counts.sum(0), n_references, n_targets, random_state)
    before = np.cumsum(rows.class_counts, 0) - rows.class_counts
    picks: dict[int, list] = {number: [] for number in rows.numbers.tolist()}
    for label, places in enumerate(chosen):
        block = np.searchsorted(before[:, label], places, side="right") - 1
        for b in np.unique(block):
            inside = places[block == b] - before[b, label]
            picks[int(rows.numbers[b])].append((label, inside))
    found = rows.space.gather(_picked, pieces, picks=picks, first=rows.first)
    X, y, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(numbers)
    return X[order], y[order], numbers[order]


# ---- row numbers and tuples


def from_numbers(rows: Rows, index: Any, similar: Any = None, weights: Any = None) -> Constraints:
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
    mine = space.across(_mine, rows.pieces, space.map(same, given), limits=limits)
    similar = None if similar is None else space.map(_part, mine, part=1)
    weights = None if weights is None else space.map(_part, mine, part=2)
    return _localised(rows, space.map(_part, mine, part=0), similar, weights, None)


def from_tuples(rows: Rows, width: int) -> Constraints:
    """The constraints of tuples of ``width`` points each, read by `read`; y of pairs says
    which are alike.
    """
    space = rows.space
    index = space.map(_consecutive, rows.pieces, width=width)
    similar = space.map(_alike, rows.pieces) if width == 2 else None
    weights = None
    if space.gather(_has_weights, rows.pieces)[0]:
        weights = space.map(_part, rows.pieces, part=3)
    return _without_empty_blocks(Constraints(rows, None, index, similar, weights))


def _localised(rows, index, similar, weights, sample):
    """Constraints by row numbers among all rows, as numbers within their blocks; the far
    ends come from the sample, or from the other blocks.
    """
    space, first = rows.space, rows.first
    needed = space.map(_needed, rows.pieces, index, first=first)
    if sample is None:
        far = space.across(_fetched, needed, rows.pieces, first=first)
    else:
        far = space.map(_from_sample, needed, sample=sample)
    local = space.map(_local, rows.pieces, index, needed, first=first)
    return _without_empty_blocks(Constraints(rows, far, local, similar, weights))


def _without_empty_blocks(constraints):
    """Only the blocks that have constraints."""
    space, rows = constraints.space, constraints.rows
    counts = np.array(space.gather(len, constraints.index))
    if not counts.any():
        raise ValueError(
            "no partition has a constraint: no row has a target and an impostor; give more rows, "
            "or more of each class."
        )
    there = np.flatnonzero(counts)
    constraints = replace(constraints, n_constraints=int(counts.sum()))
    if len(there) == len(counts):
        return constraints
    vectors = {
        name: None if vector is None else space.select(vector, there)
        for name, vector in (
            ("far", constraints.far),
            ("index", constraints.index),
            ("similar", constraints.similar),
            ("weights", constraints.weights),
        )
    }
    return replace(
        constraints, rows=replace(rows, pieces=space.select(rows.pieces, there)), **vectors
    )


# ---- what is done to each block


def _part(piece, part):
    return piece[part]


def _checked(number, X, y, weights, dtype):
    """(number, X, y, weights) of one partition; X of tuples as rows of points."""
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
                    f"{name} has {len(values)} values for {len(X)} rows {where}; partition it as X."
                )
        beside.append(values)
    y, weights = beside
    if y is not None:
        refuse_missing_labels(y, f" {where}")
    if weights is not None:
        there = _weighing(weights, where, dtype)
        weights = weights.astype(dtype)
        X, y, weights = X[there], None if y is None else y[there], weights[there]
    return number, np.ascontiguousarray(X.reshape(-1, X.shape[-1])), y, weights


def _weighing(weights, where, dtype):
    """Which weights are not zero: the others count for nothing."""
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"sample_weight is negative or not finite {where}.")
    check_range(weights, dtype, f"sample_weight {where}".strip())
    return weights > 0


def _facts(piece, labelled):
    number, X, y, _ = piece
    mean = X.mean(0, dtype=np.float64) if len(X) else np.zeros(X.shape[1])
    spread = np.zeros(X.shape[1])
    for start in range(0, len(X), 1 << 12):
        spread += ((X[start : start + (1 << 12)] - mean) ** 2).sum(0)
    classes, class_counts = np.unique(y, return_counts=True) if labelled else (None, None)
    return {
        "number": number,
        "count": len(X),
        "width": X.shape[1],
        "mean": mean,
        "spread": spread / max(1, len(X)),
        "sample": X[:: max(1, len(X) // 50)][:50].copy(),  # a view would keep all rows in memory
        "classes": classes,
        "class_counts": class_counts,
    }


def _encoded(piece, classes):
    number, X, y, weights = piece
    return number, X, np.searchsorted(classes, y), weights


def _class_sums(piece, classes):
    _, _, y, weights = piece
    return np.bincount(np.searchsorted(classes, y), weights, len(classes)).astype(np.float64)


def _times_factor(piece, classes, factors):
    number, X, y, weights = piece
    factor = factors[np.searchsorted(classes, y)]
    keep = factor > 0
    factor = factor if weights is None else weights * factor
    check_range(factor, X.dtype, "sample_weight, times class_weight,")
    return number, X[keep], y[keep], factor[keep].astype(X.dtype)


def _with_label(piece):
    number, X, y, weights = piece
    keep = y != -1
    return number, X[keep], y[keep], None if weights is None else weights[keep]


def _has_weights(piece):
    return piece[3] is not None


def _picked(piece, picks, first):
    """The references of a block: rows, labels, row numbers among all rows."""
    number, X, y, _ = piece
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], [label for label, _ in picks[number]])
    chosen = [
        order[start + places] for start, (_, places) in zip(starts, picks[number], strict=True)
    ]
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))
    return X[rows], y[rows], first[number] + rows


def _column_extent(piece):
    return column_extent(piece[1])


def _numbers(X, rows, numbering):
    """What rows of a block are called in a search through all blocks."""
    return tie_numbers(row_keys(X, numbering["extent"]), rows, numbering["n_rows"])


def _nearest_in_sample(piece, sample, n_targets, n_impostors, numbering):
    number, X, y, _ = piece
    references, labels, rows = sample
    own_rows = numbering["first"][number] + np.arange(len(X))
    place = np.searchsorted(rows, own_rows)
    own = np.where(rows[np.minimum(place, len(rows) - 1)] == own_rows, place, -1)
    numbers = _numbers(references, rows, numbering)
    mine, sampled = Labelled(X, y), Labelled(references, labels)
    return answer(Question(mine, sampled, n_targets, n_impostors, own, numbers))


def _nearest_across(before, own, other, _, n_targets, n_impostors, numbering):
    """The nearest rows so far, and those of one more block."""
    (number, X, y, _), (other_number, Z, labels, _) = own, other
    numbers = _numbers(Z, numbering["first"][other_number] + np.arange(len(Z)), numbering)
    mine = Labelled(X, y)
    if number == other_number:
        theirs, own = mine, np.arange(len(X))
    else:
        theirs, own = Labelled(Z, labels), np.full(len(X), -1)
    found = answer(Question(mine, theirs, n_targets, n_impostors, own, numbers))
    return found if before is None else merge(X, Nearest(*before), found)


def _nearer(nearest):
    return nearer_impostors(nearest[2], nearest[3])


def _combined(piece, nearest, first, n_rows, n_impostors, pairs):
    """(constraints by row numbers, which are alike) of the rows of a block."""
    lists = (rows_of(numbers, n_rows) for numbers in (nearest[0], nearest[1][:, :n_impostors]))
    index, similar = (
        pairs_from_neighbours(*lists) if pairs else (triplets_from_neighbours(*lists), None)
    )
    index[:, 0] += first[piece[0]]  # neighbours are numbered among all rows already
    return index, similar


def _weights_of_first(piece, made, first):
    return piece[3][made[0][:, 0] - first[piece[0]]]


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
            "as them."
        )
    there = _weighing(weights, "", dtype)
    return index[there], None if similar is None else similar[there], weights[there]


def _mine(before, rows, given, _, limits):
    """The constraints whose first row is in this block, and what goes with them."""
    low, high = limits[rows[0]]
    inside = (given[0][:, 0] >= low) & (given[0][:, 0] < high)
    found = tuple(None if part is None else part[inside] for part in given)
    if before is None:
        return found
    return tuple(
        None if old is None else np.concatenate([old, new])
        for old, new in zip(before, found, strict=True)
    )


def _needed(rows, index, first):
    """Row numbers of the far ends, ascending."""
    low = first[rows[0]]
    numbers = np.unique(index)
    return numbers[(numbers < low) | (numbers >= low + len(rows[1]))]


def _fetched(before, needed, rows, _, first):
    """The rows fetched so far, and those of one more block."""
    low = first[rows[0]]
    inside = needed[(needed >= low) & (needed < low + len(rows[1]))]
    found = rows[1][inside - low]
    return found if before is None else np.concatenate([before, found])


def _from_sample(needed, sample):
    references, _, numbers = sample
    return references[np.searchsorted(numbers, needed)]


def _local(rows, index, needed, first):
    low, count = first[rows[0]], len(rows[1])
    own = (index >= low) & (index < low + count)
    return np.where(own, index - low, count + np.searchsorted(needed, index)).astype(np.int32)


def _consecutive(rows, width):
    return np.arange(len(rows[1]), dtype=np.int32).reshape(-1, width)


def _alike(rows):
    return check_similar(rows[2], len(rows[2]))


def _over(rows, far, index, similar, function, devices, small):
    points = rows[1] if far is None else np.concatenate([rows[1], far])
    if devices is not None:
        import torch

        points = torch.as_tensor(points, device=devices[rows[0] % len(devices)])
    return function(points, index, similar, **small)
