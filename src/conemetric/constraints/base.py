"""What a metric is learned from: points, constraints among them, and constraint weights.

Constraints in memory (`in_memory`) and in blocks (`in_blocks`) have one interface, so that an
estimator is written once for both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..core.vectors import VectorSpace
from ..operators.base import Operator
from ..operators.span import Coordinates


class Constraints(ABC):
    """Pairs, triplets or quadruplets of points."""

    index: Any  # a vector of their points: integer arrays (m, 2), (m, 3) or (m, 4)
    similar: Any  # boolean vector of the pairs that are similar, or None
    weights: Any  # vector of positive weights; None means one each
    labels: Any = None  # classes of the points, if neighbours can be searched again by them
    from_labels: bool = False  # of rows: each then weighs as much as its first row
    n_references: int | None = None  # rows sampled to search among; None: all, or no search

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Precision of the points."""

    @property
    @abstractmethod
    def space(self) -> VectorSpace:
        """The space of vectors with one entry per constraint."""

    @property
    @abstractmethod
    def n_constraints(self) -> int:
        """How many constraints there are, in all blocks together."""

    @property
    def row_numbers(self) -> Any:
        """``index`` by row numbers of the user's X; None in blocks, which keep no such list."""
        return None

    @abstractmethod
    def coordinates(self) -> Coordinates:
        """The points as they are; in blocks, a sample of them."""

    @abstractmethod
    def span(self) -> Coordinates:
        """The points in the span of their differences (`operators.span`); the same as
        `coordinates` in blocks, which have more rows than features.
        """

    @abstractmethod
    def whitened(self, similar_pairs: Callable, ridge: float) -> tuple[Coordinates, Any]:
        """Coordinates in which the scatter of the similar pairs is the identity, and the
        scatter with its ridge, or None if that would be larger than the data.

        ``similar_pairs(index, similar, weights)`` returns the pairs and their weights.
        """

    @abstractmethod
    def over(self, function: Callable, /) -> Any:
        """The vector of ``function(points, index, similar)``."""

    @abstractmethod
    def narrowed(self, function: Callable, /) -> "Constraints | None":
        """The same points with ``function(points, index, similar)`` for their index, without
        weights; None if nothing is left.
        """

    @abstractmethod
    def operator(self, make: Callable, coordinates: Coordinates) -> Operator:
        """The operator ``make(points, index)`` over the points in these coordinates."""
