"""DML-eig: distance metric learning by eigenvalue optimisation from pairs (Ying & Li 2012)."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

from ...constraints.constraints import Constraints
from ...core.arrays import Array, DType, is_dask, like
from ...core.atomic import atomic_fit
from ...core.sklearn_private import Interval
from ...core.warn import warn_user
from ...engine.certificate import Bounds, Certificate
from ...engine.eigenvalue_program import EigenvalueProgram
from ...engine.losses import weighted_sum
from ...engine.operators import from_pairs
from ...engine.operators.span import Coordinates
from ...engine.proximal_point import ProximalPoint
from ...engine.solver import SolveResult
from ...estimators.supervised import SupervisedMetric, Supervision
from ...estimators.tuples import check_calibration_of_fit
from .program import DMLEigProgram


@dataclass(eq=False, repr=False)
class EigenvalueMetric(SupervisedMetric):
    """Base of DMLEig and LMNNEig: whitens X by the similar pairs, and solves there."""

    _: KW_ONLY
    ridge: float = 1e-8

    _parameter_constraints = {
        "ridge": [Interval(Real, 0, None, closed="neither")],
        **SupervisedMetric._parameter_constraints,
    }
    _meant_for: ClassVar[str]
    _takes_dask = True
    _depends_on_scales = False  # X is whitened

    def _from_labels(self, given: Supervision) -> Constraints:
        """Return the constraints that the labels give, with a warning that they seldom suit."""
        found = super()._from_labels(given)
        # no setting was found that does no harm where classes overlap
        if given.neighbors is not None or found.labels is not None or is_dask(given.X):
            warn_user(
                f"{type(self).__name__} is meant for given {self._meant_for}; from labels it is "
                "often worse than the Euclidean distance where classes overlap. Prefer AutoMetric "
                "or FrobMetric there, or compare it with the Euclidean distance on held-out rows."
            )
        return found

    def _solve(
        self, problem: EigenvalueProgram, whitened: Coordinates, dtype: DType
    ) -> SolveResult:
        """Return the solution, certified as it is stored in ``dtype``."""
        solved = problem.operator.reference
        keep = self._keep(like(solved, solved, dtype), whitened)
        return self._run(ProximalPoint(self.tol, self.max_iter), problem, keep=keep)


@dataclass(eq=False, repr=False)
class DMLEig(EigenvalueMetric):
    """Mahalanobis metric that keeps the closest dissimilar pair as far apart as possible,
    for a fixed sum of the squared distances of the similar pairs.

    Solves, over positive semidefinite M, with X_S the scatter matrix of the similar
    pairs (plus a ridge), ::

        max min over dissimilar pairs of d' M d   subject to   <X_S, M> = 1

    and proves how far from the optimum it stopped (``certificate_``).

    Meant for given pairs. It also learns from labels, with a warning: where classes overlap,
    no setting was found that is as good as the Euclidean distance; use `AutoMetric` or
    `FrobMetric` there.

    Parameters
    ----------
    ridge : float, default=1e-8
        Added to the diagonal of X_S, relative to the diagonal that as many pairs of random
        rows would have. Raise it when X has more features than similar pairs: X_S is then
        singular, and M is confined to directions in which similar pairs do not differ.
    n_targets : int, default=3
    n_impostors : int or "auto", default=3
        From labels: nearest points of the same class that each point forms similar pairs
        with, and of others for dissimilar pairs. With many features and few rows the optimum
        rests on a few pairs and overfits; more impostors help (280 faces in 64 dimensions: a
        3-NN error of 7.1 and 3.1 % with 3 and 30).
    kernel, n_references, n_components, preprocessor, tol, max_iter, random_state, verbose
        As in `FrobMetric`.
    class_weight : "balanced", dict or None, default=None
        From labels: factors of the weights of the classes, which `fit` explains.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    objective_ : float
        The smallest squared distance of a dissimilar pair. 0 if one such pair coincides:
        every metric is then optimal, and the learned one is that of the other pairs. So it is
        if a pair coincides up to rounding, which a warning says; `certificate_` then has the
        gap of that metric, and a bound from the closest pair.
    certificate_ : Certificate
        Of a maximisation, so both signs are changed: ``primal = -objective_``, and ``-dual``
        is a proven upper bound on the optimum.
    n_iter_, history_
        Number of iterations, values per iteration.
    multipliers_ : array (m,)
        Dual solution, one multiplier per dissimilar pair, up to scale.
    pairs_, similar_ : integer array (m, 2), boolean array (m,)
    n_references_ : int or None
        As in `FrobMetric`.
    similar_scatter_ : array (n_features, n_features) or None
        X_S with its ridge; None if X has more features than rows.
    threshold_ : float
        When fitted to given pairs: the distance up to which `predict` calls a pair similar, the
        best on these pairs. It suits them better than new ones: with enough pairs, set it by held-out
        ones, with `calibrate_threshold`. Dask collections set none.

    References
    ----------
    Ying & Li, "Distance Metric Learning with Eigenvalue Optimization", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import DMLEig
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = DMLEig(n_impostors=1).fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> metric = DMLEig().fit(X, pairs=[[0, 1], [50, 51], [0, 50], [1, 51]], similar=[1, 1, 0, 0])
    >>> metric.predict(X[[[2, 3], [2, 52]]])
    array([ 1, -1])
    """

    _meant_for = "pairs"
    _widths = (2,)
    _fixed_trace = True
    _learns_from_quantities = False

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(  # noqa: PLR0913
        self,
        X: Any,
        y: Any = None,
        *,
        pairs: Any = None,
        similar: Any = None,
        neighbors: Any = None,
        sample_weight: Any = None,
        calibration_params: dict[str, Any] | None = None,
        checkpoint: str | None = None,
        target: str = "auto",
    ) -> Self:
        """Learn the metric from labels or pairs.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features) or (m, 2, n_features)
            Rows; or pairs of points. With a ``preprocessor``, integers (m, 2) that refer to
            the points.
        y : array-like (n,) or (m,), default=None
            Class labels of rows; or which pairs of points are similar, as in ``similar``.
        pairs : integer array-like (m, 2), default=None
            Used instead of y: pairs of rows of X.
        similar : array-like (m,), default=None
            Which of the pairs are similar; the others are dissimilar: True and False, 1 and 0, or +1
            and -1.
        neighbors, checkpoint, target
            As in `FrobMetric.fit`; a quantity y is refused.
        sample_weight : array-like (n,) or (m,), default=None
            Weights of the rows, with labels: a pair weighs as much as its first row. Or
            weights of the pairs. They multiply the similar pairs in X_S; dissimilar pairs
            are only left out if their weight is 0, since the closest alone decides.
        calibration_params : dict, default=None
            Arguments of `calibrate_threshold` with the given pairs. Strategies with
            a guarantee need other pairs than those of ``fit``: call it after ``fit``.

        Returns
        -------
        self
        """
        calibration = calibration_params or {}
        check_calibration_of_fit(calibration)
        supervision = Supervision(X, y, pairs, similar, neighbors, sample_weight, target)
        given = self._constraints(supervision, checkpoint)
        dissimilar = given.narrowed(_dissimilar)
        if dissimilar is None:
            raise ValueError("there are no dissimilar pairs; pass pairs of both kinds.")
        coincide = dissimilar.over(_coincide)
        n_coinciding = int(dissimilar.space.sum(weighted_sum, coincide))
        if n_coinciding == dissimilar.n_constraints:
            raise ValueError(
                f"all {n_coinciding} dissimilar pairs join coinciding points; pass pairs of "
                "different rows."
            )
        whitened, self.similar_scatter_ = given.whitened(_similar_pairs, self.ridge)
        problem = DMLEigProgram(dissimilar.operator(from_pairs, whitened), given.dtype)
        result, n_left_out = self._solve_apart(problem, dissimilar, whitened, given.dtype)
        if n_coinciding:
            result = _certified_by_zero(result, coincide, n_coinciding, dissimilar.n_constraints)
        elif n_left_out:
            result = self._certified_by_closest(result, problem, n_left_out)
        if given.row_numbers is not None:
            self.pairs_ = given.row_numbers
            self.similar_ = given.similar
            self.multipliers_ = result.dual_point
        self._store(problem, result, whitened)
        self.objective_ = -self.certificate_.primal
        if given.row_numbers is not None:
            self._calibrate_by_fit(supervision, given, calibration)
        return self

    def _solve_apart(
        self, problem: DMLEigProgram, dissimilar: Constraints, whitened: Coordinates, dtype: DType
    ) -> tuple[SolveResult, int]:
        """Return the solution without pairs that coincide up to rounding, and how many those are.

        They are kept, and none are counted, if all pairs coincide so.
        """
        near: Any = problem.nearly_coinciding()
        n_near = int(dissimilar.space.sum(weighted_sum, near))
        if not 0 < n_near < dissimilar.n_constraints:
            return self._solve(problem, whitened, dtype), 0
        apart = dissimilar.without(near)
        rest = DMLEigProgram(apart.operator(from_pairs, whitened), dtype)
        return self._solve(rest, whitened, dtype), n_near

    def _certified_by_closest(
        self, result: SolveResult, problem: DMLEigProgram, n_left_out: int
    ) -> SolveResult:
        """Return the result with the bounds that the closest pair gives, and warn."""
        warn_user(
            f"{n_left_out} of the {problem.operator.n_constraints} dissimilar pairs coincide up to "
            "rounding, so the optimum is that of the closest of them, nearly 0; the metric "
            "returned is that of the other pairs. Drop such pairs, or rows that are nearly "
            "copies, to certify it."
        )
        bounds, closest = problem.certify_by_closest(result.primal_point)
        certificate = Certificate.from_bounds(bounds, result.status).judged(self.tol)
        return replace(result, dual_point=closest, certificate=certificate)


def _certified_by_zero(
    result: SolveResult, coincide: Array, n_coinciding: int, n_pairs: int
) -> SolveResult:
    """Return the result as the optimum, 0 where dissimilar pairs ``coincide``, and warn."""
    warn_user(
        f"{n_coinciding} of the {n_pairs} dissimilar pairs join coinciding points, so the "
        "optimum is 0 for any metric; the one returned is that of the other pairs. Drop "
        "contradicting duplicates from X to certify it."
    )
    zero = Certificate.from_bounds(Bounds(0.0, 0.0), result.status)
    return replace(result, dual_point=coincide, certificate=zero)


# ---- functions of all pairs, or of those of a block


def _similar_pairs(
    index: Array, similar: Array, weights: Array | None
) -> tuple[Array, Array | None]:
    """Return the similar pairs and their weights, if there are any."""
    if weights is None:
        return index[similar], None
    return index[similar], weights[similar]


def _dissimilar(points: Array, index: Array, similar: Array) -> Array:
    return index[~similar]


def _coincide(points: Array, index: Array, similar: Array) -> Array:
    """Return 1 for each pair of coinciding points, else 0."""
    operator = from_pairs(points, index)
    return like(operator.combine(operator.pair_lengths) == 0, operator.reference)
