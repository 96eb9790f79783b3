"""One row in fifty is of the rare class: balanced accuracy of 3-NN by the plain distance,
and by metrics learned with equal rows and with balanced classes.

    python benchmarks/imbalance.py --seeds 6
    python benchmarks/imbalance.py --sets letter optdigits usps11000 --seeds 4

Without ``--sets``, on scikit-learn's `make_classification` (20 features, 12 of them
informative). Of a named set, one class chosen by the seed against 4,000 rows of the
others. Half of the rows train, half are judged; nothing is chosen on the latter.
"""

import argparse
import warnings

import numpy as np
from papers.datasets import load
from sklearn.datasets import make_classification
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from conemetric import BoostMetric, FrobMetric, LMNNEig, RelativeComparisons

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
    data, rng = load(name), np.random.default_rng(seed)
    rare = data.y == rng.choice(np.unique(data.y))
    others = rng.choice(np.flatnonzero(~rare), min(4000, (~rare).sum()), replace=False)
    few = rng.choice(np.flatnonzero(rare), len(others) // RATIO, replace=False)
    rows = np.append(few, others)
    return data.X[rows], rare[rows].astype(int)


def score(metric, X, y, X_test, y_test):
    if metric is not None:
        metric.fit(X, y)
        X, X_test = metric.transform(X), metric.transform(X_test)
    predicted = KNeighborsClassifier(3).fit(X, y).predict(X_test)
    return balanced_accuracy_score(y_test, predicted)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--estimators", nargs="*", default=["FrobMetric"], choices=ESTIMATORS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = [
        "plain",
        *(f"{name} {kind}" for name in args.estimators for kind in ("", "balanced")),
    ]
    print("set, seeds, " + ", ".join(column.strip() for column in columns))
    for name in args.sets or ["make_classification"]:
        rows = []
        for seed in range(args.seeds):
            X, y = one_against_others(name, seed) if args.sets else made(seed)
            X, X_test, y, y_test = train_test_split(
                X, y, stratify=y, test_size=0.5, random_state=seed
            )
            metrics = [None]
            for estimator in args.estimators:
                metrics += [
                    ESTIMATORS[estimator](class_weight=weight) for weight in (None, "balanced")
                ]
            rows.append([score(metric, X, y, X_test, y_test) for metric in metrics])
        print(name, args.seeds, *(f"{value:.3f}" for value in np.mean(rows, axis=0)), flush=True)


if __name__ == "__main__":
    main()
