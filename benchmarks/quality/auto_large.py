"""k-NN error of `AutoMetric` and of single methods, as they come, on embeddings, digits and letters.

Official splits where there are any. Measured one after the other on all cores, the large ones on a GPU
where PyTorch finds one. Each line has k-NN error, seconds, and what AutoMetric said before the test.
In the end each method stands beside AutoMetric: mean error, and the exact McNemar test over the test
rows of the first split. A cell that is in the file of --out is not measured again.

    python -m benchmarks auto_large
    python -m benchmarks auto_large --sets letter --methods plain FrobMetric AutoMetric --validation

Data: letter, usps11000, debian_minilm384, mnist
Minutes: 60 on four cores and an H200 (estimated)
"""

import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from conemetric import AutoMetric, BoostMetric, FrobMetric, RelativeComparisons
from conemetric.core.clock import stopwatch
from conemetric.evaluation.knn import evenly_by_class, knn_predict
from conemetric.evaluation.statistics import mcnemar

from ..command import command_parser
from ..data import load
from ..output import Records
from ..papers.experiment import on_device
from ..papers.knn_protocol import preprocessing

# label: (data set, preparation, neighbours that vote)
SETS = {
    "letter": ("letter", {"standardise": True}, 3),
    "usps": ("usps11000", {"n_components": 60}, 3),
    "debian, 1-NN": ("debian_minilm384", {}, 1),
    "debian, 10-NN": ("debian_minilm384", {}, 10),
    "mnist": ("mnist", {"n_components": 164}, 3),
}
METHODS = {
    "plain": None,
    "LDA": LinearDiscriminantAnalysis(),
    "RelativeComparisons": RelativeComparisons(random_state=0),
    "FrobMetric": FrobMetric(random_state=0),
    # the mean of three that learned from two thirds of the rows each
    "FrobMetric, parts": AutoMetric(candidates={"frob": FrobMetric()}, random_state=0),
    "BoostMetric": BoostMetric(1e-7, loss="exponential", solver="stagewise", random_state=0),
    "AutoMetric": AutoMetric(random_state=0),
}


def split(data, limit, seed=0, validation=False):
    """Numbers of the rows to learn from and to judge on: the official parts, else seven tenths
    for learning, or four fifths of those and the rest of them; of each at most ``limit``, in
    an order that spreads the classes.
    """
    order = evenly_by_class(np.random.default_rng(seed).permutation(len(data.y)), data.y)
    if data.n_train is None:
        train, test = np.split(order, [int(0.7 * len(order))])
    else:
        train, test = order[order < data.n_train], order[order >= data.n_train]
    if validation:
        train, test = np.split(train, [int(0.8 * len(train))])
    return train[:limit], test[:limit]


def measure(label, method, seed, options):
    name, prepare, k = SETS[label]
    data = load(name)
    estimator = METHODS[method]
    estimator = None if estimator is None else clone(estimator)
    train, test = split(data, options.rows, seed, options.validation)
    prepare = preprocessing(**prepare).fit(data.X[train])
    X = prepare.transform(data.X[train])
    T = prepare.transform(data.X[test])
    y = data.y[train]
    seconds = 0.0
    if isinstance(estimator, AutoMetric):
        estimator.set_params(n_neighbors=k)
    if estimator is not None:
        began = stopwatch()
        estimator.fit(X if method == "LDA" else on_device(X), y)
        seconds = stopwatch() - began
        X = estimator.transform(X)
        T = estimator.transform(T)
    wrong = knn_predict(X, y, T, k) != data.y[test]
    record = {"set": label, "method": method, "split": seed, "rows": len(train)}
    record |= {"error": 100 * wrong.mean(), "seconds": seconds}
    record |= {"judged": len(test), "wrong": np.flatnonzero(wrong).tolist()}
    if isinstance(estimator, AutoMetric):
        record |= {
            "evidence": str(estimator.evidence_),
            "weights": estimator.weights_,
            "shortened": estimator.shortened_,
            "left out": estimator.left_out_,
        }
    return record


def beside_auto(records):
    """Print each method's mean error, and the test between it and AutoMetric."""
    cells = {(r["set"], r["method"], r["split"]): r for r in records}
    for label, method in dict.fromkeys((r["set"], r["method"]) for r in records):
        found = [r for r in records if (r["set"], r["method"]) == (label, method)]
        line = f"{label:14s} {method:20s} {np.mean([r['error'] for r in found]):6.2f} %"
        auto = [cells.get((label, "AutoMetric", r["split"])) for r in found]
        if None not in auto:
            gain = [a["error"] - r["error"] for a, r in zip(auto, found, strict=True)]
            line += f"  AutoMetric {np.mean(gain):+.2f}"
            line += f", better in {sum(g < 0 for g in gain)}, worse in {sum(g > 0 for g in gain)}"
            line += f" of {len(found)}; p = {mcnemar(_mask(found[0]), _mask(auto[0])):.2g}"
        print(line)


def _mask(record):
    return np.isin(np.arange(record["judged"]), record["wrong"])


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, help="learn from and judge on at most so many")
    parser.add_argument("--splits", type=int, default=1, help="of sets without official parts")
    parser.add_argument("--validation", action="store_true", help="leave the test rows alone")
    parser.add_argument("--out", type=Path, default=Path("auto_large.jsonl"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    file = Records(options.out)
    records = file.read()
    done = {(record["set"], record["method"], record["split"]) for record in records}
    for label, seed, method in product(options.sets, range(options.splits), options.methods):
        official = load(SETS[label][0]).n_train is not None
        if (label, method, seed) in done or (official and seed > 0):
            continue
        record = measure(label, method, seed, options)
        records.append(record)
        file.append(record)
        print(
            f"{label:14s} {method:20s} {record['error']:6.2f} % {record['seconds']:7.1f} s ",
            *(record.get(name, "") for name in ("evidence", "weights", "shortened", "left out")),
            flush=True,
        )
    beside_auto(records)
