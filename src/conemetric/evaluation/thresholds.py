"""Thresholds of a distance with a guarantee: a bound on the rate of false alarms, or of
misses, that holds for new pairs with a given confidence.

Any threshold keeps the promise that has at most as many errors among n independent pairs as the
Clopper-Pearson bound allows at rate alpha, however it was chosen among these (docs/mathematics/thresholds.md).

C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the
case of the binomial, Biometrika 26 (1934), 404-413.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import count
from math import floor, log1p
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from ..core.advice import AdviceError
from .verification import check_scored_pairs


class CountedErrors(NamedTuple):
    """What a strategy bounds: the pairs that errors are counted among, and what an error is."""

    kind: str
    error: str


PROMISES = {
    "max_fpr": CountedErrors("dissimilar", "called similar"),
    "min_tpr": CountedErrors("similar", "called dissimilar"),
}

MIN_SHARE = 1e-12  # a rate this small would need more pairs than fit in memory


def binomial_upper_bound(errors: int, n: int, confidence: float = 0.95) -> float:
    """Upper bound on an error rate: it holds with probability ``confidence`` or more.

    Parameters
    ----------
    errors : int
        Errors observed in ``n`` independent trials.
    n : int
    confidence : float between 0 and 1, default=0.95

    Returns
    -------
    float
        The exact (Clopper-Pearson) one-sided bound.

    Examples
    --------
    >>> from conemetric.evaluation.thresholds import binomial_upper_bound
    >>> round(binomial_upper_bound(0, 100), 4), round(binomial_upper_bound(3, 100), 4)
    (0.0295, 0.0757)
    """
    if not 0 <= errors <= n or n < 1:
        raise ValueError(f"errors={errors} of n={n}; pass 0 <= errors <= n and n >= 1.")
    check_share(confidence, "confidence")
    if errors == n:
        return 1.0
    return float(betaincinv(errors + 1, n - errors, confidence))


def fewest_needed(alpha: float, confidence: float = 0.95) -> int:
    """Fewest trials that, all without error, bound the error rate by ``alpha``.

    Parameters
    ----------
    alpha : float between 0 and 1
    confidence : float between 0 and 1, default=0.95

    Returns
    -------
    int

    Examples
    --------
    >>> from conemetric.evaluation.thresholds import fewest_needed
    >>> fewest_needed(0.01), fewest_needed(0.05)
    (299, 59)
    """
    check_share(alpha, "alpha")
    check_share(confidence, "confidence")
    # Without error the bound is 1 - (1 - confidence)^(1/n); rounding may make this one too few or more.
    start = max(1, floor(log1p(-confidence) / log1p(-alpha)))
    return next(n for n in count(start) if binomial_upper_bound(0, n, confidence) <= alpha)


def most_errors(n: int, alpha: float, confidence: float = 0.95) -> int:
    """Return the most errors in ``n`` trials that bound the error rate by ``alpha``; -1 if none do."""

    def bound(errors: int) -> float:
        return binomial_upper_bound(errors, n, confidence)

    n_allowed = bisect_right(
        range(n), alpha, key=bound
    )  # counts 0, 1, ... whose bound is low enough
    return n_allowed - 1


def check_share(value: float, name: str) -> None:
    """Refuse a parameter that is not a number between 0 and 1."""
    if not isinstance(value, Real) or not MIN_SHARE <= value < 1:
        raise AdviceError("must be a number between 0 and 1.", {}, name, value)


@dataclass(frozen=True)
class ThresholdPromise:
    """An error rate that a threshold keeps for new pairs, drawn like those that set it.

    Attributes
    ----------
    strategy : {"max_fpr", "min_tpr"}
        Whether errors are dissimilar pairs called similar (false alarms) or similar pairs
        called dissimilar (misses).
    alpha : float
        The guaranteed rate of errors.
    confidence : float
    n : int
        Pairs of the kind that errors are counted among.
    errors : int
        Errors among them.
    """

    strategy: str
    alpha: float
    confidence: float
    n: int
    errors: int

    def __post_init__(self) -> None:
        if type(self.n) is not int or type(self.errors) is not int:
            raise TypeError(f"n={self.n!r} and errors={self.errors!r} must be integers.")
        if self.strategy not in PROMISES:
            raise ValueError(f"strategy={self.strategy!r} must be one of {', '.join(PROMISES)}.")
        needed = fewest_needed(self.alpha, self.confidence)
        if self.n < needed:
            raise ValueError(
                f"strategy={self.strategy!r} with alpha={self.alpha:g} and "
                f"confidence={self.confidence:g} needs at least {needed:,} "
                f"{PROMISES[self.strategy].kind} pairs; got {self.n:,}. Pass more, or raise alpha."
            )
        if not 0 <= self.errors <= self.most_errors:
            raise ValueError(
                f"errors={self.errors} of n={self.n} do not keep alpha={self.alpha:g}; at most "
                f"{self.most_errors} do."
            )

    @property
    def most_errors(self) -> int:
        """The most errors among ``n`` pairs that keep the promise."""
        return most_errors(self.n, self.alpha, self.confidence)

    @property
    def bound(self) -> float:
        """The proven bound on the rate of errors, at most ``alpha``."""
        return binomial_upper_bound(self.most_errors, self.n, self.confidence)

    def __str__(self) -> str:
        kind, error = PROMISES[self.strategy]
        rate = f"{100 * self.alpha:.4g}%"
        confidence = f"{100 * self.confidence:.6g}%"
        return (
            f"at most {rate} of {kind} pairs are {error}, with {confidence} confidence, for pairs "
            f"drawn like the {self.n:,} {kind} ones that set the threshold"
        )


def promised_threshold(
    distance: Any, similar: Any, strategy: str, alpha: float = 0.01, confidence: float = 0.95
) -> tuple[float, ThresholdPromise]:
    """The most useful threshold that guarantees an error rate for new pairs.

    A pair is called similar if its distance is at most the threshold.

    Parameters
    ----------
    distance : array-like (n_pairs,)
        Distances of pairs drawn independently, none of which the metric was learned from.
        With "min_tpr" any numbers that are smaller for more similar pairs, such as negated
        scores of retrieved documents.
    similar : boolean array-like (n_pairs,)
    strategy : {"max_fpr", "min_tpr"}
        The largest threshold with a rate of false positives of at most ``alpha``, or the
        smallest with a rate of true positives of at least ``1 - alpha``.
    alpha : float between 0 and 1, default=0.01
    confidence : float between 0 and 1, default=0.95
        Probability with which the guarantee holds, over draws of the pairs.

    Returns
    -------
    threshold : float
        Midway between distances, so that their rounding does not matter.
    promise : ThresholdPromise

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.thresholds import promised_threshold
    >>> rng = np.random.default_rng(0)
    >>> similar = np.arange(1000) % 2 == 0
    >>> distance = np.where(similar, rng.gamma(2, size=1000), rng.gamma(20, size=1000))
    >>> threshold, promise = promised_threshold(distance, similar, "max_fpr", alpha=0.02)
    >>> round(threshold, 2), promise.errors, round(promise.bound, 4)
    (11.38, 4, 0.0182)
    """
    check_share(alpha, "alpha")
    check_share(confidence, "confidence")
    distance, similar = check_scored_pairs(distance, similar, "distance")
    counts_false_alarms = strategy == "max_fpr"
    counted = distance[~similar] if counts_false_alarms else distance[similar]
    promise = ThresholdPromise(
        strategy=strategy,
        alpha=float(alpha),
        confidence=float(confidence),
        n=len(counted),
        errors=0,
    )
    lower, upper = _best_thresholds(distance, counted, promise)
    # not (lower + upper) / 2, which for two large distances is infinite
    middle = lower + (upper - lower) / 2
    threshold = float(middle)
    if middle >= upper:  # they are adjacent numbers
        threshold = float(lower)
    is_error = counted <= threshold if counts_false_alarms else counted > threshold
    return threshold, replace(promise, errors=int(is_error.sum()))


def _best_thresholds(
    distance: np.ndarray, counted: np.ndarray, promise: ThresholdPromise
) -> tuple[float, float]:
    """Return (lower, upper): all thresholds t with lower <= t < upper decide alike, and are the most
    useful ones with no more errors among the ``counted`` distances than the promise allows.
    """
    k = promise.most_errors
    if promise.strategy == "min_tpr":
        lower = -np.partition(-counted, k)[k]  # k similar pairs at most are farther
        return lower, distance[distance > lower].min(initial=np.inf)
    upper = np.partition(counted, k)[k]  # k dissimilar pairs at most are nearer
    if upper <= 0:
        raise ValueError(
            f"no threshold keeps alpha={promise.alpha:g}: more than {k} of {promise.n:,} dissimilar "
            "pairs have distance 0; raise alpha, or check the pairs."
        )
    return distance[distance < upper].max(initial=0.0), upper
