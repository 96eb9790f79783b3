"""FrobMetric: the Frobenius-regularised large-margin metric of Shen et al. (2014)."""

from copy import copy
from numbers import Integral, Real

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from ..constraints.in_memory import encode_labels, find_rows
from ..core import spectral
from ..core.arrays import float64, is_scalar, like, namespace
from ..core.progress import all_or_nothing
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..core.weights import check_weights, class_factors
from ..evaluation.knn import knn_predict
from ..neighbours import labelled_keys
from ..operators import from_triplets
from ..problems.frobenius import FrobeniusProgram
from ..solvers.base import Status
from ..solvers.dual_quasi_newton import DualQuasiNewton
from .base import SOLVER_PARAMETERS
from .prior import PRIOR_PARAMETERS, prior_matrix
from .supervised import REFERENCE_PARAMETERS, TRIPLET_PARAMETERS, SupervisedMetric
from .tuples import n_in_tuple

# chosen over 14 data sets from D = 4 to 384; see docs/defaults.md
SCALE_FREE_C_PER_FEATURE = 30.0


class FrobMetric(SupervisedMetric):
    """Mahalanobis metric that ranks each point's targets before its impostors,
    regularised by its Frobenius norm.

    Solves, over positive semidefinite M and triplets (i, j, k), ::

        min 1/2 ||M - M0||_F^2 + (C/m) sum loss(d_ik' M d_ik - d_ij' M d_ij)

    (with weights, C times the weighted mean of the loss)

    with M0 = 0 unless a ``prior`` is given, in the dual, and returns a proof of how far from the optimum it stopped
    (``certificate_``).

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the loss, a mean over the triplets (`RelativeComparisons` weighs their
        sum, as its paper does: its C is this one divided by their number). "scale" makes
        the fit independent of the units of X: C = 30 D / s^4, with D the number of
        features and s^2 the mean squared Euclidean distance of the impostor pairs.
    prior : None, "identity", array-like (n_features, n_features) or fitted metric, default=None
        M0, the metric to stay near: the smaller C, the nearer. "identity" is the plain
        distance, M0 = I / s^2 with s^2 as above. A metric learned before, or its
        matrix, is updated by what it is fitted to now.
    loss : {"hinge", "squared_hinge", "logistic"}, default="hinge"
        Of a margin rho: max(0, 1 - rho), half its square, or log(1 + exp(-rho)).
    n_targets : int, default=3
        Neighbours of its own class per point that make its triplets, when fitted from
        labels.
    n_impostors : int or "auto", default="auto"
        Likewise of other classes. "auto" takes three, as the paper does, unless classes
        overlap so much that more than a third of the points have three or more
        impostors nearer than their farthest target; then as many as two points in three
        have there, at most 10. ``triplets_`` shows the outcome.
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
        Keep only this many leading directions of the learned metric (its best
        approximation of that rank). None keeps all.
    preprocessor : array-like (n, n_features) or callable, default=None
        Where points come from when tuples number them; see `fit`.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
    warm_start : bool, default=False
        Start from the multipliers of the previous fit, for the triplets it had too.
    random_state : int, RandomState or None
        For references and an approximate search; the rest is deterministic.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    certificate_ : Certificate
        Objective of the metric, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration.
    C_ : float
        The C that was used, in the units of X.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet (with the hinge between 0 and C/m).
    triplets_ : integer array (m, 3)
    neighbor_recall_ : float or None
        Share of the true neighbours that the search found, 1.0 when exact, measured on a
        sample when approximate; None where nothing was searched.

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

    _remedy = (
        'prior="identity", which stays with the plain distance where the triplets know nothing '
        "better, fewer targets or more impostors (n_targets, n_impostors)"
    )
    _takes_dask = True
    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        **PRIOR_PARAMETERS,
        "loss": [StrOptions({"hinge", "squared_hinge", "logistic"})],
        **TRIPLET_PARAMETERS,
        **REFERENCE_PARAMETERS,
        **SOLVER_PARAMETERS,
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        C="scale",
        *,
        prior=None,
        loss="hinge",
        n_targets=3,
        n_impostors="auto",
        neighbors="auto",
        n_references="auto",
        class_weight=None,
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.prior = prior
        self.loss = loss
        self.n_targets = n_targets
        self.n_impostors = n_impostors
        self.neighbors = neighbors
        self.n_references = n_references
        self.class_weight = class_weight
        self.n_components = n_components
        self.preprocessor = preprocessor
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
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
        self._require_for_dask(X, warm_start=False)  # blocks keep no multipliers
        span, operator, given = self._prepare(
            X, y, triplets, neighbors, sample_weight, checkpoint, target
        )
        C = self.C
        if C == "scale":
            C = scaled_C(operator, self.n_features_in_, given.weights)
        start = self._previous_multipliers(given, C)
        self._fit_operator(span, operator, given, float(C), start)
        return self

    def _prepare(
        self,
        X,
        y,
        triplets,
        neighbors=None,
        sample_weight=None,
        checkpoint=None,
        target="auto",
    ):
        """(coordinates, operator, constraints)."""
        given = self._validate_triplets(
            X, y, triplets, neighbors, sample_weight, target, checkpoint
        )
        span = self._coordinates(given)
        return span, given.operator(from_triplets, span).astype(given.dtype), given

    def _fit_operator(self, span, operator, given, C, start):
        """Learn from an operator; the multipliers."""
        number, m = operator.xp.finfo(operator.dtype), operator.n_constraints
        if not float(number.tiny) < C / m < float(number.max * number.eps):
            raise ValueError(
                f"C={C:g} over {m} triplets is out of the range of {operator.dtype}: "
                "C goes with the fourth power of "
                "the units of X; rescale X, or give it in float64."
            )
        prior = self._prior(operator, given.weights)
        program = FrobeniusProgram(operator, C, self.loss, prior, given.weights)
        solver = DualQuasiNewton(tol=self.tol, max_iter=self.max_iter)
        keep = self._keep(operator.reference, span)
        if prior is not None and span.maps:
            keep = _keep_beyond(operator.reference, span, float(prior[0, 0]))
        result = self._run(solver, program, start=start, keep=keep)
        self.C_ = C
        if given.row_numbers is not None:
            self.multipliers_, self.triplets_ = result.dual_point, given.row_numbers
        self._store(program, result, span.points)
        return result.dual_point

    def _coordinates(self, given):
        """Without a prior the optimum lies in the span of the rows. Outside of it nothing
        moves the metric away from the identity; another prior knows no such division.
        """
        plain = self.prior is None or isinstance(self.prior, str)
        return given.span() if plain else given.coordinates()

    def _prior(self, operator, weights):
        size = 1.0
        if isinstance(self.prior, str):
            size = mean_impostor_distance(operator, weights)
        return prior_matrix(self.prior, operator.reference, operator.n_features, size)

    def _previous_multipliers(self, given, C):
        """Multipliers of the last fit, carried over to the new C and the new triplets (0
        for those it did not have); None without ``warm_start``.
        """
        last, triplets = getattr(self, "multipliers_", None), given.row_numbers
        if not self.warm_start or last is None or self.triplets_.shape[1] != triplets.shape[1]:
            return None
        place = find_rows(triplets, like(self.triplets_, triplets))
        largest = C / self.C_ * len(self.triplets_) / len(triplets)
        last = like(last, triplets, last.dtype)
        return namespace(triplets).where(place >= 0, last[place] * largest, 0.0)


class FrobMetricCV(FrobMetric):
    """`FrobMetric` with C chosen by cross-validated k-NN accuracy along a warm-started path.

    Parameters
    ----------
    Cs : int or array-like of floats, default=6
        Values of C to try; an int asks for that many between 1 and 1e5 in the
        scale-free unit 1 / s^4 of ``C="scale"``.
    cv : int or cross-validation splitter, default=5
    n_neighbors : int, default=3
        k of the k-NN classifier that scores a metric.
    prior, loss, n_targets, n_impostors, n_references, neighbors, class_weight, n_components, \
preprocessor, tol, max_iter, random_state, verbose
        As in `FrobMetric`.

    Attributes
    ----------
    C_ : float
        The chosen C; the metric is fitted with it on all rows.
    Cs_ : array (n_Cs,)
        Ascending values tried.
    scores_ : array (n_folds, n_Cs)
        Held-out accuracy; rows count as they and their classes weigh.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from conemetric import FrobMetricCV
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = FrobMetricCV(Cs=3, cv=3).fit(X / X.std(axis=0), y)
    >>> metric.scores_.shape
    (3, 3)
    """

    _instead_of_labels = ""
    _learns_from_quantities = False
    _takes_dask = False
    _parameter_constraints = {
        **{
            name: rule
            for name, rule in FrobMetric._parameter_constraints.items()
            if name not in ("C", "warm_start")
        },
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        Cs=6,
        *,
        cv=5,
        n_neighbors=3,
        prior=None,
        loss="hinge",
        n_targets=3,
        n_impostors="auto",
        neighbors="auto",
        n_references="auto",
        class_weight=None,
        n_components=None,
        preprocessor=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.Cs = Cs
        self.cv = cv
        self.n_neighbors = n_neighbors
        self.prior = prior
        self.loss = loss
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
    def fit(self, X, y=None, *, sample_weight=None, target="auto"):
        """Choose C by cross-validation, then learn the metric from all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), default=None
            What each row counts for, learned from and held out (not as a neighbour that
            votes): a triplet as much as its first row; rows of weight zero are left out.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; a quantity is refused.

        Returns
        -------
        self
        """
        if n_in_tuple(X, self.preprocessor) is not None:
            raise ValueError(
                "FrobMetricCV chooses C by classification; for tuples use "
                "GridSearchCV(FrobMetric(), {'C': ...})."
            )
        span, operator, given = self._prepare(X, y, None, None, sample_weight, target=target)
        self.Cs_ = self._grid(operator, given)
        X, y = self._validate_X_and_y(X, y)
        with all_or_nothing():
            weights = check_weights(sample_weight, len(y), "rows of X")
            # the others have nothing to score, or count for nothing
            rows = np.flatnonzero((encode_labels(y) >= 0) & (weights > 0))
            folds = self._folds(y, rows)
            Z, y, weights = X[like(rows, X, namespace(X).int64)], y[rows], weights[rows]
            self.scores_ = np.array([self._fold_scores(Z, y, weights, *fold) for fold in folds])
        best = int(self.scores_.mean(axis=0).argmax())
        self._fit_operator(span, operator, given, self.Cs_[best], None)
        return self

    def _grid(self, operator, given):
        if isinstance(self.Cs, Integral):
            size = mean_impostor_distance(operator, given.weights)
            return np.geomspace(1, 1e5, self.Cs) / size**2
        return _ascending(self.Cs)

    def _folds(self, y, rows):
        """(train, test) as places in ``rows``, those that are split; splits that the user
        lists number all rows.
        """
        if not isinstance(self.cv, Integral | None) and not hasattr(self.cv, "split"):
            everything, place = np.arange(len(y)), np.full(len(y), -1)
            place[rows] = np.arange(len(rows))
            listed = ([place[everything[part]] for part in fold] for fold in self.cv)
            return [[part[part >= 0] for part in fold] for fold in listed]
        y = y[rows]
        cv = check_cv(self.cv, y, classifier=True)
        if (
            hasattr(cv, "shuffle")
            and getattr(cv, "random_state", None) is None
            and isinstance(self.cv, Integral)
        ):
            cv = type(cv)(
                cv.n_splits,
                shuffle=True,
                random_state=check_random_state(self.random_state).randint(2**31 - 1),
            )
        return cv.split(np.zeros(len(y)), y)

    def _fold_scores(self, X, y, weights, train, test):
        parameters = {
            name: value
            for name, value in self.get_params().items()
            if name in FrobMetric().get_params()
        }
        counted, scores = weights, []
        if self.class_weight is not None:
            counted = weights * class_factors(self.class_weight, y, weights)
        path = frobmetric_path(
            X[train],
            y[train],
            sample_weight=weights[train],
            target="classes",
            Cs=self.Cs_,
            **{**parameters, "verbose": 0},
        )
        keys = labelled_keys(X[train], y[train])
        for metric in path:
            near = metric.transform(X[train]), y[train], metric.transform(X[test])
            right = knn_predict(*near, self.n_neighbors, keys) == y[test]
            scores.append(np.average(right, weights=counted[test]))
        return scores


def frobmetric_path(
    X, y=None, *, triplets=None, sample_weight=None, target="auto", Cs, **parameters
):
    """Fit `FrobMetric` for ascending C, each from the multipliers of the one before.

    Parameters
    ----------
    X, y, triplets, sample_weight, target
        As in `FrobMetric.fit`.
    Cs : array-like of floats
    **parameters
        Other parameters of `FrobMetric`.

    Returns
    -------
    list of FrobMetric
        One fitted estimator per C, in ascending order; Ctrl-C ends the list with the
        fit it interrupts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import frobmetric_path
    >>> path = frobmetric_path(*load_iris(return_X_y=True), Cs=[0.01, 0.1, 1.0])
    >>> [metric.C_ for metric in path]
    [0.01, 0.1, 1.0]
    """
    Cs, first = _ascending(Cs), FrobMetric(**parameters)
    first._validate_params()
    span, operator, given = first._prepare(X, y, triplets, None, sample_weight, target=target)
    path, start = [], None
    for C in Cs.tolist():
        metric = copy(first).set_params(C=C)
        start = None if start is None else start * (C / path[-1].C_)
        start = metric._fit_operator(span, operator, given, C, start)
        path.append(metric)
        if path[-1].certificate_.status is Status.INTERRUPTED:
            break
    return path


def _keep_beyond(X, span, level):
    """What `MahalanobisMetric._keep` returns, of a metric that is ``level`` times the
    identity outside the span.
    """
    outside = level**0.5 * span.outside()

    def keep(L):
        factor = namespace(X).concat([span.lift(float64(spectral.canonical_factor(L))), outside], 1)
        order = namespace(X).argsort(-(factor * factor).sum(0), stable=True)
        factor = like(spectral.with_fixed_signs(factor[:, order]), X)
        return factor, span.lower(float64(factor))

    return keep


def _ascending(Cs):
    try:
        values = np.sort(np.atleast_1d(np.asarray(Cs, dtype=np.float64)))
    except OverflowError:
        raise ValueError("Cs holds a number that is out of the range of float64.") from None
    if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"Cs={Cs!r} must hold one or more positive numbers.")
    return values


def scaled_C(operator, n_features, weights=None):
    """The C that makes the program independent of the units of X:
    `SCALE_FREE_C_PER_FEATURE` D / s^4.
    """
    return SCALE_FREE_C_PER_FEATURE * n_features / mean_impostor_distance(operator, weights) ** 2


def mean_impostor_distance(operator, weights=None):
    """s^2, the mean squared Euclidean distance over the impostor pairs of a triplet operator."""
    sum_, count = operator.space.sum(
        _impostor_lengths, operator.pieces, 1.0 if weights is None else weights
    )
    mean_square = sum_ / count
    if not mean_square**2 > 0:
        raise ValueError(
            "Every impostor coincides with its point, so X has no scale to choose C by; "
            "remove duplicated rows with contradicting labels, or give C as a number."
        )
    return mean_square


def _impostor_lengths(operator, weights):
    """Sum of the squared lengths of the impostor pairs, and their number, by weight."""
    far = operator.pair[operator.row_start[:-1]]  # a triplet's row begins with its impostor pair
    lengths = float64(operator.pair_lengths[far])
    if is_scalar(weights):
        return lengths.sum(), len(far)
    return (weights * lengths).sum(), float64(weights).sum()
