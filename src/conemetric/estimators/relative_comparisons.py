"""RelativeComparisons: weights of features, directions or kernel functions from
triplets (Schultz & Joachims 2004).
"""

from numbers import Real

import numpy as np
from sklearn import get_config
from sklearn.decomposition import PCA
from sklearn.utils import check_array, check_random_state

from ..core import spectral
from ..core.arrays import like, namespace, to_numpy
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..operators import from_triplets
from ..problems.comparisons import MeasuredComparisonProgram
from ..solvers.dual_coordinate import DualCoordinate
from .base import SOLVER_PARAMETERS
from .frobmetric import scaled_C
from .supervised import TRIPLET_PARAMETERS, SupervisedMetric


class RelativeComparisons(SupervisedMetric):
    """Metric M = A diag(w) A' with learned weights w >= 0, from triplets "i is closer
    to j than to k".

    Solves, with z = (A'x_i - A'x_k)^2 - (A'x_i - A'x_j)^2 for each triplet, ::

        min over w >= 0 of 1/2 ||A diag(w) A'||_F^2 + C sum max(0, 1 - w'z)

    (with weights, every term of the sum times the weight of its triplet)
    and returns a proof of how far from the optimum it stopped (``certificate_``).

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the loss, a sum over the triplets. "scale" makes the fit independent
        of the units of X: the C that `FrobMetric` takes for "scale", divided by the
        number of triplets (the sum of their weights).
    basis : None, array-like (n_features, p), "pca" or callable, default=None
        The matrix A. None is the identity: one weight per feature. "pca" takes the
        principal directions of X. A callable is a kernel, called as ``basis(X, Y)`` and
        returning the matrix of k(x, y), such as `sklearn.metrics.pairwise.rbf_kernel`
        or a kernel of `sklearn.gaussian_process`: A then holds the training points in
        its feature space, one weight for each.
    n_targets, n_impostors : int, default=3
        Neighbours per point that make its triplets, when fitted from labels.
    neighbors : {"auto", "exact", "approximate"}, default="auto"
        How they are found. "auto" searches exactly while n^2 n_features is at most 2e12
        (half a minute on two cores), and approximately beyond; ``neighbor_recall_`` says
        how many were found. On a device every search is exact.
    class_weight : "balanced", dict or None, default=None
        Factors of the weights of the classes, from labels; "balanced" gives every class
        the same weight in sum.
    n_components : int, default=None
        Keep only this many leading directions of the learned metric. None keeps all.
    preprocessor : array-like (n, n_features) or callable, default=None
        Where points come from when tuples number them; see `fit`.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
        An iteration is a coordinate sweep, or as many Newton steps as read about a
        million entries of z.
    random_state : int, RandomState or None
        Draws the order of the coordinate sweeps, and for an approximate search.
    verbose : int, default=0

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
        With a kernel: the training points whose weight is positive.
    certificate_ : Certificate
        Objective of the weights, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration (``steps``: Newton steps
        so far).
    C_ : float
        The C that was used, in the units of X.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, between 0 and C.
    triplets_ : integer array (m, 3)
    neighbor_recall_ : float or None
        Share of the true neighbours that the search found, 1.0 when exact, measured on a
        sample when approximate; None where nothing was searched.

    Notes
    -----
    The solver runs on the host in float64: its steps are sequential and read a handful
    of numbers each. A PyTorch tensor is copied there once, and the fitted arrays are
    returned to its device and precision. The m x p array of the z is stored while it
    fits scikit-learn's ``working_memory`` (see `sklearn.set_config`; 1 GiB unless
    changed), and computed again in blocks whenever it is read otherwise.

    One weight per feature is no metric of the span of the rows: the optimum changes when
    X is turned, and weighs features, not directions. So more features than rows are all
    solved for, but without a matrix over pairs of them unless triplets contradict each
    other and C is large; ``components_``, a row for each positive weight, is nearly as
    large.

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

    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "basis": [None, StrOptions({"pca"}), "array-like", callable],
        **TRIPLET_PARAMETERS,
        **SOLVER_PARAMETERS,
    }

    def __init__(
        self,
        C="scale",
        *,
        basis=None,
        n_targets=3,
        n_impostors=3,
        neighbors="auto",
        class_weight=None,
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.basis = basis
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.class_weight = class_weight
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, triplets=None, neighbors=None, sample_weight=None, target="auto"):
        """Learn the weights from labels or from triplets.

        Parameters
        ----------
        X : array-like or tensor (n, n_features), (m, 3, n_features) or (m, 4, n_features)
            Rows; or triplets of points (a, b, c), a closer to b than to c; or
            quadruplets (a, b, c, d), a closer to b than c to d. With a
            ``preprocessor``, integers (m, 3) or (m, 4) that number the points.
        y : array-like (n,), default=None
            Class labels; or numbers, near in which is to be near in the metric.
        triplets : integer array-like (m, 3) or (m, 4), default=None
            Instead of y, which is then not used: row (i, j, k) says that row i of X is
            closer to row j than to row k; row (i, j, k, l), than row k to row l.
        neighbors : (targets, impostors) or sparse matrix (n, n), default=None
            With labels y: neighbours found elsewhere. Integer arrays (n, k) of row
            numbers with the same label and with another, -1 where there is none; or a
            graph of distances to the nearest rows of any label, as
            `sklearn.neighbors.KNeighborsTransformer` makes it.
        sample_weight : array-like (n,) or (m,), default=None
            What each row counts for with labels y: a triplet as much as its first row, and
            rows of weight zero are left out. With triplets, what each of them counts
            for: a weight of two is a triplet given twice, of zero one not given.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is. "auto" takes whole numbers for classes unless they have more than 20
            values, many of them in one row only and with gaps between them (the guide's
            section on regression has the rule).

        Returns
        -------
        self
        """
        given = self._validate_triplets(X, y, triplets, neighbors, sample_weight, target)
        X, triplets = self._dense(given.points), given.index
        host, chosen = to_numpy(X).astype(np.float64, order="C"), to_numpy(triplets)
        A, mapped, gram = self._map(host)
        operator = from_triplets(mapped, chosen)
        weights = None if given.weights is None else to_numpy(given.weights).astype(np.float64)
        C = self.C
        if C == "scale":
            C = self._scaled_C(operator, host, gram, chosen, weights)
        # M is measured by its factor: over the features, or over the kernel's rows
        over = operator if A is None else from_triplets(host, chosen)
        memory = get_config()["working_memory"] * 2**20
        problem = MeasuredComparisonProgram(
            over, gram if callable(self.basis) else None, operator, C, gram, memory, weights
        )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        solver = DualCoordinate(tol=self.tol, max_iter=self.max_iter, seed=seed)
        self.basis_, self.kernel_points_ = None if A is None else like(A, X), None

        def keep(w):
            kept = w > 0 if w.any() else np.arange(len(w)) == 0
            if A is None:
                rounding = len(w) * float(namespace(X).finfo(X.dtype).eps)
                L = like(_diagonal_factor(w, rounding * w.max()), X)
            else:
                L = spectral.canonical_factor(like(A[:, kept] * np.sqrt(w[kept]), X))
            self.feature_weights_ = like(w, X)
            if callable(self.basis):
                self.kernel_points_ = X[like(np.flatnonzero(kept), triplets)]
                return L[like(kept, X, namespace(X).bool)], to_numpy(L)
            return L, to_numpy(L)

        result = self._run(solver, problem, keep=keep)
        self.C_, self.triplets_ = problem.C, given.row_numbers
        self.multipliers_ = like(result.dual_point[0], X)
        return self._store(problem, result, over.X)

    def _map(self, X):
        """The matrix A where there is one, the mapped points A'x (rows), and A'A (None
        for the identity).
        """
        if self.basis is None:
            return None, X, None
        if callable(self.basis):
            K = self._kernel(X, X)
            if not np.allclose(K, K.T, rtol=1e-5, atol=1e-8 * abs(K).max()):
                raise ValueError(
                    "basis is not a kernel: its matrix on the rows of X is not symmetric."
                )
            return None, K, K
        if isinstance(self.basis, str):
            pca = PCA(svd_solver="full").fit(X)
            A = pca.components_[
                pca.singular_values_ > X.shape[1] * np.finfo(X.dtype).eps * pca.singular_values_[0]
            ].T
            if not A.shape[1]:
                raise ValueError(
                    "all rows of X coincide, so basis='pca' has no direction; give rows that differ."
                )
            return A, X @ A, None
        A = check_array(to_numpy(self.basis), dtype=np.float64, input_name="basis")
        if A.shape[0] != X.shape[1]:
            raise ValueError(
                f"basis has shape {A.shape}; give one row for each of the {X.shape[1]} features "
                "of X."
            )
        return A, X @ A, A.T @ A

    def _kernel(self, X, Y):
        K = np.asarray(self.basis(X, Y), dtype=np.float64)
        if K.shape != (len(X), len(Y)) or not np.isfinite(K).all():
            raise ValueError(
                f"basis returned an array of shape {K.shape} for {len(X)} and {len(Y)} points; "
                "give a kernel that returns one "
                "finite value for each pair of them."
            )
        return K

    def _scaled_C(self, operator, X, gram, triplets, weights):
        """The C of `FrobMetric`, whose loss is a mean, for the sum here; distances are
        those of X, or of the kernel.
        """
        if self.basis is not None:
            operator = from_triplets(spectral.factor(gram) if callable(self.basis) else X, triplets)
        amount = len(triplets) if weights is None else weights.sum()
        return scaled_C(operator, operator.n_features, weights) / amount

    def _features(self, X):
        if self.kernel_points_ is None:
            return X
        return like(self._kernel(to_numpy(self._dense(X)), to_numpy(self.kernel_points_)), X)

    def get_mahalanobis_matrix(self):
        """The learned matrix M = A diag(w) A', with ``n_features_in_`` rows and
        columns; a kernel has none in the space of X.
        """
        if getattr(self, "kernel_points_", None) is not None:
            raise ValueError(
                "The metric of a kernel lives in the kernel's feature space and has no matrix in "
                "the space of X; "
                "use transform, pair_distance or get_metric."
            )
        return super().get_mahalanobis_matrix()


def _diagonal_factor(w, least):
    """`spectral.factor` of diag(w), of the entries above ``least``."""
    chosen = np.argsort(-w, kind="stable")[: np.count_nonzero(w > least)]
    columns = np.zeros((len(w), len(chosen)))
    columns[chosen, np.arange(len(chosen))] = np.sqrt(w[chosen])
    return columns
