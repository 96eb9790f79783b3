"""AutoMetric: the metrics of several methods in one, weighed by what each does on rows it
has not seen.

    M = sum over methods k and folds f of a_k M_kf / s_kf

M_kf is what method k learns without the rows of fold f. Those rows then judge it (e_k, the
share of them that their nearest neighbours get wrong) and measure it (s_kf, their mean
squared distance to those neighbours, plus a part of that to all rows, so that a metric of
few directions is not taken for a short one). The weight falls with the distance to the
best method, in standard errors of that distance:

    a_k = exp(-c z(k, best)),    z(k, j) = (n_k - n_j) / sqrt(n_k + n_j + 1)

n_k and n_j are the rows that only k and only j gets wrong. Choosing the best alone would choose
noise on small data; equal weights would let a bad method spoil the mean. The plain distance is a
candidate like the others, and the blend as a whole must earn its place too: its own error on
rows that neither its metrics nor its weights have seen decides how much of it is kept,

    M <- p M + (1 - p) plain,    p = 1 / (1 + exp(-c (z(plain, blend) - 1)))

so where nothing helps, or too few rows can tell, it stays near the plain distance. Nothing is
fitted a second time: the metrics that were judged are those that are blended. The mean of three
that saw two thirds of the rows each was found to err no more than one that saw all of them, on
small data and on large.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.utils import check_random_state
from sklearn.utils.validation import has_fit_parameter

from ..constraints.in_memory import check_labels
from ..core import spectral
from ..core.arrays import is_torch, like, to_numpy, transposed
from ..core.compiled import stopwatch
from ..core.progress import all_or_nothing, is_all_or_nothing, labelled
from ..core.sklearn_private import Interval, StrOptions, fit_context
from ..core.warn import no_warnings
from ..evaluation.knn import evenly_by_class, majority, nearest_labels
from ..evaluation.statistics import mcnemar
from ..neighbours import labelled_keys
from .base import MahalanobisMetric
from .discriminant import PooledDiscriminant
from .frobmetric import FrobMetric
from .relative_comparisons import RelativeComparisons

PLAIN, BLEND = "plain", "blend"
FEW_ROWS = 600  # up to so many, five folds; three beyond
SHARPNESS = 1.5  # of the weights: how fast they fall with the error
CAUTION = 1.0  # standard errors by which the blend must be better to weigh as much as plain
SPREAD = 0.05  # part of the mean squared distance to all rows in a metric's scale
MOST_JUDGED = 3000  # rows that judge, of all folds together
TOL = 1e-2  # of candidates with a certificate; smaller ones were not seen to err less
# each of its steps is quadratic in rows and in features
MOST_ROWS_FOR_NCA, MOST_FEATURES_FOR_NCA = 1000, 200
# a prior reaches beyond the span of few rows: each step decomposes a matrix of all features
MOST_FEATURES_FOR_PRIOR = 500
# what all default candidates take on one core, at most about: per row, feature and value. Where
# that is less than a part of the time budget nothing is timed, so that it ends the same on
# every machine
SECONDS_PER_ROW, SECONDS_PER_FEATURE, SECONDS_PER_VALUE, UNHURRIED = 1.2e-3, 2e-2, 1.2e-5, 0.5
TRIAL = 200  # rows a candidate is timed on, where there is a time budget
# powers of the rows that seconds grow with: NCA, and a search for neighbours at best
MOST_GROWTH, LEAST_GROWTH = 2.0, 1.2
LITTLE = 0.3  # part of the seconds left that a larger trial may take
CERTAIN = 0.05  # p-value below which the blend is called better or worse


@dataclass(frozen=True)
class CandidateMethod:
    """An estimator, and beyond how many rows and features it is not affordable, and why."""

    estimator: Any
    most_rows: int = 10**9
    most_features: int = 10**9
    limit: str = "more would take too long"


def default_candidates() -> dict[str, CandidateMethod]:
    """The candidates of ``candidates="auto"``, cheap ones first."""
    nca = NeighborhoodComponentsAnalysis(max_iter=20)
    return {
        "relative": CandidateMethod(RelativeComparisons()),
        "lda": CandidateMethod(PooledDiscriminant()),
        "frob": CandidateMethod(FrobMetric(tol=TOL)),
        "prior": CandidateMethod(
            FrobMetric(prior="identity", tol=TOL), most_features=MOST_FEATURES_FOR_PRIOR
        ),
        "nca": CandidateMethod(nca, MOST_ROWS_FOR_NCA, MOST_FEATURES_FOR_NCA),
    }


@dataclass(frozen=True)
class Evidence:
    """What rows that were held out say about each candidate, the blend and the plain distance.

    Attributes
    ----------
    error, standard_error : mapping of str to float
        Share of wrong k-NN votes of each candidate, of "plain" and of "blend", every row
        judged by metrics learned without it; and its standard error. The blend of a row is
        weighed by the other folds.
    p_value : float
        Exact McNemar test between the blend and the plain distance.
    n_rows, n_neighbors : int
        Rows judged, neighbours that voted.

    Examples
    --------
    >>> from conemetric.estimators.automatic import Evidence
    >>> errors = {"plain": 0.063, "frob": 0.045, "blend": 0.041}
    >>> print(Evidence(errors, {name: 0.01 for name in errors}, 0.003, 700, 3))
    better than the plain distance: 4.1 % against 6.3 %, p = 0.003
    """

    error: Mapping[str, float]
    standard_error: Mapping[str, float]
    p_value: float
    n_rows: int
    n_neighbors: int

    def __str__(self):
        blend, plain = self.error[BLEND], self.error[PLAIN]
        figures = f"{100 * blend:.1f} % against {100 * plain:.1f} %, p = {self.p_value:.2g}"
        if self.p_value >= CERTAIN:
            return f"no better than the plain distance ({figures}); use that"
        if blend > plain:
            return f"worse than the plain distance: {figures}; use that"
        return f"better than the plain distance: {figures}"


class AutoMetric(MahalanobisMetric):
    """Mahalanobis metric blended from those of several methods, with evidence of what it
    gains over the plain distance.

    Every candidate is fitted three times, each time without another third of the rows of every
    class (five times without a fifth up to 600 rows); those judge it, and the better it does
    the more its matrices weigh in the blend. How far the blend leaves the plain distance
    depends on its own error on rows held out, so where no metric helps, or few labels cannot
    tell, it stays near. From labels only.

    A class with fewer rows than folds is held out in as many folds as it has rows. A class of
    one row is learned from and never judged, and rows without a label (-1) are left out.

    Candidates that solve a program have certificates (``certificates_``): how close each came
    to the optimum of its own program, on its part of the rows. The blend is the optimum of no
    program, so nothing is proven about it; what it gains is measured (``evidence_``).

    Parameters
    ----------
    candidates : "auto" or dict of str to estimator, default="auto"
        "auto" takes `RelativeComparisons`, `FrobMetric` about zero and about the identity
        ("prior", at most 500 features) to a gap of 1e-2, linear discriminant analysis with a
        shrunk covariance ("lda") and scikit-learn's `NeighborhoodComponentsAnalysis` (20
        steps, at most 1,000 rows and 200 features). Any estimator will do that learns from labels
        and transforms linearly. The plain distance is always among them.
    n_components : int, default=None
        Keep only this many leading directions of the blend (its best approximation of that
        rank). None keeps all.
    time_budget : float, default=None
        Seconds. Candidates are timed on 200 rows, on 800 and more where that tells more, and
        fitted from cheap to dear, to a half, a quarter, ... of the rows or not at all where
        the growth would overrun what is left. What happened then depends on the machine, and
        ``shortened_`` and ``left_out_`` say it. Nothing is timed where the candidates of
        "auto" need half of it at most on an ordinary machine (1.2 n + 20 D + 0.012 n D
        milliseconds for n rows of D features). None fits all of them to all rows.
    n_neighbors : int, default=3
        k of the k-NN vote that judges.
    random_state : int, RandomState or None
        Draws the parts of the rows, and what candidates draw.
    n_jobs : int, default=None
        Processes (threads for tensors) that fit the parts of a candidate.
    verbose : int, default=0
        Print one line per candidate.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    weights_ : dict of str to float
        Weight of each candidate in the blend; they add up to 1.
    evidence_ : Evidence
        Cross-validated errors of candidates, blend and plain distance; ``print`` it for
        one plain sentence.
    certificates_ : dict of str to list of Certificate
        Of the fits of those candidates that have one. That a program was solved does not
        say that its metric helps; ``evidence_`` does.
    shortened_ : dict of str to str
        Candidates that were not fitted to all rows of their folds: to how many, and why.
    left_out_ : dict of str to str
        Candidates that could not be fitted, and why.
    interrupted_ : bool
        Whether Ctrl-C ended the fit: the blend is then that of the candidates so far.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> from conemetric import AutoMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = AutoMetric(random_state=0).fit(StandardScaler().fit_transform(X), y)
    >>> metric.evidence_.error["blend"] <= metric.evidence_.error["plain"]
    True
    >>> sorted(metric.weights_)
    ['frob', 'lda', 'nca', 'plain', 'prior', 'relative']
    """

    _parameter_constraints = {
        "candidates": [StrOptions({"auto"}), dict],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        candidates="auto",
        n_components=None,
        time_budget=None,
        n_neighbors=3,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.candidates = candidates
        self.n_components = n_components
        self.time_budget = time_budget
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, *, target="auto"):
        """Learn the blend from labels.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; a quantity is refused.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(
                "AutoMetric requires y to be passed, but the target y is None; give labels y."
            )
        X, y = self._validate_X_and_y(X, y)
        self._refuse_continuous(y, target)
        self._check_n_components()
        candidates = self._candidates()
        rng = check_random_state(self.random_state)
        rows = Rows(X, check_labels(y, self.n_neighbors), self.n_neighbors, rng)
        found = {PLAIN: [rows.judge(np.eye(X.shape[1]), fold) for fold in rows.folds]}
        if None in found[PLAIN]:
            raise ValueError(f"all {len(X)} rows of X coincide, so there is no distance to learn.")
        self.certificates_, self.shortened_, self.left_out_ = {}, {}, {}
        self.interrupted_ = False
        try:
            for name, candidate in self._affordable(candidates, rows):
                with labelled(candidate=name):
                    found[name] = self._fit_candidate(name, candidate, rows)
        except KeyboardInterrupt:
            if is_all_or_nothing():
                raise
            self.interrupted_ = True
        # in an order that does not depend on their speed: sums keep their last digit
        found = {name: found[name] for name in (PLAIN, *candidates) if found.get(name)}
        self.weights_, self.evidence_ = rows.weigh(found)
        matrix = sum(
            self.weights_[name] * part.L @ part.L.T
            for name, judged in found.items()
            for part in judged
        )
        L = like(spectral.factor(matrix)[:, : self.n_components], X, X.dtype)
        self.components_ = transposed(L)
        return self

    def _candidates(self):
        if self.candidates == "auto":
            return default_candidates()
        for name, estimator in self.candidates.items():
            if name in (PLAIN, BLEND):
                raise ValueError(f"candidates has {name!r}, a name of its own here; use another.")
            if not hasattr(estimator, "fit") or not hasattr(estimator, "transform"):
                raise TypeError(
                    f"candidates has {name!r}: {estimator!r}, which does not transform; give an "
                    "unfitted estimator."
                )
        return {name: CandidateMethod(estimator) for name, estimator in self.candidates.items()}

    def _affordable(self, candidates, rows):
        """Yield name and candidate; with a time budget from cheap to dear, each with the
        rows that what is left allows.
        """
        too_wide = [name for name in candidates if rows.n_features > candidates[name].most_features]
        for name in too_wide:
            self._leave_out(name, f"{rows.n_features} features are too many for it")
        candidates = {name: candidates[name] for name in candidates if name not in too_wide}
        if self.time_budget is None or self._is_unhurried(rows):
            yield from candidates.items()
            return
        end = stopwatch() + self.time_budget
        known = self.candidates == "auto"  # and listed from cheap to dear: timed one by one
        trials = {} if known else {name: rows.timed(candidates[name], TRIAL) for name in candidates}
        for name in sorted(candidates, key=lambda name: trials.get(name, 0.0)):
            candidate = candidates[name]
            most = self._rows_within(end, candidate, rows, trials.get(name))
            if most is None:
                left = max(end - stopwatch(), 0.0)
                self._leave_out(name, f"{left:.1f} s of the time budget are left, too few for it")
            elif most < rows.wanted(candidate):
                limit = f"as many as {self.time_budget:g} s allowed here"
                yield name, replace(candidate, most_rows=most, limit=limit)
            else:
                yield name, candidate

    def _is_unhurried(self, rows):
        """Whether the default candidates stay far within the time budget on any ordinary
        machine.
        """
        n, D = rows.X.shape
        seconds = SECONDS_PER_ROW * n + SECONDS_PER_FEATURE * D + SECONDS_PER_VALUE * n * D
        return self.candidates == "auto" and seconds <= UNHURRIED * self.time_budget

    def _rows_within(self, end, candidate, rows, seconds):
        """How many rows of each fold a candidate that takes ``seconds`` for `TRIAL` of them
        (None: not known yet) can be fitted to before ``end``; None if fewer than those.

        All, a half, a quarter, ...: a clock that runs a little differently next time seldom
        changes that.
        """
        n, growth, n_folds = TRIAL, MOST_GROWTH, len(rows.folds)
        most = wanted = rows.wanted(candidate)

        def left():
            return max(end - stopwatch(), 0.0)

        def needed(n_rows):
            return n_folds * seconds * (n_rows / n) ** growth

        if seconds is None:
            if not left():
                return None
            seconds = rows.timed(candidate, TRIAL)
        expected = LEAST_GROWTH
        while needed(wanted) > left() and 4 * n < wanted:
            if seconds * 4**expected > LITTLE * left():
                break
            # many methods grow more slowly than the square: a larger trial tells
            again = rows.timed(candidate, 4 * n)
            growth = np.clip(np.log(again / seconds) / np.log(4), LEAST_GROWTH, MOST_GROWTH)
            n, seconds, expected = 4 * n, again, growth
        while needed(most) > left():
            most //= 2
            if most < TRIAL:
                return None
        return most

    def _fit_candidate(self, name, candidate, rows):
        """The judged metrics of a candidate, one for each fold; None where it is left out."""
        began = stopwatch()
        n_rows = rows.wanted(candidate)
        parts = [fold.train[:n_rows] for fold in rows.folds]
        threads = {"prefer": "threads"} if is_torch(rows.X) else {}
        try:
            fits = Parallel(n_jobs=self.n_jobs, **threads)(
                delayed(fit_linear_map)(candidate.estimator, *rows.part(part, candidate), rows.seed)
                for part in parts
            )
        except (ValueError, np.linalg.LinAlgError) as error:
            if self.candidates != "auto":
                raise
            return self._leave_out(name, str(error))
        judged = [rows.judge(L, fold) for (L, _), fold in zip(fits, rows.folds, strict=True)]
        if any(part is None for part in judged):
            return self._leave_out(name, "its metric is zero")
        self.certificates_[name] = [certificate for _, certificate in fits if certificate]
        if n_rows < rows.n_train:
            self.shortened_[name] = f"{n_rows:,} of {rows.n_train:,} rows, {candidate.limit}"
        if self.verbose:
            rate = np.concatenate([part.wrong for part in judged]).mean()
            seconds = stopwatch() - began
            print(f"[AutoMetric] {name}: {rate:.1%} wrong on held-out rows, {seconds:.1f} s")
        return judged

    def _leave_out(self, name, reason):
        self.left_out_[name] = reason
        if self.verbose:
            print(f"[AutoMetric] {name} is left out: {reason}")


class Fold(NamedTuple):
    """Rows to learn from, any first part of which has the classes in proportion, and rows
    that judge.
    """

    train: np.ndarray
    held_out: np.ndarray


def stratified_folds(drawn, labels, n_folds):
    """Folds of the drawn rows: the rows of each class in turn go to the folds in turn, so the
    folds differ by one row at most in size and in every class.

    The row of a class of one has nobody of its class to be near and would count as wrong in any
    metric: it is learned from in every fold and never judged. Classes come in the order in which
    they are drawn, so their names do not matter.
    """
    _, first, of_class, size = np.unique(
        labels[drawn], return_index=True, return_inverse=True, return_counts=True
    )
    by_class = np.argsort(first[of_class], kind="stable")
    by_class = by_class[size[of_class[by_class]] > 1]
    n_folds = min(n_folds, len(by_class))
    fold_of = np.full(len(drawn), -1)
    fold_of[by_class] = np.arange(len(by_class)) % n_folds
    return [
        Fold(
            evenly_by_class(drawn[fold_of != f], labels),
            evenly_by_class(drawn[fold_of == f], labels)[: MOST_JUDGED // n_folds],
        )
        for f in range(n_folds)
    ]


class JudgedMetric(NamedTuple):
    """A metric L L' of scale one, and which held-out rows it gets wrong."""

    L: np.ndarray
    wrong: np.ndarray


class Rows:
    """The labelled rows, their folds, and how a metric learned without one is judged on it."""

    def __init__(self, X, labels, n_neighbors, rng):
        self.X, self.labels, self.n_neighbors = X, labels, n_neighbors
        # only differences count, and a constant feature is to be one without rounding:
        # scikit-learn's LDA divides by its standard deviation
        self.host = to_numpy(X) - to_numpy(X)[:1]
        self.n_features = X.shape[1]
        drawn = rng.permutation(np.flatnonzero(labels >= 0))
        self.seed = int(rng.randint(2**31 - 1))
        self.folds = stratified_folds(drawn, labels, 5 if len(drawn) <= FEW_ROWS else 3)
        self.n_train = max(len(fold.train) for fold in self.folds)

    def wanted(self, candidate):
        """How many rows of each fold it is to learn from."""
        return min(self.n_train, candidate.most_rows)

    def part(self, rows, candidate):
        """Rows and labels to fit on: tensors for our own methods, else host arrays."""
        own = isinstance(candidate.estimator, MahalanobisMetric)
        return (self.X if own else self.host)[rows], self.labels[rows]

    def timed(self, candidate, n_rows):
        """Seconds of a fit to so many rows."""
        began = stopwatch()
        with suppress(ValueError, np.linalg.LinAlgError):  # said when all rows are fitted
            X, y = self.part(self.folds[0].train[:n_rows], candidate)
            fit_linear_map(candidate.estimator, X, y, self.seed)
        return max(stopwatch() - began, 1e-6)  # a clock may not have moved

    def judge(self, L, fold):
        """The metric L L' at scale one, and what it gets wrong; None for the zero metric."""
        Z = self.host @ L
        train, held_out = Z[fold.train], Z[fold.held_out]
        distances, labels = nearest_labels(
            train, self.labels[fold.train], held_out, self.n_neighbors, self.keys(fold)
        )
        centre = train.mean(axis=0)
        spread = sum(
            float(np.mean(((part - centre) ** 2).sum(axis=1))) for part in (train, held_out)
        )
        scale = float(np.mean(distances**2)) + SPREAD * spread
        if not scale > 0:
            return None
        return JudgedMetric(L / scale**0.5, majority(labels) != self.labels[fold.held_out])

    def keys(self, fold):
        """What decides ties among the training rows: the same for every metric."""
        return labelled_keys(self.host[fold.train], self.labels[fold.train])

    def weigh(self, found):
        """Weights of the candidates, and the evidence for them and for their blend."""
        folds = range(len(self.folds))
        others = [[g for g in folds if g != f] for f in folds]
        # every fold is judged by what the others say, of the candidates and then of the blend
        by_others = [_weights(_wrong(found, others[f])) for f in folds]
        blends = [self._judge_blend(found, f, by_others[f]) for f in folds]
        judged = {**found, BLEND: blends}
        wrong = _wrong(judged, folds)
        weights = _towards_plain(_weights(_wrong(found, folds)), wrong)
        wrong[BLEND] = np.concatenate(
            [
                self._judge_blend(
                    found, f, _towards_plain(by_others[f], _wrong(judged, others[f]))
                ).wrong
                for f in folds
            ]
        )
        evidence = Evidence(
            {name: float(values.mean()) for name, values in wrong.items()},
            {name: float(values.std() / len(values) ** 0.5) for name, values in wrong.items()},
            mcnemar(wrong[PLAIN], wrong[BLEND]),
            len(wrong[PLAIN]),
            self.n_neighbors,
        )
        return weights, evidence

    def _judge_blend(self, found, f, weights):
        """The blend without fold f, judged there."""
        matrix = sum(weights[name] * judged[f].L @ judged[f].L.T for name, judged in found.items())
        return self.judge(spectral.factor(matrix), self.folds[f])


def _wrong(found, folds):
    """What each candidate gets wrong in these folds."""
    return {
        name: np.concatenate([judged[f].wrong for f in folds]) for name, judged in found.items()
    }


def _excess(wrong, other):
    """By how many standard errors the first errs more than the other: only rows on which they
    disagree count, and one is added to these, so that two or three rows prove little.
    """
    more, less = np.sum(wrong & ~other), np.sum(other & ~wrong)
    return float((more - less) / (more + less + 1) ** 0.5)


def _weights(wrong):
    """exp(-SHARPNESS (excess over the best)) of each candidate; they add up to 1."""
    best = min(wrong.values(), key=np.mean)
    weights = {name: np.exp(-SHARPNESS * _excess(each, best)) for name, each in wrong.items()}
    total = sum(weights.values())
    return {name: float(weight / total) for name, weight in weights.items()}


def _towards_plain(weights, wrong):
    """The weights, drawn to the plain distance as far as the blend is not better than that: half
    way where it is better by `CAUTION` standard errors.
    """
    support = 1 / (1 + np.exp(SHARPNESS * (_excess(wrong[BLEND], wrong[PLAIN]) + CAUTION)))
    drawn = {name: float(support * weight) for name, weight in weights.items()}
    return {**drawn, PLAIN: drawn[PLAIN] + float(1 - support)}


def fit_linear_map(estimator, X, y, seed):
    """(L, certificate) of a clone of the estimator fitted to the rows: transform(x) = L'x +
    a constant.
    """
    estimator = clone(estimator)
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=seed)
    with no_warnings(), all_or_nothing():
        # what a candidate is worth is measured, however its solve ended
        known = {"target": "classes"} if has_fit_parameter(estimator, "target") else {}
        estimator.fit(X, y, **known)
    sample = to_numpy(X[:10])
    corners = np.concatenate([np.zeros((1, X.shape[1])), np.eye(X.shape[1]), sample])
    mapped = to_numpy(estimator.transform(corners.astype(sample.dtype))).astype(np.float64)
    L, found = mapped[1 : 1 + X.shape[1]] - mapped[0], mapped[1 + X.shape[1] :] - mapped[0]
    if not abs(found - sample @ L).max() <= 1e-3 * abs(found).max():
        raise ValueError(f"{type(estimator).__name__} is no linear map, so it cannot be blended.")
    return L, getattr(estimator, "certificate_", None)
