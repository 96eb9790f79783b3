"""Exact bounds on an error rate, from the number of errors among independent pairs.

With k errors among n pairs, the Clopper-Pearson upper bound U(k) is the largest rate p that
the count does not contradict: P(Binomial(n, p) <= k) >= 1 - confidence for all p <= U(k).

C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the
case of the binomial, Biometrika 26 (1934), 404-413.
"""

from itertools import count
from math import floor, log1p

from scipy import stats

__all__ = ["binomial_upper_bound", "fewest_needed"]


def binomial_upper_bound(errors: int, n: int, confidence: float = 0.95) -> float:
    """Upper bound on an error rate: it holds with probability ``confidence`` or more.

    Parameters
    ----------
    errors : int
        Errors observed among ``n`` independent trials.
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
        raise ValueError(f"errors={errors} of n={n}; give 0 <= errors <= n and n >= 1.")
    _check_share(confidence, "confidence")
    return 1.0 if errors == n else float(stats.beta.ppf(confidence, errors + 1, n - errors))


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
    _check_share(alpha, "alpha")
    _check_share(confidence, "confidence")
    # without error the bound is 1 - (1 - confidence)^(1/n)
    start = max(1, floor(log1p(-confidence) / log1p(-alpha)))
    return next(n for n in count(start) if binomial_upper_bound(0, n, confidence) <= alpha)


def _check_share(value: float, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"{name}={value!r} must be a number between 0 and 1.")
