"""Maximum variance unfolding: keep the distances between neighbours, spread everything else."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...core import spectral
from ...core.arrays import Array, Pair, float64, like, namespace, to_numpy, zeros
from ...core.atomic import atomic_fit
from ...core.blas import blas_threads_for
from ...core.sklearn_private import Interval, StrOptions, barycenter_weights
from ...engine.certificate import SHORT_OF_TOL, Certificate, Status, relative_gap
from ...engine.operators.base import Operator
from ...engine.solver import Solver, SolveResult
from ...estimators.base import SOLVER_PARAMETERS, CertifiedEstimator, Seed
from ...estimators.validation import rows_coincide, validate_points
from ...neighbours.search import nearest
from . import neighbour_graph
from .edges import EdgeOperator, ReducedEdges
from .interior_point import InteriorPoint
from .low_rank_lagrangian import LowRankLagrangian
from .program import UnfoldingOnFace, UnfoldingProgram, below
from .rigidity import Face, nearly_coincident, rigid_face

ROUNDINGS = 8  # of a squared distance, at most, beside one per feature
SIGMA_FACTOR = 10.0  # sigma="auto" costs at most 1 / (2 * SIGMA_FACTOR) of the variance
# edges up to which the interior-point method is used: where distances may shrink, the low-rank
# method is faster beyond; where they must be kept, it is slow, and more edges exceed the memory
INTERIOR_UP_TO = {"at_most": 450, "equal": 6000}
# iterations of the low-rank method from whose kernel, far wider than that of the rows, the interior-point
# method starts: 28 iterations instead of 48 for 1,000 points of a roll
ROUGH = 2
ROUGH_FROM = 1000  # edges from which it does


@dataclass(eq=False, repr=False)
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
        Let this many randomly chosen, distinct points carry the kernel, and reconstruct the
        others from them linearly (Weinberger, Packer & Saul 2005): for more than a few
        thousand points. Needs ``constraint="at_most"``. None uses all points.
    tol : float, default=1e-3
        Largest relative gap to the optimum at which to stop, and largest error of a squared
        distance, relative to the longest.
    max_iter : int, default=100
        Maximum number of iterations of the interior-point method or augmented Lagrangian.
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
        an upper bound on the optimum that is proven in spite of rounding. With "at_most" no
        distance is exceeded and ``violation`` is 0; with "equal" it is the larger of the largest
        error of a squared distance, relative to the longest, and of what these errors can add to
        the objective, which on nearly degenerate graphs is far more.
    objective_, n_iter_, history_
        Objective, number of iterations, values per iteration.
    sigma_ : float
    edges_ : integer array (m, 2)
        Pairs of neighbours; rows that coincide are one point, named by the first of them.
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

    n_neighbors: int = 6
    _: KW_ONLY
    sigma: float | str = "auto"
    n_components: int = 2
    constraint: str = "at_most"
    n_landmarks: int | None = None
    tol: float = 1e-3
    max_iter: int = 100
    random_state: Seed = None
    verbose: int = 0

    _parameter_constraints = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "sigma": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"})],
        "constraint": [StrOptions({"at_most", "equal"})],
        "n_landmarks": [Interval(Integral, 2, None, closed="left"), None],
        **SOLVER_PARAMETERS,
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    @atomic_fit(prefer_skip_nested_validation=True)
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
        edges, lengths = neighbour_graph.neighbour_edges(points, self.n_neighbors)
        sigma = self.sigma
        if sigma == "auto":
            sigma = SIGMA_FACTOR * neighbour_graph.variance_bound(edges, lengths, len(X))
        self.sigma_ = float(sigma)
        reference = zeros(1, float64(X[:1]))
        first, basis = self._basis(points, edges, lengths)
        pairs = np.sort(first[edges], axis=1)
        self.edges_ = np.unique(pairs[pairs[:, 0] < pairs[:, 1]], axis=0)
        a, b = self.edges_.T
        lengths = np.linalg.norm(points[a] - points[b], axis=1)
        nodes = EdgeOperator(self.edges_, len(X), reference)
        operator: Operator = nodes
        if basis is not None:
            basis = like(basis, reference)
            operator = ReducedEdges(nodes, basis)
        error = (points.shape[1] + ROUNDINGS) * np.finfo(float).eps
        equal = self.constraint == "equal"
        problem = UnfoldingProgram(operator, lengths**2, self.sigma_, equal, error=error)
        face = self._face(points, lengths, first)
        feasible = [like(rows, reference) for rows in self._feasible_rows(points, face)]
        problem.known_value = min(map(problem.value, feasible), default=np.inf)
        results = self._solve_ways(problem, basis, face, feasible)
        result = self._combined(results, problem)
        for rows in feasible:
            result = self._better(result, rows, problem, basis)
        certificate = result.certificate
        if certificate.status in SHORT_OF_TOL:
            self._solver(problem).warn(certificate, result.n_iter, type(self).__name__)
        return self._store(X, result)

    def _basis(
        self, points: np.ndarray, edges: np.ndarray, lengths: np.ndarray
    ) -> tuple[np.ndarray, Any]:
        """Return for each row the first with which it coincides; and a basis of the functions that
        landmarks determine, or that are constant on rows that coincide; None for all functions.
        """
        first = neighbour_graph.coincident_pieces(edges, lengths, points)
        self.landmarks_ = None
        if self.n_landmarks is not None:  # also the same where rows nearly coincide
            joined = neighbour_graph.joined_pieces(edges[nearly_coincident(lengths, points)], first)
            order = check_random_state(self.random_state).permutation(len(points))
            self.landmarks_ = order[joined[order] == order][: self.n_landmarks]
            centred = points - points.mean(0)
            basis = neighbour_graph.landmark_basis(
                centred, self.landmarks_, self.n_neighbors, joined
            )
            return first, basis
        if (first == np.arange(len(points))).all():
            return first, None
        return first, neighbour_graph.coincidence_basis(first)

    def _face(self, points: np.ndarray, lengths: np.ndarray, first: np.ndarray) -> Face | None:
        """Return the face that the kernels are sought on first; None if that is the whole cone."""
        if self.constraint == "equal":
            # with the edges of length zero, which make cliques flat
            copies = np.flatnonzero(first != np.arange(len(first)))
            copied = np.column_stack([first[copies], copies])
            return rigid_face(np.vstack([self.edges_, copied]), points)
        if self.landmarks_ is not None:
            return None
        return neighbour_graph.joined_face(self.edges_, lengths, first, points)

    def _solve_ways(
        self, problem: UnfoldingProgram, basis: Any, face: Face | None, feasible: list[Any]
    ) -> list[SolveResult]:
        """Return the results of solving on the face that flat cliques leave the kernels, or that joins points
        which nearly coincide; and, unless that converges, on all kernels, where the bound may be
        better.
        """
        if face is None:
            return [self._solve(problem, problem, basis, feasible)]
        on_face = UnfoldingOnFace(problem, face)
        result = self._solve(on_face, problem, on_face.basis, feasible)
        results = [replace(result, dual_point=on_face.multipliers)]
        primal = result.certificate.primal
        bound = problem.bound(on_face.multipliers)
        if result.certificate.violation <= self.tol:
            problem.known_value = min(problem.known_value, primal)
        # what is feasible is on the face: other kernels have a better bound, and no better point
        gaps = [abs(relative_gap(value, bound)) for value in (primal, problem.known_value)]
        many = problem.operator.n_constraints > INTERIOR_UP_TO["equal"]
        if min(gaps) > self.tol and not many and result.status in SHORT_OF_TOL:
            results.append(self._solve(problem, problem, basis, feasible))
        return results

    def _combined(self, results: list[SolveResult], problem: UnfoldingProgram) -> SolveResult:
        """Return the result with the best point, and the best of their bounds."""
        if len(results) == 1 or results[-1].status not in (*SHORT_OF_TOL, Status.CONVERGED):
            return results[-1]
        # a point and a bound may come of different solves: both are of the same program
        u = max((result.dual_point for result in results), key=problem.bound)
        dual = problem.bound(u)
        candidates = []
        for result in results:
            own = result.certificate
            bounds = below(own.primal, dual, own.violation)
            certificate = Certificate.from_bounds(bounds, own.status).judged(self.tol)
            candidates.append(replace(result, certificate=certificate, dual_point=u))
        return min(candidates, key=lambda result: result.certificate.error)

    def _solver(self, problem: UnfoldingProgram) -> Solver:
        """Return the interior-point method, unless there are too many edges for it."""
        if problem.operator.n_constraints <= INTERIOR_UP_TO[self.constraint]:
            return InteriorPoint(self.tol, self.max_iter)
        return LowRankLagrangian(self.tol, self.max_iter)

    def _solve(
        self, problem: UnfoldingProgram, whole: UnfoldingProgram, basis: Any, feasible: list[Any]
    ) -> SolveResult:
        """Solve a program over kernels in this basis; the result keeps a factor of the whole kernel."""

        def keep(L: Array) -> Pair:
            """Return a factor of the whole kernel as it is stored, and the same in the basis."""
            if basis is None:
                factor = spectral.canonical_factor(L - L.mean(0))
            else:
                factor = basis @ spectral.canonical_factor(L)
            factor = spectral.with_fixed_signs(factor - factor.mean(0))
            factor = whole.feasible(factor, whole.nodes.forward_factor(factor))
            return factor, _in_basis(factor, basis)

        solver = self._solver(problem)
        start = None
        with blas_threads_for(problem.dense_work):
            if whole.equality and isinstance(solver, InteriorPoint):
                start = self._interior_start(problem, basis, feasible)
            return self._run(solver, problem, keep=keep, start=start, retried=True)

    def _interior_start(self, problem: UnfoldingProgram, basis: Any, feasible: list[Any]) -> Array:
        """Return a factor that the interior-point method starts near: of the rows, or a wider one."""
        if problem.operator.n_constraints <= ROUGH_FROM:
            return _in_basis(feasible[0], basis)
        *_, rough = islice(LowRankLagrangian(self.tol).steps(problem, None), ROUGH)
        return rough.primal_point

    def _feasible_rows(self, points: np.ndarray, face: Face | None) -> Iterator[np.ndarray]:
        """Yield the rows of X, which keep every distance, and those with near copies joined."""
        if self.landmarks_ is not None:
            return
        centred = points - points[0]
        yield centred - centred.mean(0)
        if self.constraint == "at_most" and face is not None:
            yield face.basis @ (face.basis.T @ centred)

    def _better(
        self, result: SolveResult, rows: Array, problem: UnfoldingProgram, basis: Any
    ) -> SolveResult:
        """Return the result, or centred ``rows`` if these have a larger variance."""
        axes = namespace(rows).linalg.svd(rows, full_matrices=False)[2]
        factor = spectral.with_fixed_signs(rows @ axes.T)
        factor = problem.feasible(factor, problem.nodes.forward_factor(factor))
        bounds = problem.certify(_in_basis(factor, basis), result.dual_point)
        own = Certificate.from_bounds(bounds, result.status)
        larger = own.primal < result.certificate.primal and own.violation <= self.tol
        enough = own.meets(self.tol) and not result.certificate.meets(self.tol)
        if not (larger or enough):
            return result
        return replace(result, certificate=own.judged(self.tol), kept=factor)

    def _validate(self, X: Any) -> Any:
        """Return X, checked, also for what the parameters ask of it."""
        X = validate_points(self, X, reset=True, min_samples=3)
        n = X.shape[0]
        for name in ("n_neighbors", "n_components"):
            if getattr(self, name) >= n:
                raise ValueError(
                    f"{name}={getattr(self, name)} must be less than the {n} samples of X; lower it."
                )
        if rows_coincide(X):
            raise ValueError("All samples of X coincide; there is nothing to unfold.")
        if self.n_landmarks is not None:
            if self.constraint == "equal":
                raise ValueError("n_landmarks goes with constraint='at_most'; use that, or None.")
            if not self.n_components < self.n_landmarks <= n:
                raise ValueError(
                    f"n_landmarks={self.n_landmarks} must be more than n_components="
                    f"{self.n_components} and at most the {n} samples of X."
                )
        return X

    def _store(self, X: Any, result: SolveResult) -> Self:
        """Store the result, and rows to place new points by."""
        factor = result.kept
        # if the kernel has a lower rank, the other coordinates are zero
        if factor.shape[1] < self.n_components:
            missing = like(np.zeros((len(factor), self.n_components - factor.shape[1])), factor)
            factor = namespace(factor).concatenate([factor, missing], 1)
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
        centre = self._X.mean(0, dtype=np.float64)  # from which far rows would lose digits
        X = X - centre
        known_points = self._X - centre
        neighbour, distance = nearest(X, known_points, self.n_neighbors)
        weights = barycenter_weights(X, known_points, neighbour, reg=neighbour_graph.RIDGE)
        weights[distance[:, 0] == 0] = np.eye(1, weights.shape[1])  # the nearest alone
        places = to_numpy(self._factor)[:, : self.n_components][neighbour]
        return like(np.einsum("ij,ijc->ic", weights, places), given)

    def kernel_matrix(self) -> Any:
        """Return the learned kernel K (n, n) with all its eigenvalues; the embedding shows the
        largest ``n_components``.
        """
        check_is_fitted(self)
        return self._factor @ self._factor.T

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _in_basis(factor: Array, basis: Any) -> Array:
    """Return a factor over all rows as one in the basis, if there is one."""
    return factor if basis is None else basis.T @ factor
