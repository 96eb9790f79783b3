"""Pair verification: accuracy with thresholds set on other pairs, and the ROC curve."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from ..constraints.in_memory import check_similar
from ..core.arrays import to_numpy


def best_threshold(score: Any, similar: Any) -> tuple[float, float]:
    """The most accurate threshold of a score.

    Parameters
    ----------
    score : array-like (n_pairs,)
        Larger for more similar pairs.
    similar : boolean array-like (n_pairs,)

    Returns
    -------
    threshold : float
        A pair counts as similar if its score is at least this. It lies midway between scores, so
        that their rounding does not matter; infinite if all pairs are best treated alike.
    accuracy : float
        Share of the pairs that it classifies correctly.

    Examples
    --------
    >>> from conemetric.evaluation.verification import best_threshold
    >>> threshold, accuracy = best_threshold([-3.0, -2.0, -1.0, 0.0], [False, False, True, True])
    >>> threshold, accuracy
    (-1.5, 1.0)
    """
    score, similar = check_scored_pairs(score, similar, "score")
    order = np.argsort(-score, kind="stable")
    score = score[order]
    similar = similar[order]
    # accepting the first c pairs is correct for the similar among them and the dissimilar after
    gained = np.cumsum(np.where(similar, 1, -1))
    n_correct = np.sum(~similar) + np.concatenate([[0], gained])
    # equal scores are accepted together
    can_end_here = np.concatenate([[True], score[1:] < score[:-1], [True]])
    n_accepted = int(np.argmax(np.where(can_end_here, n_correct, -1)))
    bounds = np.concatenate([[np.inf], score, [-np.inf]])
    threshold = float(bounds[n_accepted] + bounds[n_accepted + 1]) / 2
    return threshold, float(n_correct[n_accepted] / len(score))


def check_scored_pairs(values: Any, similar: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scores or distances of pairs, and the mask of similar pairs, validated."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} has shape {values.shape}; pass one number for each pair.")
    similar = check_similar(similar, len(values))
    if not np.isfinite(values).all():
        raise ValueError(f"{name} contains NaN or infinity; check the metric that produced it.")
    return values, similar


@dataclass(frozen=True)
class Verification:
    """Accuracy per fold and the ROC curve of all pairs.

    Attributes
    ----------
    accuracy : array (n_folds,)
    false_positive_rate, true_positive_rate : arrays
        The ROC curve.
    auc : float
    equal_error_rate : float
    """

    accuracy: np.ndarray
    false_positive_rate: np.ndarray
    true_positive_rate: np.ndarray
    auc: float
    equal_error_rate: float

    @property
    def mean(self) -> float:
        """Mean accuracy of the folds."""
        return float(self.accuracy.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of that mean."""
        return float(self.accuracy.std(ddof=1) / len(self.accuracy) ** 0.5)


def cross_validate(score: Any, similar: Any, fold: Any) -> Verification:
    """Verify the pairs of each fold with a threshold set on the other folds.

    Parameters
    ----------
    score : array-like (n_pairs,)
        Larger for more similar pairs; by one metric that was learned from none of them.
    similar : boolean array (n_pairs,)
    fold : integer array (n_pairs,)

    Returns
    -------
    Verification

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.verification import cross_validate
    >>> similar, fold = np.array([1, 0, 1, 0], dtype=bool), np.array([0, 0, 1, 1])
    >>> cross_validate([0.9, 0.1, 0.8, 0.3], similar, fold).mean
    1.0
    """
    score, similar = check_scored_pairs(score, similar, "score")
    names = np.unique(fold)
    if np.shape(fold) != score.shape or len(names) < 2:
        raise ValueError(
            f"fold has shape {np.shape(fold)} and names {len(names)} fold(s); pass one for each of "
            f"the {len(score)} pairs, at least 2 in all."
        )
    accuracy = np.empty(len(names))
    for number, name in enumerate(names):
        test = np.asarray(fold) == name
        threshold, _ = best_threshold(score[~test], similar[~test])
        accuracy[number] = np.mean((score[test] >= threshold) == similar[test])
    # of the scores themselves: shifted by the threshold of each fold, the area
    # would change with the folds
    false_positive, true_positive, _ = roc_curve(similar, score)
    # the equal error rate is where false alarms and misses are as frequent, here as near as they come
    crossing = np.argmin(np.abs(false_positive - (1 - true_positive)))
    equal_error_rate = float((false_positive[crossing] + 1 - true_positive[crossing]) / 2)
    return Verification(
        accuracy=accuracy,
        false_positive_rate=false_positive,
        true_positive_rate=true_positive,
        auc=float(roc_auc_score(similar, score)),
        equal_error_rate=equal_error_rate,
    )


def distance_score(metric: Any, X: Any, pairs: Any) -> np.ndarray:
    """Return minus the learned distance of each pair of rows of X (Euclidean if ``metric`` is None)."""
    if metric is not None:
        X = metric.transform(X)
    Z = to_numpy(X)
    pairs = to_numpy(pairs)
    return -np.linalg.norm(Z[pairs[:, 0]] - Z[pairs[:, 1]], axis=1)
