"""FrobMetric: the Frobenius-regularised large-margin metric of Shen et al. (2014)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

from ...constraints.constraints import Constraints
from ...constraints.in_memory import find_rows
from ...core import spectral
from ...core.arrays import Array, Pair, float64, like, namespace
from ...core.sklearn_private import Interval, StrOptions
from ...engine.dual_quasi_newton import DualQuasiNewton
from ...engine.frobenius import FrobeniusProgram
from ...engine.operators import Operator, from_triplets
from ...engine.operators.span import Coordinates
from ...estimators.prior import PRIOR_PARAMETERS, prior_matrix
from ...estimators.scale import check_range_of_C, mean_impostor_distance, scaled_C
from ...estimators.triplet_metric import TripletMetric


class PreviousFit(NamedTuple):
    """What a warm start takes from the fit before."""

    triplets: Any
    shares: Any  # their multipliers, relative to the largest that C and their weights allow


@dataclass(eq=False, repr=False)
class FrobMetric(TripletMetric):
    """Mahalanobis metric that puts each point's targets nearer than its impostors,
    regularised by its Frobenius norm.

    Solves, over positive semidefinite M and triplets (i, j, k), ::

        min 1/2 ||M - M0||_F^2 + (C/m) sum loss(d_ik' M d_ik - d_ij' M d_ij)

    in the dual, with M0 = 0 unless a ``prior`` is given, and proves how far from the optimum
    it stopped (``certificate_``). With weights, the mean of the loss is a weighted mean.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the mean loss (`RelativeComparisons` weighs the sum instead). "scale"
        makes the fit independent of the units of X: C = 30 D / s^4, with D the number of
        features and s^2 the mean squared Euclidean distance of the impostor pairs.
    kernel : {"gaussian", "laplacian", "cosine"}, callable, KernelCoordinates or None, default=None
        Learn in the coordinates of this kernel instead of the columns of X: the metric is then the
        best one in the kernel's space, or in the span of its landmarks, and is not linear in the
        columns. A name stands for `KernelCoordinates` with its defaults. Standardise the columns
        first. None learns in the columns.
    prior : None, "identity", array-like (n_features, n_features) or fitted metric, default=None
        M0, the metric to stay near: the smaller C, the nearer. "identity" is the Euclidean
        distance, M0 = I / s^2. A metric learned before, or its matrix, is updated.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        Of a margin rho: max(0, 1 - rho), half its square, or log(1 + exp(-rho)).
    n_targets : int, default=3
        From labels: nearest points of the same class that each point forms triplets with.
    n_impostors : int or "auto", default="auto"
        From labels: nearest points of other classes. "auto" takes 3, or up to 10 where
        classes overlap (see "Why these defaults").
    n_references : int, "auto" or None, default="auto"
        Search for neighbours among a random sample of this many rows, stratified by class; None for
        all rows. "auto" takes all, or 20,000 of a dask collection of more than 200,000.
    class_weight : "balanced", dict or None, default=None
        From labels: factors of the weights of the classes. "balanced" gives every class the
        same total weight.
    n_components : int, default=None
        Keep this many leading directions of the learned metric; None keeps all.
    preprocessor : array-like (n, n_features) or callable, default=None
        Points that tuples refer to by row number or name.
    tol : float, default=1e-3
        Certified relative gap at which to stop.
    max_iter : int, default=1000
        Maximum number of iterations of the solver.
    warm_start : bool, default=False
        Start from the multipliers of the previous fit, where triplets are the same.
    random_state : int, RandomState or None, default=None
        For references; the rest is deterministic.
    verbose : int, default=0
        Print progress: every 10th iteration for 1, every iteration for 10.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Objective, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, number of iterations, values per iteration.
    C_ : float
        The C used, in the units of X.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet (with the hinge between 0 and C/m).
    triplets_ : integer array (m, 3) or (m, 4)
    n_references_ : int or None
        Size of the random sample among which neighbours were searched; None if it was all rows.
    kernel_coordinates_ : KernelCoordinates or None
        With a ``kernel``: what maps rows before ``components_``, which has a column per coordinate.
    threshold_ : float
        When fitted to pairs: the distance up to which `predict` calls a pair similar, as in `DMLEig`.

    References
    ----------
    Shen, Kim, Liu, Wang & van den Hengel, "Efficient Dual Approach to Distance Metric
    Learning", IEEE TNNLS 25(2), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from conemetric import FrobMetric
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = FrobMetric().fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> make_pipeline(FrobMetric(), KNeighborsClassifier(3)).fit(X, y).score(X, y) > 0.95
    True
    """

    C: float | str = "scale"
    _: KW_ONLY
    prior: Any = None
    loss: str = "hinge"
    n_impostors: int | str = "auto"
    warm_start: bool = False

    _remedy = 'prior="identity", fewer targets or more impostors (n_targets, n_impostors)'
    _takes_dask = True
    _dask_needs = {"warm_start": (False,)}  # blocks keep no multipliers
    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        **PRIOR_PARAMETERS,
        "loss": [StrOptions({"hinge", "squared_hinge", "logistic"})],
        **TripletMetric._parameter_constraints,
        "warm_start": ["boolean"],
    }

    def _learn(self, given: Constraints) -> Self:
        span, operator = self._operator(given)
        C = self.C
        if isinstance(C, str):
            C = scaled_C(operator, self._n_columns, given.weights)
        self._fit_operator(span, operator, given, float(C), self._previous_multipliers(given, C))
        return self

    def _operator(self, given: Constraints) -> tuple[Coordinates, Operator]:
        """Return coordinates of the rows, and the operator over them."""
        linear_prior = self.prior is not None and not isinstance(self.prior, str)
        if self.kernel is not None and linear_prior:
            raise ValueError(
                "prior is a metric of the columns of X, and kernel replaces these by coordinates; pass "
                "prior='identity' or None with a kernel."
            )
        # the optimum lies in the span of the rows, outside of which the identity stays as it is
        span = given.coordinates(spanned=not linear_prior)
        return span, given.operator(from_triplets, span).astype(given.dtype)

    def _fit_operator(
        self,
        span: Coordinates,
        operator: Operator,
        given: Constraints,
        C: float,
        start: Array | None,
    ) -> Any:
        """Learn from an operator and store everything; return the multipliers."""
        check_range_of_C(C, operator)
        size = 1.0
        if isinstance(self.prior, str):
            size = mean_impostor_distance(operator, given.weights, "prior")
        prior = prior_matrix(self.prior, operator.reference, operator.n_features, size)
        program = FrobeniusProgram(operator, C, self.loss, prior, given.weights)
        solver = DualQuasiNewton(tol=self.tol, max_iter=self.max_iter)
        level = 0.0
        if prior is not None and span.maps:  # the prior is a multiple of I
            level = float(prior[0, 0])
        if level:
            keep = _keep_beyond(operator.reference, span, level)
        else:
            keep = self._keep(operator.reference, span)
        result = self._run(solver, program, start=start, keep=keep)
        self.C_ = C
        self._previous: PreviousFit | None = None
        if given.row_numbers is not None:
            self.multipliers_ = result.dual_point
            self.triplets_ = given.row_numbers
            self._previous = PreviousFit(self.triplets_, result.dual_point / program.unit)
        self._store(program, result, span, level)
        return result.dual_point

    def _previous_multipliers(self, given: Constraints, C: float) -> Any:
        """Return multipliers of the last fit for the new C and weights, 0 for new triplets; None if cold."""
        previous = getattr(self, "_previous", None)
        triplets = given.row_numbers
        if not self.warm_start or previous is None:
            return None
        if previous.triplets.shape[1] != triplets.shape[1]:
            return None
        # shares of the largest that C and the weights allow, so that both may have changed
        place = find_rows(triplets, like(previous.triplets, triplets))
        weights: Any = 1.0
        if given.weights is not None:
            weights = given.weights / given.weights.mean()
        unit = C / len(triplets) * weights
        shares = like(previous.shares, triplets, given.dtype)
        return namespace(triplets).where(place >= 0, shares[place] * unit, 0.0)


def _keep_beyond(X: Array, span: Coordinates, level: float) -> Callable[[Array], Pair]:
    """Return the same as `MahalanobisMetric._keep`, for a metric that is ``level`` times I outside
    the span.
    """
    # no constraint sees these directions, so that M = M0 = level I is optimal there
    outside = level**0.5 * span.outside()

    def keep(L: Array) -> Pair:
        inside = span.lift(float64(spectral.canonical_factor(L)))
        factor = namespace(X).concat([inside, outside], 1)
        # columns inside and outside are orthogonal, so in order of length they are principal axes
        order = namespace(X).argsort(-(factor * factor).sum(0), stable=True)
        factor = like(spectral.with_fixed_signs(factor[:, order]), X)
        return factor, span.lower(float64(factor))

    return keep
