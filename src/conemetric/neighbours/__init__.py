"""Nearest neighbours, of the same label and of others.

`query` defines a search. It runs on the host (`exact`), on a device (`gpu`) and among sparse points
(`sparse`), among all rows or a sample (`sampling`); `precomputed` checks a user's neighbours.
"""

from .merge import merge
from .precomputed import precomputed_neighbours
from .query import LabelledRows, SearchQuery
from .sampling import sample_classes, sample_rows, sample_size
from .search import (
    MOST_IMPOSTORS,
    enough_of,
    exact_search,
    nearer_impostors,
    nearest,
    neighbours_by_label,
)
from .ties import canonical_order, column_extent, labelled_keys, row_keys, rows_of, tie_numbers

__all__ = [
    "MOST_IMPOSTORS",
    "LabelledRows",
    "SearchQuery",
    "canonical_order",
    "column_extent",
    "enough_of",
    "exact_search",
    "labelled_keys",
    "merge",
    "nearer_impostors",
    "nearest",
    "neighbours_by_label",
    "precomputed_neighbours",
    "row_keys",
    "rows_of",
    "sample_classes",
    "sample_rows",
    "sample_size",
    "tie_numbers",
]
