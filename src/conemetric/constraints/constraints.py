"""What an estimator learns from, wherever it is: points, and constraints among them."""

from collections.abc import Callable
from typing import Any, Protocol

from ..core.vectors import VectorSpace
from ..engine.operators.base import Operator
from ..engine.operators.span import Coordinates


class Constraints(Protocol):
    """Pairs, triplets or quadruplets of points, in memory (`in_memory`) or in blocks (`blocks`).

    An estimator is written once for both. What has an entry for each constraint (``index``,
    ``similar``, ``weights``) is a vector of ``space``.
    """

    @property
    def space(self) -> VectorSpace:
        """The space of vectors with one entry per constraint."""

    @property
    def dtype(self) -> Any:
        """The precision of the points."""

    @property
    def n_constraints(self) -> int: ...

    @property
    def index(self) -> Any:
        """The constraints, by numbers of points."""

    @property
    def similar(self) -> Any:
        """Which pairs are similar."""

    @property
    def weights(self) -> Any:
        """Positive weights; None means one each."""

    @property
    def row_numbers(self) -> Any:
        """``index`` by row numbers of the user's X; None if no such list is kept."""

    @property
    def labels(self) -> Any:
        """Classes of the points, if neighbours can be searched again by them."""

    @property
    def from_labels(self) -> bool:
        """Whether constraints come from labels; each then weighs as much as its first row."""

    @property
    def n_references(self) -> int | None:
        """The number of rows that neighbours were searched among; None: all, or no search."""

    def coordinates(self, spanned: bool = False, always: bool = False) -> Coordinates:
        """Return the points, in the span of their differences if ``spanned``, they are in memory and it
        saves time, or ``always``.
        """

    def whitened(self, similar_pairs: Callable[..., Any], ridge: float) -> tuple[Coordinates, Any]:
        """Return coordinates in which the scatter of the similar pairs is the identity, and the scatter
        with its ridge, or None if that would be larger than the data.

        ``similar_pairs(index, similar, weights)`` returns the pairs and their weights.
        """

    def over(self, function: Callable[..., Any], /) -> Any:
        """Return the vector of ``function(points, index, similar)``."""

    def narrowed(self, function: Callable[..., Any], /) -> "Constraints | None":
        """Return the same points with ``function(points, index, similar)`` for their index, without
        weights; None if nothing is left.
        """

    def without(self, marked: Any) -> "Constraints":
        """Return the same without the constraints ``marked`` by a number above 0, and without weights."""

    def operator(self, make: Callable[..., Operator], coordinates: Coordinates) -> Operator:
        """Return the operator ``make(points, index)`` over the points in these coordinates."""
