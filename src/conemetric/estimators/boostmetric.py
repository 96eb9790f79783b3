"""BoostMetric: a metric boosted from rank-one learners, Shen et al. (2012)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..constraints.in_blocks import is_dask
from ..constraints.in_memory import triplets_from_neighbours
from ..core import spectral
from ..core.arrays import float64, like, namespace, to_numpy
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..operators import from_triplets
from ..operators.span import Coordinates, Matrix, lift
from ..problems.losses import Logistic, LogSumExp
from ..problems.soft_margin import SoftMarginProgram
from ..problems.trace import TraceProgram
from ..solvers.base import Certificate, Solver, SolveResult, Status, relative_gap
from ..solvers.column_generation import ColumnGeneration
from ..solvers.linear_column_generation import LinearColumnGeneration
from .base import SOLVER_PARAMETERS
from .supervised import REFERENCE_PARAMETERS, TRIPLET_PARAMETERS, SupervisedMetric

PROGRAMS: dict[str, Callable] = {
    "exponential": partial(TraceProgram, loss=LogSumExp()),
    "logistic": partial(TraceProgram, loss=Logistic()),
    "hinge": SoftMarginProgram,
}

SCALE_FREE_V = 0.01  # small enough to follow the triplets, large enough to converge
SHARE_OF_MARGINS = 0.1  # of all margins, the smallest, that the hinge loss is about


class BoostMetric(SupervisedMetric):
    """Mahalanobis metric boosted from rank-one learners, with exponential, logistic or
    hinge loss on triplets.

    Solves, over positive semidefinite M, with margins rho = d_ik' M d_ik - d_ij' M d_ij
    of the triplets (i, j, k), ::

        exponential   min log sum exp(-rho) + v Tr M
        logistic      min sum log(1 + exp(-rho)) + v Tr M
        hinge         max r - v sum max(0, r - rho)   with Tr M = 1

    (with weights, every term of the sums times the weight of its triplet)
    by adding the rank-one matrix that the present weights of the triplets favour most,
    one per iteration, and returns a proof of how far from the optimum it stopped
    (``certificate_``).

    Parameters
    ----------
    v : float or "scale", default="scale"
        Weight of the trace, in the units of squared distances: against one logarithm of
        a sum (exponential) or against a sum over the triplets (logistic). "scale" is a
        hundredth of the v from which the zero metric is optimal, so that the fit does
        not depend on the units of X. With a much smaller v (the paper's 1e-7) the
        number of iterations is the regulariser, as in AdaBoost; where the triplets can
        all be met, the exponential program then has no minimum, and the certificate's
        status says so. For the hinge loss v is the price of slack, at least 1 / (number
        of triplets) and ten times that for "scale": the mean of the smallest tenth of
        the margins is made large.
    loss : {"logistic", "exponential", "hinge"}, default="logistic"
    solver : {"corrective", "stagewise"}, default="corrective"
        "corrective" re-optimises all weights in every iteration; "stagewise" finds the
        weight of each new learner alone, which is cheaper and seldom reaches ``tol``.
        With the hinge loss each iteration solves a linear program for all weights,
        whatever is given here.
    n_passes : int, default=1
        Passes over the data, from labels only: each finds its triplets anew in the
        space learned so far and boosts there. Passes end early when the triplets or the
        objective stay the same.
    max_iter : int, default=500
        Iterations (learners) per pass.
    n_targets, n_impostors : int, default=3
        Neighbours per point that make its triplets, when fitted from labels.
    n_references : int, "auto" or None, default="auto"
        Rows among which neighbours are searched: a random sample of so many, the same
        part of every class but enough for its targets; None takes all. "auto" takes
        all rows of X in memory and of a dask collection up to 200,000 rows, else 20,000.
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
        Largest certified relative gap, and largest relative excess of lambda_max(A*(u))
        over v, at which to stop.
    n_iter_no_change : int, default=None
        With a number, hold out some points, count how many of their triplets the metric
        gets wrong after each iteration, stop a pass when that has not fallen for so
        many iterations, and return the best metric. None uses all points and all
        iterations.
    validation_fraction : float, default=0.1
        Part of the points held out, when ``n_iter_no_change`` is given.
    random_state : int, RandomState or None
        Which points are held out, references, and an approximate search; the rest is
        deterministic.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Of the last pass. With the exponential loss ``gap`` is proven against metrics of no
        larger trace (the Frank-Wolfe gap), ``violation`` is the relative excess of
        lambda_max(A*(u)) over v, and there is no bound (-inf) where that is above 0.1.
    v_ : float
        The v that was used in the last pass, in the units of X.
    objective_, n_iter_, history_
        Objective of the last pass, iterations of all passes, and scalars per iteration
        (``history_["pass"]`` numbers the passes).
    n_passes_ : int
        Passes made.
    triplets_ : integer array (m, 3)
        Triplets of the last pass.
    neighbor_recall_ : float or None
        Share of the true neighbours that the last search found, 1.0 when exact, measured
        on a sample when approximate; None where nothing was searched.

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

    _remedy = "a lower v, " + SupervisedMetric._remedy
    _takes_dask = True
    _parameter_constraints = {
        "v": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "loss": [StrOptions(set(PROGRAMS))],
        "solver": [StrOptions({"stagewise", "corrective"})],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        **TRIPLET_PARAMETERS,
        **REFERENCE_PARAMETERS,
        **SOLVER_PARAMETERS,
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        v="scale",
        *,
        loss="logistic",
        solver="corrective",
        n_passes=1,
        max_iter=500,
        n_targets=3,
        n_impostors=3,
        neighbors="auto",
        n_references="auto",
        class_weight=None,
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        n_iter_no_change=None,
        validation_fraction=0.1,
        random_state=None,
        verbose=0,
    ):
        self.v = v
        self.loss = loss
        self.solver = solver
        self.n_passes = n_passes
        self.max_iter = max_iter
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_references = n_references
        self.class_weight = class_weight
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X,
        y=None,
        *,
        triplets=None,
        neighbors=None,
        sample_weight=None,
        checkpoint=None,
        target="auto",
    ):
        """Learn the metric from labels or from triplets.

        Parameters
        ----------
        X : array-like, tensor or dask collection (n, n_features), (m, 3, n_features) or (m, 4, n_features)
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
        checkpoint : str, default=None
            With dask collections: folder or address (``s3://...``) that the state of the
            solve is kept in now and then; a later fit with the same parameters and data
            goes on from there.
        target : {"auto", "classes", "continuous"}, default="auto"
            What y is. "auto" takes whole numbers for classes unless they have more than 20
            values, many of them in one row only and with gaps between them (the guide's
            section on regression has the rule).

        Returns
        -------
        self
        """
        if self.n_passes > 1 and (triplets is not None or neighbors is not None):
            raise ValueError(
                f"n_passes={self.n_passes} finds new triplets from labels; give y alone, or "
                "n_passes=1 with triplets or neighbors."
            )
        y = y if triplets is None else None
        self._require_for_dask(X, n_passes=1, n_iter_no_change=None)
        if self.loss == "hinge" and is_dask(X):
            raise ValueError(
                "loss='hinge' solves a linear program over all triplets at once and does not go "
                "with dask collections; give loss='logistic' or 'exponential', or X in memory."
            )
        given = self._validate_triplets(
            X, y, triplets, neighbors, sample_weight, target, checkpoint
        )
        if neighbors is not None:  # none are searched in the place of these
            given = replace(given, labels=None)
        if self.n_passes > 1 and given.labels is None:
            raise ValueError(
                f"n_passes={self.n_passes} finds new triplets from labels; give labels."
            )
        held = None if self.n_iter_no_change is None else self._held_out(given)
        space, self._passes = self._space(given), []
        results: list[SolveResult] = []
        while len(results) < self.n_passes:
            if results:
                last = given.index
                given = self._triplets_in(space.points, given)
                if _same(last, given.index):
                    break
            problem, result, n_stages = self._boost(space, given, held)
            self._passes.append((space.maps, result.state, n_stages))
            results.append(result)
            points, L = space.points, result.kept
            space = Coordinates(points @ like(result.primal_point, points), (Matrix(float64(L)),))
            stopped = L.shape[1] == 0 or result.status is Status.INTERRUPTED
            if stopped or (len(results) > 1 and _settled(results, self.tol)):
                break
        self.n_passes_ = len(results)
        if given.row_numbers is not None:
            self.triplets_ = given.row_numbers
        return self._store(problem, _joined(results), points)

    @property
    def _fixed_trace(self) -> bool:
        return self.loss == "hinge"

    def _solver(self) -> Solver:
        if self.loss == "hinge":
            return LinearColumnGeneration(tol=self.tol, max_iter=self.max_iter)
        return ColumnGeneration(
            tol=self.tol, max_iter=self.max_iter, corrective=self.solver == "corrective"
        )

    def _program(self, operator, weights=None):
        self.v_ = self._scaled_v(operator, weights) if self.v == "scale" else float(self.v)
        return PROGRAMS[self.loss](operator, self.v_, weights=weights)

    def _scaled_v(self, operator, weights):
        """`SCALE_FREE_V` times the v from which M = 0 is optimal: lambda_max(A*(u)) there."""
        if self.loss == "hinge":
            m = operator.n_constraints if weights is None else float(float64(weights).sum())
            return max(1.0, min(m, 1 / SHARE_OF_MARGINS)) / m
        program = PROGRAMS[self.loss](operator, 1.0, weights=weights)
        _, u, _ = program.evaluate(operator.empty_constraint_vector())
        leading = spectral.largest_eigenvalue(operator.adjoint(u))
        return SCALE_FREE_V * leading if leading > 0 else 1.0  # M = 0 is optimal for every v

    def _space(self, given):
        """Where the first pass boosts: the span of the rows, and for the hinge loss,
        whose trace is fixed, one direction beside it for the trace that is better unused.
        """
        span = given.span()
        return span.with_spare() if self.loss == "hinge" else span

    def _triplets_in(self, Z, given):
        """The same points with the triplets that their labels make in the space of Z."""
        found = triplets_from_neighbours(*self._neighbours(Z, given.labels))
        return given.relisted(found)

    def _boost(self, space, given, held):
        """One pass: (problem, result, number of its stages that count)."""
        train, validation = self._split(space.points, given, held)
        operator = train.operator(from_triplets, space).astype(given.dtype)
        keep = self._keep(operator.reference, space)
        problem = self._program(operator, train.weights)
        if validation is None:
            result = self._run(self._solver(), problem, keep=keep)
            return problem, result, result.state.n_stages
        watch = EarlyStopping(self.n_iter_no_change, self._progress())
        measure = partial(
            _share_wrong,
            validation.operator(from_triplets, space).astype(given.dtype),
            validation.weights,
        )
        result = self._run(self._solver(), problem, callback=watch, measure=measure)
        kept, point = keep(result.state.factor(watch.best_stage))
        status = Status.INTERRUPTED if result.status is Status.INTERRUPTED else Status.STOPPED
        bounds = problem.certify(point, result.dual_point)
        certificate = Certificate.from_bounds(bounds, status)
        result = replace(result, primal_point=point, kept=kept, certificate=certificate)
        return problem, result, watch.best_stage

    def _held_out(self, given):
        """Mask of the points held out for early stopping: of every class its part, or
        of the points that have triplets.
        """
        rng, labels = check_random_state(self.random_state), given.labels
        anchors = np.unique(to_numpy(given.index[:, 0]))
        groups = (
            [anchors]
            if labels is None
            else [anchors[labels[anchors] == label] for label in np.unique(labels)]
        )
        held = np.zeros(len(given.points), bool)
        for group in groups:
            held[rng.permutation(group)[: round(self.validation_fraction * len(group))]] = True
        if not held.any() or held[anchors].all():
            raise ValueError(
                f"validation_fraction={self.validation_fraction} holds out {held.sum()} of "
                f"{len(anchors)} points with triplets; "
                "change it so that some are held out and some are left, or use "
                "n_iter_no_change=None."
            )
        return held

    def _split(self, Z, given, held):
        """(training constraints, held-out ones or None): those of held-out points
        validate, the others train.
        """
        if held is None:
            return given, None
        anchored = like(held, Z, namespace(Z).bool)[given.index[:, 0]]
        validation = given.subset(anchored)
        if given.labels is None:
            return given.subset(~anchored), validation
        kept = like(np.flatnonzero(~held), Z, namespace(Z).int64)
        train = triplets_from_neighbours(*self._neighbours(Z[kept], given.labels[~held]))
        train = kept[train]
        return given.relisted(train), validation

    def staged_metrics(self):
        """Yield the metric after each iteration, as an array C (learners, n_features)
        like ``components_``: M = C' C.

        The first is the metric after one iteration; passes follow each other.

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
        for maps, ensemble, n_stages in self._passes:
            for stage in range(1, n_stages + 1):
                yield lift(maps, ensemble.factor(stage)).T


class EarlyStopping:
    """Callback that stops when the share of wrongly ordered held-out triplets has not
    fallen for a while.
    """

    def __init__(self, patience, report=None):
        self.patience, self.report = patience, report
        self.best_stage, self.lowest = 0, np.inf

    def __call__(self, record):
        if record["validation_error"] < self.lowest:
            self.best_stage, self.lowest = record["stage"], record["validation_error"]
        if self.report is not None:
            self.report(record)
        return record["stage"] - self.best_stage >= self.patience


def _share_wrong(held_out, weights, factor):
    """What part of the held-out triplets, by weight, the metric L L' orders wrongly."""
    margins = held_out.forward_factor(factor)
    weights = held_out.empty_constraint_vector() + 1 if weights is None else weights
    return {"validation_error": float(((margins <= 0) * weights).sum() / weights.sum())}


def _same(triplets, others):
    """Whether two sets of triplets, each sorted by point, are the same up to order."""
    if len(triplets) != len(others):
        return False
    triplets, others = (np.unique(to_numpy(rows), axis=0) for rows in (triplets, others))
    return np.array_equal(triplets, others)


def _settled(results, tol):
    before, after = (result.certificate.primal for result in results[-2:])
    return abs(relative_gap(before, after)) <= tol


def _joined(results):
    """The last pass's result, with the history of all passes."""
    last = results[-1]
    histories = [
        {**result.history, "pass": np.full(len(result.history["iteration"]), number)}
        for number, result in enumerate(results)
    ]
    history = {
        name: np.concatenate([history[name] for history in histories]) for name in histories[-1]
    }
    n_iter = sum(result.n_iter for result in results)
    return replace(last, n_iter=n_iter, history=history)
