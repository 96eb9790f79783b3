"""A search for the neighbours of queries among references."""

from typing import Any, NamedTuple


class LabelledRows(NamedTuple):
    """Rows X (n, D), float32 or float64, and labels y (n,), integers from 0 on the host."""

    X: Any
    y: Any


class SearchQuery(NamedTuple):
    """Find the references nearest to each query: ``n_same`` of its label, ``n_other`` of others.

    ``references`` is the object ``queries`` if points are searched among themselves. ``own`` (q,)
    names for each query the reference that is the query itself, to be skipped, or -1. ``numbers``
    identify the references in the result, distinct integers below 2^53; of ties the lower number
    comes first (see `ties`). They are an array, a function of row numbers, or None for the row
    numbers themselves.
    """

    queries: LabelledRows
    references: LabelledRows
    n_same: int
    n_other: int
    own: Any
    numbers: Any = None

    @property
    def among_themselves(self) -> bool:
        return self.references is self.queries

    def numbers_of(self, rows: Any) -> Any:
        """The numbers of these rows of the references, on the host."""
        if self.numbers is None:
            return rows
        return self.numbers(rows) if callable(self.numbers) else self.numbers[rows]


class Found(NamedTuple):
    """Numbers of the references found (q, k) and their distances in float64, nearest first; -1 and
    infinity if there are too few.
    """

    numbers: Any
    distances: Any


class Nearest(NamedTuple):
    """The references found of a query's label and of others."""

    same: Found
    other: Found
