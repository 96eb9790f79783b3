"""How many impostors a point should have: errors of FrobMetric with 3, 5, 10, 20 and "auto".

A fifth of the rows (of the official training part, where there is one) is held out for the errors; test
rows are never seen. "letter, 560" and "usps, 560" are small samples, where a class is sparse and its
neighbourhoods are invaded by others. Records are appended to the file of --out.

    python -m benchmarks impostor_rule --datasets letter usps --out impostor_rule.jsonl

Data: debian_minilm384, letter, usps11000, mnist, optdigits, digits, orl56x46, keel_movement_libras,
    keel_vowel, keel_ionosphere, wdbc, balance, wine, iris
Minutes: 60 (estimated)
"""

import warnings
from pathlib import Path

import numpy as np

from conemetric import FrobMetric
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import load
from ..output import Records
from ..papers.knn_protocol import preprocessing

CHOICES = (3, 5, 10, 20, "auto")
STANDARDISE = {"standardise": True}
# label: (data set, preparation, splits, rows used at most)
SETS = {
    "debian": ("debian_minilm384", {}, 3, None),
    "debian, PCA 64": ("debian_minilm384", {"n_components": 64}, 3, None),
    "letter": ("letter", STANDARDISE, 3, 8000),
    "letter, 560": ("letter", STANDARDISE, 10, 700),
    "usps": ("usps11000", {"n_components": 60}, 3, 6000),
    "usps, 560": ("usps11000", {"n_components": 60}, 10, 700),
    "mnist": ("mnist", {"n_components": 164}, 3, 6000),
    "optdigits": ("optdigits", {}, 3, None),
    "digits": ("digits", {}, 10, None),
    "orl": ("orl56x46", {"n_components": 64}, 10, None),
    "libras": ("keel_movement_libras", {}, 20, None),
    "vowel": ("keel_vowel", STANDARDISE, 10, None),
    "ionosphere": ("keel_ionosphere", STANDARDISE, 20, None),
    "wdbc": ("wdbc", STANDARDISE, 20, None),
    "balance": ("balance", STANDARDISE, 20, None),
    "wine": ("wine", STANDARDISE, 20, None),
    "iris": ("iris", STANDARDISE, 20, None),
}


def measure(label, run):
    """One record per choice on one split, the first for the Euclidean distance."""
    name, prepare, _, limit = SETS[label]
    data = load(name)
    order = np.random.default_rng([8, run]).permutation(data.n_train or len(data.X))[:limit]
    train, held = np.split(order, [int(0.8 * len(order))])
    prepare = preprocessing(**prepare).fit(data.X[train])
    X, T = (prepare.transform(data.X[rows]) for rows in (train, held))
    for choice in (0, *CHOICES):
        metric = FrobMetric(n_impostors=choice, tol=1e-2).fit(X, data.y[train]) if choice else None
        first, third = (
            100 * error for error in knn_error(metric, X, data.y[train], T, data.y[held], [1, 3])
        )
        found = len(metric.triplets_) / len(X) / 3 if choice else 0
        yield {
            "set": label,
            "run": run,
            "choice": choice,
            "impostors": found,
            "error1": first,
            "error3": third,
        }


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--datasets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--out", type=Path, default=Path("impostor_rule.jsonl"))
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print(
        f"{'':14s} k    {'Euclidean':>9s}",
        *(f"{choice!s:>6s}" for choice in CHOICES),
        "  impostors chosen",
    )
    for label in options.datasets:
        records = [record for run in range(SETS[label][2]) for record in measure(label, run)]
        Records(options.out).append(*records)
        show(records)


def show(records):
    chosen = np.mean([record["impostors"] for record in records if record["choice"] == "auto"])
    for k in (1, 3):
        means = [
            np.mean([r[f"error{k}"] for r in records if r["choice"] == choice])
            for choice in (0, *CHOICES)
        ]
        print(
            f"{records[0]['set']:14s} {k}-NN {means[0]:9.2f}",
            *(f"{mean:6.2f}" for mean in means[1:]),
            f"  {chosen:.1f}",
        )
