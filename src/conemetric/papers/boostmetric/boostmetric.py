"""BoostMetric: a metric boosted from rank-one learners, Shen et al. (2012)."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...constraints.constraints import Constraints
from ...constraints.in_memory import ConstraintsInMemory, triplets_from_neighbours
from ...core import spectral
from ...core.arrays import Array, float64, like, to_numpy
from ...core.sklearn_private import Interval, StrOptions
from ...core.vectors import total
from ...engine.certificate import Status, relative_gap
from ...engine.losses import Logistic, LogSumExp, weighted_sum
from ...engine.operators import Operator, from_triplets
from ...engine.operators.span import Coordinates, Matrix
from ...engine.solver import Solver, SolveResult
from ...estimators.triplet_metric import TripletMetric
from .column_generation import ColumnGeneration
from .price_search import PriceSearch
from .program import TraceProgram
from .soft_margin import SoftMarginProgram

PROGRAMS: dict[str, Callable[..., Any]] = {
    "exponential": partial(TraceProgram, loss=LogSumExp()),
    "logistic": partial(TraceProgram, loss=Logistic()),
    "hinge": SoftMarginProgram,
}

# v="scale", relative to the v from which M = 0 is optimal: small enough to follow the
# triplets, large enough to converge
SCALE_FREE_V = 0.01
# v="scale" with the hinge: make the mean of this share of the margins, the smallest, large
SHARE_OF_MARGINS = 0.1
ROUNDING = 10  # of A*(u), in units of eps times the sum of the sizes of its terms


@dataclass(eq=False, repr=False)
class BoostMetric(TripletMetric):
    """Mahalanobis metric boosted from rank-one learners, with exponential, logistic or
    hinge loss on triplets.

    Solves, over positive semidefinite M, with margins rho = d_ik' M d_ik - d_ij' M d_ij
    of the triplets (i, j, k), ::

        exponential   min log sum exp(-rho) + v Tr M
        logistic      min sum log(1 + exp(-rho)) + v Tr M
        hinge         max r - v sum max(0, r - rho)   with Tr M = 1

    and proves how far from the optimum it stopped (``certificate_``). Each iteration adds the
    rank-one matrix that the current multipliers favour most; the hinge is solved without such
    learners. With weights, every term of a sum is multiplied by the weight of its triplet.

    Parameters
    ----------
    v : float or "scale", default="scale"
        Weight of the trace, in the units of squared distances. "scale" is a hundredth of
        the v from which the zero metric is optimal, so that the fit does not depend on the
        units of X. With a much smaller v (the paper's 1e-7) the number of iterations
        regularises, as in AdaBoost; if all triplets can be satisfied, the exponential
        program then has no minimum, and the certificate has no bound. With the hinge v is the
        weight of slack, at least 1 / (number of triplets) and ten times that for "scale": the
        mean of the smallest tenth of the margins is maximised.
    loss : {"logistic", "exponential", "hinge"}, default="logistic"
    solver : {"corrective", "stagewise"}, default="corrective"
        "corrective" optimises all weights in every iteration; "stagewise" only that of the
        new learner, which is cheaper and seldom reaches ``tol``. The hinge, which has no
        learners, ignores it.
    n_passes : int, default=1
        Passes over the data, from labels only: each finds new triplets, and solves its program,
        over X as mapped by the metric learned so far; its M and trace are those over the mapped
        features. Passes end early when the triplets or the objective stay the same.
    max_iter : int, default=1000
        Maximum number of iterations per pass, hence of learners.
    n_targets : int, default=3
    n_impostors : int or "auto", default=3
        From labels: nearest points of its class, and of others, that a point forms triplets with.
    kernel, n_references, class_weight, n_components, preprocessor
        As in `FrobMetric`.
    tol : float, default=1e-3
        Certified relative gap, and relative excess of lambda_max(A*(u)) over v, at which to stop.
    random_state : int, RandomState or None, default=None
        For references; the rest is deterministic.
    verbose : int, default=0
        As in `FrobMetric`.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Of the last pass (see ``n_passes``). With the exponential loss ``gap`` is proven against
        metrics of no larger trace (the Frank-Wolfe gap), ``violation`` is the relative excess of
        lambda_max(A*(u)) over v, and there is no bound (-inf) if that is above 0.1.
    v_ : float
        The v used in the last pass, in the units of X; after a first pass, of X as mapped by it.
    objective_, n_iter_, history_
        Objective of the last pass, iterations of all passes, values per iteration
        (``history_["pass"]`` numbers the passes).
    n_passes_ : int
        Number of passes made.
    triplets_ : integer array (m, 3)
        Triplets of the last pass.
    n_references_ : int or None
        As in `FrobMetric`.

    References
    ----------
    Shen, Kim, Wang & van den Hengel, "Positive Semidefinite Metric Learning Using
    Boosting-like Algorithms", JMLR 13, 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import BoostMetric
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = BoostMetric(v=1.0, loss="logistic", solver="corrective").fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    """

    v: float | str = "scale"
    _: KW_ONLY
    loss: str = "logistic"
    solver: str = "corrective"
    n_passes: int = 1
    max_iter: int = 1000

    _remedy = "a lower v, " + TripletMetric._remedy
    _takes_dask = True
    # the hinge sorts the margins of all triplets
    _dask_needs = {"n_passes": (1,), "loss": ("logistic", "exponential")}
    _parameter_constraints = {
        "v": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "loss": [StrOptions(set(PROGRAMS))],
        "solver": [StrOptions({"stagewise", "corrective"})],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        **TripletMetric._parameter_constraints,
    }

    def _learn(self, given: Constraints) -> Self:
        if self.n_passes > 1 and given.labels is None:
            raise ValueError(
                f"n_passes={self.n_passes} finds new triplets from labels; pass y alone, with "
                "classes, or n_passes=1 with triplets or neighbors."
            )
        self._passes = []
        self._fixed_trace = self.loss == "hinge"
        # a trace of one would go where no rows differ, if no metric does better
        coordinates = given.coordinates(spanned=True, always=self._fixed_trace)
        solver = self._solver()
        results: list[SolveResult] = []
        while len(results) < self.n_passes:
            if results:
                earlier = given.index
                given = self._with_new_triplets(given, coordinates.points)
                if _same_rows(earlier, given.index):
                    break
            operator = given.operator(from_triplets, coordinates).astype(given.dtype)
            self.v_ = self._v(operator, given.weights)
            problem = PROGRAMS[self.loss](operator, self.v_, weights=given.weights)
            result = self._run(solver, problem, keep=self._keep(operator.reference, coordinates))
            self._passes.append((coordinates.without_points(), result.state))
            results.append(result)
            solved = coordinates
            # a metric of rank zero maps all rows to one point, among which there is no neighbour
            if result.kept.shape[1] == 0 or result.status is Status.INTERRUPTED:
                break
            if len(results) > 1 and self._same_objective(*results[-2:]):
                break
            # over the features the metric of the next pass is F M F', with F = `kept`
            mapped = solved.points @ like(result.primal_point, solved.points)
            coordinates = Coordinates(mapped, (Matrix(float64(result.kept)),))
        if given.row_numbers is not None:
            self.triplets_ = given.row_numbers
        self.n_passes_ = len(results)
        return self._store(problem, _concatenated(results), solved)

    def _solver(self) -> Solver:
        """Return the method for the loss."""
        if self._fixed_trace:
            return PriceSearch(self.tol, self.max_iter)
        return ColumnGeneration(self.tol, self.max_iter, corrective=self.solver == "corrective")

    def _with_new_triplets(self, given: Constraints, points: Array) -> Constraints:
        """Return the constraints with the triplets that the labels give among the mapped points."""
        assert isinstance(given, ConstraintsInMemory)  # blocks have no labels
        index = triplets_from_neighbours(*self._neighbours(points, given.labels))
        weights = given.point_weights
        if weights is not None:  # a triplet weighs as much as its first point
            weights = weights[index[:, 0]]
        return replace(given, index=index, weights=weights)

    def _same_objective(self, last: SolveResult, result: SolveResult) -> bool:
        change = relative_gap(last.certificate.primal, result.certificate.primal)
        return abs(change) <= self.tol

    def _v(self, operator: Operator, weights: Array | None) -> float:
        """Return ``v``; for "scale", `SCALE_FREE_V` times the v from which M = 0 is optimal."""
        if not isinstance(self.v, str):
            return float(self.v)
        if self.loss == "hinge":
            return _hinge_v(operator, weights)
        program = PROGRAMS[self.loss](operator, 1.0, weights=weights)
        # M = 0 is optimal if its own multipliers are dual feasible: lambda_max(A*(u)) <= v
        _, u, _ = program.evaluate(operator.empty_constraint_vector())
        adjoint, (size,) = operator.adjoint_and(u, total(weighted_sum, u, operator.row_sizes))
        leading = spectral.largest_eigenvalue(adjoint)
        if leading > ROUNDING * operator.eps * size:
            return float(SCALE_FREE_V * leading)
        return 1.0  # M = 0 is optimal for every v, up to rounding

    def staged_metrics(self) -> Iterator[Any]:
        """Yield the metric after each iteration of each pass, as an array C (learners,
        n_features) like ``components_``: M = C' C. Not with the hinge loss.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from conemetric import BoostMetric
        >>> X, y = load_iris(return_X_y=True)
        >>> metric = BoostMetric(v=1.0, loss="logistic", max_iter=3, tol=0.5).fit(X, y)
        >>> [C.shape for C in metric.staged_metrics()]
        [(1, 4), (2, 4), (3, 4)]
        """
        check_is_fitted(self)
        if self._fixed_trace:
            raise ValueError(
                "loss='hinge' is solved without learners, so there are no stages; pass "
                "loss='logistic' or 'exponential'."
            )
        for coordinates, ensemble in self._passes:
            for stage in range(1, ensemble.n_stages + 1):
                yield coordinates.lift(ensemble.factor(stage)).T


def _hinge_v(operator: Operator, weights: Array | None) -> float:
    """Return the cost of slack that averages the smallest `SHARE_OF_MARGINS` of the margins."""
    if weights is None:
        m = float(operator.n_constraints)
    else:
        m = float(float64(weights).sum())
    return max(1.0, min(m, 1 / SHARE_OF_MARGINS)) / m


def _same_rows(old: Array, new: Array) -> bool:
    """Return whether both arrays have the same rows, in any order."""
    return np.array_equal(np.unique(to_numpy(old), axis=0), np.unique(to_numpy(new), axis=0))


def _concatenated(results: list[SolveResult]) -> SolveResult:
    """Return the last pass's result, with the history of all passes."""
    columns: dict[str, list[Array]] = defaultdict(list)
    for number, result in enumerate(results):
        n_iterations = len(result.history["iteration"])
        numbers = np.full(n_iterations, number)
        for name, values in {**result.history, "pass": numbers}.items():
            columns[name].append(values)
    history = {name: np.concatenate(parts) for name, parts in columns.items()}
    n_iter = sum(result.n_iter for result in results)
    return replace(results[-1], n_iter=n_iter, history=history)
