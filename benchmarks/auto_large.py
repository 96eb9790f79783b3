"""`AutoMetric` beside single methods, as they come, on embeddings and on digits and letters
with their official splits: k-NN error, seconds, and what AutoMetric said before the test.

    CONEMETRIC_DATA=... python benchmarks/auto_large.py [--sets NAME ...] [--methods NAME ...]
    [--rows N] [--time-budget S] [--out auto_large.jsonl]

Measured one after the other on all cores, the large ones on a GPU where PyTorch finds one.
A cell that is in the file is not measured again.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from conemetric import AutoMetric, BoostMetric, FrobMetric, RelativeComparisons
from conemetric.datasets import load
from conemetric.evaluation.knn import Split, evaluate, evenly_by_class, preprocessing
from conemetric.reproduce.device import on_device

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
    "BoostMetric": BoostMetric(1e-7, loss="exponential", solver="stagewise", random_state=0),
    "AutoMetric": AutoMetric(random_state=0),
}


def split(data, limit):
    """The official parts, else seven tenths for learning; of the training rows, the first
    ``limit`` in an order that spreads the classes.
    """
    order = evenly_by_class(np.random.default_rng(0).permutation(len(data.y)), data.y)
    if data.n_train is None:
        train, test = np.split(order, [int(0.7 * len(order))])
    else:
        train, test = order[order < data.n_train], order[order >= data.n_train]
    return Split(train[:limit], order[:0], test[:limit])


def measure(label, method, limit, time_budget):
    name, prepare, k = SETS[label]
    data, estimator = load(name), METHODS[method]
    if method == "AutoMetric":
        estimator = estimator.set_params(n_neighbors=k, time_budget=time_budget)
    place = None if method == "LDA" else on_device
    parts = split(data, limit)
    outcome = evaluate(
        estimator,
        data.X,
        data.y,
        parts,
        prepare=preprocessing(**prepare),
        n_neighbors=k,
        place=place,
    )
    record = {"set": label, "method": method, "rows": len(parts.train)}
    record |= {"error": 100 * outcome.test_error, "seconds": outcome.seconds}
    if method == "AutoMetric":
        metric = outcome.metric
        record |= {
            "evidence": str(metric.evidence_),
            "weights": metric.weights_,
            "left out": metric.left_out_,
        }
    return record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--rows", type=int, help="learn from and judge on at most so many")
    parser.add_argument("--time-budget", type=float, help="seconds of AutoMetric")
    parser.add_argument("--out", type=Path, default=Path("auto_large.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = {(record["set"], record["method"]) for record in map(json.loads, lines)}
    for label in options.sets:
        for method in options.methods:
            if (label, method) in done:
                continue
            record = measure(label, method, options.rows, options.time_budget)
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            print(
                f"{label:14s} {method:20s} {record['error']:6.2f} % {record['seconds']:7.1f} s ",
                record.get("evidence", ""),
                record.get("weights", ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
