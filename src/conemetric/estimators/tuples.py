"""Tuples of points, as in metric-learn: pairs, triplets and quadruplets.

A tuple is given by its points, in an array (m, 2 | 3 | 4, D), or, with a ``preprocessor``,
by their row numbers or names (m, 2 | 3 | 4). A pair has y = +1 (similar) or -1 (dissimilar), or
True or False, or 1 or 0; `predict` returns +1 or -1. A triplet (a, b, c) means that a is closer to
b than to c, a quadruplet (a, b, c, d) that a is closer to b than c to d.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from ..constraints.in_memory import check_similar
from ..core.arrays import as_array, is_torch, refuse_masked, to_numpy, unique_rows
from ..core.atomic import atomic_update
from ..core.slices import slices
from ..core.sparse_rows import SparseRows
from ..evaluation.thresholds import PROMISES, ThresholdPromise, check_share, promised_threshold
from ..neighbours.search import nearest
from ..neighbours.ties import labelled_keys
from .validation import FLOATS

NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}
# a reason why scikit-learn's checks of weights fail: they ask for what an unfitted estimator offers
TUPLES = (
    "and decision_function exists before a fit, which may be to tuples, but not after one to rows"
)
STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr", *PROMISES)


def n_in_tuple(X: Any, preprocessor: Any = None) -> int | None:
    """Number of points in each tuple of X; None if X holds single points."""
    if hasattr(X, "shape"):
        shape = X.shape
    else:
        shape = np.asarray(X).shape  # np.shape refuses what only becomes an array
    if len(shape) == 3 or (len(shape) == 2 and _names_points(X, preprocessor)):
        return shape[1]
    return None


def _names_points(X, preprocessor):
    """Whether X holds row numbers of points or, for a callable, their names."""
    if preprocessor is None:
        return False
    names = np.asarray(to_numpy(X))
    if names.ndim > 2 or names.dtype.kind in "iu":
        return names.ndim <= 2
    return callable(preprocessor) and names.size > 0 and isinstance(names.flat[0], str)


def look_up(X: Any, preprocessor: Any) -> Any:
    """The points whose row numbers or names are in X; X itself without a preprocessor."""
    if not _names_points(X, preprocessor):
        return X
    numbers = np.asarray(to_numpy(X))
    flat = numbers.ravel()
    if callable(preprocessor):
        points = as_array(preprocessor(flat))
    else:
        points = as_array(preprocessor)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(points):
            raise ValueError(
                f"X has row numbers {flat.min()} to {flat.max()}; the preprocessor has "
                f"rows 0 to {len(points) - 1}."
            )
        points = points[flat]
    return points.reshape(*numbers.shape, points.shape[1])


def unfold(tuples: Any, preprocessor: Any = None) -> tuple[Any, Any]:
    """Split tuples into their distinct points (n, D) and the row numbers of these (m, k)."""
    refuse_masked(tuples, "X")
    points = look_up(tuples, preprocessor)
    if not is_torch(points):
        points = check_array(points, dtype=FLOATS, allow_nd=True)
    m, k = points.shape[:2]
    rows, number = unique_rows(points.reshape(m * k, -1))
    return rows, number.reshape(m, k)


def _can_judge_tuples(self):
    """A metric fitted to rows has no `predict` until it has a threshold."""
    if hasattr(self, "components_") and self._n_in_tuple is None and "threshold_" not in vars(self):
        raise AttributeError(
            f"This {type(self).__name__} was fitted to rows. To predict their labels, put a classifier "
            f"after it: make_pipeline({type(self).__name__}(), KNeighborsClassifier()). To classify pairs, "
            "fit it to tuples, or set a threshold with calibrate_threshold or set_threshold."
        )
    return True


class TupleMethods(BaseEstimator):
    """Predictions and scores of a learned metric for pairs, triplets and quadruplets."""

    preprocessor: Any = None
    _n_in_tuple: int | None = None  # of the training tuples; None if fitted to rows
    threshold_: float
    threshold_promise_: ThresholdPromise | None = None
    transform: Callable[[Any], Any]
    pair_distance: Callable[[Any], Any]

    def _decide(self, tuples):
        """`decision_function`, also without a threshold."""
        check_is_fitted(self)
        points = as_array(look_up(tuples, self.preprocessor))
        if points.ndim != 3 or points.shape[1] not in NAMES:
            raise ValueError(
                f"tuples has shape {tuple(points.shape)}; pass 2, 3 or 4 points in each, (n_tuples, "
                "2 | 3 | 4, n_features), or set preprocessor."
            )
        if points.shape[1] == 2:
            return -self.pair_distance(points)
        near = points[:, [0, 1]]
        if points.shape[1] == 3:
            far = points[:, [0, 2]]
        else:
            far = points[:, [2, 3]]
        return self.pair_distance(far) - self.pair_distance(near)

    @available_if(_can_judge_tuples)
    def decision_function(self, tuples: Any) -> Any:
        """Score each tuple: larger means more likely similar, or correctly ordered.

        Parameters
        ----------
        tuples : array-like (m, 2 | 3 | 4, n_features), or (m, 2 | 3 | 4) with a preprocessor

        Returns
        -------
        array (m,)
            Minus the distance of a pair; the distance of the far points minus that of the
            near ones of a triplet or quadruplet.
        """
        return self._decide(tuples)

    @available_if(_can_judge_tuples)
    def predict(self, tuples: Any) -> np.ndarray:
        """Predict +1 for similar pairs (distance at most ``threshold_``) and for correctly
        ordered triplets and quadruplets, else -1.

        Parameters
        ----------
        tuples : array-like (m, 2 | 3 | 4, n_features), or (m, 2 | 3 | 4) with a preprocessor

        Returns
        -------
        integer array (m,)
        """
        decision = to_numpy(self._decide(tuples)).astype(np.float64)
        if n_in_tuple(tuples, self.preprocessor) != 2:
            return np.where(decision > 0, 1, -1)
        if not hasattr(self, "threshold_"):
            raise AttributeError(
                "A threshold has not been set; call calibrate_threshold or set_threshold first."
            )
        return np.where(-decision <= self.threshold_, 1, -1)

    def score(self, X: Any, y: Any = None) -> float:
        """Score the metric on tuples or labelled rows; larger is better.

        Parameters
        ----------
        X : array-like
            Pairs (m, 2, n_features) with y: area under the ROC curve. Triplets or
            quadruplets: share that is correctly ordered. Rows (n, n_features) with
            labels y: share whose nearest other row has the same label.
        y : array-like, default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        width = n_in_tuple(X, self.preprocessor)
        if width is not None and width > 2:
            return float(np.mean(to_numpy(self._decide(X)) > 0))
        if y is None:
            raise ValueError("score needs y: labels of rows, +1 or -1 for (dis)similar pairs.")
        if width == 2:
            decision = to_numpy(self._decide(X))
            return float(roc_auc_score(_signs(y, len(decision)), decision))
        Z = self.transform(X)
        y = np.ravel(to_numpy(y))
        check_consistent_length(Z, y)
        # ties are broken by the rows, so that their order does not matter
        found = to_numpy(nearest(Z, None, 1, labelled_keys(X, y))[0][:, 0])
        return float(np.mean(y[found] == y))

    @atomic_update
    def set_threshold(self, threshold: float) -> Self:
        """Set the largest distance at which `predict` calls a pair similar.

        Parameters
        ----------
        threshold : float

        Returns
        -------
        self
        """
        check_is_fitted(self)
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError):
            raise ValueError(f"threshold={threshold!r} must be a real number.") from None
        self.threshold_promise_ = None
        return self

    @atomic_update
    def calibrate_threshold(
        self,
        pairs: Any,
        y: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        alpha: float = 0.01,
        confidence: float = 0.95,
    ) -> Self:
        """Choose the threshold of `predict` that does best on labelled pairs.

        With strategy "max_fpr" or "min_tpr" the threshold has a guarantee for new pairs: with
        probability ``confidence`` over draws of ``pairs``, the rate of errors among new pairs is at
        most ``alpha``. This needs pairs that were drawn independently and that the metric was not
        learned from. ``threshold_promise_`` records the guarantee, and a metric file keeps it.

        Parameters
        ----------
        pairs : array-like (m, 2, n_features), or (m, 2) with a preprocessor
        y : array-like (m,)
            Which pairs are similar: +1 and -1, True and False, or 1 and 0.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr", "max_fpr", "min_tpr"}, default="accuracy"
            What to maximise: accuracy, the F-beta score, or the rate of true positives
            (negatives) with a rate of true negatives (positives) of at least ``min_rate``
            on these pairs. "max_fpr" takes the largest threshold that guarantees a rate of
            false positives of at most ``alpha``, "min_tpr" the smallest that guarantees a rate
            of true positives of at least ``1 - alpha``.
        min_rate : float between 0 and 1, default=None
        beta : float, default=1.0
            Weight of recall relative to precision; 0 means precision alone.
        alpha : float between 0 and 1, default=0.01
            Guaranteed rate of errors; used by "max_fpr" and "min_tpr".
        confidence : float between 0 and 1, default=0.95
            Probability with which the guarantee holds.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from conemetric import FrobMetric
        >>> X, y = load_iris(return_X_y=True)
        >>> pairs = X[[[0, 1], [50, 51], [0, 50], [1, 100]]]
        >>> metric = FrobMetric().fit(X, y).calibrate_threshold(pairs, [1, 1, -1, -1])
        >>> metric.predict(pairs)
        array([ 1,  1, -1, -1])

        A threshold with a guarantee, from pairs of rows that were not used in the fit:

        >>> import numpy as np
        >>> rows = np.random.default_rng(0).permutation(np.arange(1, 150, 2))[:74].reshape(-1, 2)
        >>> similar = np.where(y[rows[:, 0]] == y[rows[:, 1]], 1, -1)
        >>> metric = FrobMetric().fit(X[::2], y[::2])
        >>> metric = metric.calibrate_threshold(X[rows], similar, "max_fpr", alpha=0.2)
        >>> promise = metric.threshold_promise_
        >>> promise.n, promise.errors, round(promise.bound, 3)
        (20, 0, 0.139)
        """
        check_is_fitted(self)
        check_calibration(strategy, min_rate, beta, alpha, confidence)
        distance = -to_numpy(self._decide(pairs)).astype(np.float64)
        return self._calibrate(distance, y, strategy, min_rate, beta, alpha, confidence)

    def _distances(self, points: Any, pairs: Any) -> np.ndarray:
        """The distances of pairs of validated points, a bounded number at a time."""
        n_features = points.shape[1]
        found = []
        for at in slices(len(pairs), 2 * n_features):
            ends = points[pairs[at].reshape(-1)]
            if isinstance(ends, SparseRows):
                ends = ends.toarray()
            distance = self.pair_distance(ends.reshape(-1, 2, n_features))
            found.append(to_numpy(distance).astype(np.float64))
        return np.concatenate(found)

    def _calibrate(
        self,
        distance: np.ndarray,
        y: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
        alpha: float = 0.01,
        confidence: float = 0.95,
    ) -> Self:
        """Set the threshold by the distances of pairs, as `calibrate_threshold` does."""
        y = _signs(y, len(distance))
        promise = None
        if strategy in PROMISES:
            threshold, promise = promised_threshold(distance, y == 1, strategy, alpha, confidence)
        else:
            threshold = _threshold(distance, y, strategy, min_rate, beta)
        self.threshold_ = threshold
        self.threshold_promise_ = promise
        return self


def _signs(y, n):
    """+1 for similar and -1 for dissimilar ones of n pairs, from y in any of the three forms."""
    return np.where(check_similar(np.ravel(to_numpy(y)), n, "y"), 1, -1)


def check_calibration(
    strategy: str = "accuracy",
    min_rate: Any = None,
    beta: Any = 1.0,
    alpha: Any = 0.01,
    confidence: Any = 0.95,
) -> None:
    """Refuse parameters that `TupleMethods.calibrate_threshold` cannot use."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} must be one of {', '.join(STRATEGIES)}.")
    if strategy in ("max_tpr", "max_tnr") and not (_is_number(min_rate) and 0 <= min_rate <= 1):
        raise ValueError(f"strategy={strategy!r} needs min_rate between 0 and 1; got {min_rate!r}.")
    if strategy == "f_beta" and not (_is_number(beta) and beta >= 0):
        raise ValueError(f"beta={beta!r} must be a number, 0 or larger.")
    if strategy in PROMISES:
        check_share(alpha, "alpha")
        check_share(confidence, "confidence")


def check_calibration_of_fit(calibration: dict[str, Any]) -> None:
    """Refuse parameters with which the pairs that a metric is learned from cannot set its threshold."""
    check_calibration(**calibration)
    if calibration.get("strategy") in PROMISES:
        raise ValueError(
            f"strategy={calibration['strategy']!r} needs pairs that the metric was not learned "
            "from; call calibrate_threshold with held-out pairs after fit."
        )


def _is_number(value):
    """Whether a parameter is a real number; a boolean is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _threshold(distance, y, strategy, min_rate, beta):
    """The distance up to which to call a pair similar: midway between two pairs, so that new pairs,
    and rounding, have room on either side.
    """
    lower = _largest_similar(distance, y, strategy, min_rate, beta)
    upper = distance[distance > lower].min(initial=np.inf)
    middle = lower + (upper - lower) / 2
    return float(middle) if lower < middle < upper < np.inf else lower


def _largest_similar(distance, y, strategy, min_rate, beta):
    """The distance of the last pair to be called similar."""
    if strategy == "f_beta":
        precision, recall, thresholds = precision_recall_curve(y, -distance, pos_label=1)
        product = (1 + beta**2) * precision * recall
        below = beta**2 * precision + recall
        score = np.divide(product, below, out=np.zeros_like(below), where=below > 0)
        # the last point of the curve, of recall 0, has no threshold
        return float(-thresholds[score[:-1].argmax()])
    false_rate, true_rate, thresholds = roc_curve(y, -distance, drop_intermediate=False)
    thresholds[0] = -distance.min() + 1  # the point that calls no pair similar
    if strategy == "accuracy":
        share = np.mean(y == 1)
        best = np.argmax(share * true_rate + (1 - share) * (1 - false_rate))
    elif strategy == "max_tpr":
        best = np.argmax(np.where(1 - false_rate >= min_rate, true_rate, -1.0))
    else:
        best = np.argmax(np.where(true_rate >= min_rate, 1 - false_rate, -1.0))
    return float(-thresholds[best])
