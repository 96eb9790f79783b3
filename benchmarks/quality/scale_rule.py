"""Which constant kappa C = "scale" should use: errors of FrobMetric for many of them.

C = kappa / s^4, with s^2 the mean squared distance to impostors. Prints, for every data set at hand,
validation and test 3-NN error (and 1-NN) for a path of kappas, averaged over splits. Records are
appended to the file of --out.

    python -m benchmarks scale_rule --datasets iris letter --out scale_rule.jsonl

Data: iris, balance, keel_appendicitis, wine, keel_vowel, letter, wdbc, keel_ionosphere, usps11000, digits,
    orl56x46, keel_movement_libras, mnist, debian_minilm384
Minutes: 90 (estimated)
"""

import warnings
from pathlib import Path

import numpy as np

from conemetric import FrobMetric
from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import is_available, load
from ..measuring import timed
from ..output import Records
from ..papers.knn_protocol import Split, preprocessing, random_splits

KAPPAS = [10, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5]
STANDARDISE = {"standardise": True}
# name: (preparation, runs, rows used at most)
SETS = {
    "iris": (STANDARDISE, 20, None),
    "balance": (STANDARDISE, 20, None),
    "keel_appendicitis": (STANDARDISE, 20, None),
    "wine": (STANDARDISE, 20, None),
    "keel_vowel": (STANDARDISE, 10, None),
    "letter": (STANDARDISE, 3, 8000),
    "wdbc": (STANDARDISE, 20, None),
    "keel_ionosphere": (STANDARDISE, 20, None),
    "usps11000": ({"n_components": 60}, 3, 6000),
    "digits": ({}, 10, None),
    "orl56x46": ({"n_components": 64}, 10, None),
    "keel_movement_libras": ({}, 10, None),
    "mnist": ({"n_components": 164}, 2, 10000),
    "debian_minilm384": ({}, 2, None),
}


def path(split, X, y, prepare):
    """One record per kappa on one split, each fit started from the last."""
    parts = [X[rows] for rows in (split.train, split.validation, split.test)]
    prepare = preprocessing(**prepare).fit(parts[0])
    train, validation, test = (prepare.transform(part) for part in parts)
    labels = [y[rows] for rows in (split.train, split.validation, split.test)]
    triplets = triplets_from_labels(train, labels[0])
    difference = train[triplets[:, 0]] - train[triplets[:, 2]]
    mean_square = np.mean(np.einsum("ij,ij->i", difference, difference))
    metric = FrobMetric(tol=1e-2, warm_start=True)
    for kappa in [None, *KAPPAS]:
        seconds = 0.0
        n_iter = 0
        if kappa is not None:
            metric.set_params(C=kappa / mean_square**2)
            seconds = timed(metric.fit, train, triplets=triplets).wall
            n_iter = metric.n_iter_
        fitted = None if kappa is None else metric
        errors = [
            knn_error(fitted, train, labels[0], part, label, [1, 3])
            for part, label in ((validation, labels[1]), (test, labels[2]))
        ]
        (validation1, validation3), (test1, test3) = errors
        yield {
            "kappa": kappa,
            "features": train.shape[1],
            "triplets": len(triplets),
            "seconds": seconds,
            "n_iter": n_iter,
            "validation1": validation1,
            "validation3": validation3,
            "test1": test1,
            "test3": test3,
        }


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--out", type=Path, default=Path("scale_rule.jsonl"))
    parser.add_argument(
        "--datasets", nargs="*", default=[name for name in SETS if is_available(name)]
    )
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    file = Records(options.out)
    records = []
    for name in options.datasets:
        prepare, runs, limit = SETS[name]
        data = load(name)
        n = len(data.X)
        for run, split in enumerate(random_splits(n, n_runs=runs)):
            if limit is not None and limit < n:
                split = Split(
                    *(
                        rows[: len(rows) * limit // n]
                        for rows in (split.train, split.validation, split.test)
                    )
                )
            for record in path(split, data.X, data.y, prepare):
                records.append({"dataset": name, "run": run, **record})
                file.append(records[-1])
        own = [record for record in records if record["dataset"] == name]
        for kind in ("validation3", "test3", "test1"):
            values = [
                np.mean([r[kind] for r in own if r["kappa"] == kappa]) * 100
                for kappa in [None, *KAPPAS]
            ]
            print(
                f"{name:22s} D={own[0]['features']:4d} {kind:12s}",
                *(f"{value:6.2f}" for value in values),
                flush=True,
            )
