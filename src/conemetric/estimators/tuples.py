"""Tuples of points, as metric-learn has them: pairs, triplets and quadruplets, with what
a metric says of them.

A tuple is given by its points, in an array (m, 2 | 3 | 4, D), or, with a
``preprocessor``, by their numbers or names (m, 2 | 3 | 4). Of a pair, y says +1 (alike) or -1;
a triplet (a, b, c) says that a is closer to b than to c, a quadruplet (a, b, c, d) that
a is closer to b than c to d.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from ..core.arrays import as_array, is_torch, refuse_masked, to_numpy, unique_rows
from ..neighbours import labelled_keys, nearest

NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}
STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def n_in_tuple(X: Any, preprocessor: Any = None) -> int | None:
    """How many points each tuple of X has; None where X holds single points."""
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) == 3:
        return shape[1]
    return shape[1] if len(shape) == 2 and _names_points(X, preprocessor) else None


def _names_points(X, preprocessor):
    """Whether X holds numbers of points or, for a callable, their names."""
    if preprocessor is None:
        return False
    names = np.asarray(to_numpy(X))
    if names.ndim > 2 or names.dtype.kind in "iu":
        return names.ndim <= 2
    return callable(preprocessor) and names.size > 0 and isinstance(names.flat[0], str)


def look_up(X: Any, preprocessor: Any) -> Any:
    """The points that X numbers or names, where there is a preprocessor; X itself otherwise.

    Parameters
    ----------
    X : array
    preprocessor : array-like (n, D) or callable, or None
        A callable maps an array of numbers or names (k,) to the points (k, D).
    """
    if not _names_points(X, preprocessor):
        return X
    numbers = np.asarray(to_numpy(X))
    flat = numbers.ravel()
    if callable(preprocessor):
        points = preprocessor(flat)
        points = as_array(points)
    else:
        points = as_array(preprocessor)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(points):
            raise ValueError(
                f"X numbers points from {flat.min()} to {flat.max()}; the preprocessor has "
                f"points 0 to {len(points) - 1}."
            )
        points = points[flat]
    return points.reshape(*numbers.shape, points.shape[1])


def unfold(tuples: Any, preprocessor: Any = None) -> tuple[Any, Any]:
    """Distinct points (n, D), and the tuples as their row numbers (m, k).

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.estimators.tuples import unfold
    >>> X, triplets = unfold(np.array([[[0.0], [1.0], [5.0]], [[1.0], [0.0], [7.0]]]))
    >>> X.ravel(), triplets
    (array([0., 1., 5., 7.]), array([[0, 1, 2],
           [1, 0, 3]]))
    """
    refuse_masked(tuples, "X")
    points = look_up(tuples, preprocessor)
    if not is_torch(points):
        points = check_array(
            points, dtype=[np.float64, np.float32], allow_nd=True, input_name="tuples"
        )
    m, k = points.shape[:2]
    if k not in NAMES:
        raise ValueError(
            f"tuples has shape {tuple(points.shape)}; give 2, 3 or 4 points in each: "
            "(n_tuples, 2 | 3 | 4, n_features)."
        )
    rows, number = unique_rows(points.reshape(m * k, -1))
    return rows, number.reshape(m, k)


def _speaks_of_tuples(self):
    """A metric learned from rows says nothing of tuples until it is given a threshold."""
    if hasattr(self, "components_") and self._n_in_tuple is None and "threshold_" not in vars(self):
        raise AttributeError(
            f"This {type(self).__name__} was fitted to rows; fit it to tuples, or give it a "
            "threshold with calibrate_threshold or set_threshold."
        )
    return True


class TupleMethods(BaseEstimator):
    """What a learned metric says of pairs, triplets and quadruplets of points."""

    preprocessor: Any = None
    _n_in_tuple: int | None = None  # of what it was fitted to
    threshold_: float

    def _decide(self, tuples):
        """Larger for what is more likely so: distances of tuples, compared."""
        check_is_fitted(self)
        points = self._tuple_points(tuples)
        if points.shape[1] == 2:
            return -self.pair_distance(points)
        near, far = (points[:, [0, 1]], points[:, [0, 2] if points.shape[1] == 3 else [2, 3]])
        return self.pair_distance(far) - self.pair_distance(near)

    def _tuple_points(self, tuples):
        points = look_up(tuples, self.preprocessor)
        points = as_array(points)
        if points.ndim != 3 or points.shape[1] not in NAMES:
            raise ValueError(
                f"tuples has shape {tuple(points.shape)}; give 2, 3 or 4 points in each: "
                "(n_tuples, 2 | 3 | 4, n_features)"
                + ("." if self.preprocessor is not None else ", or set preprocessor.")
            )
        return points

    @available_if(_speaks_of_tuples)
    def decision_function(self, tuples):
        """How surely each tuple is so: minus the distance of a pair, the distance of the
        far points minus that of the near ones of a triplet or quadruplet.

        Parameters
        ----------
        tuples : array-like (m, 2 | 3 | 4, n_features), or (m, 2 | 3 | 4) with a preprocessor

        Returns
        -------
        array (m,)
        """
        return self._decide(tuples)

    @available_if(_speaks_of_tuples)
    def predict(self, tuples):
        """+1 where a pair is alike (its distance at most ``threshold_``), where a triplet or
        quadruplet is so; -1 elsewhere.

        Parameters
        ----------
        tuples : array-like (m, 2 | 3 | 4, n_features), or (m, 2 | 3 | 4) with a preprocessor

        Returns
        -------
        integer array (m,)
        """
        decision = to_numpy(self._decide(tuples))
        if n_in_tuple(tuples, self.preprocessor) != 2:
            return np.where(decision > 0, 1, -1)
        if not hasattr(self, "threshold_"):
            raise AttributeError(
                "A threshold has not been set; call calibrate_threshold or set_threshold first."
            )
        return np.where(-decision <= self.threshold_, 1, -1)

    def score(self, X, y=None):
        """How well the metric does on tuples or labelled rows, larger is better.

        Parameters
        ----------
        X : array-like
            Pairs (m, 2, n_features) with y: area under the ROC curve. Triplets or
            quadruplets: the part that is so. Rows (n, n_features) with labels y: the
            part whose nearest other row has the same label.
        y : array-like, default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        width = n_in_tuple(X, self.preprocessor)
        if width is None:
            return self._leave_one_out(X, y)
        decision = to_numpy(self._decide(X))
        if width > 2:
            return float(np.mean(decision > 0))
        if y is None:
            raise ValueError("score of pairs needs y: +1 for those alike, -1 for the others.")
        return float(roc_auc_score(_signs(y, len(decision)), decision))

    def _leave_one_out(self, X, y):
        if y is None:
            raise ValueError("score of rows needs their labels y.")
        Z, y = self.transform(X), np.ravel(to_numpy(y))
        if len(y) != len(Z):
            raise ValueError(f"y has {len(y)} labels for {len(Z)} rows of X; give one for each.")
        found = to_numpy(nearest(Z, None, 1, labelled_keys(X, y))[0][:, 0])
        return float(np.mean(y[found] == y))

    def set_threshold(self, threshold: float):
        """Call pairs alike up to this distance.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        try:
            self.threshold_ = float(threshold)
        except (TypeError, ValueError):
            raise ValueError(
                f"threshold={threshold!r} must be a real number, the largest distance of a pair "
                "called alike."
            ) from None
        return self

    def calibrate_threshold(
        self,
        pairs: Any,
        y: Any,
        strategy: str = "accuracy",
        min_rate: float | None = None,
        beta: float = 1.0,
    ):
        """Choose the largest distance of pairs called alike by how it does on given pairs.

        Parameters
        ----------
        pairs : array-like (m, 2, n_features), or (m, 2) with a preprocessor
        y : array-like (m,)
            +1 for pairs alike, -1 for the others.
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}, default="accuracy"
            What to make largest: accuracy, the F-beta score, the rate of true positives
            with a rate of true negatives of at least ``min_rate``, or the other way
            round.
        min_rate : float between 0 and 1, default=None
        beta : float, default=1.0
            How many times recall counts as much as precision; 0 asks for precision alone.

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
        """
        check_is_fitted(self)
        check_calibration(strategy, min_rate, beta)
        distance = -to_numpy(self._decide(pairs)).astype(np.float64)
        self.threshold_ = _threshold(distance, _signs(y, len(distance)), strategy, min_rate, beta)
        return self


def _signs(y, n):
    """y as +1 and -1, one for each of n pairs."""
    y = np.ravel(to_numpy(y))
    if len(y) != n:
        raise ValueError(f"y has {len(y)} values for {n} pairs; give one for each.")
    if not np.isin(y, (-1, 1)).all():
        raise ValueError(f"y of pairs must hold only +1 and -1; got {np.unique(y)[:5]}.")
    return y.astype(np.int64)


def check_calibration(strategy="accuracy", min_rate=None, beta=1.0):
    """Refuse parameters that `TupleMethods.calibrate_threshold` cannot use."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} must be one of {', '.join(STRATEGIES)}.")
    if strategy in ("max_tpr", "max_tnr"):
        if isinstance(min_rate, bool) or not isinstance(min_rate, int | float):
            raise ValueError(f"strategy={strategy!r} needs min_rate, a number; got {min_rate!r}.")
        if not 0 <= min_rate <= 1:
            raise ValueError(f"min_rate={min_rate} must be between 0 and 1.")
    if strategy == "f_beta":
        if isinstance(beta, bool) or not isinstance(beta, int | float):
            raise ValueError(f"beta={beta!r} must be a number.")
        if not beta >= 0:
            raise ValueError(f"beta={beta} must not be negative.")


def _threshold(distance, y, strategy, min_rate, beta):
    """The distance up to which pairs are called alike."""
    if strategy == "f_beta":
        precision, recall, thresholds = precision_recall_curve(y, -distance, pos_label=1)
        below = beta**2 * precision + recall
        score = np.divide(
            (1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=below > 0
        )
        return float(-thresholds[score[:-1].argmax()])
    false_rate, true_rate, thresholds = roc_curve(y, -distance, drop_intermediate=False)
    thresholds[0] = -distance.min() + 1  # the point that calls no pair alike
    if strategy == "accuracy":
        share = np.mean(y == 1)
        best = np.argmax(share * true_rate + (1 - share) * (1 - false_rate))
    elif strategy == "max_tpr":
        best = np.argmax(np.where(1 - false_rate >= min_rate, true_rate, -1.0))
    else:
        best = np.argmax(np.where(true_rate >= min_rate, 1 - false_rate, -1.0))
    return float(-thresholds[best])
