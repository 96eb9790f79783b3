"""Who is near whom: one question, and those who answer it.

`question` states it: for each query its nearest references, of the same label and of
others. It is answered exactly on the host (`exact`), on a device (`device`) and among
sparse points (`sparse`), approximately on the host (`approximate`), or by the user
(`given`).
"""

from .merge import merge
from .precomputed import given_neighbours
from .query import Labelled, Nearest, Question
from .sampling import choose_references, n_references_for, reference_rows
from .search import (
    MOST_IMPOSTORS,
    Neighbours,
    answer,
    enough_of,
    nearer_impostors,
    nearest,
    neighbours_by_label,
)
from .ties import column_extent, labelled_keys, row_keys, rows_of, tie_numbers

__all__ = [
    "MOST_IMPOSTORS",
    "Labelled",
    "Nearest",
    "Neighbours",
    "Question",
    "answer",
    "choose_references",
    "column_extent",
    "enough_of",
    "given_neighbours",
    "labelled_keys",
    "merge",
    "n_references_for",
    "nearer_impostors",
    "nearest",
    "neighbours_by_label",
    "reference_rows",
    "row_keys",
    "rows_of",
    "tie_numbers",
]
