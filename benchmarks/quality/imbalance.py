"""Balanced accuracy of 3-NN where one row in fifty is of the rare class.

By the Euclidean distance, and by metrics learned with equal rows and with balanced classes. Without
--sets, on scikit-learn's `make_classification` (20 features, 12 of them informative). Of a named set,
one class chosen by the seed against 4,000 rows of the others. Half of the rows are for training, half
are held out; nothing is chosen on the latter.

    python -m benchmarks imbalance --seeds 6
    python -m benchmarks imbalance --sets letter optdigits usps11000 --seeds 4

Data: simulated; with --sets the named ones
Minutes: 1; about 10 with the sets above (estimated)
"""

import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from conemetric import BoostMetric, FrobMetric, LMNNEig, RelativeComparisons

from ..command import command_parser
from ..data import load

RATIO = 50
ESTIMATORS = {
    "FrobMetric": FrobMetric,
    "LMNNEig": LMNNEig,
    "BoostMetric": BoostMetric,
    "RelativeComparisons": RelativeComparisons,
}


def made(seed):
    return make_classification(
        4000,
        20,
        n_informative=6,
        n_redundant=6,
        weights=[RATIO / (RATIO + 1)],
        class_sep=0.8,
        flip_y=0.0,
        random_state=seed,
    )


def one_against_others(name, seed):
    data = load(name)
    rng = np.random.default_rng(seed)
    rare = data.y == rng.choice(np.unique(data.y))
    others = rng.choice(np.flatnonzero(~rare), min(4000, (~rare).sum()), replace=False)
    few = rng.choice(np.flatnonzero(rare), len(others) // RATIO, replace=False)
    rows = np.append(few, others)
    return data.X[rows], rare[rows].astype(int)


def score(metric, X, y, X_test, y_test):
    if metric is not None:
        metric.fit(X, y)
        X = metric.transform(X)
        X_test = metric.transform(X_test)
    predicted = KNeighborsClassifier(3).fit(X, y).predict(X_test)
    return balanced_accuracy_score(y_test, predicted)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--estimators", nargs="*", default=["FrobMetric"], choices=ESTIMATORS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    columns = ["Euclidean"]
    for name in options.estimators:
        columns += [name, f"{name} balanced"]
    print("set, seeds, " + ", ".join(columns))
    for name in options.sets or ["make_classification"]:
        rows = []
        for seed in range(options.seeds):
            X, y = one_against_others(name, seed) if options.sets else made(seed)
            X, X_test, y, y_test = train_test_split(
                X, y, stratify=y, test_size=0.5, random_state=seed
            )
            metrics = [None]
            for estimator in options.estimators:
                metrics += [
                    ESTIMATORS[estimator](class_weight=weight) for weight in (None, "balanced")
                ]
            rows.append([score(metric, X, y, X_test, y_test) for metric in metrics])
        print(name, options.seeds, *(f"{value:.3f}" for value in np.mean(rows, axis=0)), flush=True)
