"""Constraints from the labels of rows in blocks.

Each block searches the nearest neighbours of its rows in every other block or, with
references, in one random sample of rows.
"""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from ..constraints.in_memory import pairs_from_neighbours, triplets_from_neighbours
from ..constraints.labels import LOWER_TARGETS, check_class_sizes, first_means_none
from ..core.weights import check_range, factors_of_classes
from ..neighbours import search
from ..neighbours.ranks import LabelledRows, SearchQuery, merge
from ..neighbours.ties import column_extent, row_keys, rows_of, tie_numbers
from .constraints import ConstraintsInBlocks, localised
from .rows import BlockRows, Partition, summarised


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
    space, first = rows.space, rows.first
    partitions = space.map(_encoded, rows.partitions, classes=rows.classes)
    most = search.MAX_IMPOSTORS if n_impostors == "auto" else n_impostors
    extents = np.array(space.gather(column_extent, space.map(attrgetter("X"), partitions)))
    extent = extents[:, 0].min(0), extents[:, 1].max(0)
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
    found = localised(rows, lists, pairs, rows.weighted, sample)
    return replace(found, from_labels=True, n_references=n_sampled)


def _weighed_by_class(rows, class_weight):
    """The rows with weights multiplied by ``class_weight``, without those of weight zero."""
    space, without = rows.space, int(first_means_none(rows.classes))
    in_sum = space.sum(_class_sums, rows.partitions, classes=rows.classes)
    factors = np.ones(len(rows.classes))
    factors[without:] = factors_of_classes(class_weight, rows.classes[without:], in_sum[without:])
    how = {"classes": rows.classes, "factors": factors}
    partitions = space.map(_times_factor, rows.partitions, **how)
    if factors.all():
        return replace(rows, partitions=partitions, weighted=True)
    return summarised(space, partitions, True, rows.dtype)


def _labelled(rows):
    """Only the rows that have a label."""
    space, there = rows.space, np.flatnonzero(rows.counts > rows.class_counts[:, 0])
    return replace(
        rows,
        partitions=space.select(space.map(_with_label, rows.partitions), there),
        numbers=rows.numbers[there],
        counts=(rows.counts - rows.class_counts[:, 0])[there],
        classes=rows.classes[1:],
        class_counts=rows.class_counts[there, 1:],
    )


def _sample(rows, partitions, n_references, n_targets, random_state):
    """(X, y, row numbers) of the references, by row number."""
    chosen = search.sample_classes(rows.class_counts.sum(0), n_references, n_targets, random_state)
    before = np.cumsum(rows.class_counts, 0) - rows.class_counts
    picks: dict[int, list] = {number: [] for number in rows.numbers.tolist()}
    for label, places in enumerate(chosen):
        block = np.searchsorted(before[:, label], places, side="right") - 1
        for b in np.unique(block):
            picks[int(rows.numbers[b])].append((label, places[block == b] - before[b, label]))
    found = rows.space.gather(_picked, partitions, picks=picks, first=rows.first)
    X, y, numbers = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(numbers)
    return X[order], y[order], numbers[order]


# ---- functions that are mapped over the blocks


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


def _picked(partition, picks, first):
    """The references of a block: rows, labels, row numbers among all rows."""
    number, X, y, _ = partition
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], [label for label, _ in picks[number]])
    picked = zip(starts, picks[number], strict=True)
    chosen = [order[start + places] for start, (_, places) in picked]
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *chosen]))
    return X[rows], y[rows], first[number] + rows


def _numbers(X, rows, numbering):
    """The numbers of rows of a block in a search through all blocks, as a function."""
    return tie_numbers(row_keys(X, numbering["extent"]), rows, numbering["n_rows"]).__getitem__


def _nearest_in_sample(partition, sample, n_targets, n_impostors, numbering):
    number, X, y, _ = partition
    references, labels, rows = sample
    own_rows = numbering["first"][number] + np.arange(len(X))
    place = np.searchsorted(rows, own_rows)
    own = np.where(rows[np.minimum(place, len(rows) - 1)] == own_rows, place, -1)
    numbers = _numbers(references, rows, numbering)
    mine, sampled = LabelledRows(X, y), LabelledRows(references, labels)
    return search.exact_search(SearchQuery(mine, sampled, n_targets, n_impostors, own, numbers))


def _nearest_across(before, own, other, _, n_targets, n_impostors, numbering):
    """The nearest rows so far, and those of one more block."""
    (number, X, y, _), (other_number, Z, labels, _) = own, other
    numbers = _numbers(Z, numbering["first"][other_number] + np.arange(len(Z)), numbering)
    mine = LabelledRows(X, y)
    if number == other_number:
        theirs, own = mine, np.arange(len(X))
    else:
        theirs, own = LabelledRows(Z, labels), np.full(len(X), -1)
    found = search.exact_search(SearchQuery(mine, theirs, n_targets, n_impostors, own, numbers))
    return found if before is None else merge(X, before, found)


def _nearer(nearest):
    return search.nearer_impostors(nearest.same.distances, nearest.other.distances)


def _combined(partition, nearest, first, n_rows, n_impostors, pairs):
    """(constraints by row numbers, which pairs are similar, weights) of the rows of a block: a
    constraint weighs as much as its first row.
    """
    found = nearest.same.numbers, nearest.other.numbers[:, :n_impostors]
    lists = (rows_of(numbers, n_rows) for numbers in found)
    found = pairs_from_neighbours(*lists) if pairs else (triplets_from_neighbours(*lists), None)
    index, similar = found
    weights = None if partition.weights is None else partition.weights[index[:, 0]]
    index[:, 0] += first[partition.number]  # neighbours are numbered among all rows already
    return index, similar, weights
