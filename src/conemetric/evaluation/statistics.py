"""Confidence intervals of means, and paired tests of two methods on the same items."""

from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ..core.slices import slices
from .thresholds import check_share

SIGNIFICANT = 0.05  # p at or below which a difference counts: the usual 5 %
RESAMPLED = 1 << 22  # numbers drawn at a time by the resampling tests: 32 MiB


def mean_interval(values: Any, confidence: float = 0.95) -> tuple[float, float]:
    """Student's confidence interval of a mean; infinite for a single value."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"values has shape {values.shape}; give one number per run.")
    check_share(confidence, "confidence")
    if len(values) == 1:
        return -np.inf, np.inf
    error = values.std(ddof=1) / len(values) ** 0.5
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1) * error)
    return float(values.mean()) - half, float(values.mean()) + half


def mcnemar(before: np.ndarray, after: np.ndarray) -> float:
    """p-value of the two-sided exact McNemar test of two methods.

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
    fixed, broken = int((before & ~after).sum()), int((after & ~before).sum())
    return float(stats.binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0


class PairedDifference(NamedTuple):
    """Mean of ``after - before`` over ``n`` queries, its bootstrap interval, and the
    two-sided p-value of the randomisation test.
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
    before, after = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if before.ndim != 1 or before.shape != after.shape:
        raise ValueError(
            f"give one value per query for each system; got shapes {before.shape} and "
            f"{after.shape}."
        )
    difference = (after - before)[~np.isnan(after - before)]
    if len(difference) < 2:
        raise ValueError(f"{len(difference)} queries have a value for both; at least 2 are needed.")
    options = {"n_resamples": n_resamples, "random_state": random_state, "method": "percentile"}
    options |= {"confidence_level": confidence, "batch": max(1, RESAMPLED // len(difference))}
    spread = stats.bootstrap((difference,), np.mean, **options)
    low, high = (float(end) for end in spread.confidence_interval)
    p_value = randomisation_test(difference, n_resamples, random_state)
    return PairedDifference(float(difference.mean()), low, high, p_value, len(difference))


def randomisation_test(differences: np.ndarray, n_resamples: int = 9999, seed: int = 0) -> float:
    """Two-sided p-value of a mean among those with random signs, or with all signs if these are few.
    The draws, and so the p-value, are those of SciPy's `permutation_test`, which sorts each pair.
    """
    n, rng, mean = len(differences), np.random.RandomState(seed), differences.mean()
    exact = 2**n <= n_resamples
    if exact:
        flipped: Any = [np.arange(2**n)[:, None] >> np.arange(n) & 1 == 1]
    else:
        sizes = [part.stop - part.start for part in slices(n_resamples, n, RESAMPLED >> 4)]
        flipped = (np.diff(rng.random_sample((size, n, 2)))[..., 0] < 0 for size in sizes)
    means = np.concatenate([np.where(each, -differences, differences).mean(1) for each in flipped])
    rounding = 1e-14 * abs(mean)
    extreme = min(np.sum(means <= mean + rounding), np.sum(means >= mean - rounding)) + (not exact)
    return float(min(1.0, 2 * extreme / (len(means) + (not exact))))
