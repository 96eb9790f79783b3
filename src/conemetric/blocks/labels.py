"""Constraints from the labels of rows in blocks.

Each block searches the nearest neighbours of its rows in every other block or, with
references, in one random sample of rows.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from ..constraints.in_memory import pairs_from_neighbours, triplets_from_neighbours
from ..constraints.labels import LOWER_TARGETS, check_class_sizes, first_means_none
from ..core.weights import check_range, factors_of_classes
from ..neighbours import search
from ..neighbours.ranks import LabelledRows, SearchQuery, merge
from ..neighbours.ties import column_extent, row_keys, rows_of, tie_numbers
from .constraints import ConstraintsInBlocks, Listed, localised
from .rows import BlockRows, Partition, summarised
from .vectors import BlockVector


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
    check_class_sizes(rows.classes, rows.class_counts.sum(0), n_targets, LOWER_TARGETS)
    if first_means_none(rows.classes):
        rows = _labelled(rows)
    space = rows.space
    first = rows.first
    partitions = space.map(_encoded, rows.partitions, classes=rows.classes)
    most: Any = n_impostors
    if n_impostors == "auto":
        most = search.MAX_IMPOSTORS
    # ranges over all rows: ties must not be decided by how the rows are partitioned
    extents = np.array(space.gather(column_extent, space.map(attrgetter("X"), partitions)))
    extent = (extents[:, 0].min(0), extents[:, 1].max(0))
    numbering = {"first": first, "n_rows": rows.n_rows, "extent": extent}
    counts = {"n_targets": n_targets, "n_impostors": most, "numbering": numbering}
    n_sampled = search.sample_size(n_references, rows.n_rows)
    sample = None
    if n_sampled is None:
        nearest = space.across(_nearest_across, partitions, partitions, **counts)
    else:
        sample = _sample(rows, partitions, n_sampled, n_targets, random_state)
        nearest = space.map(_nearest_in_sample, partitions, sample=sample, **counts)
    if n_impostors == "auto":
        most = search.enough_impostors(space.sum(_nearer, nearest))
    options = {"n_impostors": most, "pairs": pairs}
    lists = space.map(_combined, partitions, nearest, first=first, n_rows=rows.n_rows, **options)
    constraints = localised(rows, lists, similar=pairs, weighted=rows.weighted, sample=sample)
    return replace(constraints, from_labels=True, n_references=n_sampled)


def _weighed_by_class(rows: BlockRows, class_weight: Any) -> BlockRows:
    """Return the rows with weights multiplied by ``class_weight``, without those of weight zero."""
    assert rows.classes is not None
    space = rows.space
    # the class -1 stands for no label, and has no weight to balance
    without = int(first_means_none(rows.classes))
    in_sum = space.sum(_class_sums, rows.partitions, classes=rows.classes)
    factors = np.ones(len(rows.classes))
    factors[without:] = factors_of_classes(class_weight, rows.classes[without:], in_sum[without:])
    how = {"classes": rows.classes, "factors": factors}
    partitions = space.map(_times_factor, rows.partitions, **how)
    if factors.all():
        return replace(rows, partitions=partitions, weighted=True)
    return summarised(space, partitions, True, rows.dtype)


def _labelled(rows: BlockRows) -> BlockRows:
    """Return only the rows that have a label."""
    assert rows.classes is not None and rows.class_counts is not None
    space = rows.space
    n_labelled = rows.counts - rows.class_counts[:, 0]
    blocks = np.flatnonzero(n_labelled > 0).tolist()
    return replace(
        rows,
        partitions=space.select(space.map(_with_label, rows.partitions), blocks),
        numbers=rows.numbers[blocks],
        counts=n_labelled[blocks],
        classes=rows.classes[1:],
        class_counts=rows.class_counts[blocks, 1:],
    )


class Sample(NamedTuple):
    """Rows that neighbours are searched among, by their numbers among all rows, ascending."""

    X: np.ndarray
    y: np.ndarray
    numbers: np.ndarray


def _sample(
    rows: BlockRows, partitions: BlockVector, n_references: int, n_targets: int, random_state: Any
) -> Sample:
    """Return random references of every class."""
    assert rows.class_counts is not None
    chosen = search.sample_classes(rows.class_counts.sum(0), n_references, n_targets, random_state)
    before = np.cumsum(rows.class_counts, 0) - rows.class_counts
    picks: Picks = {number: [] for number in rows.numbers.tolist()}
    for label, places in enumerate(chosen):
        block = np.searchsorted(before[:, label], places, side="right") - 1
        for b in np.unique(block):
            of_block = places[block == b] - before[b, label]
            picks[int(rows.numbers[b])].append((label, of_block))
    samples = rows.space.gather(_picked, partitions, picks=picks, first=rows.first)
    X = np.concatenate([sample.X for sample in samples])
    y = np.concatenate([sample.y for sample in samples])
    numbers = np.concatenate([sample.numbers for sample in samples])
    order = np.argsort(numbers)
    return Sample(X[order], y[order], numbers[order])


# For each block, by number, its rows in the sample: (class, places among its rows of that class).
Picks = dict[int, list[tuple[int, np.ndarray]]]


# ---- functions that are mapped over the blocks


def _encoded(partition: Partition, classes: np.ndarray) -> Partition:
    return partition._replace(y=np.searchsorted(classes, partition.y))


def _class_sums(partition: Partition, classes: np.ndarray) -> np.ndarray:
    codes = np.searchsorted(classes, partition.y)
    return np.bincount(codes, partition.weights, len(classes)).astype(np.float64)


def _times_factor(partition: Partition, classes: np.ndarray, factors: np.ndarray) -> Partition:
    number, X, y, weights = partition
    factor = factors[np.searchsorted(classes, y)]
    keep = factor > 0
    if weights is not None:
        factor = weights * factor
    check_range(factor, X.dtype, "sample_weight, times class_weight,")
    return Partition(number, X[keep], y[keep], factor[keep].astype(X.dtype))


def _with_label(partition: Partition) -> Partition:
    number, X, y, weights = partition
    keep = y != -1
    if weights is not None:
        weights = weights[keep]
    return Partition(number, X[keep], y[keep], weights)


def _picked(partition: Partition, picks: Picks, first: dict[int, int]) -> Sample:
    """Return the rows of a block that are in the sample."""
    number, X, y, _ = partition
    order = np.argsort(y, kind="stable")
    ordered = y[order]
    chosen = [np.zeros(0, np.int64)]
    for label, places in picks[number]:
        chosen.append(order[np.searchsorted(ordered, label) + places])
    rows = np.sort(np.concatenate(chosen))
    return Sample(X[rows], y[rows], first[number] + rows)


def _numbers(X: np.ndarray, rows: np.ndarray, numbering: dict[str, Any]) -> Callable[..., Any]:
    """Return the map from rows of a block to their numbers in a search through all blocks."""
    return tie_numbers(row_keys(X, numbering["extent"]), rows, numbering["n_rows"]).__getitem__


def _nearest_in_sample(
    partition: Partition,
    sample: Sample,
    n_targets: int,
    n_impostors: int,
    numbering: dict[str, Any],
) -> Any:
    """Return the nearest rows of the sample for the rows of a block."""
    X = partition.X
    own_rows = numbering["first"][partition.number] + np.arange(len(X))
    place = np.searchsorted(sample.numbers, own_rows)
    last = len(sample.numbers) - 1
    is_sampled = sample.numbers[np.minimum(place, last)] == own_rows
    query = SearchQuery(
        LabelledRows(X, partition.y),
        LabelledRows(sample.X, sample.y),
        n_targets,
        n_impostors,
        np.where(is_sampled, place, -1),
        _numbers(sample.X, sample.numbers, numbering),
    )
    return search.exact_search(query)


def _nearest_across(
    before: Any,
    own: Partition,
    other: Partition,
    _: int,
    n_targets: int,
    n_impostors: int,
    numbering: dict[str, Any],
) -> Any:
    """Return the nearest rows so far, and those of one more block."""
    mine = LabelledRows(own.X, own.y)
    if own.number == other.number:
        theirs = mine
        places = np.arange(len(own.X))
    else:
        theirs = LabelledRows(other.X, other.y)
        places = np.full(len(own.X), -1)  # none of them is a row of the other block
    rows = numbering["first"][other.number] + np.arange(len(other.X))
    numbers = _numbers(other.X, rows, numbering)
    nearest = search.exact_search(
        SearchQuery(mine, theirs, n_targets, n_impostors, places, numbers)
    )
    if before is None:
        return nearest
    return merge(own.X, before, nearest)


def _nearer(nearest: Any) -> Any:
    return search.nearer_impostors(nearest.same.distances, nearest.other.distances)


def _combined(
    partition: Partition,
    nearest: Any,
    first: dict[int, int],
    n_rows: int,
    n_impostors: int,
    pairs: bool,
) -> Listed:
    """Return the constraints of the rows of a block, each of which weighs as much as its first row."""
    targets = rows_of(nearest.same.numbers, n_rows)
    impostors = rows_of(nearest.other.numbers[:, :n_impostors], n_rows)
    if pairs:
        index, similar = pairs_from_neighbours(targets, impostors)
    else:
        index, similar = triplets_from_neighbours(targets, impostors), None
    weights = None
    if partition.weights is not None:
        weights = partition.weights[index[:, 0]]
    index[:, 0] += first[partition.number]  # neighbours are numbered among all rows already
    return Listed(index, similar, weights)
