"""Maximum variance unfolding: keep the distances between neighbours, spread everything else."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import splu
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core import spectral
from ..core.arrays import float64, like, to_numpy, zeros
from ..core.sklearn_private import (
    Interval,
    StrOptions,
    barycenter_weights,
    fit_context,
    fix_connected_components,
)
from ..core.warn import warn_user
from ..neighbours import nearest, row_keys
from ..operators.base import Operator
from ..operators.edges import EdgeOperator, ReducedEdges
from ..problems.rigidity import rigid_face
from ..problems.unfolding import UnfoldingOnFace, UnfoldingProgram
from ..solvers.base import SHORT_OF_TOL
from ..solvers.interior_point import InteriorPoint
from ..solvers.low_rank_lagrangian import LowRankLagrangian
from .base import SOLVER_PARAMETERS, CertifiedEstimator, Seed
from .validation import rows_coincide, validate_points

__all__ = ["MaximumVarianceUnfolding"]

SIGMA_FACTOR = 10.0  # sigma="auto" costs at most 1 / (2 * SIGMA_FACTOR) of the variance
# edges up to which the interior-point method is used: where distances may shrink, the low-rank
# method is faster beyond; where they must be kept, it is slow, and more edges exceed the memory
INTERIOR_UP_TO = {"at_most": 450, "equal": 6000}
SOURCES = 64  # points from which geodesic distances are measured for sigma="auto"
RIDGE = 1e-3  # of the reconstruction weights, relative, scikit-learn's default for LLE
# relative to its mean diagonal: keeps the landmarks' linear system regular, far below RIDGE
LANDMARK_RIDGE = 1e-9
LEAST_SINGULAR = 1e-6  # relative size below which a direction of the landmarks is rounding


class MaximumVarianceUnfolding(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, CertifiedEstimator
):
    """Embedding of largest variance among those that keep the distances between neighbours.

    Solves, over positive semidefinite kernel matrices K of the points, ::

        max Tr K - ||K||_F^2 / (2 sigma)   s.t.  K_ii + K_jj - 2 K_ij = (or <=) ||x_i - x_j||^2  on neighbour edges,  1'K1 = 0

    and proves how far from the optimum it stopped (``certificate_``). The edges
    are the union of the k-nearest-neighbour relations.

    Parameters
    ----------
    n_neighbors : int, default=6
    sigma : float or "auto", default="auto"
        Inverse weight of the Frobenius norm, in squared units of X. "auto" is ten times
        a bound on the variance that any embedding can reach (from geodesic distances
        along the edges), so that the regulariser changes the variance by less than 5 %.
        ``inf`` gives exact maximum variance unfolding.
    n_components : int, default=2
    constraint : {"at_most", "equal"}, default="at_most"
        Whether neighbours may come closer: "at_most" is the form of Shen et al., "equal"
        that of Weinberger & Saul. With "equal" the time of a fit grows with the cube of the
        number of edges, not counting those that flat neighbourhoods make redundant.
    n_landmarks : int, default=None
        Let this many randomly chosen points carry the kernel, and reconstruct the
        others from them linearly (Weinberger, Packer & Saul 2005): for more than a few
        thousand points. Needs ``constraint="at_most"``. None uses all points.
    tol : float, default=1e-3
        Largest relative gap to the optimum at which to stop, and largest error of a squared
        distance, relative to the longest.
    max_iter : int, default=100
        Most iterations of the interior-point method or, for many edges, of the augmented
        Lagrangian.
    random_state : int, RandomState or None, default=None
        For the choice of landmarks; without them the fit is deterministic.
    verbose : int, default=0

    Attributes
    ----------
    embedding_ : array (n, n_components)
    eigenvalues_ : array (rank,)
        All eigenvalues of K, descending; the embedding uses the first ``n_components``.
    certificate_ : Certificate
        Of a maximisation, so signs are changed: ``-primal`` is the objective reached, ``-dual``
        a proven upper bound on the optimum; ``violation`` bounds what the errors of the
        distances can add to the objective.
    objective_, n_iter_, history_
        Objective, number of iterations, values per iteration.
    sigma_ : float
    edges_ : integer array (m, 2)
        Pairs of neighbours, without those that coincide, which stay together.
    multipliers_ : array (m,)
        Dual solution, one multiplier per edge, from which the bound of ``certificate_`` comes.
        They are large where flat cliques leave the kernels no interior ("equal").
    landmarks_ : integer array or None

    References
    ----------
    Shen, Kim, Liu, Wang & van den Hengel, "Efficient Dual Approach to Distance Metric
    Learning", IEEE TNNLS 25(2), 2014. Weinberger & Saul, "Unsupervised Learning of
    Image Manifolds by Semidefinite Programming", IJCV 70(1), 2006. Weinberger, Packer &
    Saul, "Nonlinear Dimensionality Reduction by Semidefinite Programming and Kernel
    Matrix Factorization", AISTATS 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric import MaximumVarianceUnfolding
    >>> angle = np.linspace(0, 4, 30)
    >>> X = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> unfolding = MaximumVarianceUnfolding(n_neighbors=2, n_components=1).fit(X)
    >>> bool(abs(unfolding.certificate_.relative_gap) <= 1e-3)
    True
    >>> arc = unfolding.embedding_[:, 0]
    >>> abs(round(float(np.corrcoef(arc, angle)[0, 1]), 3))
    1.0
    """

    _parameter_constraints = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"})],
        "constraint": [StrOptions({"at_most", "equal"})],
        "n_landmarks": [Interval(Integral, 2, None, closed="left"), None],
        **SOLVER_PARAMETERS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_neighbors: int = 6,
        *,
        sigma: float | str = "auto",
        n_components: int = 2,
        constraint: str = "at_most",
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        random_state: Seed = None,
        verbose: int = 0,
    ):
        self.n_neighbors = n_neighbors
        self.sigma = sigma
        self.n_components = n_components
        self.constraint = constraint
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Unfold the rows of X.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
            The neighbour search runs on the host; the solve runs in float64 on the
            device of a tensor.
        y : ignored

        Returns
        -------
        self
        """
        X = self._validate(X)
        points = to_numpy(X).astype(np.float64)
        self.edges_, lengths = neighbour_edges(points, self.n_neighbors)
        self.sigma_ = (
            SIGMA_FACTOR * variance_bound(self.edges_, lengths, len(X))
            if self.sigma == "auto"
            else float(self.sigma)
        )
        self.landmarks_, basis = None, None
        if self.n_landmarks is not None:
            self.landmarks_ = check_random_state(self.random_state).permutation(len(X))[
                : self.n_landmarks
            ]
            basis = landmark_basis(points - points.mean(0), self.landmarks_, self.n_neighbors)
        elif not lengths.all():
            basis = coincidence_basis(self.edges_[lengths == 0], len(X))
        face = rigid_face(self.edges_, points) if self.constraint == "equal" else None
        # a basis already joins coincident points, so edges of length zero add nothing
        apart = lengths > 0
        self.edges_, lengths = self.edges_[apart], lengths[apart]
        reference = zeros(1, float64(X[:1]))
        operator: Operator = EdgeOperator(self.edges_, len(X), reference)
        if basis is not None:
            basis = like(basis, reference)
            operator = ReducedEdges(operator, basis)
        whole = UnfoldingProgram(operator, lengths**2, self.sigma_, self.constraint == "equal")
        result = None
        if face is not None:
            on_face = UnfoldingOnFace(whole, face)
            retried = operator.n_constraints <= INTERIOR_UP_TO["equal"]
            result = self._solve(on_face, on_face.basis, retried=retried)
            result = replace(result, dual_point=on_face.multipliers)
        # where a graph is more rigid than its cliques, the face proves nothing: see `rigidity`
        if result is None or (retried and result.status in SHORT_OF_TOL):
            result = self._solve(whole, basis)
        return self._store(X, result)

    def _solve(self, problem, basis, **options):
        """Solve; the result keeps a factor of the kernel of all points."""

        def keep(L):
            factor = L if basis is None else basis @ L
            factor = spectral.canonical_factor(factor - factor.mean(0))
            return factor, factor if basis is None else basis.T @ factor

        few = problem.operator.n_constraints <= INTERIOR_UP_TO[self.constraint]
        solver = (InteriorPoint if few else LowRankLagrangian)(self.tol, self.max_iter)
        return self._run(solver, problem, keep=keep, **options)

    def _validate(self, X):
        X = validate_points(self, X, reset=True, min_samples=3)
        n = X.shape[0]
        if self.n_neighbors >= n:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} needs more than the {n} samples of X; lower it."
            )
        if rows_coincide(X):
            raise ValueError("All samples of X coincide; there is nothing to unfold.")
        if self.n_components >= n:
            raise ValueError(
                f"n_components={self.n_components} must be less than the {n} samples of X; lower "
                "it."
            )
        if self.n_landmarks is not None:
            if self.constraint == "equal":
                raise ValueError(
                    "n_landmarks cannot keep every distance exactly: use constraint='at_most', "
                    "or n_landmarks=None with 'equal'."
                )
            if not self.n_components < self.n_landmarks <= n:
                raise ValueError(
                    f"n_landmarks={self.n_landmarks} must be more than "
                    f"n_components={self.n_components} and at most the {n} samples of X."
                )
        return X

    def _store(self, X, result):
        factor = result.kept
        # if the kernel has a lower rank, the other coordinates are zero
        if factor.shape[1] < self.n_components:
            missing = like(np.zeros((len(factor), self.n_components - factor.shape[1])), factor)
            factor = spectral.namespace(factor).concatenate([factor, missing], 1)
        self._factor = factor
        self._X = to_numpy(X)
        self.embedding_ = like(factor[:, : self.n_components], X)
        self.eigenvalues_ = to_numpy((factor**2).sum(0))
        self.multipliers_ = result.dual_point
        self._store_result(result)
        self.objective_ = -result.certificate.primal
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Unfold the rows of X and return ``embedding_``."""
        return self.fit(X).embedding_

    def transform(self, X: Any) -> Any:
        """Place new points by the weights that best reconstruct them from their
        neighbours in the training set.

        This is an approximation, as in locally linear embedding: the program is not
        solved again. A training point is mapped to its own place.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)

        Returns
        -------
        array (n, n_components)
        """
        check_is_fitted(self)
        given = validate_points(self, X, reset=False)
        X = to_numpy(given)
        centre = self._X.mean(0, dtype=np.float64)
        X, known_points = X - centre, self._X - centre
        neighbour, distance = nearest(X, known_points, self.n_neighbors)
        weights = barycenter_weights(X, known_points, neighbour, reg=RIDGE)
        known = distance[:, 0] == 0
        weights[known] = np.eye(1, weights.shape[1])
        placed = np.einsum(
            "ij,ijc->ic", weights, to_numpy(self._factor)[:, : self.n_components][neighbour]
        )
        return like(placed, given)

    def kernel_matrix(self) -> Any:
        """Return the learned kernel K (n, n) with all its eigenvalues; the embedding shows the
        largest ``n_components``.
        """
        check_is_fitted(self)
        return self._factor @ self._factor.T

    def __sklearn_is_fitted__(self):
        return hasattr(self, "embedding_")

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def neighbour_edges(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Union of the k-nearest-neighbour relations as pairs (a < b), and their Euclidean lengths.

    A graph in several pieces is joined by the shortest edges between them, with a
    warning.
    """
    n, order = len(X), np.argsort(row_keys(X))  # ties must not depend on the order of rows
    centred = X[order] - X[order].mean(0)  # far from the origin, rounding would hide distances
    neighbour = nearest(centred, None, n_neighbors)[0]
    rows = np.repeat(np.arange(n), n_neighbors)
    graph = sparse.csr_array((np.ones(neighbour.size), (rows, neighbour.ravel())), (n, n))
    n_pieces, piece = connected_components(graph, directed=False)
    if n_pieces > 1:
        warn_user(
            f"The neighbour graph falls into {n_pieces} pieces; they are joined by the shortest "
            "edges between them. Raise n_neighbors to connect them by more.",
        )
        graph = fix_connected_components(
            centred, graph.tolil(), n_pieces, piece, mode="connectivity"
        )
    pairs = np.unique(np.sort(order[np.stack(graph.nonzero(), 1)], axis=1), axis=0)
    return pairs, np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)


def variance_bound(edges: np.ndarray, lengths: np.ndarray, n: int) -> float:
    """Estimate of the bound sum_ij g_ij^2 / (2 n) on Tr K, with g the geodesic
    distances, from `SOURCES` evenly spread points.
    """
    graph = sparse.csr_array((lengths, edges.T), (n, n))
    sources = np.unique(np.linspace(0, n - 1, min(n, SOURCES)).astype(int))
    geodesic = dijkstra(graph, directed=False, indices=sources)
    bound = 0.5 * n * float((geodesic**2).mean())
    return bound if bound > 0 else 1.0


def coincidence_basis(edges: np.ndarray, n: int) -> np.ndarray:
    """Orthonormal, centred basis (n x pieces - 1) of the functions that are constant on
    the pieces joined by ``edges``.
    """
    n_pieces, piece = connected_components(
        sparse.csr_array((np.ones(len(edges)), edges.T), (n, n)), directed=False
    )
    count = np.bincount(piece)
    # a Householder reflection sends the constant function to the first axis; the other
    # axes are centred
    axis = np.sqrt(count / n)
    axis[0] += 1.0
    reflection = np.eye(n_pieces) - np.outer(axis, axis) * (2 / (axis @ axis))
    return (reflection[:, 1:] / np.sqrt(count)[:, None])[piece]


def landmark_basis(X: np.ndarray, landmarks: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Orthonormal, centred basis (n x fewer than landmarks) of the functions
    reconstructed from their values at the landmarks.

    Every other point is the combination of its neighbours that best reconstructs it;
    those combinations, solved for the landmarks, are the linear map Q of Weinberger,
    Packer & Saul (2005), whose columns are centred and orthonormalised here.
    """
    n = len(X)
    neighbour = nearest(X, None, n_neighbors)[0]
    weights = barycenter_weights(X, X, neighbour, reg=RIDGE)
    rows = np.repeat(np.arange(n), n_neighbors)
    residual = sparse.eye_array(n, format="csr") - sparse.csr_array(
        (weights.ravel(), (rows, neighbour.ravel())), (n, n)
    )
    energy = (residual.T @ residual).tocsc()
    others = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(others):
        ridge = LANDMARK_RIDGE * energy.trace() / n * sparse.eye_array(len(others), format="csc")
        Q[others] = -splu(energy[np.ix_(others, others)].tocsc() + ridge).solve(
            energy[np.ix_(others, landmarks)].toarray()
        )
    U, singular, _ = np.linalg.svd(Q - Q.mean(0), full_matrices=False)
    return U[:, singular > LEAST_SINGULAR * singular[0]]
