"""What classifier and regressor share: columns scaled, metrics learned fold by fold, a decision
rule chosen by held-out rows and learned from all rows.
"""

from abc import ABCMeta, abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..core.advice import AdviceError
from ..core.arrays import (
    float64,
    identity,
    like,
    namespace,
    on_device,
    refuse_masked,
    take,
    to_numpy,
)
from ..core.blas import half_the_cores, one_blas_thread
from ..core.progress import emit
from ..core.sklearn_private import Interval, StrOptions
from ..core.weights import check_weights
from ..estimators.base import CertifiedEstimator, MahalanobisMetric
from ..estimators.folds import CrossFitted, Fold, fitted_with_map
from ..estimators.validation import dense, validate_points
from ..evaluation.thresholds import check_share
from ..neighbours import nearest
from ..solvers.kernel_ridge import (
    CITY_BLOCK,
    EUCLIDEAN,
    KernelSetting,
    KernelSum,
    fit_exactly,
    fit_landmarks,
    mean_differences,
    ridge_solve,
)
from .held_out import (
    MOST_ROWS,
    HeldOut,
    NeighborVote,
    Rule,
    Trial,
    mapped,
    search_kernels,
    search_votes,
)

__all__ = ["Explanation", "MetricDecision"]

PLAIN, LEARNED = "plain", "learned"
# rows up to which one BLAS thread is fastest: 1,500 x 20 takes 3.0 s with one and 6.0 with two on two
# Neoverse-N1 cores, 2.6 with one and 3.9 with 16 on 16 x86 cores
FEW_ROWS = 2000
# rows up to which the kernel system is solved exactly: 42 GFLOP, 200 MB; on a GPU 2.7 TFLOP, 3.2 GB
MOST_EXACT, MOST_EXACT_ON_GPU = 5000, 20_000
LEAST_WEIGHT = 1e-12  # relative to the largest: float32 holds what a ridge is divided by
MOST_FOR_METRIC = 20_000  # rows that metric and choice are learned from; the rule takes all
# beyond that; see benchmarks/landmarks.py for what they cost in error
N_LANDMARKS, N_LANDMARKS_ON_GPU = 2000, 10_000
# where there are too few rows to hold any out
WITHOUT_FOLDS: dict[str, Rule] = {
    "neighbors": NeighborVote(1),
    "kernel": KernelSetting("gaussian", 1.0, 0.1),
}
DECISION_PARAMETERS: dict[str, Any] = {
    "metric": "no_validation",  # see `check_metric`
    "n_landmarks": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}


@dataclass(frozen=True)
class Explanation:
    """The training rows that decided, and the columns that made them near.

    Attributes
    ----------
    rows : array (n_queries, n)
        Row numbers in the X of ``fit``, the most influential first.
    shares : array (n_queries, n)
        Share of each in the decision: positive if it spoke for it. Over all training rows the
        absolute shares add up to 1.
    nearness : array (n_queries, n, n_features)
        What each column contributes to 1 - d / (mean d), with d the squared distance, or that
        of the city block if the kernel depends on it: positive where the column makes the two
        rows more similar than two average rows.
    """

    rows: np.ndarray
    shares: np.ndarray
    nearness: np.ndarray = field(repr=False)


@dataclass(frozen=True)
class LearnedBefore:
    """An `AutoMetric` that was learned from the rows of the decision before: given as its
    ``metric``, it is taken over with the maps of its folds.
    """

    estimator: Any
    scale: Any  # what the columns were divided by before it was learned


class MetricDecision(CertifiedEstimator, metaclass=ABCMeta):
    """Base of `MetricClassifier` and `MetricRegressor`."""

    metric: Any
    n_landmarks: int | str
    random_state: Any
    n_jobs: int | None
    verbose: int
    _kernels: ClassVar[tuple[str, ...]] = EUCLIDEAN
    _target: ClassVar[str]  # what y is, to a metric that asks

    # ---- input

    def _rows(self, X: Any, reset: bool = False) -> Any:
        """X validated: a dense array or a tensor."""
        return dense(self, validate_points(self, X, reset=reset, sparse=True))

    def _rows_and_targets(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give one "
                "for each row of X."
            )
        refuse_masked(y, "y")
        return self._rows(X, reset=True), column_or_1d(to_numpy(y), warn=True)

    def _weighted(self, X: Any, y: np.ndarray, sample_weight: Any) -> tuple[Any, Any, np.ndarray]:
        """Rows, targets and weights without the rows of weight 0; ``_given`` numbers them."""
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} entries for {len(X)} rows of X; give one for each.")
        weights = check_weights(sample_weight, len(X), "rows of X")
        weights = weights / weights.max()
        least = weights[weights > 0].min()
        if least < LEAST_WEIGHT:
            raise ValueError(
                f"the smallest weight of a row (sample_weight, class_weight) is {least:.1e} of the "
                f"largest; set weights below {LEAST_WEIGHT:g} of it to 0."
            )
        self._given = np.flatnonzero(weights)
        if len(self._given) == len(X):
            return X, y, weights
        return take(X, self._given), y[self._given], weights[self._given]

    # ---- fit

    @abstractmethod
    def _cross_fit(self, X: Any, y: np.ndarray, rng: np.random.RandomState) -> CrossFitted | None:
        """Fit ``metric_`` to all rows and to all folds but one; None without folds. Without a
        metric to learn there are folds but no maps.
        """

    @abstractmethod
    def _loss(self, scores: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> float:
        """What the choice minimises on held-out rows."""

    def _fit_decision(
        self, X: Any, y: np.ndarray, Y: np.ndarray, weights: np.ndarray, rules: str
    ) -> Self:
        """Choose a metric and one of the ``rules`` ("auto", "neighbors" or "kernel") for targets
        Y (n, n_targets), and fit them to all rows.
        """
        check_metric(self.metric)
        rng = check_random_state(self.random_state)
        xp = namespace(X)
        # relative to the first row, so that a constant column has no spread by rounding
        centre, spread = float64(X).mean(0), (float64(X) - float64(X[:1])).std(0)
        self.scale_ = like(xp.where(spread > 0, spread, xp.ones_like(spread)), X)
        X = (X - like(centre, X)) / self.scale_
        self.metric_: Any = None
        self._keys = self._tie_keys(X)
        with one_blas_thread() if len(y) <= FEW_ROWS else half_the_cores():
            fitted = self._cross_fit_some(X, y, rng)
            self.chosen_ = chosen = self._choose(X, Y, weights, fitted, rules, rng)
            L = None if chosen.metric == PLAIN else to_numpy(self._linear_map)
            self.components_ = (
                identity(X.shape[1], X) if L is None else like(L, X).T
            ) / self.scale_
            self._centre = like(centre, X)
            self._fit_rule(chosen.rule, X, mapped(X, L), Y, weights, rng)
        return self

    def _cross_fit_some(self, X, y, rng):
        """`_cross_fit` with at most `MOST_FOR_METRIC` rows; its folds number all rows."""
        if isinstance(self.metric, LearnedBefore):
            self.metric_ = blend = self.metric.estimator
            units = (self.scale_ / self.metric.scale)[:, None]
            self._linear_map = units * blend.components_.T
            folds, maps = blend._cross_fitted
            return CrossFitted(folds, [units * L for L in maps])
        if len(y) <= MOST_FOR_METRIC:
            return self._cross_fit(X, y, rng)
        drawn = self._drawn(X, y, rng)[:MOST_FOR_METRIC]
        fitted = self._cross_fit(take(X, drawn), y[drawn], rng)
        if fitted is None:
            return None
        folds = [Fold(*(drawn[rows] for rows in fold)) for fold in fitted.folds]
        return CrossFitted(folds, fitted.maps)

    def _fit_folds(self, metric, X, y, folds, rng):
        """Fit the metric without each fold, and ``metric_`` to all rows; None: folds only."""
        if metric is None:
            return CrossFitted(folds, [])
        seed = rng.randint(2**31 - 1)
        if not isinstance(metric, MahalanobisMetric):  # others may not take tensors
            X = to_numpy(X)
        maps = [
            fitted_with_map(metric, take(X, train), y[train], seed, self._target)[0]
            for train, _ in folds
        ]
        self._linear_map, self.metric_ = fitted_with_map(metric, X, y, seed, self._target)
        return CrossFitted(folds, maps)

    @abstractmethod
    def _drawn(self, X: Any, y: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """All rows in a random order whose leading part represents the rest."""

    def _choose(self, X, Y, weights, fitted, rules, rng):
        """The trial with the least loss; of equals the simplest. Stores what was tried."""
        self.trials_: list[Trial] = []
        if fitted is None:
            self._judged = np.empty(0, int)
            rule = WITHOUT_FOLDS["kernel" if rules == "auto" else rules]
            return Trial(PLAIN, rule, np.empty((0, Y.shape[1])), np.nan)
        self._judged = fitted.judged
        judged = Y[self._judged], weights[self._judged]
        for name in (PLAIN, LEARNED) if fitted.maps else (PLAIN,):
            rows = HeldOut(X, Y, weights, _in_metric(name, fitted), self._keys, self._kernels)
            self._try_rules(name, rows, lambda scores: self._loss(scores, *judged))
        finalists = [
            min((t for t in self.trials_ if isinstance(t.rule, kind)), key=attrgetter("loss"))
            for name, kind in (("neighbors", NeighborVote), ("kernel", KernelSetting))
            if rules in ("auto", name)
        ]
        size = max(len(fold.train) for fold in fitted.folds)
        if size > min(MOST_ROWS, self._n_landmarks(size)):
            emit("stage", stage="held-out rows judge the rules learned from all others")
            finalists = [
                self._judge_at_full_size(trial, X, Y, weights, fitted, rng) for trial in finalists
            ]
            self.trials_ += finalists
        return finalists[0] if len(finalists) == 1 else self._better(finalists, judged[0])

    @abstractmethod
    def _tie_keys(self, X: Any) -> np.ndarray:
        """Order of rows at equal distances."""

    def _better(self, finalists: list[Trial], Y: np.ndarray) -> Trial:
        """The better of the best vote and the best kernel, given the targets of held-out rows."""
        return min(finalists, key=attrgetter("loss"))

    def _try_rules(self, metric, rows, loss):
        usual = NeighborVote(min(3, rows.most_neighbours))
        self.trials_.append(Trial.judged(metric, usual, rows.vote_scores(usual), loss))
        for search in (search_votes, search_kernels):
            emit("stage", stage=f"decision in the {metric} metric")
            self.trials_.append(search(metric, rows, loss))
            if self.verbose:
                last = self.trials_[-1]
                print(f"[{type(self).__name__}] {last}: held-out loss {last.loss:.4f}")

    def _fit_rule(self, rule, X, Z, Y, weights, rng):
        self._rule, self._Y, self._weights = rule, Y, weights
        self._model: KernelSum | None = None
        self.certificate_: Any = None
        self._kept = np.arange(len(X))
        if isinstance(rule, KernelSetting):
            self._kept = self._landmarks(self._keys, rng)
            self._model, self.certificate_ = _fit_kernel(rule, Z, Y, weights, self._kept)
        self._X, self._Z = take(X, self._kept), take(Z, self._kept)

    def _n_landmarks(self, n):
        """How many of n rows the kernel sum is over: all of a few, some of many."""
        if self.n_landmarks != "auto":
            return min(n, int(self.n_landmarks))
        if on_device(self.scale_):
            return n if n <= MOST_EXACT_ON_GPU else N_LANDMARKS_ON_GPU
        return n if n <= MOST_EXACT else N_LANDMARKS

    def _landmarks(self, keys, rng):
        """Rows that the kernel sum is over, drawn whatever the order of the rows."""
        n = len(keys)
        return np.sort(np.argsort(keys, kind="stable")[rng.permutation(n)[: self._n_landmarks(n)]])

    def _judge_at_full_size(self, trial, X, Y, weights, fitted, rng):
        """The trial with scores by a rule learned from all rows of the other folds."""
        if isinstance(trial.rule, NeighborVote):
            in_metric = _in_metric(trial.metric, fitted)
            scores = HeldOut(X, Y, weights, in_metric, self._keys, most_rows=None).vote_scores(
                trial.rule
            )
        else:
            scores = self._kernel_scores(trial, X, Y, weights, fitted, rng)
        return replace(
            trial, scores=scores, loss=self._loss(scores, Y[self._judged], weights[self._judged])
        )

    def _kernel_scores(self, trial, X, Y, weights, fitted, rng):
        scores = []
        for fold, L in zip(*_in_metric(trial.metric, fitted), strict=True):
            Z, held_out = (mapped(take(X, rows), L) for rows in fold)
            kept = self._landmarks(self._keys[fold.train], rng)
            model, _ = _fit_kernel(trial.rule, Z, Y[fold.train], weights[fold.train], kept)
            scores.append(to_numpy(model(held_out)))
        return np.concatenate(scores)

    # ---- use

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_rule")

    def _mapped(self, X):
        """Scaled rows, and the same mapped by the chosen metric."""
        check_is_fitted(self)
        X = self._rows(X)
        centre, scale, components = (
            like(part, X) for part in (self._centre, self.scale_, self.components_)
        )
        return (X - centre) / scale, (X - centre) @ components.T

    def _scores(self, X: Any) -> np.ndarray:
        """Scores (n, n_targets) of new rows, on the host."""
        _, Z = self._mapped(X)
        if self._model is not None:
            return to_numpy(self._model(like(Z, self._model.points)))
        near, distances = self._nearest(Z)
        return self._rule.scores(distances, self._Y[near], self._weights[near])

    def _nearest(self, Z):
        k = min(self._rule.n_neighbors, len(self._Z))
        found = nearest(like(Z, self._Z), self._Z, k, self._keys)
        return [to_numpy(part) for part in found]

    def _n_held_out(self, alpha):
        """How many held-out rows a promise of ``alpha`` rests on; an error if they are too few."""
        check_is_fitted(self)
        check_share(alpha, "alpha")
        n = len(self._held_out)
        if alpha * (n + 1) < 1:
            raise AdviceError(
                f"needs {int(np.ceil(1 / alpha)) - 1} held-out rows, and there are {n}",
                {"alpha": "raise alpha", "": "learn from more rows"},
                "alpha",
                alpha,
            )
        return n

    def _influence(self, Z):
        """How much each row kept counts (n_queries, n_kept), and for which targets: their product
        is the score, up to the offset.
        """
        model = self._model
        if model is None:
            near, distances = self._nearest(Z)
            influence = np.zeros((len(Z), len(self._kept)))
            shares = self._rule.shares(distances, self._weights[near])
            np.put_along_axis(influence, near, shares, axis=1)
            return influence, self._Y
        across = model.kernel(like(Z, model.points))
        if model.landmarks:
            return to_numpy(across), to_numpy(model.coefficients)
        # f(x) - c = k(x)'(K + ridge W^-1)^-1 (y - c): the weights of the smoother are large for
        # near rows, the coefficients of the kernels for rows with a large residual
        ridge = like(model.setting.ridge / self._weights, across)
        influence = ridge_solve(model.kernel(model.points), ridge, across.T)
        return to_numpy(influence).T, self._Y - to_numpy(model.offset)

    def _explain(self, X: Any, n: int, direction: np.ndarray) -> Explanation:
        """The rows that moved the targets most in a ``direction`` (n_queries, n_targets)."""
        rows, Z = self._mapped(X)
        n = min(n, len(self._kept))
        influence, targets = self._influence(Z)
        parts = influence * (direction @ targets.T)
        top = np.argsort(-abs(parts), axis=1, kind="stable")[:, :n]
        total = abs(parts).sum(1, keepdims=True)
        shares = np.take_along_axis(parts, top, axis=1) / np.where(total > 0, total, 1)
        difference = to_numpy(rows)[:, None, :] - to_numpy(self._X)[top]
        if isinstance(self._rule, KernelSetting) and self._rule.kernel == CITY_BLOCK:
            near_by, typical = abs(difference), mean_differences(to_numpy(self._X))
        else:
            L = to_numpy(self.components_ * self.scale_).T
            near_by = difference * (difference @ L @ L.T)
            spread = to_numpy(self._X) - to_numpy(self._X).mean(0)
            typical = 2 * (spread * (spread @ L @ L.T)).mean(0)
        size = typical.sum() or 1.0
        return Explanation(self._given[self._kept[top]], shares, (typical - near_by) / size)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _in_metric(name, fitted):
    """The folds in the plain metric, or in those learned without each."""
    return fitted if name == LEARNED else fitted._replace(maps=[None] * len(fitted.folds))


def _fit_kernel(setting, Z, Y, weights, kept):
    """Kernel ridge regression over the rows ``kept``, exact if they are all."""
    Y, weights = (like(part, Z, namespace(Z).float64) for part in (Y, weights))
    if len(kept) == len(Z):
        return fit_exactly(setting, Z, Y, weights)
    return fit_landmarks(setting, Z, Y, weights, take(Z, kept))


def check_n_explained(n: Any) -> None:
    """Refuse a number of training rows to name that is not a positive integer."""
    if not isinstance(n, Integral) or n < 1:
        raise ValueError(f"n={n!r} must be an integer, at least 1: the training rows to name.")


def check_metric(metric: Any) -> None:
    """Refuse a metric that is not "auto", None or an estimator that can transform."""
    auto = isinstance(metric, str) and metric == "auto"
    usable = hasattr(metric, "fit") and hasattr(metric, "transform")
    if isinstance(metric, type) or not (
        usable or auto or metric is None or isinstance(metric, LearnedBefore)
    ):
        raise TypeError(
            f"metric={metric!r} is not an estimator with fit and transform; give 'auto', None or an "
            "unfitted estimator of a linear map, such as FrobMetric()."
        )
