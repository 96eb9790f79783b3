"""Whether promises are kept: of thresholds about rates of errors, of prediction sets about coverage.

Thresholds: the share of draws in which the true rate of errors exceeds alpha, which may be at most
1 - confidence. A metric is learned from a third of the rows; the pairs of the other rows are the
population, so the true rate of every threshold is known. Pairs that set the threshold are drawn

- independent: each at random from the population, with replacement;
- disjoint: from half of the rows, each of which is in one pair;
- all pairs: all pairs of a few rows, which are not independent, so nothing is promised.

Sets: how often `MetricClassifier.predict_set` holds the true class and
`MetricRegressor.predict_interval` the true number, and how large they are, over draws of training and
new rows; beside a random forest whose sets are made the same way. Error is that of the predictions for
new rows (of numbers relative to their spread), evidence what the fitted estimator said it would be.

    python -m benchmarks promises thresholds
    python -m benchmarks promises sets --draws 200

Data: digits, breast cancer and wine of scikit-learn; simulated
Minutes: 1 for thresholds, 25 for sets on two cores (estimated)
"""

import warnings
from dataclasses import dataclass
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from scipy.spatial.distance import pdist
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric, MetricClassifier, MetricRegressor
from conemetric.evaluation.thresholds import fewest_needed, promised_threshold

from ..command import command_parser
from ..output import markdown_head, markdown_row

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
        low = np.minimum(one, other)
        high = np.maximum(one, other)
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
    rng = np.random.default_rng(0)
    rates = []
    sizes = []
    for _ in range(n_draws):
        pairs = draw(population, alpha, rng)
        distance = population.distance[pairs]
        similar = population.similar[pairs]
        if np.sum(similar != false_alarms) < fewest_needed(alpha, CONFIDENCE):
            continue
        threshold, promise = promised_threshold(distance, similar, strategy, alpha, CONFIDENCE)
        called_similar = np.searchsorted(counted, threshold, side="right") / len(counted)
        rates.append(called_similar if false_alarms else 1 - called_similar)
        sizes.append(promise.n)
    return np.array(rates), sizes


def thresholds(n_draws):
    """False alarms and misses of promised thresholds."""
    names = ("data", "pairs drawn", "strategy", "alpha", "pairs", "draws", "mean rate")
    print(*markdown_head([*names, "exceed alpha", "p"]), sep="\n")
    draws = (independent, disjoint, all_pairs)
    strategies = ("max_fpr", "min_tpr")
    for name, (load, alphas, rounding) in SETS.items():
        population = Population.learned(*load(), rounding)
        for draw, alpha, strategy in product(draws, alphas, strategies):
            rates, sizes = exceeded(population, draw, strategy, alpha, n_draws)
            if len(rates) < n_draws / 2:
                continue  # most draws have too few pairs
            broken = int(np.sum(rates > alpha))
            # chance that so many draws or more exceed alpha if the promise is kept
            p = stats.binom.sf(broken - 1, len(rates), 1 - CONFIDENCE)
            cells = [
                name,
                draw.__name__.replace("_", " "),
                strategy,
                f"{alpha:g}",
                f"{np.median(sizes):.0f}",
                len(rates),
                f"{rates.mean():.2%}",
                f"{broken / len(rates):.1%}",
                f"{p:.2g}",
            ]
            print(markdown_row(cells), flush=True)


ALPHAS = (0.05, 0.1, 0.2)
N_NEW, N_TREES = 500, 50


def classes(shares, centres, n, rng):
    """Rows of classes with these shares, normally distributed around their centres."""
    y = rng.choice(len(shares), n, p=shares)
    return centres[y] + rng.normal(size=(n, centres.shape[1])), y


def zipf(n_classes):
    shares = 1 / np.arange(1, n_classes + 1)
    return shares / shares.sum()


def numbers(n, rng):
    """Noise that grows from nothing to twice the signal along a column."""
    X = rng.uniform(size=(n, 5))
    signal = np.sin(6 * X[:, 0]) + X[:, 1]
    return X, signal + 2 * X[:, 2] * rng.normal(size=n)


# name: shares of the classes (None: numbers), distance of their centres, training rows
DRAWN = {
    "balanced, 4 classes": (np.full(4, 0.25), 1.2, 120),
    "imbalanced, 4 classes": (np.array([0.7, 0.2, 0.07, 0.03]), 1.2, 120),
    "Zipf, 30 classes": (zipf(30), 2.0, 80),
    "60 equal classes": (np.full(60, 1 / 60), 2.0, 80),
    "numbers, noise that varies": (None, 0.0, 120),
}


def forest_probabilities(X, y, seed):
    """Held-out probabilities of the true classes, in order, and the forest of all rows."""
    forest = RandomForestClassifier(N_TREES, random_state=seed)
    folds = list(KFold(5, shuffle=True, random_state=seed).split(X))
    held_out = []
    for train, rest in folds:
        forest.fit(X[train], y[train])
        found = forest.predict_proba(X[rest])
        place = np.searchsorted(forest.classes_, y[rest]).clip(max=found.shape[1] - 1)
        known = forest.classes_[place] == y[rest]
        held_out.append(np.where(known, found[np.arange(len(rest)), place], 0.0))
    return np.sort(np.concatenate(held_out)), forest.fit(X, y)


def covered_by_classes(shares, apart, n, seed):
    """Of one draw: for each alpha whether sets hold the true class and how many they name, ours and
    those of a forest; the share of new rows that is wrong, and what the evidence says of it.
    """
    rng = np.random.default_rng(seed)
    centres = apart * rng.normal(size=(len(shares), 4))
    (X, y), (new, truth) = (classes(shares, centres, m, rng) for m in (n, N_NEW))
    ours = MetricClassifier(random_state=seed).fit(X, y)
    held_out, forest = forest_probabilities(X, y, seed)
    probability, figures = forest.predict_proba(new), []
    as_low = np.searchsorted(held_out, probability, side="right")
    for alpha in ALPHAS:
        theirs = (1 + as_low) / (n + 1) > alpha
        theirs[np.arange(N_NEW), probability.argmax(1)] = True
        for named in (ours.predict_set(new, alpha), theirs):
            held = named & (ours.classes_ == truth[:, None])
            figures += [held.any(1).mean(), named.sum(1).mean()]
    claimed = ours.evidence_.error[ours.evidence_.chosen]
    return [*figures, np.mean(ours.predict(new) != truth), claimed]


def covered_by_intervals(n, seed):
    """The same for numbers: widths relative to the spread of y, errors to it too."""
    rng = np.random.default_rng(seed)
    (X, y), (new, truth) = numbers(n, rng), numbers(N_NEW, rng)
    ours = MetricRegressor(random_state=seed).fit(X, y)
    forest, figures = RandomForestRegressor(N_TREES, random_state=seed), []
    apart = np.sort(abs(cross_val_predict(forest, X, y, cv=5) - y))
    centre = forest.fit(X, y).predict(new)
    for alpha in ALPHAS:
        half = apart[min(int(np.ceil((1 - alpha) * (n + 1))), n) - 1]
        theirs = np.column_stack([centre - half, centre + half])
        for low, high in (ours.predict_interval(new, alpha).T, theirs.T):
            inside = (low <= truth) & (truth <= high)
            figures += [inside.mean(), (high - low).mean() / truth.std()]
    error = np.mean((ours.predict(new) - truth) ** 2) ** 0.5
    claimed = ours.evidence_.error[ours.evidence_.chosen]
    return [*figures, error / truth.std(), claimed / y.std()]


def draw(shares, apart, n, seed):
    warnings.simplefilter("ignore")  # of classes with few rows
    if shares is None:
        return covered_by_intervals(n, seed)
    return covered_by_classes(shares, apart, n, seed)


def sets(n_draws):
    """Coverage and size of sets of classes and of intervals, and what the evidence says."""
    names = ("data", "alpha", "coverage", "size", "forest: coverage", "size", "error", "evidence")
    print(*markdown_head(names), sep="\n")
    for name, kind in DRAWN.items():
        drawn = Parallel(-1)(delayed(draw)(*kind, seed) for seed in range(n_draws))
        mean = np.mean(drawn, 0)
        error = np.std(drawn, 0) / n_draws**0.5
        for k, alpha in enumerate(ALPHAS):
            cells = [name, f"{alpha:g}"]
            for i in (4 * k, 4 * k + 2):
                cells += [f"{mean[i]:.1%} ± {error[i]:.1%}", f"{mean[i + 1]:.2f}"]
            print(markdown_row([*cells, f"{mean[-2]:.1%}", f"{mean[-1]:.1%}"]), flush=True)


PARTS = {"thresholds": thresholds, "sets": sets}


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args(arguments)
    PARTS[options.part](options.draws)
