"""`AutoMetric` beside the plain distance with 2, 4, 8 and 16 labelled rows of each class: is it
ever worse?

    CONEMETRIC_DATA=... python benchmarks/few_labels.py [--sets NAME ...] [--per-class N ...] [--draws 5]

Embeddings (debian: the first three quarters are learned from, the rest judge; banking77: its
official parts) and KEEL sets that `AutoMetric` may be tuned on, standardised, a quarter judging.
Per line the mean 1-NN error over the draws, that of the plain distance, their difference, and the
standard error of the difference over the draws.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from papers.datasets import load

from conemetric import AutoMetric
from conemetric.core.compiled import stopwatch
from conemetric.evaluation.knn import evenly_by_class, knn_error, preprocessing

EMBEDDINGS = ("debian_minilm384", "intent_banking77_minilm384")
KEEL = (
    *("australian", "bands", "bupa", "heart", "ionosphere", "iris", "pima"),
    *("segment", "sonar", "vowel", "wdbc", "wine"),
)
MOST_JUDGING = 3000


def draw(name, n_per_class, seed):
    """Rows and labels to learn from, and to judge on."""
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
    test = rng.permutation(test)[:MOST_JUDGING]
    prepare = preprocessing(standardise=name not in EMBEDDINGS).fit(X[few])
    return prepare.transform(X[few]), y[few], prepare.transform(X[test]), y[test]


def measure(name, n_per_class, seed):
    """Error of `AutoMetric` and of the plain distance in per cent, and seconds of the fit."""
    X, y, *test = draw(name, n_per_class, seed)
    began = stopwatch()
    metric = AutoMetric(random_state=seed).fit(X, y)
    seconds = stopwatch() - began
    return *(100 * knn_error(each, X, y, *test, n_neighbors=1) for each in (metric, None)), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=[*EMBEDDINGS, *KEEL])
    parser.add_argument("--per-class", nargs="*", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # classes have fewer rows than targets
    print(f"{'set':28s} rows of a class  AutoMetric  plain  difference (error)  seconds")
    for name in options.sets:
        for n_per_class in options.per_class:
            found = np.array([measure(name, n_per_class, seed) for seed in range(options.draws)])
            (auto, plain, seconds), gain = found.mean(axis=0), found[:, 0] - found[:, 1]
            error = gain.std(ddof=1) / len(gain) ** 0.5
            worse = "worse" if gain.mean() > error else ""
            print(
                f"{name:28s} {n_per_class:15d} {auto:11.2f} {plain:6.2f} {gain.mean():+11.2f} "
                f"({error:.2f}) {seconds:12.1f}  {worse}",
                flush=True,
            )


if __name__ == "__main__":
    main()
