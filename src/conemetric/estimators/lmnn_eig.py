"""LMNN-eig: distance metric learning by eigenvalue optimisation from triplets (Ying & Li 2012)."""

from functools import partial
from numbers import Real
from typing import Any, Self

import numpy as np

from ..constraints.in_blocks import is_dask
from ..core.arrays import namespace
from ..core.sklearn_private import Interval, fit_context
from ..operators import from_triplets
from ..problems.eigenvalue import LMNNEigProgram
from .base import Seed
from .eigenvalue import EigenvalueMetric, whitened_points
from .supervised import SupervisedMetric, refuse_checkpoint

__all__ = ["LMNNEig"]


class LMNNEig(EigenvalueMetric):
    """Large-margin nearest-neighbour metric by eigenvalue optimisation, to the optimum
    of its semidefinite program.

    Solves, over positive semidefinite M and triplets (i, j, k), with X_S the scatter
    matrix of the distinct pairs (i, j) (plus a ridge), ::

        min (1 - gamma) sum max(0, 1 - (d_ik' M d_ik - d_ij' M d_ij)) + gamma <X_S, M>

    and proves how far from the optimum it stopped (``certificate_``). With weights, both sums
    are weighted (see `fit`).

    Meant for given triplets. It also learns from labels, with a warning: where classes
    overlap, no setting was found that is as good as the Euclidean distance; use `AutoMetric`
    or `FrobMetric` there.

    Parameters
    ----------
    gamma : float, default=0.5
        Weight of the pull, between 0 and 1; the push has weight 1 - gamma.
    ridge : float, default=1e-8
        As in `DMLEig`.
    n_targets, n_impostors : int, default=3
        From labels: nearest points of the same class, and of others, that each point forms
        triplets with.
    neighbors, n_references, class_weight, n_components, preprocessor, tol, max_iter, \
random_state, verbose
        As in `FrobMetric`.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Objective, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, number of iterations, values per iteration.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, up to scale.
    triplets_ : integer array (m, 3)
    neighbor_recall_ : float or None
        As in `FrobMetric`.
    similar_scatter_ : array (n_features, n_features) or None
        As in `DMLEig`.

    References
    ----------
    Ying & Li, "Distance Metric Learning with Eigenvalue Optimization", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import LMNNEig
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = LMNNEig(gamma=0.3).fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    """

    _remedy = "a lower gamma, " + SupervisedMetric._remedy
    _meant_for = "triplets"
    _parameter_constraints = {
        "gamma": [Interval(Real, 0, 1, closed="neither")],
        **EigenvalueMetric._parameter_constraints,
    }

    def __init__(
        self,
        gamma: float = 0.5,
        *,
        ridge: float = 1e-8,
        n_targets: int = 3,
        n_impostors: int | str = 3,
        neighbors: str = "auto",
        n_references: int | str | None = "auto",
        class_weight: dict | str | None = None,
        n_components: int | None = None,
        preprocessor: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        random_state: Seed = None,
        verbose: int = 0,
    ):
        self.gamma = gamma
        self.ridge = ridge
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_references = n_references
        self.class_weight = class_weight
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

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
        """Learn the metric from labels or triplets; the arguments are those of `FrobMetric.fit`.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features), (m, 3, n_features) or (m, 4, n_features)
            Rows; or triplets or quadruplets of points.
        y : array-like (n,), default=None
            Class labels, or a quantity.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Used instead of y: (i, j, k) says that row i is closer to row j than to row k.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            With labels y: neighbours found elsewhere.
        sample_weight : array-like (n,) or (m,), default=None
            Weights of the rows, or of the triplets. From labels the pairs
            of X_S weigh as much as their first row too; with triplets each weighs 1.
        checkpoint : str, default=None
            With dask collections: where to save the state of the solve.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is.

        Returns
        -------
        self
        """
        if is_dask(X):
            found = self._triplets_in_blocks(
                X, y, triplets, neighbors, checkpoint, sample_weight, target
            )
            return self._fit_blocks(found, triplets is None and self._n_in_tuple is None)
        refuse_checkpoint(checkpoint)
        given = self._validate_triplets(X, y, triplets, neighbors, sample_weight, target)
        X, triplets = given.X, given.tuples
        keys = namespace(X).unique(triplets[:, 0] * len(X) + triplets[:, 1])
        similar = namespace(X).stack([keys // len(X), keys % len(X)], 1)
        whitened = self._whiten(X, similar, given.weights_of(similar))
        operator = from_triplets(whitened.points, triplets)
        problem = LMNNEigProgram(operator, self.gamma, X.dtype, given.weights)
        result = self._solve(problem, X, whitened)
        self.triplets_, self.multipliers_ = given.in_rows(triplets), result.dual_point
        return self._store(problem, result, whitened.points)

    def _fit_blocks(self, found, from_labels):
        whitened = self._whiten_blocks(found, partial(_near_pairs, weighed=from_labels))
        operator = self._operator(found, _whitened_triplets, whitened)
        problem = LMNNEigProgram(operator, self.gamma, found.rows.dtype, found.weights)
        result = self._solve(problem, problem.operator.reference, whitened)
        return self._store(problem, result, whitened.points)


# ---- functions of one block


def _near_pairs(index, similar, weights, weighed):
    """The distinct (i, j) of triplets (i, j, k), and from labels (``weighed``) the weights of i."""
    n = int(index.max(initial=0)) + 1
    keys, first = np.unique(index[:, 0].astype(np.int64) * n + index[:, 1], return_index=True)
    pairs = np.stack([keys // n, keys % n], 1)
    return pairs, weights[first] if weighed and weights is not None else None


def _whitened_triplets(points, index, similar, T, mean):
    return from_triplets(whitened_points(points, T, mean), index)
