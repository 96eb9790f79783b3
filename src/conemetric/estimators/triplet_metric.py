"""Metrics that learn from triplets: of their own, of labels, or of pairs that are compared."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from ..constraints import in_memory
from ..constraints.constraints import Constraints
from ..core.arrays import is_dask, like, namespace, to_numpy
from ..core.atomic import atomic_fit
from ..core.weights import check_weights
from ..engine.operators import from_pairs
from .supervised import (
    PAIRS_WITHOUT_Y,
    SupervisedMetric,
    Supervision,
    refuse_halves,
    refuse_one_kind,
)
from .tuples import look_up, n_in_tuple, unfold
from .validation import validate_points

# comparisons that each pair is in at least: ten separate faces of new people no better
ROUNDS = 3


class TripletMetric(SupervisedMetric):
    """Learns from triplets, given or found by labels; a subclass writes `_learn`."""

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(  # noqa: PLR0913
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        pairs: Any = None,
        similar: Any = None,
        neighbors: Any = None,
        sample_weight: Any = None,
        checkpoint: str | None = None,
        target: str = "auto",
    ) -> Self:
        """Learn the metric from labels, triplets or pairs.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features), or (m, 2 | 3 | 4, n_features)
            Or a dask collection, except for `RelativeComparisons`. Rows; or pairs of points, in
            memory; or triplets of points (a, b, c), a closer to b than to c; or quadruplets
            (a, b, c, d), a closer to b than c to d. With a ``preprocessor``, integers
            (m, 2 | 3 | 4) that refer to the points.
        y : array-like (n,) or (m,), default=None
            Class labels; or a quantity: points with similar y should be near. With pairs of points,
            which of them are similar: +1 and -1, True and False, or 1 and 0.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Used instead of y: (i, j, k) means that row i of X is closer to row j than to row
            k; (i, j, k, l) that row i is closer to row j than row k to row l.
        pairs : integer array-like (m, 2), default=None
            Used instead of y: pairs of rows of X, in memory. Similar pairs are to be closer than
            dissimilar ones: each is compared with three or more of the third of these that are
            nearest, as quadruplets. ``threshold_`` is then the best for these pairs.
        similar : array-like (m,), default=None
            Which of the pairs are similar; the others are dissimilar: True and False, 1 and 0, or +1
            and -1.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            With labels y, neighbours found elsewhere: integer arrays (n, k) of row numbers, -1 for
            none, or a graph of distances as `sklearn.neighbors.KNeighborsTransformer` makes it.
        sample_weight : array-like (n,) or (m,), default=None
            Weights of the rows, with labels: a triplet weighs as much as its first row. Or
            weights of the triplets: 2 counts twice, 0 not at all. Or weights of the pairs: a
            comparison has the product of those of its two.
        checkpoint : str, default=None
            With dask collections: folder or address (``s3://...``) to save the state of the
            solve in. A later fit with the same parameters and data resumes from it.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is. "auto" takes whole numbers as classes unless there are more than 20
            different ones that do not look like labels (see "Regression").

        Returns
        -------
        self
        """
        if pairs is not None or similar is not None:
            self._check_pairs(X, triplets, pairs, similar, neighbors)
            return self._fit_pairs(X, pairs, similar, sample_weight, checkpoint)
        if not is_dask(X) and n_in_tuple(X, self.preprocessor) == 2:
            _refuse_with_pairs(y, triplets=triplets, neighbors=neighbors)
            points, index = unfold(X, self.preprocessor)
            self._fit_pairs(points, index, y, sample_weight, checkpoint)
            self._n_in_tuple = 2
            return self
        given = Supervision(X, y, triplets, None, neighbors, sample_weight, target)
        return self._learn(self._constraints(given, checkpoint))

    def _fit_pairs(self, X, pairs, similar, sample_weight, checkpoint):
        """Learn from comparisons of similar pairs with dissimilar ones, and set the threshold."""
        points = validate_points(self, look_up(X, self.preprocessor), reset=True, min_samples=2)
        pairs = in_memory.check_pairs(pairs, len(points))
        similar = in_memory.check_similar(similar, len(pairs))
        index = like(pairs, points, namespace(points).int64)
        operator = from_pairs(self._in_coordinates(points), index)
        length = to_numpy(operator.combine(operator.pair_lengths))
        quadruplets, weights = _compared(pairs, similar, length, sample_weight)
        supervision = Supervision(X, index=quadruplets, sample_weight=weights)
        self._learn(self._constraints(supervision, checkpoint))
        return self._calibrate(self._distances(points, index), similar)

    def _check_pairs(self, X, triplets, pairs, similar, neighbors):
        """Refuse what does not go with pairs."""
        refuse_halves(pairs, similar, "pass both, or labels y")
        for name, value in (("triplets", triplets), ("neighbors", neighbors)):
            if value is not None:
                raise ValueError(f"Got pairs and {name}; pass one of them.")
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} learns from pairs of rows in memory; with dask collections, use "
                "DMLEig, or pass triplets."
            )

    @abstractmethod
    def _learn(self, given: Constraints) -> Self:
        """Learn the metric from validated triplets, and store it."""


def _refuse_with_pairs(y: Any, **others: Any) -> None:
    """Refuse pairs of points without y, or with other constraints."""
    if y is None:
        raise ValueError(PAIRS_WITHOUT_Y)
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"Got pairs of points and {name}; pass X as rows with {name}.")


def _compared(
    pairs: np.ndarray, similar: np.ndarray, length: np.ndarray, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """Quadruplets of rows, similar pairs first, and their weights, from pairs and theirs."""
    weights = None
    known = np.ones(len(pairs), bool)
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(pairs), "pairs")
        known = weights > 0
    refuse_one_kind(int((similar & known).sum()), int(known.sum()))
    compared = np.flatnonzero(known)[
        in_memory.quadruplets_from_pairs(pairs[known], similar[known], length[known], ROUNDS)
    ]
    if len(compared) == 0:
        raise ValueError(
            "every pair is marked similar and dissimilar; drop pairs that contradict each other."
        )
    quadruplets = pairs[compared].reshape(-1, 4)
    if weights is None:
        return quadruplets, None
    return quadruplets, weights[compared].prod(axis=1)
