"""From judgements to a convex program without units, and back to a map.

Before the solve all points are mapped by T, a power of the documents' covariance, so that a change
costs no more in directions along which documents hardly differ than elsewhere. That chooses the
regulariser and nothing else: neither what can be learned nor where a path starts depends on T. T is
scaled so that a comparison has size one, and the prior so that a margin of one is a fixed fraction
of that size, which makes C and the margin free of units.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.arrays import float64, like, to_numpy
from ..engine.frobenius import FrobeniusProgram
from ..engine.operators.base import Operator, RestrictableOperator
from .candidates import Setting
from .column_operator import WithColumns, concatenated
from .columns import Columns, Pool
from .comparisons import STRETCH, Comparisons, Remembered, TrainingData, query_weights
from .forms import ScoreForm
from .judgements import graded_triplets, random_negatives

# how much more a change of weights costs: they start where nDCG is best, and the loss, which
# counts all pairs alike, would move them away (Cranfield, CISI: 1 is worse on held-out queries)
STIFFNESS = 100.0
SAMPLED_COMPARISONS = 1 << 8  # bounds the time for the mean size


@dataclass(frozen=True)
class RankingProgram:
    """The convex program of a `ScoreForm`, and back from its points; see the module docstring."""

    form: ScoreForm

    def comparisons(
        self, data: TrainingData, setting: Setting, seed: int, known: Comparisons | None = None
    ) -> Comparisons:
        """Comparisons with hard and random negatives, in the coordinates of those ``known``."""
        judgements = data.judgements
        negatives = [random_negatives(judgements, setting.n_random, seed)]
        if setting.n_hard:
            negatives.append(self._hard_negatives(data, setting))
        triplets = graded_triplets(judgements, np.concatenate(negatives, axis=1))
        if len(triplets) == 0:
            raise ValueError(
                "there is nothing to compare: no query has a relevant document and another with a "
                "lower grade or none; raise n_hard or n_random, or pass more documents."
            )
        if known is None:
            made = self._without_units(data, triplets)
        else:
            made = replace(known, triplets=triplets, weights=query_weights(triplets))
        if setting.normalization:
            return self._with_columns(data, made, setting)
        return made

    def _without_units(self, data, triplets):
        """The comparisons in coordinates in which their mean size is one."""
        T, inverse = data.spread
        initial = self.form.initial_map(data.documents)
        size = self._mean_size(data, triplets, T)
        initial_size = self._mean_size(data, triplets, initial)
        prior = inverse @ self.form.matrix(float64(initial)) @ inverse * (size / initial_size)
        return Comparisons(
            triplets,
            query_weights(triplets),
            T=T / size**0.5,
            inverse=inverse * size**0.5,
            prior=prior,
            unit=1 / initial_size,
        )

    def _with_columns(self, data, made, setting):
        """With the differences of the columns, divided so that a change of the weights by a
        given part costs STIFFNESS times what a change of the map by that part does.
        """
        values = data.columns.normalized(setting.normalization)
        if data.columns.embedding == "range":  # dividing the embedding's scores does the same
            scores = self._unchanged(data, data.columns.window).scores
            ranges = to_numpy(scores[:, 0] - scores[:, -1])  # of the nearest documents, by query
            values = values * np.where(ranges > 0, ranges, 1.0)[data.columns.query, None]
        query, better, worse = made.triplets.T
        columns = data.columns.at(values, query, better) - data.columns.at(values, query, worse)
        scale = made.scale
        if scale is None:
            most = abs(columns).max(0)  # squares of the rest are numbers
            most = np.where(most > 0, most, 1.0)
            size = np.sqrt(made.weights @ (columns / most) ** 2 / made.weights.sum())
            scale = most * np.where(size > 0, size, 1.0) * (STIFFNESS * len(made.T)) ** 0.5
        return replace(made, columns=columns / scale, scale=scale)

    def _unchanged(self, data, k, **options):
        """The k nearest documents by the embedding as it is."""
        initial = self.form.initial_map(data.documents)
        queries, documents = data.rows
        return self.form.search((initial,), queries, documents, k, ties=data.ties, **options)

    def _hard_negatives(self, data, setting):
        """The best unjudged documents of each query in the ranking that the program starts from."""
        judgements = data.judgements
        columns = data.columns
        found = self._unchanged(
            data,
            setting.n_hard,
            excluded=(judgements.start, judgements.document),
            listed=columns and columns.listed,
        )
        pool = Pool.of(columns, [found], data.ties)
        weights = setting.weights if setting.normalization else None
        negatives, _ = pool.rank(
            setting.normalization, weights, setting.n_hard, excluded=judgements
        )
        return negatives

    def _mean_size(self, data, triplets, map_):
        """Mean size of the comparisons after a map, of a sample of them."""
        query, better, worse = triplets[:: -(-len(triplets) // SAMPLED_COMPARISONS)].T
        rows = data.queries[query], data.documents[better], data.documents[worse]
        mapped = (self.form.prepared(float64(X)) @ float64(map_) for X in rows)
        size = self.form.comparison_size(*mapped)
        if not size > 0:
            raise ValueError(
                "queries coincide with their documents, or the documents with each other, so there "
                "is nothing to compare; check how they were embedded."
            )
        return size

    def mapped(self, data: TrainingData | Remembered, comparisons: Comparisons) -> Remembered:
        """What is compared, about the origin and mapped by T, in float64 whatever the precision
        of the rows: T mixes their coordinates, which would round differences away.
        """
        part = Remembered.of(data, comparisons)
        queries = self.form.prepared(float64(part.queries))
        documents = self.form.prepared(float64(part.documents))
        queries, documents = self.form.centred(queries, documents)
        T = comparisons.T
        return replace(part, queries=queries @ T, documents=documents @ T)

    def operator(self, mapped: Remembered) -> RestrictableOperator:
        """The operator of what is compared, with its columns."""
        comparisons = mapped.comparisons
        operator = self.form.operator(mapped.queries, mapped.documents, comparisons.triplets)
        if comparisons.columns is None:
            return operator
        return WithColumns(operator, comparisons.columns)

    def program(
        self, operator: Operator, comparisons: Comparisons, setting: Setting
    ) -> FrobeniusProgram:
        """The convex program of a setting."""
        prior = comparisons.prior / setting.margin
        if comparisons.columns is not None:
            prior = concatenated(prior, self.start_of(comparisons, setting) * comparisons.scale)
        D = len(comparisons.T)
        C = setting.C * D / setting.margin
        program = self.form.program_type(operator, C, prior=prior, weights=comparisons.weights)
        # mapping by T and back has amplified the rounding of every coordinate
        program.rounding = max(program.rounding, 8 * D * np.finfo(np.float64).eps * STRETCH)
        return program

    def start_of(self, comparisons: Comparisons, setting: Setting) -> np.ndarray:
        """The weights that a setting starts from, in the units of the program."""
        return np.array(setting.weights) * comparisons.unit / setting.margin

    def parts(self, comparisons: Comparisons, point: Any) -> tuple[Any, np.ndarray]:
        """The solution that a point of the program is, and the weights of the columns."""
        if comparisons.columns is None:
            return point, np.zeros(0)
        solution, v = self.form.partitioned(point, len(comparisons.scale))
        return solution, to_numpy(v) / comparisons.scale

    def weights_beside(
        self, columns: Columns | None, comparisons: Comparisons, setting: Setting, weights: Any
    ) -> Any:
        """The weights of a solution beside what the embedding counts in the target: where that is
        scaled by its range, the size of the map is lost.
        """
        if columns is None or columns.embedding != "range":
            return weights
        return weights * setting.margin / comparisons.unit

    def joint_point(self, comparisons: Comparisons, map_: Any, weights: np.ndarray) -> Any:
        """The point that corresponds to a map and weights."""
        point = self.form.point(comparisons.inverse, float64(map_))
        if comparisons.columns is None:
            return point
        return self.form.concatenated(point, like(weights * comparisons.scale, point))
