"""What is compared: queries, documents and judgements, and the comparisons made of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core import spectral
from ..core.arrays import float64, like, namespace, take
from .columns import Columns
from .judgements import Judgements
from .top_k import tie_ranks

SAMPLED_DOCUMENTS = 1 << 16  # bounds the time for the covariance
SPREAD_POWER = -0.25  # T = covariance**SPREAD_POWER (docs/mathematics)
FORGOTTEN = 1e-3  # weight of a query, one when it is new, below which it is dropped
LEAST_SPREAD = 1e-3  # variances are raised to this fraction of the largest
# mapping by T and back, on both sides, amplifies rounding by its condition number squared
STRETCH = LEAST_SPREAD ** (2 * SPREAD_POWER)


@dataclass(frozen=True)
class TrainingData:
    """Queries with at least one relevant document each, the documents, as given, and the
    judgements. ``prepared`` makes rows what is compared (`ScoreForm.prepared`).
    """

    queries: Any
    documents: Any
    judgements: Judgements
    columns: Columns | None
    prepared: Callable[[Any], Any]

    @cached_property
    def rows(self) -> tuple[Any, Any]:
        """Queries and documents as they are compared."""
        return self.prepared(self.queries), self.prepared(self.documents)

    @cached_property
    def ties(self) -> np.ndarray:
        """Ranks of documents with equal scores, by the rows as given."""
        return tie_ranks(self.documents)

    @property
    def _sample(self) -> Any:
        return self.rows[1][:: -(-len(self.documents) // SAMPLED_DOCUMENTS)]

    @cached_property
    def covariance(self) -> Any:
        """Covariance of the documents up to scale, float64 like every D x D matrix here."""
        sample = float64(self._sample)
        centred = sample - sample.mean(0)
        covariance = centred.T @ centred
        size = float(abs(covariance).max())
        if not size > 0:
            raise ValueError(
                "all documents coincide, so there is nothing to rank; check how they were embedded."
            )
        return covariance / size

    @cached_property
    def second_moment(self) -> Any:
        """Second moment of the documents about the origin, up to scale."""
        sample = float64(self._sample)
        return sample.T @ sample

    @cached_property
    def spread(self) -> tuple[Any, Any]:
        """T and its inverse, up to scale: see `ranking.program`."""
        variance, axes = spectral.eigh(self.covariance)
        variance = namespace(variance).clip(variance / variance[0], LEAST_SPREAD, None)
        return (axes * variance**SPREAD_POWER) @ axes.T, (axes * variance**-SPREAD_POWER) @ axes.T


@dataclass(frozen=True)
class Comparisons:
    """Triplets [query, better, worse] (m, 3) on the host with their weights; T and its
    inverse, which map to and from coordinates without units; the embedding's own matrix in
    them, the prior; and the ``unit`` in which the embedding's own scores are margins.

    Where there are columns of scores, ``columns`` (m, c) are the differences of the better and
    the worse document, divided by ``scale`` (c,): weights w of the columns are v = w * scale in
    the program.
    """

    triplets: np.ndarray
    weights: np.ndarray
    T: Any
    inverse: Any
    prior: Any
    unit: float
    columns: np.ndarray | None = None
    scale: Any = None

    def take(self, kept: np.ndarray) -> "Comparisons":
        """Some of the comparisons, by a mask."""
        columns = self.columns
        if columns is not None:
            columns = columns[kept]
        return replace(
            self, triplets=self.triplets[kept], weights=self.weights[kept], columns=columns
        )


@dataclass(frozen=True)
class Remembered:
    """The queries and documents that a program compares, and their comparisons, renumbered."""

    queries: Any
    documents: Any
    comparisons: Comparisons
    multipliers: Any = None  # of each comparison, relative to their upper bounds; None if unknown

    @classmethod
    def of(cls, data: Any, comparisons: Comparisons, multipliers: Any = None) -> "Remembered":
        """What is compared in ``data``, which has queries and documents."""
        triplets = comparisons.triplets
        used, query = np.unique(triplets[:, 0], return_inverse=True)
        queries = take(data.queries, used)
        used, document = np.unique(triplets[:, 1:], return_inverse=True)
        documents = take(data.documents, used)
        triplets = np.column_stack([query, document.reshape(-1, 2)])
        return cls(queries, documents, replace(comparisons, triplets=triplets), multipliers)

    def like(self, data: Any) -> "Remembered":
        """The same in the precision of ``data``."""
        return replace(
            self,
            queries=like(self.queries, data.queries),
            documents=like(self.documents, data.documents),
        )

    def faded(self, factor: float) -> "Remembered":
        """With weights multiplied by ``factor``, without those that hardly weigh any more."""
        comparisons = replace(self.comparisons, weights=self.comparisons.weights * factor)
        total = np.bincount(comparisons.triplets[:, 0], comparisons.weights)
        kept = total[comparisons.triplets[:, 0]] >= FORGOTTEN
        return Remembered.of(self, comparisons.take(kept), self.multipliers[kept])

    def joined(self, later: "Remembered") -> "Remembered":
        """With what was compared later, in the same program."""
        xp = namespace(self.queries)
        a = self.comparisons
        b = later.comparisons
        # the later queries and documents come after these
        shift = np.array([len(self.queries), len(self.documents), len(self.documents)])
        triplets = np.concatenate([a.triplets, b.triplets + shift])
        joined = replace(a, triplets=triplets, weights=np.concatenate([a.weights, b.weights]))
        if a.columns is not None and b.columns is not None:
            joined = replace(joined, columns=np.concatenate([a.columns, b.columns]))
        queries = xp.concat([self.queries, later.queries])
        documents = xp.concat([self.documents, later.documents])
        multipliers = np.concatenate([self.multipliers, later.multipliers])
        return Remembered(queries, documents, joined, multipliers)


def query_weights(triplets: np.ndarray) -> np.ndarray:
    """Weights that sum to one for every query, however many comparisons it has."""
    return 1 / np.bincount(triplets[:, 0])[triplets[:, 0]]
