"""LMNN-eig: distance metric learning by eigenvalue optimisation from triplets (Ying & Li 2012)."""

from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Self

from ...constraints.constraints import Constraints
from ...core.arrays import Array, like, namespace, zeros
from ...core.sklearn_private import Interval
from ...engine.operators import from_triplets
from ...estimators.triplet_metric import TripletMetric
from .dml_eig import EigenvalueMetric
from .program import LMNNEigProgram


@dataclass(eq=False, repr=False)
class LMNNEig(EigenvalueMetric, TripletMetric):
    """Large-margin nearest-neighbour metric by eigenvalue optimisation, to the optimum
    of its semidefinite program.

    Solves, over positive semidefinite M and triplets (i, j, k), with X_S the scatter
    matrix of the distinct pairs (i, j) (plus a ridge), ::

        min (1 - gamma) sum max(0, 1 - (d_ik' M d_ik - d_ij' M d_ij)) + gamma <X_S, M>

    and proves how far from the optimum it stopped (``certificate_``). With weights, both sums
    are weighted: from labels, the pairs of X_S weigh as much as their first row; with triplets,
    each of them weighs 1.

    Meant for given triplets. It also learns from labels, with a warning: where classes
    overlap, no setting was found that is as good as the Euclidean distance; use `AutoMetric`
    or `FrobMetric` there.

    Parameters
    ----------
    gamma : float, default=0.5
        Weight of the pull, between 0 and 1; the push has weight 1 - gamma.
    ridge : float, default=1e-8
        As in `DMLEig`.
    n_targets : int, default=3
    n_impostors : int or "auto", default=3
        From labels: nearest points of its class, and of others, that a point forms triplets with.
    kernel, n_references, class_weight, n_components, preprocessor, tol, max_iter, \
random_state, verbose
        As in `FrobMetric`.

    Attributes
    ----------
    components_, certificate_, objective_, n_iter_, history_, triplets_, n_references_
        As in `FrobMetric`.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, up to scale.
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

    gamma: float = 0.5

    _remedy = "a lower gamma, " + TripletMetric._remedy
    _meant_for = "triplets"
    _parameter_constraints = {
        "gamma": [Interval(Real, 0, 1, closed="neither")],
        **EigenvalueMetric._parameter_constraints,
    }

    def _learn(self, given: Constraints) -> Self:
        near = partial(_near_pairs, weighted=given.from_labels)
        whitened, self.similar_scatter_ = given.whitened(near, self.ridge)
        operator = given.operator(from_triplets, whitened)
        problem = LMNNEigProgram(operator, self.gamma, given.dtype, given.weights)
        result = self._solve(problem, whitened, given.dtype)
        if given.row_numbers is not None:
            self.triplets_ = given.row_numbers
            self.multipliers_ = result.dual_point
        return self._store(problem, result, whitened)


def _near_pairs(
    index: Array, similar: Array | None, weights: Array | None, weighted: bool
) -> tuple[Array, Array | None]:
    """Return the distinct (i, j) of triplets (i, j, k); from labels they weigh as much as their
    triplets, which weigh as much as i.
    """
    xp = namespace(index)
    n = 1
    if len(index):
        n += int(index.max())
    i = like(index[:, 0], index, xp.int64)  # the product with n may exceed 32 bits
    keys, place = xp.unique(i * n + index[:, 1], return_inverse=True)
    pairs = xp.stack([keys // n, keys % n], 1)
    if not weighted or weights is None:
        return pairs, None
    own = zeros(len(keys), weights)
    # all triplets of a pair begin at its i and have the same weight, so any of them will do
    own[place] = weights
    return pairs, own
