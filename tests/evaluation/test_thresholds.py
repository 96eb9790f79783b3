"""Exact bounds against sums over all outcomes, thresholds against brute force, and promises
against draws from known distributions.
"""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from cases import pairs_of
from scipy import stats

from conemetric.evaluation.thresholds import (
    PROMISES,
    ThresholdPromise,
    binomial_upper_bound,
    fewest_needed,
    promised_threshold,
)

CONFIDENCES = (0.5, 0.9, 0.95, 0.999)


def chance_of_at_most(errors, n, rate):
    """P(Binomial(n, rate) <= errors), summed exactly."""
    rate = Fraction(rate)
    return float(sum(comb(n, i) * rate**i * (1 - rate) ** (n - i) for i in range(errors + 1)))


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_bound_is_the_rate_that_the_count_just_allows(n, confidence):
    bounds = [binomial_upper_bound(errors, n, confidence) for errors in range(n + 1)]
    assert bounds[-1] == 1 and (np.diff(bounds) > 0).all()
    for errors, bound in enumerate(bounds[:-1]):
        assert chance_of_at_most(errors, n, bound) == pytest.approx(1 - confidence, rel=1e-9)


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.3, 0.5, 0.9])
def test_one_pair_fewer_is_not_enough(alpha, confidence):
    n = fewest_needed(alpha, confidence)
    assert (1 - alpha) ** n <= (1 - confidence) * (1 + 1e-9)
    assert n == 1 or (1 - alpha) ** (n - 1) > 1 - confidence


# ---- against brute force

KINDS = {
    "normal": lambda rng, n: (abs(rng.normal(size=n)), abs(rng.normal(2, 1, size=n))),
    "apart": lambda rng, n: (rng.random(n), 5 + rng.random(n)),
    "wrong way round": lambda rng, n: (5 + rng.random(n), rng.random(n)),
    "ties": lambda rng, n: (np.round(rng.gamma(2, size=n), 1), np.round(rng.gamma(5, size=n), 1)),
    "discrete": lambda rng, n: (rng.integers(0, 3, n), rng.integers(0, 6, n)),
    "adjacent floats": lambda rng, n: 1 + np.spacing(1) * rng.integers(0, 9, (2, n)),
    "one distance": lambda rng, n: np.ones((2, n)),
    "few similar": lambda rng, n: (rng.gamma(2, size=1), rng.gamma(5, size=n)),
    "no similar": lambda rng, n: (np.empty(0), rng.gamma(5, size=n)),
}


def draw(kind, n, seed):
    """Distances in random order, and which pairs are similar."""
    rng = np.random.default_rng(seed)
    near, far = (np.asarray(part, float) for part in KINDS[kind](rng, n))
    order = rng.permutation(len(near) + len(far))
    similar = np.append(np.ones(len(near), bool), np.zeros(len(far), bool))
    return np.append(near, far)[order], similar[order]


@pytest.mark.cases(6)
@pairs_of(kind=KINDS, strategy=PROMISES, level=((0.02, 0.95), (0.1, 0.99), (0.4, 0.6)))
def test_no_better_threshold_keeps_the_promise(kind, strategy, level, seed):
    alpha, confidence = level
    distance, similar = draw(kind, 250, seed)
    counted = distance[similar if strategy == "min_tpr" else ~similar]
    kept = []  # of all thresholds that differ
    for threshold in np.unique(np.append(distance, 0.0)):
        wrong = counted <= threshold if strategy == "max_fpr" else counted > threshold
        if stats.binom.cdf(wrong.sum(), len(counted), alpha) <= 1 - confidence:
            kept.append(threshold)
    if len(counted) < fewest_needed(alpha, confidence):
        with pytest.raises(ValueError, match=rf"at least .* pairs; got {len(counted)}"):
            promised_threshold(distance, similar, strategy, alpha, confidence)
        return
    if not kept:
        with pytest.raises(ValueError, match="have distance 0"):
            promised_threshold(distance, similar, strategy, alpha, confidence)
        return
    best = max(kept) if strategy == "max_fpr" else min(kept)
    threshold, promise = promised_threshold(distance, similar, strategy, alpha, confidence)
    np.testing.assert_array_equal(distance <= threshold, distance <= best)
    wrong = counted <= threshold if strategy == "max_fpr" else counted > threshold
    assert promise.errors == wrong.sum() <= promise.most_errors
    assert promise.n == len(counted)
    assert (
        promise.bound
        <= alpha
        < binomial_upper_bound(promise.most_errors + 1, promise.n, confidence)
    )


@pytest.mark.parametrize("strategy", PROMISES)
def test_rounding_of_distances_changes_no_decision(strategy, seed):
    distance, similar = draw("normal", 400, seed)
    threshold, _ = promised_threshold(distance, similar, strategy, 0.05)
    for factor in (1 - 1e-12, 1 + 1e-12):
        np.testing.assert_array_equal(distance * factor <= threshold, distance <= threshold)


@pytest.mark.parametrize("kind", ["normal", "ties", "discrete"])
def test_a_cut_off_of_scores_may_be_negative(kind, seed):
    distance, relevant = draw(kind, 400, seed)
    threshold, promise = promised_threshold(distance, relevant, "min_tpr", 0.05)
    cut_off, same = promised_threshold(distance - 100, relevant, "min_tpr", 0.05)
    assert cut_off + 100 == pytest.approx(threshold, abs=1e-9) and same == promise


# ---- against known distributions

N_DRAWS = 300
POPULATIONS = {  # of (similar, dissimilar) distances
    "continuous": (stats.gamma(2), stats.gamma(6)),
    "discrete": (stats.poisson(2, loc=1), stats.poisson(9, loc=1)),
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", POPULATIONS)
@pytest.mark.parametrize("strategy", PROMISES)
@pytest.mark.parametrize(
    ("alpha", "confidence", "n"), [(0.05, 0.95, 60), (0.05, 0.8, 200), (0.2, 0.9, 50)]
)
def test_the_promise_holds_as_often_as_it_says(kind, strategy, alpha, confidence, n, seed):
    rng = np.random.default_rng(seed)
    near, far = POPULATIONS[kind]
    similar, broken = np.arange(2 * n) < n, 0
    for _ in range(N_DRAWS):
        distance = np.append(near.rvs(n, random_state=rng), far.rvs(n, random_state=rng))
        threshold, promise = promised_threshold(distance, similar, strategy, alpha, confidence)
        rate = far.cdf(threshold) if strategy == "max_fpr" else near.sf(threshold)
        broken += rate > alpha
    # the threshold lies between the k-th and the next error; the rate at the latter exceeds
    # alpha if at most k of n errors come before the threshold whose rate is alpha
    k = promise.most_errors
    assert stats.binom.cdf(k, n, alpha) <= 1 - confidence
    assert broken <= stats.binom.ppf(0.9999, N_DRAWS, stats.binom.cdf(k, n, alpha))
    if kind == "continuous":  # no more cautious than needed
        assert broken >= stats.binom.ppf(0.0001, N_DRAWS, stats.binom.cdf(k - 1, n, alpha))


# ---- errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: binomial_upper_bound(3, 2), "errors=3 of n=2"),
        (lambda: binomial_upper_bound(-1, 2), "errors=-1"),
        (lambda: binomial_upper_bound(0, 0), "n=0"),
        (lambda: binomial_upper_bound(0, 5, 1.0), "confidence=1.0"),
        (lambda: fewest_needed(0.0), "alpha=0.0"),
        (lambda: fewest_needed(True), "alpha=True"),
        (lambda: fewest_needed("1"), "alpha='1'"),
        (lambda: fewest_needed(float("nan")), "alpha=nan"),
        (lambda: fewest_needed(1e-300), "alpha=1e-300"),
        (lambda: fewest_needed(0.1, 0), "confidence=0"),
        (lambda: promised_threshold([1.0, np.nan], [True, False], "max_fpr"), "NaN"),
        (lambda: promised_threshold([1.0], [True, False], "max_fpr"), "similar has shape"),
        (lambda: promised_threshold([1.0], [True], "max_fpr", alpha="no"), "alpha='no'"),
        (lambda: promised_threshold([1.0], [True], "max_tpr"), "strategy='max_tpr'"),
        (lambda: promised_threshold(np.ones(9), np.ones(9), "max_fpr"), "299 dissimilar.*got 0"),
        (lambda: promised_threshold(np.ones(9), np.ones(9), "min_tpr"), "299 similar.*got 9"),
        (lambda: ThresholdPromise("max_fpr", 0.1, 0.95, 100, 90), "errors=90 of n=100"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_promise_reads_as_a_sentence():
    assert str(ThresholdPromise("max_fpr", 0.01, 0.95, 1200, 3)) == (
        "at most 1% of dissimilar pairs are called similar, with 95% confidence, for pairs drawn "
        "like the 1,200 dissimilar ones that set the threshold"
    )
