"""AutoMetric: the metrics of several methods blended into one, weighted by held-out error.

    M = sum over methods k and folds f of a_k M_kf / s_kf

Method k learns M_kf without the rows of fold f. Those rows then judge it by the vote of their
nearest neighbours and give its scale s_kf: their mean squared distance to those neighbours, plus
a fraction of that to all rows, so that a metric of few directions, in which neighbours nearly
coincide, is not inflated. The weight falls with the distance to the best method, in standard
errors of that distance:

    a_k = exp(-c z(k, best)),    z(k, j) = (n_k - n_j) / sqrt(n_k + n_j + 1)

where n_k and n_j count the rows that only k and only j gets wrong. The best method alone would
follow noise on small data; equal weights would let a bad method spoil the mean. The plain
distance is one of the candidates, and the blend as a whole must earn its place too: its own
error on held-out rows decides how much of it is kept,

    M <- p M + (1 - p) plain,    p = 1 / (1 + exp(-c (z(plain, blend) - 1 - 30 / n)))

with n held-out rows. To weigh as much as the plain distance, the blend must be better by one
standard error, by two with 30 rows and by more than eight with 4. Few rows cannot show that: p
below 0.05 counts as 0, and the result is the plain distance. Nothing is refitted: the metrics
that were judged are the ones blended. On small data and on large, the mean of three metrics
learned from two thirds of the rows each was found to err no more than one learned from all rows.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

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
from ..core.warn import collected_warnings
from ..evaluation.knn import evenly_by_class, majority, nearest_labels
from ..evaluation.statistics import mcnemar
from ..neighbours import canonical_order, labelled_keys
from ..solvers.base import Certificate
from .base import MahalanobisMetric
from .discriminant import PooledDiscriminant
from .frobmetric import FrobMetric
from .relative_comparisons import RelativeComparisons

__all__ = ["AutoMetric", "CandidateMethod", "Evidence", "default_candidates"]

PLAIN, BLEND = "plain", "blend"
FEW_ROWS = 600  # five folds up to this many rows, three beyond
VOTES = (1, 3, 5, 7)  # the k that n_neighbors="auto" chooses from
SHARPNESS = 1.5  # c above; 1 to 3 make no measurable difference (docs/defaults.md)
# standard errors by which the blend must be better to weigh as much as plain; with the second
# number of held-out rows one more, since fewer make a standard error unreliable
CAUTION, FEW_JUDGED = 1.0, 30
LEAST_SUPPORT = 0.05  # a smaller p counts as 0: noise would otherwise decide ties of the vote
SPREAD = 0.05  # fraction of the mean squared distance to all rows in a metric's scale
MOST_JUDGED = 3000  # held-out rows in all folds together
TOL = 0.1  # of candidates with a certificate; smaller gaps did not lower the held-out error
# each step of NCA is quadratic in rows and in features
MOST_ROWS_FOR_NCA, MOST_FEATURES_FOR_NCA = 800, 200
MOST_FEATURES_FOR_PRIOR = 200  # with more it takes seconds and equals "frob" on embeddings
# seconds that the default candidates need on one core, at most: per row, feature and value. If
# they stay below this fraction of the time budget nothing is timed, so that the result does not
# depend on the machine
SECONDS_PER_ROW, SECONDS_PER_FEATURE, SECONDS_PER_VALUE, UNHURRIED = 1.2e-3, 2e-2, 1.2e-5, 0.5
TRIAL = 200  # rows that a candidate is timed on when there is a time budget
# time grows with a power of the rows between these: a neighbour search at best, and NCA
LEAST_GROWTH, MOST_GROWTH = 1.2, 2.0
LARGER_TRIAL = 4  # factor between the rows of one trial and of the next
LITTLE = 0.3  # fraction of the remaining seconds that a larger trial may take
CERTAIN = 0.05  # p-value below which the blend is called better or worse
SMALLEST_P_SHOWN = 0.001  # print smaller p-values as "p < 0.001"
LINEAR = 1e-3  # relative error up to which a map counts as linear: float32 stays well within


@dataclass(frozen=True)
class CandidateMethod:
    """An estimator, how many rows and features it can be given, and why not more."""

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
    """Held-out error of each candidate, of their blend and of the plain Euclidean distance.

    Every row is judged by metrics learned without it, and the blend of its fold is weighted by
    the errors in the other folds. The metrics that made those errors did learn from this row, so
    the blend's error can be slightly optimistic, as in any stacking without an outer loop.

    Attributes
    ----------
    error, standard_error : mapping of str to float
        Fraction of rows that the k-NN vote classifies wrongly, for each candidate, "plain" and
        "blend", and its standard error.
    p_value : float
        Exact McNemar test between the blend and the plain distance.
    n_rows, n_neighbors : int
        Held-out rows, and neighbours that vote.

    Examples
    --------
    >>> from conemetric.estimators.automatic import Evidence
    >>> errors = {"plain": 0.063, "frob": 0.045, "blend": 0.041}
    >>> print(Evidence(errors, {name: 0.01 for name in errors}, 0.003, 700, 3))
    better than Euclidean: 4.1 % against 6.3 %, p = 0.003
    """

    error: Mapping[str, float]
    standard_error: Mapping[str, float]
    p_value: float
    n_rows: int
    n_neighbors: int

    def __str__(self) -> str:
        blend, plain, p = self.error[BLEND], self.error[PLAIN], self.p_value
        figures = f"{100 * blend:.1f} % against {100 * plain:.1f} %, " + (
            f"p < {SMALLEST_P_SHOWN}" if p < SMALLEST_P_SHOWN else f"p = {p:.3g}"
        )
        if p >= CERTAIN:
            return f"no measurable gain over Euclidean ({figures}): keep the Euclidean distance"
        if blend > plain:
            return f"worse than Euclidean ({figures}): keep the Euclidean distance"
        return f"better than Euclidean: {figures}"


class AutoMetric(MahalanobisMetric):
    """Mahalanobis metric blended from those of several methods, with evidence of what it
    gains over the plain distance.

    Every candidate is fitted three times, each time without another third of the rows of every
    class (five times without a fifth up to 600 rows). The rows left out judge it, and the fewer
    of them it gets wrong the more it weighs in the blend. How far the blend leaves the plain
    distance depends on its own held-out error: where no metric helps, or the labels are too few
    to tell, it stays close to it or equal to it. Learns from labels only.

    A class with fewer rows than folds is held out in as many folds as it has rows. A class of
    one row is learned from but never judged, and rows without a label (-1) are ignored.

    Candidates that solve a program have certificates (``certificates_``): how close each came
    to the optimum of its own program, on its part of the rows. The blend is the optimum of no
    program, so nothing is proven about it; its gain is measured (``evidence_``).

    Parameters
    ----------
    candidates : "auto" or dict of str to estimator, default="auto"
        "auto" takes `RelativeComparisons`, `FrobMetric` about zero and about the identity
        ("prior", at most 200 features) to a gap of 0.1, linear discriminant analysis with a
        shrunk covariance ("lda") and scikit-learn's `NeighborhoodComponentsAnalysis` (20
        steps, at most 800 rows and 200 features). A dict can hold any estimators that learn from
        labels and transform linearly. The plain distance is always a candidate.
    n_components : int, default=None
        Keep only this many leading directions of the blend (its best approximation of that
        rank). None keeps all.
    time_budget : float, default=None
        Seconds. Candidates are timed on 200 rows, on 800 and more where that tells more, and
        fitted from fast to slow: to half, a quarter, ... of the rows, or not at all, where they
        would otherwise exceed the time left. The result then depends on the machine;
        ``shortened_`` and ``left_out_`` record it. Nothing is timed if the candidates of
        "auto" need at most half of the budget on an ordinary machine (1.2 n + 20 D + 0.012 n D
        milliseconds for n rows of D features). None fits all of them to all rows.
    n_neighbors : int or "auto", default=3
        k of the k-NN vote that judges. "auto" takes the one of 1, 3, 5 and 7 with which the
        plain distance has the lowest held-out error; ``evidence_.n_neighbors`` says which.
    random_state : int, RandomState or None
        Draws the folds, and seeds the candidates.
    n_jobs : int, default=None
        Processes (threads for tensors) that fit the folds of a candidate. On small data they
        help more than BLAS threads.
    verbose : int, default=0
        Print one line per candidate.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; M = ``components_.T @ components_``.
    weights_ : dict of str to float
        Weight of each candidate in the blend; they add up to 1.
    evidence_ : Evidence
        Cross-validated errors of candidates, blend and plain distance; ``print`` it for a
        one-sentence summary.
    certificates_ : dict of str to list of Certificate
        One per fold, for candidates that have them. A solved program does not prove that its
        metric helps; see ``evidence_``.
    shortened_ : dict of str to str
        Candidates that were fitted to part of the rows only: how many, and why.
    left_out_ : dict of str to str
        Candidates that could not be fitted, and why.
    interrupted_ : bool
        Whether Ctrl-C ended the fit: the blend is then of the candidates fitted so far.

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
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        candidates: str | dict[str, Any] = "auto",
        n_components: int | None = None,
        time_budget: float | None = None,
        n_neighbors: int | str = 3,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.candidates = candidates
        self.n_components = n_components
        self.time_budget = time_budget
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, target: str = "auto") -> Self:
        """Learn the blend from labels.

        Parameters
        ----------
        X : array-like or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; continuous targets raise an error.

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
        fewest = self.n_neighbors if isinstance(self.n_neighbors, Integral) else VOTES[0]
        rows = LabelledFolds(X, check_labels(y, fewest), self.n_neighbors, rng)
        found: dict[str, Any] = {
            PLAIN: [rows.judge(np.eye(X.shape[1]), fold) for fold in rows.folds]
        }
        if None in found[PLAIN]:
            raise ValueError(f"all {len(X)} rows of X coincide, so there is no distance to learn.")
        self.certificates_: dict[str, list[Certificate]] = {}
        self.shortened_: dict[str, str] = {}
        self.left_out_: dict[str, str] = {}
        self.interrupted_ = False
        try:
            for name, candidate in self._affordable(candidates, rows):
                with labelled(candidate=name):
                    found[name] = self._fit_candidate(name, candidate, rows)
        except KeyboardInterrupt:
            if is_all_or_nothing():
                raise
            self.interrupted_ = True
        # in an order that does not depend on their speed, so that sums round alike
        found = {name: found[name] for name in (PLAIN, *candidates) if found.get(name)}
        self.weights_, self.evidence_ = rows.weigh(found)
        matrix = sum(
            self.weights_[name] * metric.L @ metric.L.T
            for name, metrics in found.items()
            for metric in metrics
        )
        L = like(spectral.factor(matrix)[:, : self.n_components], X, X.dtype)
        self._forget_threshold()
        self.components_ = transposed(L)
        return self

    def _candidates(self):
        if isinstance(self.candidates, str):
            return default_candidates()
        for name, estimator in self.candidates.items():
            if name in (PLAIN, BLEND):
                raise ValueError(f"candidates has {name!r}, which is a reserved name; use another.")
            if not hasattr(estimator, "fit") or not hasattr(estimator, "transform"):
                raise TypeError(
                    f"candidates has {name!r}: {estimator!r}, which has no fit and transform; give "
                    "an unfitted estimator."
                )
        return {name: CandidateMethod(estimator) for name, estimator in self.candidates.items()}

    def _affordable(self, candidates, rows):
        """Yield name and candidate; with a time budget from fast to slow, each with as many
        rows as the time left allows.
        """
        too_wide = [name for name in candidates if rows.n_features > candidates[name].most_features]
        for name in too_wide:
            self._leave_out(name, f"{rows.n_features} features are too many for it")
        candidates = {name: candidates[name] for name in candidates if name not in too_wide}
        if self.time_budget is None or self._is_unhurried(rows):
            yield from candidates.items()
            return
        end = stopwatch() + self.time_budget
        known = self.candidates == "auto"  # listed from fast to slow, so timed one by one
        trials = {} if known else {name: rows.timed(candidates[name], TRIAL) for name in candidates}
        for name in sorted(candidates, key=lambda name: trials.get(name, 0.0)):
            candidate = candidates[name]
            most = self._rows_within(end, candidate, rows, trials.get(name))
            if most is None:
                left = max(end - stopwatch(), 0.0)
                self._leave_out(
                    name, f"it needs more than the {left:.1f} s left of the time budget"
                )
            elif most < rows.wanted(candidate):
                limit = f"as many as fit into {self.time_budget:g} s on this machine"
                yield name, replace(candidate, most_rows=most, limit=limit)
            else:
                yield name, candidate

    def _is_unhurried(self, rows):
        """Whether the default candidates stay well within the time budget on any ordinary
        machine.
        """
        n, D = rows.X.shape
        seconds = SECONDS_PER_ROW * n + SECONDS_PER_FEATURE * D + SECONDS_PER_VALUE * n * D
        budget = self.time_budget or 0.0
        return self.candidates == "auto" and seconds <= UNHURRIED * budget

    def _rows_within(self, end, candidate, rows, seconds):
        """How many rows of each fold a candidate that takes ``seconds`` for `TRIAL` of them
        (None: not timed yet) can be fitted to before ``end``; None if fewer than `TRIAL`.

        All, half, a quarter, ...: small differences between two runs' timings seldom change
        that.
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
        while needed(wanted) > left() and LARGER_TRIAL * n < wanted:
            if seconds * LARGER_TRIAL**expected > LITTLE * left():
                break
            # many methods grow more slowly than the square: a larger trial shows it
            again = rows.timed(candidate, LARGER_TRIAL * n)
            power = np.log(again / seconds) / np.log(LARGER_TRIAL)
            growth = expected = np.clip(power, LEAST_GROWTH, MOST_GROWTH)
            n, seconds = LARGER_TRIAL * n, again
        while needed(most) > left():
            most //= 2
            if most < TRIAL:
                return None
        return most

    def _fit_candidate(self, name, candidate, rows):
        """The judged metrics of a candidate, one per fold; None if it is left out."""
        began = stopwatch()
        n_rows = rows.wanted(candidate)
        threads = {"prefer": "threads"} if is_torch(rows.X) else {}
        try:
            fits = Parallel(n_jobs=self.n_jobs, **threads)(
                delayed(fit_linear_map)(
                    candidate.estimator, *rows.training(fold, n_rows, candidate), rows.seed
                )
                for fold in rows.folds
            )
        except (ValueError, np.linalg.LinAlgError) as error:
            if self.candidates != "auto":
                raise
            return self._leave_out(name, str(error))
        metrics = [rows.judge(L, fold) for (L, _), fold in zip(fits, rows.folds, strict=True)]
        if None in metrics:
            return self._leave_out(name, "its metric is zero")
        self.certificates_[name] = [certificate for _, certificate in fits if certificate]
        if n_rows < rows.n_train:
            self.shortened_[name] = f"{n_rows:,} of {rows.n_train:,} rows, {candidate.limit}"
        if self.verbose:
            rate = np.concatenate([metric.wrong for metric in metrics]).mean()
            seconds = stopwatch() - began
            print(f"[AutoMetric] {name}: {rate:.1%} wrong on held-out rows, {seconds:.1f} s")
        return metrics

    def _leave_out(self, name, reason):
        self.left_out_[name] = reason
        if self.verbose:
            print(f"[AutoMetric] {name} is left out: {reason}")


class Fold(NamedTuple):
    """Rows to learn from, any leading part of which has the classes in proportion, and rows
    that judge.
    """

    train: np.ndarray
    held_out: np.ndarray


def stratified_folds(drawn: np.ndarray, labels: np.ndarray, n_folds: int) -> list[Fold]:
    """Folds of the drawn rows, dealt out class by class: two folds differ by at most one row in
    size and in every class.

    The only row of a class has no similar row to be near and would count as wrong in any metric:
    it is learned from in every fold and never judged. Classes come in the order in which they
    are drawn, so their names do not matter.
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


class LabelledFolds:
    """Labelled rows divided into folds, each of which judges the metrics learned without it."""

    def __init__(
        self,
        X: Any,
        labels: np.ndarray,
        n_neighbors: int | str,
        rng: np.random.RandomState,
    ) -> None:
        self.X, self.labels = X, labels
        # only differences matter, and a constant feature must be exactly constant: a rounded
        # one has a tiny standard deviation that LDA would divide by
        self.host = to_numpy(X) - to_numpy(X)[:1]
        self.n_features = X.shape[1]
        rows = np.flatnonzero(labels >= 0)  # their own order must not change the folds
        drawn = rng.permutation(rows[canonical_order(self.host[rows], labels[rows])])
        self.seed = int(rng.randint(2**31 - 1))
        self.folds = stratified_folds(drawn, labels, 5 if len(drawn) <= FEW_ROWS else 3)
        self.n_train = max(len(fold.train) for fold in self.folds)
        self.n_neighbors = self._best_vote() if n_neighbors == "auto" else int(n_neighbors)

    def wanted(self, candidate: CandidateMethod) -> int:
        """How many rows of each fold the candidate should learn from."""
        return min(self.n_train, candidate.most_rows)

    def training(self, fold: Fold, n_rows: int, candidate: CandidateMethod) -> tuple[Any, Any]:
        """The first rows to learn from, and their labels: tensors stay tensors for our own
        methods, others get host arrays.
        """
        own = isinstance(candidate.estimator, MahalanobisMetric)
        rows = fold.train[:n_rows]
        return (self.X if own else self.host)[rows], self.labels[rows]

    def timed(self, candidate: CandidateMethod, n_rows: int) -> float:
        """Seconds that a fit to this many rows takes."""
        began = stopwatch()
        with suppress(ValueError, np.linalg.LinAlgError):  # reported once all rows are fitted
            X, y = self.training(self.folds[0], n_rows, candidate)
            fit_linear_map(candidate.estimator, X, y, self.seed)
        return max(stopwatch() - began, 1e-6)  # the clock may not have moved

    def judge(self, L: np.ndarray, fold: Fold) -> JudgedMetric | None:
        """The metric L L' at scale one, and what it gets wrong; None for the zero metric."""
        Z = self.host @ L
        train, held_out = Z[fold.train], Z[fold.held_out]
        distances, labels = self._nearest(Z, fold, self.n_neighbors)
        centre = train.mean(axis=0)
        spread = sum(
            float(np.mean(((rows - centre) ** 2).sum(axis=1))) for rows in (train, held_out)
        )
        scale = float(np.mean(distances**2)) + SPREAD * spread
        if not scale > 0:
            return None
        return JudgedMetric(L / scale**0.5, majority(labels) != self.labels[fold.held_out])

    def _nearest(self, Z, fold, n_neighbors):
        """Distances and labels of the training rows nearest to each held-out row of Z. Ties
        are broken by the rows before any metric, so alike for every metric.
        """
        keys = labelled_keys(self.host[fold.train], self.labels[fold.train])
        return nearest_labels(
            Z[fold.train], self.labels[fold.train], Z[fold.held_out], n_neighbors, keys
        )

    def _best_vote(self):
        """The k of `VOTES` with the fewest held-out errors of the plain distance."""
        wrong = np.zeros(len(VOTES))
        for fold in self.folds:
            _, labels = self._nearest(self.host, fold, max(VOTES))
            truth = self.labels[fold.held_out]
            wrong += [np.sum(majority(labels[:, :k]) != truth) for k in VOTES]
        return VOTES[int(np.argmin(wrong))]

    def weigh(self, found: Mapping[str, list[JudgedMetric]]) -> tuple[dict[str, float], Evidence]:
        """Weights of the candidates, and the evidence for them and for their blend."""
        folds = range(len(self.folds))
        others = [[g for g in folds if g != f] for f in folds]
        # the blend of each fold is weighted by the errors in the others, and so is its support
        by_others = [_weights(_wrong(found, others[f])) for f in folds]
        blends = [self._judge_blend(found, f, by_others[f]) for f in folds]
        metrics = {**found, BLEND: blends}
        wrong = _wrong(metrics, folds)
        weights = _towards_plain(_weights(_wrong(found, folds)), wrong)
        supported = [_towards_plain(by_others[f], _wrong(metrics, others[f])) for f in folds]
        wrong[BLEND] = np.concatenate(
            [self._judge_blend(found, f, supported[f]).wrong for f in folds]
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
        """The blend learned without fold f, judged on it."""
        if weights[PLAIN] == 1:
            return found[PLAIN][f]
        matrix = sum(weights[name] * each[f].L @ each[f].L.T for name, each in found.items())
        return self.judge(spectral.factor(matrix), self.folds[f])


def _wrong(found, folds):
    """What each candidate gets wrong in these folds."""
    return {
        name: np.concatenate([metrics[f].wrong for f in folds]) for name, metrics in found.items()
    }


def _excess(wrong, other):
    """By how many standard errors the first errs more than the other: only rows on which they
    disagree count, plus one, so that two or three rows prove little.
    """
    more, less = np.sum(wrong & ~other), np.sum(other & ~wrong)
    return float((more - less) / (more + less + 1) ** 0.5)


def _weights(wrong):
    """exp(-SHARPNESS (excess over the best)) of each candidate, scaled to add up to 1."""
    best = min(wrong.values(), key=np.mean)
    weights = {name: np.exp(-SHARPNESS * _excess(each, best)) for name, each in wrong.items()}
    total = sum(weights.values())
    return {name: float(weight / total) for name, weight in weights.items()}


def _towards_plain(weights, wrong):
    """The weights, shrunk towards the plain distance as far as the blend's gain is in doubt."""
    needed = CAUTION + FEW_JUDGED / len(wrong[PLAIN])
    gain = _excess(wrong[PLAIN], wrong[BLEND])
    support = float(1 / (1 + np.exp(SHARPNESS * (needed - gain))))
    if support < LEAST_SUPPORT:
        support = 0.0
    shrunk = {name: support * weight for name, weight in weights.items()}
    return {**shrunk, PLAIN: 1 - support * (1 - weights[PLAIN])}


def fit_linear_map(estimator: Any, X: Any, y: Any, seed: int) -> tuple[np.ndarray, Any]:
    """(L, certificate or None) of a clone of the estimator fitted to the rows: transform(x) =
    L'x + a constant.
    """
    estimator = clone(estimator)
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=seed)
    with collected_warnings(), all_or_nothing():
        # held-out rows measure what a candidate is worth, however its solve ended
        known = {"target": "classes"} if has_fit_parameter(estimator, "target") else {}
        estimator.fit(X, y, **known)
    sample = to_numpy(X[:10])
    corners = np.concatenate([np.zeros((1, X.shape[1])), np.eye(X.shape[1]), sample])
    mapped = to_numpy(estimator.transform(corners.astype(sample.dtype))).astype(np.float64)
    L, found = mapped[1 : 1 + X.shape[1]] - mapped[0], mapped[1 + X.shape[1] :] - mapped[0]
    if not abs(found - sample @ L).max() <= LINEAR * abs(found).max():
        raise ValueError(
            f"{type(estimator).__name__} is not a linear map, so it cannot be blended."
        )
    return L, getattr(estimator, "certificate_", None)
