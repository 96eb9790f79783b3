"""From judgements to a convex program without units, and back to a map.

Before the solve all points are mapped by T, a power of the documents' covariance, so
that a change costs no more in directions along which documents hardly differ than
elsewhere. That chooses the regulariser and nothing else: neither what can be learned nor
where a path starts depends on T. T is scaled so that a comparison has size one, and the
prior so that a margin of one is a fixed fraction of that size, which makes C and the
margin free of units.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..core.arrays import float64, like, to_numpy
from ..operators.base import Operator
from ..operators.columns import WithColumns, joined
from ..problems.frobenius import FrobeniusProgram
from .columns import Pool
from .comparisons import (
    LEAST_SPREAD,
    SPREAD_POWER,
    Comparisons,
    Remembered,
    TrainingData,
    query_weights,
)
from .judgements import graded_triplets, random_negatives
from .top_k import Found

__all__ = ["RankingProgram"]

# how much more a change of weights costs: they start where nDCG is best, and the loss, which
# counts all pairs alike, would move them away (Cranfield, CISI: 1 is worse on held-out queries)
STIFFNESS = 100.0
SAMPLED_COMPARISONS = 1 << 8  # bounds the time for the mean size


class RankingProgram(ABC):
    """What the estimators that learn from judgements share below `fit`.

    They learn a *map*, a matrix with D rows. A subclass defines how a map ranks documents,
    the convex program, and how a map and a solution of the program determine each other.
    """

    n_features_in_: int
    _program_type: ClassVar[type[FrobeniusProgram]]
    _joint_type: ClassVar[type[FrobeniusProgram]]  # with columns of scores
    _margins: ClassVar[tuple[float, ...]]  # tried by C="auto"; the first goes with a fixed C

    @property
    @abstractmethod
    def _similarity(self) -> str:
        """Ranks mapped documents."""

    @abstractmethod
    def transform_queries(self, Q: Any) -> Any:
        """Map queries."""

    @abstractmethod
    def transform_documents(self, D: Any) -> Any:
        """Map documents."""

    @abstractmethod
    def _initial_map(self, data: TrainingData) -> Any:
        """The map of the unchanged embedding."""

    @abstractmethod
    def _search(self, factors, queries, documents, k, **options) -> Found:
        """The k nearest documents by the map that is the product of ``factors`` (`top_k.search`)."""

    @abstractmethod
    def _comparison_size(self, queries, better, worse) -> float:
        """Mean size of the comparisons of these rows, quadratic in their units."""

    @abstractmethod
    def _operator(self, queries, documents, triplets) -> Operator:
        """The operator of the triplets."""

    @abstractmethod
    def _matrix(self, map_) -> Any:
        """The matrix of the program that corresponds to a map."""

    @abstractmethod
    def _factors(self, T, point) -> tuple[Any, ...]:
        """Matrices whose product is a map that ranks as a solution in the coordinates of T does."""

    @abstractmethod
    def _map(self, data: TrainingData, T, point) -> Any:
        """The map that is stored of a solution in the coordinates of T."""

    @abstractmethod
    def _point(self, inverse, map_) -> Any:
        """The solution that corresponds to a map: inverts `_map`."""

    @abstractmethod
    def _parted(self, point, n_columns) -> tuple[Any, Any]:
        """The solution, and the numbers besides, of a program with columns."""

    @abstractmethod
    def _joined(self, point, v) -> Any:
        """Inverts `_parted`."""

    def _spanned(self, mapped: Remembered) -> tuple[Remembered, Any]:
        """The same comparisons in fewer coordinates, and the basis that leads back; None if
        there are no fewer.
        """
        return mapped, None

    @abstractmethod
    def _truncate(self, data: TrainingData, map_) -> Any:
        """The map reduced to ``n_components`` directions."""

    @abstractmethod
    def _store_map(self, data: TrainingData, map_) -> None:
        """Set the fitted attributes."""

    # ---- from judgements to a program

    def _comparisons(self, data, setting, seed, known=None):
        """Comparisons with hard and random negatives, in the coordinates of those ``known``;
        an error if there are none.
        """
        judgements, initial = data.judgements, self._initial_map(data)
        negatives = [random_negatives(judgements, setting.n_random, seed)]
        if setting.n_hard:
            negatives.append(self._hard_negatives(data, setting))
        triplets = graded_triplets(judgements, np.concatenate(negatives, axis=1))
        if len(triplets) == 0:
            raise ValueError(
                "there is nothing to compare: no query has a relevant document and another with a "
                "lower grade or none; raise n_hard or n_random, or give more documents."
            )
        weights = query_weights(triplets)
        if known is None:
            made = self._scaled(data, triplets, weights, initial)
        else:
            made = replace(known, triplets=triplets, weights=weights)
        return self._with_columns(data, made, setting) if setting.normalization else made

    def _scaled(self, data, triplets, weights, initial):
        """Comparisons in coordinates without units."""
        T, inverse = data.spread
        size, initial_size = (self._mean_size(data, triplets, map_) for map_ in (T, initial))
        prior = inverse @ self._matrix(float64(initial)) @ inverse * (size / initial_size)
        maps = T / size**0.5, inverse * size**0.5
        return Comparisons(triplets, weights, *maps, prior, 1 / initial_size)

    def _with_columns(self, data, made, setting):
        """With the differences of the columns, divided so that a change of the weights by a
        given part costs STIFFNESS times what a change of the map by that part does.
        """
        values = data.columns.normalized(setting.normalization)
        query, better, worse = made.triplets.T
        columns = data.columns.at(values, query, better) - data.columns.at(values, query, worse)
        scale = made.scale
        if scale is None:
            size = np.sqrt(made.weights @ columns**2 / made.weights.sum())
            scale = np.where(size > 0, size, 1.0) * (STIFFNESS * self.n_features_in_) ** 0.5
        return replace(made, columns=columns / scale, scale=scale)

    def _hard_negatives(self, data, setting):
        """The best unjudged documents of each query in the ranking that the program starts from."""
        judgements, columns = data.judgements, data.columns
        found = self._search(
            (self._initial_map(data),),
            data.queries,
            data.documents,
            setting.n_hard,
            excluded=(judgements.start, judgements.document),
            listed=columns and columns.listed,
            ties=data.ties,
        )
        pool = Pool.of(columns, found, data.ties)
        weights = setting.weights if setting.normalization else None
        return pool.rank(setting.normalization, weights, setting.n_hard, excluded=judgements)[0]

    def _mean_size(self, data, triplets, map_):
        query, better, worse = triplets[:: -(-len(triplets) // SAMPLED_COMPARISONS)].T
        rows = data.queries[query], data.documents[better], data.documents[worse]
        size = self._comparison_size(*(X @ like(map_, X) for X in rows))
        if not size > 0:
            raise ValueError(
                "queries coincide with their documents, or the documents with each other, so there "
                "is nothing to compare; check how they were embedded."
            )
        return size

    def _mapped(self, data, comparisons):
        """What is compared, mapped by T."""
        part, T = Remembered.of(data, comparisons), like(comparisons.T, data.documents)
        return replace(part, queries=part.queries @ T, documents=part.documents @ T)

    def _operator_of(self, mapped):
        comparisons = mapped.comparisons
        operator = self._operator(mapped.queries, mapped.documents, comparisons.triplets)
        if comparisons.columns is None:
            return operator
        return WithColumns(operator, comparisons.columns)

    def _program(self, operator, comparisons, setting):
        prior, kind = comparisons.prior / setting.margin, self._program_type
        if comparisons.columns is not None:
            start = np.array(setting.weights) * comparisons.unit / setting.margin
            prior, kind = joined(prior, start * comparisons.scale), self._joint_type
        D = self.n_features_in_
        program = kind(
            operator, setting.C * D / setting.margin, prior=prior, weights=comparisons.weights
        )
        # mapping by T and back, on both sides, amplifies rounding by its condition number squared
        stretch = LEAST_SPREAD ** (2 * SPREAD_POWER)
        program.rounding = max(program.rounding, 8 * D * np.finfo(np.float64).eps * stretch)
        return program

    def _solution(self, comparisons, point, map_of):
        """What ``map_of(T, solution)`` makes of a point of the program, and the weights."""
        weights = np.zeros(0)
        if comparisons.columns is not None:
            point, v = self._parted(point, len(comparisons.scale))
            weights = to_numpy(v) / comparisons.scale
        return map_of(like(comparisons.T, point), point), weights

    def _joint_point(self, comparisons, map_, weights):
        """The point that corresponds to a map and weights: inverts `_solution`."""
        point = self._point(comparisons.inverse, float64(map_))
        if comparisons.columns is None:
            return point
        return self._joined(point, like(weights * comparisons.scale, point))
