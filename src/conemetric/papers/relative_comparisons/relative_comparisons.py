"""RelativeComparisons: weights of features, directions or kernel functions, learned from
triplets (Schultz & Joachims 2004).
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn import get_config
from sklearn.decomposition import PCA
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ...constraints.constraints import Constraints
from ...core import spectral
from ...core.arrays import Array, like, namespace, take, to_numpy, zeros
from ...core.sklearn_private import Interval, StrOptions
from ...engine.operators import from_triplets
from ...engine.operators.base import DifferenceOperator
from ...engine.operators.span import Coordinates
from ...estimators.scale import scaled_C
from ...estimators.triplet_metric import TripletMetric
from ...estimators.validation import dense, rows_coincide
from .dual_coordinate import DualCoordinate
from .program import MeasuredComparisonProgram

# Asymmetry of a kernel matrix, relative to an entry and to the largest: what rounding leaves
# of a symmetric kernel.
SYMMETRY_RTOL = 1e-5
SYMMETRY_ATOL = 1e-8


class Mapping(NamedTuple):
    """A (None: the identity, or a kernel), the mapped points A'x as rows, and A'A (None: the
    identity).
    """

    A: np.ndarray | None
    points: np.ndarray
    gram: np.ndarray | None


@dataclass(eq=False, repr=False)
class RelativeComparisons(TripletMetric):
    """Metric M = A diag(w) A' with learned weights w >= 0, from triplets "i is closer
    to j than to k".

    Solves, with z = (A'x_i - A'x_k)^2 - (A'x_i - A'x_j)^2 for each triplet, ::

        min over w >= 0 of 1/2 ||A diag(w) A'||_F^2 + C sum max(0, 1 - w'z)

    and proves how far from the optimum it stopped (``certificate_``). With weights, every
    term of the sum is multiplied by the weight of its triplet.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the sum of the losses. "scale" makes the fit independent of the units of X:
        the C that `FrobMetric` takes for "scale", divided by the number of triplets (the sum
        of their weights).
    basis : None, array-like (n_features, p), "pca" or callable, default=None
        The matrix A. None is the identity: one weight per feature. "pca" takes the
        principal directions of X. A callable is a kernel, called as ``basis(X, Y)`` and
        returning the matrix of k(x, y), such as `sklearn.metrics.pairwise.rbf_kernel`
        or a kernel of `sklearn.gaussian_process`: A then holds the training points in
        its feature space, with one weight for each.
    n_targets : int, default=3
    n_impostors : int or "auto", default=3
        From labels: nearest points of its class, and of others, that a point forms triplets with.
    kernel, n_references, class_weight, n_components, preprocessor, tol, verbose
        As in `FrobMetric`.
    max_iter : int, default=1000
        Maximum number of iterations: coordinate sweeps and Newton steps.
    random_state : int, RandomState or None, default=None
        For references and the order of the coordinate sweeps.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; with a kernel, (rank, number of positive
        weights) and ``transform(X) = k(X, kernel_points_) @ components_.T``.
    feature_weights_ : array (p,)
        The learned w.
    basis_ : array (n_features, p) or None
        The matrix A; None for the identity and for a kernel.
    kernel_points_ : array or None
        With a kernel: the training points with positive weight.
    certificate_, objective_, n_iter_, C_, triplets_, n_references_
        As in `FrobMetric`.
    history_ : dict of arrays
        Values per iteration (``steps``: Newton steps so far).
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, between 0 and C.

    Notes
    -----
    The solver runs on the host in float64, since its steps are sequential and read a handful
    of numbers each. A PyTorch tensor is copied there once; the fitted arrays return to its
    device and precision. The m x p array of the z is stored if it fits scikit-learn's
    ``working_memory`` (see `sklearn.set_config`; 1 GiB by default), else recomputed in blocks.

    The optimum changes when X is rotated, since it weighs features, not directions. So all
    features are solved for, even if there are more of them than rows, but without a matrix
    over pairs of them unless triplets contradict each other and C is large; ``components_``,
    with a row for each positive weight, is nearly as large.

    References
    ----------
    Schultz & Joachims, "Learning a Distance Metric from Relative Comparisons", NIPS 16,
    2004. Nguyen, Morell & De Baets, "An efficient method for solving a quadratic
    programming problem derived from distance metric learning", Investigación
    Operacional, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import RelativeComparisons
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = RelativeComparisons().fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> int(metric.feature_weights_.argmax())  # petal length
    2
    """

    C: float | str = "scale"
    _: KW_ONLY
    basis: Any = None

    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "basis": [None, StrOptions({"pca"}), "array-like", callable],
        **TripletMetric._parameter_constraints,
    }

    def _learn(self, given: Constraints) -> Self:
        X = dense(self, given.coordinates().points)
        host = to_numpy(X).astype(np.float64, order="C")
        triplets = to_numpy(given.index)
        weights = None
        if given.weights is not None:
            weights = to_numpy(given.weights).astype(np.float64)
        mapping = self._map(host)
        A = mapping.A
        operator = from_triplets(mapping.points, triplets)
        # a stored metric is measured over the features, or over the rows of the kernel
        stored = operator
        if A is not None:
            stored = from_triplets(host, triplets)
        gram_of_stored = None
        if callable(self.basis):
            gram_of_stored = mapping.gram
        problem = MeasuredComparisonProgram(
            stored,
            gram_of_stored,
            operator,
            self._scaled_C(operator, host, mapping.gram, triplets, weights),
            mapping.gram,
            get_config()["working_memory"] * 2**20,  # which is in MiB
            weights,
        )
        if problem.penalties.max() > float(namespace(X).finfo(X.dtype).max):
            raise ValueError(
                f"C={problem.C:g} times the largest weight is {problem.penalties.max():g}, out of the range of "
                f"{X.dtype}, in which multipliers_ are kept; rescale X, or pass it in float64."
            )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        solver = DualCoordinate(tol=self.tol, max_iter=self.max_iter, seed=seed)
        self.basis_ = None if A is None else like(A, X)
        self.kernel_points_: Array | None = None
        result = self._run(solver, problem, keep=partial(self._keep_weights, X, A))
        self.C_ = problem.C
        self.triplets_ = given.row_numbers
        self.multipliers_ = like(result.dual_point[0], X)
        return self._store(problem, result, Coordinates(stored.X))

    def _keep_weights(self, X: Array, A: Array | None, w: np.ndarray) -> tuple[Array, np.ndarray]:
        """Store the weights as X is stored; return a factor of the metric, and the same on the
        host.
        """
        kept = w > 0
        if not w.any():  # one column of zeros stands for the zero metric
            kept = np.arange(len(w)) == 0
        self.feature_weights_ = like(w, X)
        if A is None:
            L = _factor_of_diagonal(w, X)
        else:
            L = spectral.canonical_factor(like(A[:, kept] * np.sqrt(w[kept]), X))
        if not callable(self.basis):
            return L, to_numpy(L)
        self.kernel_points_ = take(X, np.flatnonzero(kept))
        return L[like(kept, X, namespace(X).bool)], to_numpy(L)

    def _map(self, X: np.ndarray) -> Mapping:
        """Return what ``basis`` stands for."""
        if self.basis is None:
            return Mapping(None, X, None)
        if callable(self.basis):
            K = self._kernel(X, X)
            if not np.allclose(K, K.T, rtol=SYMMETRY_RTOL, atol=SYMMETRY_ATOL * abs(K).max()):
                raise ValueError("basis is not symmetric on the rows of X; pass a kernel that is.")
            return Mapping(None, K, K)
        if isinstance(self.basis, str):
            if rows_coincide(X):
                raise ValueError("all rows of X coincide, so basis='pca' has no direction.")
            pca = PCA(svd_solver="full").fit(X)
            # directions in which rows differ by rounding would each get a weight
            rounding = X.shape[1] * np.finfo(X.dtype).eps * pca.singular_values_[0]
            A = pca.components_[pca.singular_values_ > rounding].T
            return Mapping(A, X @ A, None)
        A = check_array(to_numpy(self.basis), dtype=np.float64, input_name="basis")
        if A.shape[0] != X.shape[1]:
            raise ValueError(f"basis has shape {A.shape}; pass {X.shape[1]} rows.")
        return Mapping(A, X @ A, A.T @ A)

    def _kernel(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the kernel of all pairs of rows of X and Y, checked."""
        K = np.asarray(self.basis(X, Y), dtype=np.float64)
        if K.shape != (len(X), len(Y)) or not np.isfinite(K).all():
            raise ValueError(
                f"basis returned an array of shape {K.shape} for {len(X)} and {len(Y)} points; "
                "pass a kernel that returns one finite value for each pair of them."
            )
        return K

    def _scaled_C(
        self,
        operator: DifferenceOperator,
        X: np.ndarray,
        gram: np.ndarray | None,
        triplets: np.ndarray,
        weights: np.ndarray | None,
    ) -> float:
        """Return C; for "scale", `FrobMetric`'s for a sum, with the distances of X or of the
        kernel.
        """
        if not isinstance(self.C, str):
            return self.C
        if callable(self.basis):
            assert gram is not None
            # points in the feature space, the same for equal rows in spite of rounding
            _, first, place = np.unique(gram, axis=0, return_index=True, return_inverse=True)
            operator = from_triplets(spectral.factor(gram)[first[place]], triplets)
        elif self.basis is not None:
            operator = from_triplets(X, triplets)
        amount = float(len(triplets))
        if weights is not None:
            amount = weights.sum()
        return scaled_C(operator, operator.n_features, weights) / amount

    def _features(self, X: Any) -> Any:
        """Return X, or its kernel with the points that carry weight."""
        X = super()._features(X)
        if self.kernel_points_ is None:
            return X
        return like(self._kernel(to_numpy(dense(self, X)), to_numpy(self.kernel_points_)), X)

    def get_mahalanobis_matrix(self) -> Any:
        """Return the learned matrix M = A diag(w) A' (n_features, n_features); with a kernel
        there is none.
        """
        check_is_fitted(self)
        if self.kernel_points_ is not None:
            raise ValueError(
                "The metric of a kernel has no matrix in the space of X; use transform, "
                "pair_distance or get_metric."
            )
        return super().get_mahalanobis_matrix()


def _factor_of_diagonal(w: np.ndarray, X: Array) -> Array:
    """Return a factor of diag(w) like X: a column for each weight above rounding, largest first."""
    xp = namespace(X)
    rounding = len(w) * float(xp.finfo(X.dtype).eps) * w.max()
    chosen = np.argsort(-w, kind="stable")[: np.count_nonzero(w > rounding)]
    L = zeros((len(w), len(chosen)), X)
    L[like(chosen, X, xp.int64), range(len(chosen))] = like(w[chosen] ** 0.5, X)
    return L
