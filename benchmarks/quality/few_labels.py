"""Is `AutoMetric` ever worse than the plain distance with 2, 4, 8 or 16 labelled rows per class?
And with --classifiers: `MetricClassifier` beside logistic regression, its C cross-validated.

    CONEMETRIC_DATA=... python benchmarks/few_labels.py [--sets NAME ...] [--per-class N ...] [--draws 5]
    [--classifiers]

Embeddings (debian: train on the first three quarters, test on the rest; banking77: its official
split) and standardised KEEL sets that `AutoMetric` may be tuned on, tested on a quarter of the
rows. Each line gives the mean error over the draws (of 1-NN, or of the classifier), that of the
plain distance or of logistic regression, their difference, and its standard error.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from papers.datasets import load
from papers.knn_protocol import preprocessing
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from conemetric import AutoMetric, MetricClassifier
from conemetric.core.clock import stopwatch
from conemetric.evaluation.knn import evenly_by_class, knn_error

EMBEDDINGS = ("debian_minilm384", "intent_banking77_minilm384")
KEEL = (
    *("australian", "bands", "bupa", "heart", "ionosphere", "iris", "pima"),
    *("segment", "sonar", "vowel", "wdbc", "wine"),
)
MOST_TEST_ROWS = 3000


def draw(name, n_per_class, seed):
    """Training rows and labels, test rows and labels."""
    rng = np.random.default_rng(seed)
    if name in EMBEDDINGS:
        data = np.load(Path(os.environ["CONEMETRIC_DATA"]) / f"{name}.npz")
        X, y = data["X"].astype(np.float64), data["y"]
        first = data["split"] == "train" if "split" in data else np.arange(len(y)) < 0.75 * len(y)
        train, test = np.flatnonzero(first), np.flatnonzero(~first)
    else:
        data = load(f"keel_{name}")
        X, y = data.X, data.y
        order = evenly_by_class(np.random.default_rng([seed, 1]).permutation(len(y)), y)
        train, test = np.split(order, [3 * len(order) // 4])
    few = np.concatenate(
        [rng.permutation(train[y[train] == c])[:n_per_class] for c in np.unique(y)]
    )
    test = rng.permutation(test)[:MOST_TEST_ROWS]
    prepare = preprocessing(standardise=name not in EMBEDDINGS).fit(X[few])
    return prepare.transform(X[few]), y[few], prepare.transform(X[test]), y[test]


def measure(name, n_per_class, seed):
    """1-NN error of `AutoMetric` and of the plain distance in per cent, and seconds of the fit."""
    X, y, *test = draw(name, n_per_class, seed)
    began = stopwatch()
    metric = AutoMetric(random_state=seed).fit(X, y)
    seconds = stopwatch() - began
    return *(100 * knn_error(each, X, y, *test, n_neighbors=1) for each in (metric, None)), seconds


def measure_classifiers(name, n_per_class, seed):
    """Error of `MetricClassifier` and logistic regression in per cent, and seconds of the fit."""
    X, y, rows, labels = draw(name, n_per_class, seed)
    began = stopwatch()
    classifier = MetricClassifier(random_state=seed).fit(X, y)
    seconds = stopwatch() - began
    linear = GridSearchCV(
        LogisticRegression(max_iter=1000), {"C": [0.1, 1, 10, 100]}, cv=min(5, n_per_class)
    ).fit(X, y)
    errors = (100 * float(np.mean(each.predict(rows) != labels)) for each in (classifier, linear))
    return *errors, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[*EMBEDDINGS, *KEEL])
    parser.add_argument("--per-class", nargs="*", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--classifiers", action="store_true")
    options = parser.parse_args()
    one, other = (
        ("MetricClassifier", "logistic regression")
        if options.classifiers
        else ("AutoMetric", "plain")
    )
    measured = measure_classifiers if options.classifiers else measure
    warnings.simplefilter("ignore")  # classes have fewer rows than targets
    print(f"{'set':28s} rows per class  {one}  {other}  difference (error)  seconds")
    for name in options.sets:
        for n_per_class in options.per_class:
            found = np.array([measured(name, n_per_class, seed) for seed in range(options.draws)])
            (ours, theirs, seconds), gain = found.mean(axis=0), found[:, 0] - found[:, 1]
            error = gain.std(ddof=1) / len(gain) ** 0.5
            worse = "worse" if gain.mean() > error else ""
            print(
                f"{name:28s} {n_per_class:15d} {ours:11.2f} {theirs:6.2f} {gain.mean():+11.2f} "
                f"({error:.2f}) {seconds:12.1f}  {worse}",
                flush=True,
            )


if __name__ == "__main__":
    main()
