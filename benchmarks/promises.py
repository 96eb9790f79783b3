"""Are promises kept?

    python benchmarks/promises.py thresholds
    python benchmarks/promises.py sets

Thresholds: the share of draws in which the true rate of errors exceeds alpha, which may be at
most 1 - confidence. A metric is learned from a third of the rows; the pairs of the other rows are the population,
so the true rate of every threshold is known. Pairs that set the threshold are drawn

- independent: each at random from the population, with replacement;
- disjoint: from half of the rows, each of which is in one pair;
- all pairs: all pairs of a few rows, which are not independent, so nothing is promised.

Sets: how often `MetricClassifier.predict_set` holds the true class, and how many classes it
names, over draws of training rows; beside a random forest whose sets are made the same way.
"""

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric, MetricClassifier
from conemetric.evaluation.thresholds import fewest_needed, promised_threshold

CONFIDENCE = 0.95
TRAINED = 1 / 3  # share of the rows that the metric is learned from
FEW_ROWS = 40  # whose pairs are all used: about as many pairs as are drawn otherwise


def simulated():
    return make_classification(
        4000, 10, n_informative=6, n_classes=5, n_clusters_per_class=1, random_state=0
    )


# name: rows and labels, alphas (the fewer rows, the larger), rounding of distances
SETS = {
    "digits": (lambda: load_digits(return_X_y=True), (0.01, 0.05), 0),
    "breast cancer": (lambda: load_breast_cancer(return_X_y=True), (0.05, 0.1), 0),
    "wine": (lambda: load_wine(return_X_y=True), (0.1, 0.2), 0),
    "simulated": (simulated, (0.01, 0.05), 0),
    "simulated, ties": (simulated, (0.01, 0.05), 0.25),
}


@dataclass(frozen=True)
class Population:
    """Distances of all pairs of held-out rows, and which are similar."""

    distance: np.ndarray
    similar: np.ndarray
    n_rows: int

    @classmethod
    def learned(cls, X, y, rounding):
        """By a metric learned from the other rows."""
        X, rest, y, labels = train_test_split(X, y, train_size=TRAINED, stratify=y, random_state=0)
        distance = pdist(make_pipeline(StandardScaler(), FrobMetric()).fit(X, y).transform(rest))
        if rounding:  # up, so that no distance is zero
            distance = rounding * np.ceil(distance / rounding)
        one, other = np.triu_indices(len(rest), 1)
        return cls(distance, labels[one] == labels[other], len(rest))

    def number(self, one, other):
        """Where the pair of two rows is among all pairs."""
        low, high = np.minimum(one, other), np.maximum(one, other)
        return low * (2 * self.n_rows - low - 1) // 2 + high - low - 1


def independent(population, alpha, rng):
    n = fewest_needed(alpha, CONFIDENCE)  # with which the promise is tightest
    kinds = (np.flatnonzero(population.similar == kind) for kind in (True, False))
    return np.concatenate([rng.choice(pairs, n) for pairs in kinds])


def disjoint(population, alpha, rng):
    rows = rng.permutation(population.n_rows)[: population.n_rows // 4 * 2]
    return population.number(*rows.reshape(2, -1))


def all_pairs(population, alpha, rng):
    rows = rng.permutation(population.n_rows)[:FEW_ROWS]
    one, other = np.triu_indices(len(rows), 1)
    return population.number(rows[one], rows[other])


def exceeded(population, draw, strategy, alpha, n_draws):
    """True rates of errors in the draws that have enough pairs, and their number of pairs."""
    false_alarms = strategy == "max_fpr"
    counted = np.sort(population.distance[population.similar != false_alarms])
    rng, rates, sizes = np.random.default_rng(0), [], []
    for _ in range(n_draws):
        pairs = draw(population, alpha, rng)
        distance, similar = population.distance[pairs], population.similar[pairs]
        if np.sum(similar != false_alarms) < fewest_needed(alpha, CONFIDENCE):
            continue
        threshold, promise = promised_threshold(distance, similar, strategy, alpha, CONFIDENCE)
        called_similar = np.searchsorted(counted, threshold, side="right") / len(counted)
        rates.append(called_similar if false_alarms else 1 - called_similar)
        sizes.append(promise.n)
    return np.array(rates), sizes


def thresholds(n_draws):
    """False alarms and misses of promised thresholds."""
    print(
        "| data | pairs drawn | strategy | alpha | pairs | draws | mean rate | exceed alpha | p |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    draws, strategies = (independent, disjoint, all_pairs), ("max_fpr", "min_tpr")
    for name, (load, alphas, rounding) in SETS.items():
        population = Population.learned(*load(), rounding)
        for draw, alpha, strategy in product(draws, alphas, strategies):
            rates, sizes = exceeded(population, draw, strategy, alpha, n_draws)
            if len(rates) < n_draws / 2:
                continue  # most draws have too few pairs
            broken = int(np.sum(rates > alpha))
            # chance that so many draws or more exceed alpha if the promise is kept
            p = stats.binom.sf(broken - 1, len(rates), 1 - CONFIDENCE)
            print(
                f"| {name} | {draw.__name__.replace('_', ' ')} | {strategy} | {alpha:g} "
                f"| {np.median(sizes):.0f} | {len(rates)} | {rates.mean():.2%} "
                f"| {broken / len(rates):.1%} | {p:.2g} |",
                flush=True,
            )


ALPHA = 0.1  # of the sets
N_TRAIN, N_NEW = 80, 200  # rows of each draw: few, where sets name more than one class
N_TREES = 50


def overlapping():
    return make_classification(
        4000, 8, n_informative=4, n_classes=4, class_sep=0.7, n_clusters_per_class=1, random_state=0
    )


DRAWN = {
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "simulated": simulated,
    "simulated, overlapping": overlapping,
}


def metric_sets(X, y, new, seed):
    return MetricClassifier(None, random_state=seed).fit(X, y).predict_set(new, ALPHA)


def forest_sets(X, y, new, seed):
    """Cross-conformal sets by the probabilities of a forest."""
    forest = RandomForestClassifier(N_TREES, random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    held_out = cross_val_predict(forest, X, y, cv=folds, method="predict_proba")
    held_out = np.sort(held_out[np.arange(len(y)), y])
    probability = forest.fit(X, y).predict_proba(new)
    as_low = np.searchsorted(held_out, probability, side="right")
    named = (1 + as_low) / (len(y) + 1) > ALPHA
    named[np.arange(len(new)), probability.argmax(1)] = True
    return named


def sets(n_draws):
    """Coverage and size of sets of classes."""
    print(f"alpha = {ALPHA:g}, {N_TRAIN} training rows, {n_draws} draws\n")
    print("| data | classes | coverage | classes named | forest: coverage | classes named |")
    print("|---|---|---|---|---|---|")
    for name, load in DRAWN.items():
        X, y = load()
        figures = []
        for make in (metric_sets, forest_sets):
            held, size = [], []
            for seed in range(n_draws):
                train, new, labels, truth = train_test_split(
                    X, y, train_size=N_TRAIN, stratify=y, random_state=seed
                )
                named = make(train, labels, new[:N_NEW], seed)
                held.append(named[np.arange(len(named)), truth[:N_NEW]].mean())
                size.append(named.sum(1).mean())
            error = np.std(held) / n_draws**0.5
            figures.append(f"{np.mean(held):.1%} ± {error:.1%} | {np.mean(size):.2f}")
        print(f"| {name} | {y.max() + 1} | {' | '.join(figures)} |", flush=True)


PARTS = {"thresholds": thresholds, "sets": sets}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--draws", type=int, default=200)
    args = parser.parse_args()
    PARTS[args.part](args.draws)


if __name__ == "__main__":
    main()
