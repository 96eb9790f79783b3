"""The one question of this room, and the shape of its answer."""

from typing import Any, NamedTuple

import numpy as np


class Labelled(NamedTuple):
    """Points and their labels, integers from 0.

    Attributes
    ----------
    X : array (n, D), float32 or float64
    y : integer array (n,)
        On the host.
    """

    X: Any
    y: Any


class Question(NamedTuple):
    """For each query, which references are nearest: those with its label, and those
    with another?

    Attributes
    ----------
    queries, references : Labelled
        The same object where points are searched among themselves.
    n_same, n_other : int
        How many of each to find.
    own : integer array (q,)
        For each query the reference that is itself, to be passed over; -1 for none.
    numbers : integer array (n,), default=None
        What the references are called in the answer, different and below 2^53: of ties
        the lower comes first (see `ties`). None: their row numbers.
    """

    queries: Labelled
    references: Labelled
    n_same: int
    n_other: int
    own: Any
    numbers: Any = None

    @property
    def names(self) -> Any:
        """The numbers, also where there are none."""
        return np.arange(len(self.references.y)) if self.numbers is None else self.numbers


class Nearest(NamedTuple):
    """Numbers of the references found and their distances, nearest first; -1 and
    infinity where there are too few.

    Attributes
    ----------
    same, other : integer arrays (q, n_same), (q, n_other)
    same_distances, other_distances : float64 arrays of these shapes
    n_again : int
        Lists that were searched a second time, because rounding (or, of an approximate
        search, too small a part of the references) left them in doubt.
    """

    same: Any
    other: Any
    same_distances: Any
    other_distances: Any
    n_again: int
