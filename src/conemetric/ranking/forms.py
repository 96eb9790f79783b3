"""How a map scores documents, and how it corresponds to a point of a convex program.

A *map* is a matrix with D rows. `BilinearForm` maps queries alone, `DistanceForm` queries and
documents; `ranking.program` builds the program of either, `ranking.choice` searches by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import matmul
from typing import Any

import numpy as np

from ..core import spectral
from ..core.arrays import float64, like, namespace, transposed
from ..engine.frobenius import FrobeniusProgram
from ..engine.operators import from_triplets
from ..engine.operators.base import DifferenceOperator
from ..estimators.prior import prior_matrix
from . import column_operator as columns
from .bilinear_operator import from_comparisons
from .bilinear_program import BilinearProgram
from .comparisons import Remembered, TrainingData
from .top_k import centre_of, search, unit_rows


@dataclass(frozen=True)
class BilinearForm:
    """q'W d, of unit rows if the similarity is the cosine: all queries weigh the same."""

    similarity: str
    target: str | None  # a search engine (`ranking.engines`)
    margins = (0.1, 0.03)  # tried by C="auto"; the first goes with a fixed C
    program_type = BilinearProgram
    operator = staticmethod(from_comparisons)  # of queries, documents and triplets
    # the solution and the numbers besides of a point of a program with columns, and back
    partitioned = staticmethod(columns.partitioned)
    concatenated = staticmethod(columns.concatenated)

    def prepared(self, X: Any) -> Any:
        """Rows as they are compared."""
        if self.similarity == "cosine":
            return unit_rows(X)
        return X

    def initial_map(self, reference: Any) -> Any:
        """The map of the unchanged embedding, for rows like ``reference``."""
        return like(np.eye(reference.shape[1]), reference)

    def search(self, factors: Sequence[Any], queries: Any, documents: Any, k: int, **options: Any):
        """The k nearest documents by the map that is the product of ``factors`` (`top_k.search`)."""
        return search(reduce(matmul, factors, queries), documents, k, "inner", **options)

    def comparison_size(self, queries: Any, better: Any, worse: Any) -> float:
        """Mean size of the comparisons of these rows, quadratic in their units."""
        squares = (queries**2).sum(1) * ((better - worse) ** 2).sum(1)
        return float(squares.mean()) ** 0.5

    def centred(self, queries: Any, documents: Any) -> tuple[Any, Any]:
        """The same points, moved as far as no comparison depends on it."""
        return queries, documents - centre_of(documents)

    def matrix(self, map_: Any) -> Any:
        """The matrix of the program that corresponds to a map."""
        return map_

    def factors(self, T: Any, point: Any) -> tuple[Any, ...]:
        """Matrices whose product is a map that ranks as a solution in the coordinates of T does."""
        return T, point, T

    def map(self, data: TrainingData, T: Any, point: Any) -> Any:
        """The map that is stored of a solution in the coordinates of T."""
        return T @ point @ T

    def point(self, inverse: Any, map_: Any) -> Any:
        """The solution that corresponds to a map: inverts `map`."""
        return inverse @ map_ @ inverse

    def spanned(self, mapped: Remembered) -> tuple[Remembered, Any]:
        """The same comparisons in fewer coordinates, and the basis that leads back; None if there
        are no fewer. W differs from W0 only in the span of the queries: q = B z, B'W is learned.
        """
        n, D = mapped.queries.shape
        if n > D // 2:  # a larger span saves too little
            return mapped, None
        basis, triangle = namespace(mapped.queries).linalg.qr(mapped.queries.T)
        comparisons = replace(mapped.comparisons, prior=float64(basis).T @ mapped.comparisons.prior)
        return replace(mapped, queries=triangle.T, comparisons=comparisons), basis

    def truncated(self, data: TrainingData, map_: Any, n_components: int) -> Any:
        """The map reduced to ``n_components`` directions."""
        V = self._directions(data, map_, n_components)
        return map_ @ V @ V.T

    def sides(self, data: TrainingData, map_: Any, n_components: int | None) -> tuple[Any, Any]:
        """The maps of queries and of documents (rank, D), None for one that changes nothing."""
        if n_components is None:
            return map_.T, None
        V = self._directions(data, map_, n_components)
        return V.T @ map_.T, V.T

    def _directions(self, data, like_, n_components):
        """Orthonormal columns: the documents' leading second moments."""
        # about the origin rather than the mean, since inner products depend on the origin
        _, axes = spectral.eigh(data.second_moment)
        return like(spectral.with_fixed_signs(axes[:, :n_components]), like_)


@dataclass(frozen=True)
class DistanceForm:
    """Minus (q - d)' M (q - d), near the metric ``prior``; methods as those of `BilinearForm`."""

    prior: Any
    similarity = "euclidean"
    target = None
    margins = (0.1,)
    program_type = FrobeniusProgram

    def prepared(self, X: Any) -> Any:
        return X

    def initial_map(self, reference: Any) -> Any:
        M0 = prior_matrix(self.prior, reference, reference.shape[1], 1.0)
        if isinstance(self.prior, str):  # the identity is its own factor
            return M0
        return spectral.factor(M0)

    def search(self, factors: Sequence[Any], queries: Any, documents: Any, k: int, **options: Any):
        map_ = reduce(matmul, factors)
        queries, documents = self.centred(queries, documents)
        return search(queries @ map_, documents @ map_, k, "euclidean", **options)

    def comparison_size(self, queries: Any, better: Any, worse: Any) -> float:
        return float(((queries - worse) ** 2).sum(1).mean())

    def centred(self, queries: Any, documents: Any) -> tuple[Any, Any]:
        centre = centre_of(documents)
        return queries - centre, documents - centre

    def operator(self, queries: Any, documents: Any, triplets: np.ndarray) -> DifferenceOperator:
        points = namespace(queries).concat([queries, documents])
        return from_triplets(points, triplets + np.array([0, len(queries), len(queries)]))

    def matrix(self, map_: Any) -> Any:
        return map_ @ map_.T

    def factors(self, T: Any, point: Any) -> tuple[Any, ...]:
        return T, point

    def map(self, data: TrainingData, T: Any, point: Any) -> Any:
        """Rotated so that documents spread most along the first coordinate."""
        L = T @ point
        _, axes = spectral.eigh(L.T @ data.covariance @ L)
        # a factor of two blocks may have more columns than the first has rows
        return spectral.with_fixed_signs((L @ axes)[:, : len(L)])

    def point(self, inverse: Any, map_: Any) -> Any:
        return inverse @ map_

    def partitioned(self, point: Any, n_columns: int) -> tuple[Any, Any]:
        return point[:-n_columns], (point[-n_columns:] ** 2).sum(1)

    def concatenated(self, point: Any, v: Any) -> Any:
        return columns.concatenated(point, v**0.5)

    def spanned(self, mapped: Remembered) -> tuple[Remembered, Any]:
        return mapped, None

    def truncated(self, data: TrainingData, map_: Any, n_components: int) -> Any:
        return map_[:, :n_components]

    def sides(self, data: TrainingData, map_: Any, n_components: int | None) -> tuple[Any, Any]:
        components = transposed(map_[:, :n_components])
        return components, components


ScoreForm = BilinearForm | DistanceForm
