"""Confidence intervals of means, and paired tests of two methods on the same items."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..core.slices import slices
from .thresholds import check_share

SIGNIFICANT = 0.05  # p at or below which a difference counts: the usual 5 %
MAX_DRAWN = 1 << 22  # numbers that the bootstrap draws at a time: 32 MiB
# Signs that the randomisation test draws at a time: each takes two numbers, and the differences with
# these signs are held as well.
MAX_SIGNS_DRAWN = 1 << 18
# Means that differ by no more than this share of the mean differ by rounding.
ROUNDING_RTOL = 1e-14
SMALLEST_P_SHOWN = 0.001  # smaller p-values are shown as "p < 0.001"


def p_in_words(value: float) -> str:
    """A p-value as a sentence shows it, such as "p = 0.02"."""
    if value < SMALLEST_P_SHOWN:
        return f"p < {SMALLEST_P_SHOWN}"
    shown = f"{value:.2g}"
    if (float(shown) <= SIGNIFICANT) != (value <= SIGNIFICANT) or float(shown) == SIGNIFICANT:
        shown = f"{value:.3g}"  # which side of the limit it is on
    return f"p = {shown}"


def mean_interval(values: Any, confidence: float = 0.95) -> tuple[float, float]:
    """Return Student's confidence interval of a mean; infinite for a single value."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"values has shape {values.shape}; pass one number per run.")
    check_share(confidence, "confidence")
    if len(values) == 1:
        return -np.inf, np.inf
    error = values.std(ddof=1) / len(values) ** 0.5
    half_width = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * error)
    mean = float(values.mean())
    return mean - half_width, mean + half_width


def mcnemar(before: np.ndarray, after: np.ndarray) -> float:
    """Return the p-value of the two-sided exact McNemar test of two methods.

    Parameters
    ----------
    before, after : boolean arrays (n_items,)
        Which of the same items each method gets wrong.

    Returns
    -------
    float
        1 if the methods agree on every item.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.statistics import mcnemar
    >>> mcnemar(np.array([True] * 6 + [False] * 4), np.zeros(10, bool))
    0.03125
    """
    fixed = int((before & ~after).sum())
    broken = int((after & ~before).sum())
    if fixed + broken == 0:
        return 1.0
    return float(stats.binomtest(fixed, fixed + broken).pvalue)


class PairedDifference(NamedTuple):
    """Mean of ``after - before`` over ``n`` queries, its bootstrap interval, and the two-sided p-value
    of the randomisation test.
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def paired_difference(
    before: Any,
    after: Any,
    *,
    confidence: float = 0.95,
    n_resamples: int = 9999,
    random_state: int = 0,
) -> PairedDifference:
    """Mean difference between two retrieval systems on the same queries, with a confidence
    interval and a significance test.

    The randomisation test flips the sign of each query's difference at random (Smucker,
    Allan & Carterette, "A comparison of statistical significance tests for information
    retrieval evaluation", CIKM 2007); the interval is the percentile bootstrap's.

    Parameters
    ----------
    before, after : array-like (n_queries,)
        A measure of each system, one value per query; queries where either is NaN are ignored.
    confidence : float, default=0.95
    n_resamples : int, default=9999
    random_state : int, default=0

    Returns
    -------
    PairedDifference

    Examples
    --------
    >>> from conemetric.evaluation.statistics import paired_difference
    >>> result = paired_difference([0.2, 0.5, 0.1, 0.4, 0.3], [0.4, 0.6, 0.4, 0.5, 0.6])
    >>> round(result.difference, 3), result.low > 0, round(result.p_value, 4)
    (0.2, True, 0.0625)
    """
    check_share(confidence, "confidence")
    before = np.asarray(before, dtype=float)
    after = np.asarray(after, dtype=float)
    if before.ndim != 1 or before.shape != after.shape:
        raise ValueError(
            f"before has shape {before.shape} and after {after.shape}; pass one value per query for "
            "each system."
        )
    differences = after - before
    differences = differences[~np.isnan(differences)]
    n = len(differences)
    if n < 2:
        raise ValueError(
            f"before and after both have a value for {n} queries; pass at least 2 such queries."
        )
    bootstrap = stats.bootstrap(
        (differences,),
        np.mean,
        method="percentile",
        confidence_level=confidence,
        n_resamples=n_resamples,
        batch=max(1, MAX_DRAWN // n),
        random_state=random_state,
    )
    return PairedDifference(
        difference=float(differences.mean()),
        low=float(bootstrap.confidence_interval.low),
        high=float(bootstrap.confidence_interval.high),
        p_value=randomisation_test(differences, n_resamples, random_state),
        n=n,
    )


def randomisation_test(differences: np.ndarray, n_resamples: int = 9999, seed: int = 0) -> float:
    """Return the two-sided p-value of a mean among those with random signs, or with all signs if these
    are few.

    The draws, and so the p-value, are those of SciPy's `permutation_test`, which sorts each pair.
    """
    n = len(differences)
    mean = differences.mean()
    all_signs = 2**n <= n_resamples
    if all_signs:
        batches = _all_flips(n)
    else:
        batches = _random_flips(n, n_resamples, seed)
    means = []
    for flips in batches:
        means.append(np.where(flips, -differences, differences).mean(1))
    resampled = np.concatenate(means)
    rounding = ROUNDING_RTOL * abs(mean)
    n_below = np.sum(resampled <= mean + rounding)
    n_above = np.sum(resampled >= mean - rounding)
    # the signs that were observed count too; they are among all signs already
    n_observed = 0 if all_signs else 1
    share = (min(n_below, n_above) + n_observed) / (len(resampled) + n_observed)
    return float(min(1.0, 2 * share))


def _all_flips(n: int) -> Iterator[np.ndarray]:
    """Yield which of n signs to flip, for all 2^n choices at once: the binary digits of 0 ... 2^n - 1."""
    yield np.arange(2**n)[:, None] >> np.arange(n) & 1 == 1


def _random_flips(n: int, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield which of n signs to flip, for random choices, a batch at a time."""
    rng = np.random.RandomState(seed)
    for part in slices(n_resamples, n, MAX_SIGNS_DRAWN):
        # as SciPy draws the order of each pair (difference, -difference)
        pairs = rng.random_sample((part.stop - part.start, n, 2))
        yield pairs[..., 1] < pairs[..., 0]
