"""Base of the estimators that learn from triplets: their `fit`."""

from abc import abstractmethod
from typing import Any, Self

from ..constraints.in_blocks import Constraints
from ..core.sklearn_private import fit_context
from .supervised import SupervisedMetric, Supervision


class TripletMetric(SupervisedMetric):
    """Learns from triplets, given or found by labels; a subclass writes `_learn`."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        triplets: Any = None,
        neighbors: Any = None,
        sample_weight: Any = None,
        checkpoint: str | None = None,
        target: str = "auto",
    ) -> Self:
        """Learn the metric from labels or triplets.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features), (m, 3, n_features) or (m, 4, n_features)
            Rows; or triplets of points (a, b, c), a closer to b than to c; or quadruplets
            (a, b, c, d), a closer to b than c to d. With a ``preprocessor``, integers
            (m, 3) or (m, 4) that refer to the points.
        y : array-like (n,), default=None
            Class labels; or a quantity: points with similar y should be near.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Used instead of y: (i, j, k) means that row i of X is closer to row j than to row
            k; (i, j, k, l) that row i is closer to row j than row k to row l.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            With labels y, neighbours found elsewhere: integer arrays (n, k) of row numbers, -1 for
            none, or a graph of distances as `sklearn.neighbors.KNeighborsTransformer` makes it.
        sample_weight : array-like (n,) or (m,), default=None
            Weights of the rows, with labels: a triplet weighs as much as its first row. Or
            weights of the triplets: 2 counts twice, 0 not at all.
        checkpoint : str, default=None
            With dask collections: folder or address (``s3://...``) to save the state of the
            solve in. A later fit with the same parameters and data resumes from it.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is. "auto" takes whole numbers as classes unless there are more than 20
            different ones that do not look like labels; the guide has the rule.

        Returns
        -------
        self
        """
        given = Supervision(X, y, triplets, None, neighbors, sample_weight, target)
        return self._learn(self._constraints(given, checkpoint))

    @abstractmethod
    def _learn(self, given: Constraints) -> Self:
        """Learn the metric from validated triplets, and store it."""
