"""MetricRegressor: a metric for a continuous target, and the rule that predicts with it."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..automatic.folds import (
    MOST_JUDGED,
    TOL,
    CrossFitted,
    Fold,
    group_folds,
    n_folds_for,
)
from ..core.arrays import Array, Labels, Rows
from ..core.atomic import atomic_fit
from ..core.dates import holds_times
from ..core.fields import Named, Number, Stored, Text
from ..estimators.validation import check_size, rows_coincide
from ..neighbours.ties import canonical_order
from ..papers.frobmetric.frobmetric import FrobMetric
from .base import DECISION_PARAMETERS, OF_RULES, MetricDecision
from .choice import Choice
from .learned import LearnedMetric, learn_in_folds

FEWEST_ROWS = 10  # below it nothing is held out
# few rows are held out in several partitions into folds, since a choice by one of them is noisy
MOST_PARTITIONS = 3
MOST_HELD_OUT = 1500  # rows by all partitions together


@dataclass(frozen=True)
class RegressionEvidence(Stored):
    """Held-out root mean squared error of every rule that was tried.

    Attributes
    ----------
    error : mapping of str to float
        Root mean squared error, in units of y.
    chosen, usual : str
        The chosen rule; 3-NN in the Euclidean metric.
    r2 : float
        1 - squared error of the chosen rule / variance of y.
    n_rows : int
        Held-out rows.
    """

    error: Annotated[Mapping[str, float], Named(Number(0))]
    chosen: Annotated[str, Text()]
    usual: Annotated[str, Text()]
    r2: Annotated[float, Number(high=1.0)]
    n_rows: Annotated[int, Number(1, whole=True)]

    def __str__(self) -> str:
        return (
            f"error {self.error[self.chosen]:.3g} (R2 {self.r2:.2f}), cross-validated on "
            f"{self.n_rows} rows, against {self.error[self.usual]:.3g} by {self.usual}; {self.chosen}"
        )


@dataclass(eq=False, repr=False)
class MetricRegressor(RegressorMixin, MetricDecision):
    """Regression by learned distances: nearest neighbours, or a blend of kernel ridge
    regressions in several metrics, whichever predicts held-out rows best.

    As `MetricClassifier`, for a continuous y.

    Parameters
    ----------
    metric : "auto", estimator or None, default="auto"
        "auto" is `FrobMetric` learned from the continuous y (none where too many rows are equal to
        learn one), beside metrics of gradients. Any estimator will do that learns from y and
        transforms linearly. None leaves the scaled Euclidean distance.
    regressor : {"auto", "neighbors", "kernel"}, default="auto"
        The rules to choose from.
    categorical_features : array-like, "from_dtype" or None, default="from_dtype"
        Columns of categories, as in `TableEncoder`, which encodes data frames.
    kinds : dict of str or int to str, default=None
        Kinds of columns, as in `TableEncoder`.
    n_landmarks : int or "auto", default="auto"
        As in `MetricClassifier`.
    random_state : int, RandomState or None
        Draws folds and landmarks.
    verbose : int, default=0

    Attributes
    ----------
    metric_, components_, chosen_, certificate_, blend_, encoder_
        As in `MetricClassifier`.
    evidence_ : RegressionEvidence or None
        Held-out error of everything that was tried; None with fewer than ten rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from conemetric import MetricRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = MetricRegressor(random_state=0).fit(X[:300], y[:300])
    >>> regressor.score(X[300:], y[300:]) > 0.4
    True
    """

    _: KW_ONLY
    regressor: str = "auto"

    _parameter_constraints = {**DECISION_PARAMETERS, "regressor": OF_RULES}

    _target = "continuous"

    @atomic_fit(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Rows,
        y: Labels,
        sample_weight: Labels | None = None,
        *,
        groups: Labels | None = None,
    ) -> Self:
        """Learn the metric and the rule.

        Parameters
        ----------
        X : data frame, array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,)
            Numbers to predict.
        sample_weight : array-like (n,), default=None
            Weights of the rows, in the rule and where they are held out; rows of weight 0 are left out.
        groups : array-like (n,), default=None
            Rows with equal entries, such as those of one person, are held out together, so that
            choices, evidence and intervals are for rows of new groups.

        Returns
        -------
        self
        """
        y = _numbers(self._check_y(y))
        observed = self._observed(X, y, sample_weight, groups)
        y = observed.y
        self._y_mean = float(np.average(y, weights=observed.weights))
        self._y_scale = float(y.std()) or 1.0
        choice = self._learn(observed, y, self.regressor)
        self._store_evidence(choice, self._targets(y)[:, 0])
        return self

    def _targets(self, y: np.ndarray) -> np.ndarray:
        return ((_numbers(y) - self._y_mean) / self._y_scale)[:, None]

    def _learn_metric(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> LearnedMetric | None:
        n = len(y)
        if n < FEWEST_ROWS or y.std() == 0:
            return None
        folds = self._folds(X, y, rng, groups)
        if not self._is_auto():
            return learn_in_folds(self.metric, X, y, folds, rng, target=self._target)
        if rows_coincide(X):
            raise ValueError(
                f"all {n} rows of X coincide, so there is no distance to learn; pass columns that "
                "vary, or metric=None to predict the mean of y."
            )
        try:
            return learn_in_folds(FrobMetric(tol=TOL), X, y, folds, rng, target=self._target)
        except ValueError:  # too many equal rows: no triplets, or impostors that all coincide
            return LearnedMetric(CrossFitted(folds, []))

    def _folds(
        self, X: Array, y: np.ndarray, rng: RandomState, groups: np.ndarray | None
    ) -> list[Fold]:
        """The folds of one partition after the other, several of few rows."""
        n = len(y)
        n_folds = n_folds_for(n)
        n_partitions = int(np.clip(MOST_HELD_OUT // n, 1, MOST_PARTITIONS))
        orders = [self._drawn(X, y, rng) for _ in range(n_partitions)]
        folds = []
        for order in orders:
            for train, held_out in _divided(order, n_folds, groups):
                folds.append(Fold(train, held_out[: MOST_JUDGED // n_folds]))
        return folds

    def _drawn(self, X: Array, y: np.ndarray, rng: RandomState) -> np.ndarray:
        return rng.permutation(canonical_order(X, np.zeros(len(y))))

    def _strata(self, y: np.ndarray) -> np.ndarray:
        return np.zeros(len(y), int)

    def _row_losses(self, scores: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return ((scores - Y) ** 2).mean(1)

    def _store_evidence(self, choice: Choice, y: np.ndarray) -> None:
        """Conformal residuals and evidence from the crossed scores of held-out rows; y is scaled as the
        scores are.
        """
        self.evidence_ = None
        self._conformal_scores = np.empty(0)  # sorted: what promises rest on
        if not choice.is_judged:
            return
        truth = y[choice.held_out]
        self._conformal_scores = np.sort(abs(choice.scores[:, 0] - truth)) * self._y_scale
        chosen = str(self.blend_)
        scores_of = {str(trial): trial.scores for trial in choice.trials}
        scores_of[chosen] = choice.scores
        squares = {}
        for name, scores in scores_of.items():
            squares[name] = float(((scores[:, 0] - truth) ** 2).mean())
        self.evidence_ = RegressionEvidence(
            error={name: square**0.5 * self._y_scale for name, square in squares.items()},
            chosen=chosen,
            usual=str(choice.trials[0]),
            r2=1 - squares[chosen] / float(truth.var() or 1.0),
            n_rows=len(truth),
        )

    def predict(self, X: Rows) -> np.ndarray:
        """The predicted number of each row, as a NumPy array (n,)."""
        check_is_fitted(self)
        return self._numbers(self._scores(X))

    def predict_interval(self, X: Rows, alpha: float = 0.1) -> np.ndarray:
        """Intervals that hold the true number with probability 1 - alpha.

        As wide as the 1 - alpha quantile of the held-out residuals (cross-conformal
        prediction), for new rows that are exchangeable with the training rows. Coverage is
        measured, not proven, as for `MetricClassifier.predict_set`.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        alpha : float, default=0.1

        Returns
        -------
        array (n, 2)
            Lower and upper ends.
        """
        self.held_out_for(alpha)
        return self._intervals(self.predict(X), alpha)

    def _numbers(self, scores: np.ndarray) -> np.ndarray:
        """Scores in units of y."""
        return scores[:, 0] * self._y_scale + self._y_mean

    def _intervals(self, centre: np.ndarray, alpha: float) -> np.ndarray:
        """Intervals about predicted numbers."""
        n = self.held_out_for(alpha)
        # at most n by `held_out_for`, but for rounding
        rank = min(int(np.ceil((1 - alpha) * (n + 1))), n)
        half = self._conformal_scores[rank - 1]
        return np.column_stack([centre - half, centre + half])

    _evidence = RegressionEvidence
    _own_fields = {"_y_mean": Number(), "_y_scale": Number(0, strict=True)}

    def _answers(self, scores: np.ndarray, alpha: float) -> dict[str, np.ndarray]:
        answers = {"values": self._numbers(scores)}
        if self.n_held_out_:
            answers["intervals"] = self._intervals(answers["values"], alpha)
        return answers

    def _direction(self, scores: np.ndarray) -> np.ndarray:
        return np.where(scores < 0, -1.0, 1.0)  # away from the mean


def _divided(
    order: np.ndarray, n_folds: int, groups: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows in this order, to learn from and to hold out, fold by fold; whole groups, if there are any."""
    if groups is not None:
        same = np.zeros(len(order), int)  # one class: the rows of numbers are not stratified
        return group_folds(order, same, n_folds, groups)
    fold_of = np.arange(len(order)) % n_folds
    return [(order[fold_of != f], order[fold_of == f]) for f in range(n_folds)]


def _numbers(y: Labels) -> np.ndarray:
    """y in float64; an error unless it holds finite numbers whose squares float64 can hold."""
    if holds_times(np.asarray(y)):
        raise ValueError(
            "y holds dates or durations, whose unit would be lost; pass numbers in a unit of your "
            "choice, such as days: (y - y.min()) / np.timedelta64(1, 'D')."
        )
    try:
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    except (TypeError, ValueError) as error:
        # words mean that y holds classes; other faults, such as NaN, have messages of their own
        if "could not convert" not in str(error):
            raise
        raise ValueError(
            f"y must hold numbers ({error}); use MetricClassifier for classes."
        ) from error
    with np.errstate(over="ignore"):
        check_size(float(np.ptp(y)), y.dtype, "y")
    return y
